"""Following a topic: what is heard, since when it can have been there, and topics that were made again."""

from __future__ import annotations

import math

from played_broker import PlayedBroker, in_a_loop

from farshore.clock import Clock
from farshore.kafka.internal_topics.tail import Tail


class Ticking:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: 0.0)


async def listen(tail: Tail) -> tuple[list[bytes | None], float]:
    tailed = await tail.next(0.0)
    return [each.value for each in tailed.records], tailed.since


@in_a_loop
async def test_it_hears_what_comes_after_the_first_call_and_knows_since_when() -> None:
    broker, ticking = PlayedBroker("t"), Ticking()
    broker.append("t", b"before")
    async with broker.cluster() as cluster:
        tail = Tail(cluster, "t", ticking.clock())
        assert await listen(tail) == ([], 100.0)
        ticking.now = 101.0
        assert await listen(tail) == ([], 100.0)
        ticking.now = 102.0
        for number in range(3):
            broker.append("t", b"%d" % number)
        assert await listen(tail) == ([b"0", b"1"], 101.0)
        ticking.now = 103.0
        assert await listen(tail) == ([b"2"], 101.0)
        assert await listen(tail) == ([], 103.0)


@in_a_loop
async def test_after_a_log_has_lost_its_end_it_is_read_from_its_start_without_a_time() -> None:
    broker, ticking = PlayedBroker("t"), Ticking()
    for number in range(5):
        broker.append("t", b"%d" % number)
    async with broker.cluster() as cluster:
        tail = Tail(cluster, "t", ticking.clock())
        await tail.next(0.0)
        log = broker.logs["t", 0]
        del log.batches[3:]
        log.end = 3
        assert await listen(tail) == ([], -math.inf)
        assert await listen(tail) == ([b"0", b"1"], -math.inf)
        ticking.now = 101.0
        assert await listen(tail) == ([b"2"], -math.inf)
        broker.append("t", b"new")
        assert await listen(tail) == ([b"new"], 101.0)


@in_a_loop
async def test_a_topic_made_again_is_read_from_its_start_though_it_has_grown_past_the_old_one() -> None:
    broker, ticking = PlayedBroker("t"), Ticking()
    broker.append("t", b"old")
    async with broker.cluster() as cluster:
        tail = Tail(cluster, "t", ticking.clock())
        await tail.next(0.0)
        broker.make_again("t")
        broker.append("t", b"1", b"2", b"3")
        ticking.now = 104.0
        assert await listen(tail) == ([b"1", b"2", b"3"], -math.inf)
        assert await listen(tail) == ([], 104.0)
