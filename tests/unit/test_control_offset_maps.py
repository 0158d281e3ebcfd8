"""Offset maps without brokers: batches with holes that are looked up on the source, and what is certain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text

from farshore.control import offset_maps
from farshore.control.offset_maps import OffsetMaps
from farshore.control.published import Translated
from farshore.errors import KafkaError, PermissionDenied, Unreachable
from farshore.kafka.facts import Record
from farshore.kafka.flow_clients import FlowClients
from farshore.kafka.raw import IsolationLevel
from farshore.model import OffsetSync, Run, TopicPartition
from farshore.wire.internal import encode_offset_sync
from farshore.wire.runs import RUN_HEADER, encode_run_header, encode_runs

__all__ = ["read_text"]

ORDERS = TopicPartition("orders", 0)


class Source:
    """Answers instead of the source: the records of the batch lie at these offsets, or that cannot be told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[list[int] | KafkaError] = []
        self.asked: list[Any] = []
        monkeypatch.setattr(offset_maps, "offsets_with_records", self._look)

    async def _look(
        self, _cluster: object, *arguments: object, isolation_level: IsolationLevel, **_: object
    ) -> list[int]:
        self.asked.append((*arguments, isolation_level))
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


def translated(maps: OffsetMaps, upstream: int) -> Translated:
    return asyncio.run(maps.translate(ORDERS, upstream))


def followed(readable: str = "") -> Callable[..., Coroutine[Any, Any, tuple[bool, list[Any]]]]:
    """Instead of reading topics: nothing is new, and only those with `readable` in their names were read."""

    async def follow(follower: Any, _: object) -> tuple[bool, list[Any]]:
        return readable in follower.topic, []

    return follow


def maps_of(read_text: ReadText, *lines: str) -> OffsetMaps:
    """Of a flow that has copied 5 to 9 to the beginning, and a batch with four records from 10 to 20 behind them."""
    maps = OffsetMaps(flow_of(read_text("\n".join((ONE_FLOW, *lines)))), FlowClients())
    maps._map_of(ORDERS).note_runs([Run(5, 9, 0, 5), Run(10, 20, 5, 4)])
    return maps


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_source_is_read_as_the_copying_reads_it(read_text: ReadText, source: Source, level: str) -> None:
    maps = maps_of(read_text, f"A.consumer.isolation.level = {level}")
    source.answers = [[10, 13, 17, 20]]
    assert [translated(maps, offset).offset for offset in (14, 18, 20)] == [7, 8, 8]
    assert source.asked == [(ORDERS, 10, 21, IsolationLevel[level.upper()])], "asked once, and remembered"


def test_what_cannot_be_asked_just_now_is_asked_again_after_the_next_refresh(
    read_text: ReadText, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = maps_of(read_text)
    source.answers = [Unreachable("A: no answer in time", cluster="A"), [10, 13, 17, 20]]
    assert [translated(maps, offset).offset for offset in (14, 18)] == [5, 5]
    assert len(source.asked) == 1, "the next one would be as far"
    monkeypatch.setattr(maps, "_follow", followed())
    asyncio.run(maps.refresh())
    assert translated(maps, 14).offset == 7


def test_what_may_not_be_read_is_not_asked_for_again(read_text: ReadText, source: Source) -> None:
    maps = maps_of(read_text)
    source.answers = [PermissionDenied("A: not allowed", cluster="A")]
    assert [translated(maps, offset).offset for offset in (14, 18)] == [5, 5]
    assert len(source.asked) == 1


def test_nothing_is_certain_until_both_topics_were_read_to_their_ends(
    read_text: ReadText, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = maps_of(read_text)
    source.answers = [[10, 13, 17, 20]]
    found = []
    for readable in ("ledger", ""):
        monkeypatch.setattr(maps, "_follow", followed(readable))
        asyncio.run(maps.refresh())
        found.append([translated(maps, offset).certain for offset in (10, 14)])
    assert found == [[False, False], [True, True]]
    assert not asyncio.run(maps.translate(TopicPartition("others", 0), 14)).certain


@pytest.mark.parametrize("seconds", [-10, 0, 10])
def test_the_clocks_of_writers_do_not_decide(
    read_text: ReadText, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """A partition moves to a slot whose clock is behind, or ahead: its syncs are newer all the same."""
    maps = OffsetMaps(flow_of(read_text(ONE_FLOW)), FlowClients())
    first, second = Run(0, 99, 0, 100), Run(102, 149, 100, 48)
    at = 1_000_000
    syncs = [_sync_record(first, at), _sync_record(second, at + seconds * 1000)]
    ledger = [Record(0, 0, *each, timestamp_ms=at) for each in encode_runs(ORDERS, [first])]
    unread = {"offset-syncs": syncs, "ledger": ledger}

    async def follow(follower: Any, take: Any) -> tuple[bool, list[Any]]:
        await take(unread["ledger" if "ledger" in follower.topic else "offset-syncs"])
        return True, []

    monkeypatch.setattr(maps, "_follow", follow)
    asyncio.run(maps.refresh())
    assert [translated(maps, offset).offset for offset in (50, 101, 120, 150)] == [50, 100, 118, 148]
    assert translated(maps, 120).certain


def _sync_record(run: Run, timestamp_ms: int) -> Record:
    key, value = encode_offset_sync(OffsetSync(ORDERS, run.last_upstream, run.last_downstream))
    return Record(0, 0, key, value, ((RUN_HEADER.encode(), encode_run_header(run)),), timestamp_ms)
