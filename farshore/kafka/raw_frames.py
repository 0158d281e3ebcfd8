"""The socket's end of a connection: bytes taken apart into frames, a large one read straight into one buffer.

asyncio's streams would copy every byte three times, and a fetch answer of megabytes in pieces.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import cast

WRITE_BUFFER_LIMIT = 1 << 20
"""Bytes that may wait for the socket before a connection stops being writable; one more request may come on top."""

_SIZE = struct.Struct(">i")
_SMALL_BYTES = 1 << 15
"""What comes before the size of a frame is known is read in portions of so much."""
_KEPT_BYTES = 17 << 20
"""A larger buffer is not kept for the next frame: a little more than slots ask for at once, which is 16 MB."""
_FIRST_BYTES = 1 << 20
"""As large as a frame may be before we are logged in: who answers may be no broker, and any four bytes are a size."""
_LARGEST_BYTES = (1 << 31) - 1
_NOTHING = memoryview(b"")


class Frames(asyncio.BufferedProtocol):
    """`take` gets every frame, without its size, as soon as it is whole; `lost` is called when the socket is gone.

    The memory of a frame is its taker's: it is used for another only when nobody holds a view of it any more. What
    `take` raises ends the connection. Memory: the frame that is being read, and while large ones follow each other the
    last one's between them, if that is not more than `_KEPT_BYTES`.
    """

    def __init__(self, take: Callable[[memoryview], None], lost: Callable[[Exception | None], None]) -> None:
        self._take = take
        self._lost = lost
        self._transport: asyncio.WriteTransport | None = None
        self._small = memoryview(bytearray(_SMALL_BYTES))
        self._small_filled = 0
        self._large = bytearray()
        self._frame = self._missing = _NOTHING
        self._most = _FIRST_BYTES
        self._full: asyncio.Future[None] | None = None
        self._ended = False

    def trust(self) -> None:
        """It is a broker: frames may be of any size."""
        self._most = _LARGEST_BYTES

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by birth
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_LIMIT)

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._missing or self._small[self._small_filled :]

    def buffer_updated(self, count: int) -> None:
        if not self._missing:
            self._small_filled += count
            self._take_small()
            return
        self._missing = self._missing[count:]
        if not self._missing:
            frame, self._frame, self._missing = self._frame, _NOTHING, _NOTHING
            self._take(frame)
            if len(self._large) > _KEPT_BYTES:
                self._large = bytearray()

    def eof_received(self) -> None:
        self._ended = True
        # Not `close`, which would wait for bytes that nobody may read any more; and not now, amid TLS's own doing.
        asyncio.get_running_loop().call_soon(self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._transport = None
        self.resume_writing()
        self._lost(error)

    def pause_writing(self) -> None:
        self._full = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        full, self._full = self._full, None
        if full is not None:
            full.set_result(None)

    # What a connection calls, by the names that aiokafka knows of asyncio's streams.

    def at_eof(self) -> bool:
        return self._ended

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def writelines(self, parts: Sequence[bytes]) -> None:
        """uvloop writes them as they are. asyncio would join them, or, by its version, forget to pause us."""
        assert self._transport is not None
        if isinstance(self._transport, asyncio.Transport):
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    async def drain(self) -> None:
        """Return when less than about WRITE_BUFFER_LIMIT bytes wait for the socket. Raises OSError if it is lost."""
        while self._full is not None:
            await asyncio.shield(self._full)
        if self._ended:
            raise ConnectionResetError("the connection was lost")

    def close(self) -> None:
        """Nothing is taken any more, not even what TLS still has."""
        self._take = _ignore
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for unsent bytes or for TLS to say goodbye."""
        self._take = _ignore
        if self._transport is not None:
            self._transport.abort()

    def _memory(self, size: int) -> memoryview:
        if size > len(self._large) or not _is_free(self._large):
            self._large = bytearray(size)
        return memoryview(self._large)[:size]

    def _take_small(self) -> None:
        """Whole frames are taken. The rest of one that is not whole will be read into the large buffer."""
        small, at, end = self._small, 0, self._small_filled
        while end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(small, at)
            at += _SIZE.size
            if not 0 <= size <= self._most:
                raise ConnectionAbortedError(f"a frame of {size} bytes is none of Kafka's")
            if size > end - at:
                self._frame = self._memory(size)
                self._frame[: end - at] = small[at:end]
                self._missing = self._frame[end - at :]
                at = end
            else:
                self._take(memoryview(bytes(small[at : at + size])))
                at += size
                self._large = bytearray()
        self._small_filled = end - at
        small[: end - at] = bytes(small[at:end])


def _is_free(buffer: bytearray) -> bool:
    """Whether there is no view of it: Python lets nobody change the size of what is looked at."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


def _ignore(_frame: memoryview) -> None:
    pass
