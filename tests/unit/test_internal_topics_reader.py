"""Reading internal topics whole: what transactions hide, what markers decide, and what is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from played_broker import PlayedBroker, in_a_loop

from farshore.errors import Unreachable
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.raw import IsolationLevel, RawCluster

OURS, FOREIGN, OTHER = 7, 8, 9
"""Producer ids."""


def ours(record: Record) -> bool:
    return record.value is not None and record.value.startswith(b"ours")


async def values(cluster: RawCluster, partitions: int = 1, **more: Any) -> list[bytes | None]:
    return [each.value for each in await read_topic(cluster, "t", partitions, patience=5, **more)]


@in_a_loop
async def test_without_a_notion_of_ours_it_ends_at_the_last_stable_offset() -> None:
    broker = PlayedBroker("t")
    broker.append("t", b"1", b"2")
    broker.append("t", b"3", producer_id=FOREIGN)
    broker.append("t", b"4")
    async with broker.cluster() as cluster:
        assert await values(cluster) == [b"1", b"2"]
        assert await values(cluster, newest=1) == [b"2"]


@in_a_loop
async def test_a_foreign_open_transaction_is_left_out_and_hides_nothing() -> None:
    broker = PlayedBroker("t")
    broker.append("t", b"plain 1")
    broker.append("t", b"ours 1", producer_id=OURS)
    broker.append("t", b"foreign", producer_id=FOREIGN)
    broker.append("t", b"ours 2", producer_id=OURS)
    broker.append("t", b"aborted", producer_id=OTHER)
    broker.append("t", b"plain 2")
    broker.end("t", OTHER, commit=False)
    broker.end("t", OURS, commit=True)
    broker.append("t", b"ours 3", producer_id=OTHER)
    broker.end("t", OTHER, commit=True)
    waited: list[str] = []
    async with broker.cluster() as cluster:
        found = await values(cluster, ours=ours, on_wait=waited.append)
        newest = await values(cluster, ours=ours, newest=2)
    assert found == [b"plain 1", b"ours 1", b"ours 2", b"plain 2", b"ours 3"]
    assert newest == [b"ours 3"]
    assert waited == []


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_of_ours_is_waited_for_though_a_foreign_one_stays_open(commit: bool) -> None:
    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("t", partitions=2)
        broker.append("t", b"other partition", partition=1)
        broker.append("t", b"foreign", producer_id=FOREIGN)
        broker.append("t", b"before", producer_id=OURS)
        broker.append("t", b"ours", producer_id=OURS)
        waited: list[str] = []
        async with broker.cluster() as cluster:
            reading = asyncio.create_task(values(cluster, 2, ours=ours, on_wait=waited.append))
            await asyncio.sleep(0.6)
            assert not reading.done()
            assert waited == [
                "A: the transaction of producer id 7 in t-0, at offset 2, is still open: its end is waited for"
            ]
            broker.append("t", b"ours later", producer_id=OTHER)  # begins behind the end: not waited for
            broker.end("t", OURS, commit=commit)
            assert await reading == [b"other partition", *([b"before", b"ours"] if commit else [])]

    run()


@in_a_loop
async def test_a_transaction_of_ours_that_never_ends_is_not_taken_for_an_aborted_one() -> None:
    broker = PlayedBroker("t")
    broker.append("t", b"ours", producer_id=OURS)
    async with broker.cluster() as cluster:
        with pytest.raises(Unreachable, match=r"producer id 7 in t-0, at offset 0, did not end within 0 s"):
            await values(cluster, ours=ours, transaction_patience=0.3)


@in_a_loop
async def test_the_end_of_a_transaction_is_not_waited_for_when_its_topic_is_made_again() -> None:
    broker = PlayedBroker("t")
    broker.append("t", b"ours", producer_id=OURS)
    async with broker.cluster() as cluster:
        reading = asyncio.create_task(values(cluster, ours=ours))
        await asyncio.sleep(0.5)
        broker.make_again("t")
        with pytest.raises(Unreachable, match="A: t was made again while it was read"):
            await asyncio.wait_for(reading, 5.0)


@in_a_loop
async def test_read_uncommitted_it_is_every_record_whatever_became_of_it_and_nothing_is_waited_for() -> None:
    broker = PlayedBroker("t")
    broker.append("t", b"plain")
    broker.append("t", b"aborted", producer_id=OTHER)
    broker.end("t", OTHER, commit=False)
    broker.append("t", b"open", producer_id=OURS)
    broker.append("t", b"behind")
    async with broker.cluster() as cluster:
        everything = await values(cluster, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        assert everything == [b"plain", b"aborted", b"open", b"behind"]
        assert await values(cluster) == [b"plain"]
