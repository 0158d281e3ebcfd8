"""Bytes from a socket as frames, however they come, and what is written when the socket is full."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.kafka.raw_frames import Frames

SIZES = st.one_of(st.integers(0, 40), st.sampled_from([32_760, 32_764, 32_765, 32_768, 70_000, 200_000]))


def encoded(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def feed(frames: Frames, data: bytes, most: int) -> None:
    """As a transport does: into the buffer it is given, at most so many bytes at a time."""
    while data:
        buffer = frames.get_buffer(-1)
        count = min(len(buffer), most, len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames.buffer_updated(count)


@given(st.lists(SIZES, max_size=6), st.one_of(st.integers(1, 50), st.integers(1, 300_000)))
def test_every_frame_is_taken_whole_and_in_order_however_it_comes(sizes: list[int], most: int) -> None:
    sent = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    taken: list[bytes] = []
    frames = Frames(lambda frame: taken.append(bytes(frame)), lambda _: None)
    frames.trust()
    feed(frames, b"".join(map(encoded, sent)), most if sum(sizes) < 5_000 else max(most, 1_000))
    assert taken == sent


def test_a_large_buffer_is_used_again_unless_it_was_out_of_the_ordinary() -> None:
    frames = Frames(lambda _: None, lambda _: None)
    frames.trust()
    feed(frames, encoded(bytes(1 << 20)), 1 << 20)
    kept = frames._large
    feed(frames, encoded(bytes(1 << 19)), 1 << 20)
    assert frames._large is kept
    feed(frames, encoded(bytes(18 << 20)), 1 << 20)
    assert len(frames._large) == 0


@given(st.lists(SIZES, min_size=2, max_size=6), st.data())
def test_what_is_kept_of_a_frame_does_not_change(sizes: list[int], data: st.DataObject) -> None:
    sent = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    kept: dict[bytes, memoryview] = {}

    def take(frame: memoryview) -> None:
        if data.draw(st.booleans()):
            kept[bytes(frame)] = frame[len(frame) // 2 :]

    frames = Frames(take, lambda _: None)
    feed(frames, b"".join(map(encoded, sent)), 300_000)
    assert all(part == whole[len(whole) // 2 :] for whole, part in kept.items())


def test_a_large_buffer_is_let_go_when_nothing_large_follows() -> None:
    frames = Frames(lambda _: None, lambda _: None)
    feed(frames, encoded(bytes(1 << 20)), 1 << 20)
    feed(frames, encoded(b"nothing new"), 1 << 20)
    assert len(frames._large) == 0


@pytest.mark.parametrize(
    "beginning", [b"\xff\xff\xff\xf0", b"HTTP/1.1 400", b"\x15\x03\x03\x00\x02\x02\x50", b"SSH-2.0"]
)
def test_what_cannot_be_the_first_frame_is_refused(beginning: bytes) -> None:
    frames = Frames(lambda _: None, lambda _: None)
    with pytest.raises(ConnectionAbortedError, match="none of Kafka's"):
        feed(frames, beginning, 100)


def test_who_waits_to_write_hears_of_a_lost_socket() -> None:
    async def wait() -> None:
        lost: list[Exception | None] = []
        frames = Frames(lambda _: None, lost.append)
        await frames.drain()
        frames.pause_writing()
        waiting = asyncio.create_task(frames.drain())
        await asyncio.sleep(0)
        assert not waiting.done()
        error = OSError("gone")
        frames.connection_lost(error)
        with pytest.raises(ConnectionResetError):
            await waiting
        assert lost == [error]
        assert frames.at_eof()

    asyncio.run(wait())
