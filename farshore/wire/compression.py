"""The five codecs of record batches, in the framings and at the levels of Kafka's own clients.

    gzip    one gzip member
    snappy  xerial's framing: a header, then blocks of 32 KB, each behind its length; read also without framing,
            as other clients write it
    lz4     a frame of independent blocks of 64 KB, without checksums: the batch's CRC is enough
    zstd    one frame

What comes out is bounded, because a batch of 10 MB may unpack to gigabytes. Data is refused with MalformedBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import cramjam

from farshore.errors import MalformedBatch
from farshore.wire.batch import Codec

DEFAULT_LIMIT = 256 << 20
"""The most bytes that one batch may unpack to, unless told otherwise."""

LEVELS = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
"""What Kafka allows as `compression.<codec>.level`. The other codecs have none."""

_MORE = "there are more"
_CUT_OFF = "they are cut off"

_GZIP_WRAPPED = 31  # zlib's `wbits`: the largest window, in gzip's framing
_ZSTD_LEVEL = 3
_LZ4_LEVEL = 9  # by this name Kafka means lz4's *fast* compressor; any other level is one of lz4-HC

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest one that can read it
_XERIAL_BLOCK = 32 << 10
_BLOCK_LENGTH = struct.Struct(">i")

_LZ4_MAGIC = 0x184D2204
_LZ4_FRAME = struct.Struct("<IBB")  # magic, flags, block size
_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")  # independent blocks; of 64 KB; this header's checksum
_LZ4_BLOCK = 64 << 10
_LZ4_BLOCK_LENGTH = struct.Struct("<I")
_LZ4_STORED = 1 << 31  # in a block's length: the block is not compressed
_LZ4_END = bytes(4)
_LZ4_MOST = 255  # a byte of lz4 stands for at most so many

_ZSTD_MOST = (128 << 10) // 4  # a block of 4 bytes stands for 128 KB at most
_ZSTD_USUAL = 8  # more than most data shrinks by
_ZSTD_SMALLEST = 1 << 10


def compress(codec: Codec, data: bytes, level: int | None = None) -> bytes:
    """`level` None is Kafka's default. ValueError for one that Kafka does not allow."""
    if level is not None and level not in LEVELS.get(codec, ()):
        raise ValueError(f"{codec.name.lower()} has no level {level}")
    return _COMPRESS[codec](data, level)


def decompress(codec: Codec, data: bytes, limit: int = DEFAULT_LIMIT) -> bytes:
    """MalformedBatch if the data is not the codec's, is cut off, or would unpack to more than `limit` bytes."""
    try:
        return _DECOMPRESS[codec](data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        why = _CUT_OFF if isinstance(error, struct.error) else error
        raise MalformedBatch(
            f"{len(data)} bytes of {codec.name.lower()} cannot be unpacked into at most {limit} bytes: {why}"
        ) from error


def _none(data: bytes, _: int | None) -> bytes:
    return data


def _gzip(data: bytes, level: int | None) -> bytes:
    stream = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WRAPPED)
    return stream.compress(data) + stream.flush()


def _gunzip(data: bytes, limit: int) -> bytes:
    # zlib's own, which takes a quarter of cramjam's time for small batches.
    members: list[bytes] = []
    left = limit
    while data or not members:
        stream = zlib.decompressobj(_GZIP_WRAPPED)
        members.append(stream.decompress(data, left + 1))
        left -= len(members[-1])
        if left < 0:
            raise cramjam.DecompressionError(_MORE)
        if not stream.eof:
            raise cramjam.DecompressionError(_CUT_OFF)
        data = stream.unused_data
    return b"".join(members)


def _snappy(data: bytes, _: int | None) -> bytes:
    parts, view = [_XERIAL_HEADER], memoryview(data)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(data, limit)
    parts, left, view, at = [], limit, memoryview(data), len(_XERIAL_HEADER)
    while at < len(data):
        if data.startswith(_XERIAL_MAGIC, at):  # another stream, appended to the first
            at += len(_XERIAL_HEADER)
            continue
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        if not 0 <= length <= len(data) - at:
            raise cramjam.DecompressionError(_CUT_OFF)
        parts.append(_unsnappy_block(view[at : at + length], left))
        left -= len(parts[-1])
        at += length
    return b"".join(parts)


def _unsnappy_block(block: bytes | memoryview, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise cramjam.DecompressionError(_MORE)
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: bytes, level: int | None) -> bytes:
    if level not in (None, _LZ4_LEVEL):
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    parts: list[bytes | memoryview] = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(data), _LZ4_BLOCK):
        block = view[start : start + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_LZ4_BLOCK_LENGTH.pack(len(packed)), packed)
        else:
            parts += (_LZ4_BLOCK_LENGTH.pack(len(block) | _LZ4_STORED), block)
    return b"".join((*parts, _LZ4_END))


def _unlz4(data: bytes, limit: int) -> bytes:
    """Block by block, which for a small batch is fifty times as fast as cramjam's reader of frames.

    The header's checksum is not looked at: Kafka's clients before 0.10 computed it over the wrong bytes. Blocks
    that refer to one another are refused, as Java's reader does.
    """
    magic, flags, block_size = _LZ4_FRAME.unpack_from(data)
    if magic != _LZ4_MAGIC or flags >> 6 != 1:
        raise cramjam.DecompressionError("they are no lz4 frame")
    has_block_checksums, has_content_size, has_dictionary = flags & 1 << 4, flags & 1 << 3, flags & 1
    at = _LZ4_FRAME.size + (8 if has_content_size else 0) + (4 if has_dictionary else 0) + 1
    # One piece of memory for all blocks, no larger than what can come out of so few bytes.
    scratch = bytearray(min(1 << 8 + 2 * (block_size >> 4 & 7), _LZ4_MOST * len(data)))
    parts: list[bytes | bytearray] = []
    left, view = limit, memoryview(data)
    while length := _LZ4_BLOCK_LENGTH.unpack_from(data, at)[0]:
        at += _LZ4_BLOCK_LENGTH.size
        end = at + (length & ~_LZ4_STORED)
        if end > len(data):
            raise cramjam.DecompressionError(_CUT_OFF)
        if length & _LZ4_STORED:
            parts.append(data[at:end])
        else:
            parts.append(scratch[: cramjam.lz4.decompress_block_into(view[at:end], scratch, len(scratch))])
        left -= len(parts[-1])
        if left < 0:
            raise cramjam.DecompressionError(_MORE)
        at = end + (4 if has_block_checksums else 0)
    return b"".join(parts)


def _zstd(data: bytes, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL if level is None else level))


def _unzstd(data: bytes, limit: int) -> bytes:
    # Java writes frames without their size, so the space is guessed, and guessed higher where it was too small.
    most = min(limit, _ZSTD_MOST * len(data))
    room = min(most, max(_ZSTD_SMALLEST, _ZSTD_USUAL * len(data)))
    while True:
        unpacked = bytearray(room)
        try:
            size = cramjam.zstd.decompress_into(data, unpacked)
        except cramjam.DecompressionError:
            if room == most:
                raise
            room = min(most, _ZSTD_USUAL * room)
        else:
            return bytes(memoryview(unpacked)[:size])


_COMPRESS: dict[Codec, Callable[[bytes, int | None], bytes]] = {
    Codec.NONE: _none,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESS: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.NONE: lambda data, _: data,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
