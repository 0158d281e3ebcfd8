import contextlib
import gzip
import struct
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import MalformedBatch
from farshore.wire.batch import Codec
from farshore.wire.compression import LEVELS, compress, decompress

compressing = [codec for codec in Codec if codec is not Codec.NONE]
# Around the sizes of the blocks that snappy and lz4 are framed in.
sizes = [0, 1, 100, 32768, 32769, 65535, 65536, 65537, 200_000]


def compressible(size: int) -> bytes:
    return b"".join(b"record %d " % number for number in range(size // 8 + 1))[:size]


def incompressible(size: int) -> bytes:
    return b"".join(zlib.crc32(number.to_bytes(4)).to_bytes(4) for number in range(size // 4 + 1))[:size]


@pytest.mark.parametrize("size", sizes)
@pytest.mark.parametrize("codec", Codec)
def test_what_is_packed_is_unpacked(codec: Codec, size: int) -> None:
    for data in (bytes(size), compressible(size), incompressible(size)):
        packed = compress(codec, data)
        assert decompress(codec, packed) == data
        assert decompress(codec, packed, limit=size) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_each_level_of_kafka_is_taken_and_no_other(codec: Codec) -> None:
    data = compressible(5000)
    allowed = LEVELS[codec]
    for level in {allowed[0], -5, 1, 3, 9, 12, allowed[-1]} & set(allowed):
        assert decompress(codec, compress(codec, data, level)) == data
    for level in (allowed[0] - 1, allowed[-1] + 1):
        with pytest.raises(ValueError, match=f"{codec.name.lower()} has no level {level}"):
            compress(codec, data, level)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_codec_without_levels_takes_none(codec: Codec) -> None:
    with pytest.raises(ValueError, match="has no level 1"):
        compress(codec, b"", 1)


def test_a_higher_level_packs_tighter() -> None:
    data = b"".join(b"%d, " % (number * number) for number in range(20_000))
    for codec, levels in ((Codec.GZIP, (1, 9)), (Codec.LZ4, (9, 12)), (Codec.ZSTD, (-5, 3))):  # lz4's 9 is the fast one
        fast, tight = (len(compress(codec, data, level)) for level in levels)
        assert tight < fast


def test_the_framings_are_those_of_kafkas_clients() -> None:
    data = compressible(40_000)
    assert compress(Codec.GZIP, data)[:3] == b"\x1f\x8b\x08"
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    snappy = compress(Codec.SNAPPY, data)
    assert snappy[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (length,) = struct.unpack_from(">i", snappy, 16)
    assert bytes(cramjam.snappy.decompress_raw(snappy[20 : 20 + length])) == data[:32768]
    assert compress(Codec.LZ4, data)[:7].hex() == "04224d18604082"  # independent blocks, 64 KB, no checksums
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, data))) == data
    assert compress(Codec.ZSTD, data)[:4].hex() == "28b52ffd"


def test_snappy_without_framing_is_read() -> None:
    data = compressible(100_000)
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_streams_one_behind_the_other_are_read_as_one() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two")) == b"one two"


@pytest.mark.parametrize("content_checksum", [True, False])
def test_lz4_frames_of_other_clients_are_read(content_checksum: bool) -> None:
    data = compressible(200_000)
    compressor = cramjam.lz4.Compressor(level=9, content_checksum=content_checksum, block_linked=False)
    compressor.compress(data)
    assert decompress(Codec.LZ4, bytes(compressor.finish())) == data


def test_an_lz4_frame_may_announce_its_size_and_have_a_wrong_header_checksum() -> None:
    frame = compress(Codec.LZ4, compressible(5000))
    announced = frame[:4] + bytes([frame[4] | 1 << 3, frame[5]]) + (5000).to_bytes(8, "little") + b"?" + frame[7:]
    assert decompress(Codec.LZ4, announced) == compressible(5000)


def test_lz4_blocks_that_refer_to_one_another_are_refused() -> None:
    data = incompressible(60_000) * 3
    linked = bytes(cramjam.lz4.compress(data))
    assert bytes(cramjam.lz4.decompress(linked)) == data
    with pytest.raises(MalformedBatch):
        decompress(Codec.LZ4, linked)


@pytest.mark.parametrize("codec", compressing)
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    assert len(bomb) < 4 << 20
    with pytest.raises(MalformedBatch, match=f"bytes of {codec.name.lower()} cannot be unpacked into at most 1048576 "):
        decompress(codec, bomb, limit=1 << 20)


@pytest.mark.parametrize("codec", compressing)
def test_one_byte_too_many_is_refused(codec: Codec) -> None:
    for size in sizes[1:]:
        with pytest.raises(MalformedBatch):
            decompress(codec, compress(codec, compressible(size)), limit=size - 1)


@pytest.mark.parametrize("codec", compressing)
def test_nothing_is_not_empty_data(codec: Codec) -> None:
    with pytest.raises(MalformedBatch):
        decompress(codec, b"")


@given(codec=st.sampled_from(compressing), data=st.binary(min_size=1, max_size=300), cut=st.data())
def test_data_cut_off_is_refused_or_a_beginning(codec: Codec, data: bytes, cut: st.DataObject) -> None:
    packed = compress(codec, data)
    short = packed[: cut.draw(st.integers(0, len(packed) - 1))]
    try:
        unpacked = decompress(codec, short)
    except MalformedBatch:
        return
    assert codec is Codec.SNAPPY  # its framing has no end mark
    assert unpacked == b""


@given(codec=st.sampled_from(compressing), data=st.binary(max_size=100), damage=st.data())
def test_whatever_the_bytes_nothing_but_malformed_batch_is_raised(
    codec: Codec, data: bytes, damage: st.DataObject
) -> None:
    packed = bytearray(compress(codec, data))
    for _ in range(damage.draw(st.integers(1, 3))):
        packed[damage.draw(st.integers(0, len(packed) - 1))] = damage.draw(st.integers(0, 255))
    for attempt in (bytes(packed), data):
        with contextlib.suppress(MalformedBatch):
            assert len(decompress(codec, attempt, limit=100_000)) <= 100_000
