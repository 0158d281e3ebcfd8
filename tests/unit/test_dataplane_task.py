"""A slot's task under exactly-once: what it starts over for, and what it says is left when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from played_broker import PlayedBroker, in_a_loop
from played_task import PlayedTask

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import board
from farshore.dataplane.transaction import Transaction
from farshore.dataplane.trouble import Kind
from farshore.errors import KafkaError
from farshore.kafka.internal_topics.writer import InternalRecord
from farshore.kafka.raw import Produced
from farshore.kafka.raw_batches import Produce
from farshore.kafka.raw_transaction_requests import EndTxn, InitProducerId
from farshore.model import TopicPartition
from farshore.wire.positions import source_key

NOT_ENOUGH_REPLICAS_AFTER_APPEND, TOPIC_AUTHORIZATION_FAILED = 20, 29
T, U = TopicPartition("t", 0), TopicPartition("u", 0)


class Refusing(PlayedBroker):
    """What is to be appended to a topic in `codes` is not, and answered with its code."""

    codes: dict[str, int]

    def produce(self, request: Produce) -> list[Produced]:
        taken = [each for each in request.partitions if each.topic not in self.codes]
        refused = [each for each in request.partitions if each.topic in self.codes]
        answers = super().produce(replace(request, partitions=taken))
        return answers + [
            Produced(each.topic, each.partition, self.codes[each.topic], -1, -1, 0, (), None, 0) for each in refused
        ]


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.005)


async def until_placed(one: PlayedTask) -> None:
    """And its first commit, which comes at once, has begun if it has anything to commit."""
    await until(lambda: one.task.slot is not None and not one.task.slot.left({T: 0}))
    await asyncio.sleep(0.1)


@in_a_loop
async def test_a_remote_topic_made_again_inside_an_open_transaction_gets_every_record_once() -> None:
    """Its log begins at 0 again, which the next acknowledgement tells."""
    one = PlayedTask("t", interval=60.0)
    async with one.running() as running:
        await until_placed(one)
        one.source.append("t", b"0", b"1")
        await until(lambda: one.appended("t") == [b"0", b"1"])
        assert one.committed("t") == [], "the transaction is open"
        one.target.make_again("A.t")
        one.source.append("t", b"2")
        await until(lambda: one.appended("t") == [b"2", b"0", b"1", b"2"])
        one.stop()
        await running
        assert one.committed("t") == [b"0", b"1", b"2"]


@in_a_loop
async def test_a_remote_topic_made_again_before_the_first_append_of_a_transaction_gets_every_record_once() -> None:
    """Its log begins at 0 as before: only metadata tell, when records are in it already."""
    one = PlayedTask("t", interval=60.0)
    async with one.running() as running:
        await until_placed(one)
        one.target.make_again("A.t")
        one.source.append("t", b"0", b"1")
        await until(lambda: one.appended("t") == [b"0", b"1"])
        assert one.committed("t") == [], "the transaction is open"
        assert one.task.slot is not None
        one.task.slot._hand.stale.set()  # as when the leader of another partition is looked for
        await until(lambda: one.appended("t") == [b"0", b"1"] * 2)
        one.stop()
        await running
        assert one.committed("t") == [b"0", b"1"]


@in_a_loop
async def test_nothing_is_written_in_a_transaction_whose_end_was_cancelled_before_its_answer() -> None:
    broker = PlayedBroker("positions")
    async with broker.cluster() as cluster:
        transaction = Transaction(cluster, "id", 10.0, await cluster.init_producer_id("id"), SYSTEM_CLOCK)
        await transaction.begin()
        await transaction.write([InternalRecord("positions", 0, b"key", b"1")])
        broker.silent_end_of = "positions"
        ending = asyncio.create_task(transaction.commit())
        await until(lambda: isinstance(broker.requests[-1], EndTxn))
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        with pytest.raises(KafkaError, match="what became of the last request is not known"):
            await transaction.write([InternalRecord("positions", 0, b"key", b"2")])
        assert broker.logs["positions", 0].values() == [b"1"]
        before = transaction.identity
        await transaction.begin()
        assert transaction.identity.producer_epoch == before.producer_epoch + 1
        await transaction.write([InternalRecord("positions", 0, b"key", b"2")])
        assert broker.logs["positions", 0].values() == [b"1", b"2"]


@in_a_loop
async def test_a_slot_that_is_asked_to_end_while_it_commits_appends_nothing_under_the_same_epoch() -> None:
    """The request to commit may be on its way, and would commit what follows it."""
    one = PlayedTask("t", interval=0.3)
    one.source.append("t", b"0", b"1")
    one.target.silent_end_of = "A.t"
    async with one.running() as running:
        await until(lambda: one.target.silent_end_of is None)
        sent = len(one.transactional)
        assert isinstance(one.transactional[-1], EndTxn)
        one.stop()
        await running
        assert one.committed("t") == []
        following = [each for each in one.transactional[sent:] if not isinstance(each, InitProducerId)]
        assert [(type(each), each.commit) for each in following] == [(EndTxn, False)]


@in_a_loop
async def test_nothing_is_written_in_a_transaction_after_a_write_that_was_cancelled_before_its_answer() -> None:
    """Its sequence would follow on one that may never arrive."""
    broker = PlayedBroker("positions")
    broker.produce_faults.append("hang")
    async with broker.cluster() as cluster:
        transaction = Transaction(cluster, "id", 10.0, await cluster.init_producer_id("id"), SYSTEM_CLOCK)
        await transaction.begin()
        writing = asyncio.create_task(transaction.write([InternalRecord("positions", 0, b"key", b"1")]))
        await until(lambda: not broker.produce_faults)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        with pytest.raises(KafkaError, match="what became of the last request is not known"):
            await transaction.write([InternalRecord("positions", 0, b"key", b"2")])
        await transaction.begin()
        await transaction.write([InternalRecord("positions", 0, b"key", b"2")])


@in_a_loop
async def test_a_slot_with_nothing_to_copy_ends_though_its_first_commit_is_under_way_when_it_sees_that() -> None:
    one = PlayedTask("t", once=True, interval=60.0)
    one.target.takes_seconds = 0.3
    async with one.running() as running:
        await asyncio.wait_for(running, 5.0)
    begun = [each for each in one.transactional if isinstance(each, InitProducerId)]
    assert len(begun) == 1, "it never starts over"


def hurried(monkeypatch: pytest.MonkeyPatch, aside: float) -> None:
    monkeypatch.setattr("farshore.dataplane.committing._SETTLE_WITHIN_SECONDS", 0.3)
    monkeypatch.setattr("farshore.dataplane.following._SHORTEST_ASIDE_SECONDS", aside)
    monkeypatch.setattr("farshore.dataplane.slot._HOPELESS_SECONDS", 0.3)


def refusing() -> PlayedTask:
    """Of u it cannot be known whether records are appended."""
    one = PlayedTask("t", "u", once=True)
    target = Refusing(*(topic for topic, _ in one.target.logs))
    target.codes, target.identities = {"A.u": NOT_ENOUGH_REPLICAS_AFTER_APPEND}, one.target.identities
    one.target = target
    for topic in ("t", "u"):
        one.source.append(topic, b"0", b"1")
    return one


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_is_left_out_of_transactions_is_waited_for_and_named_if_it_cannot_be_copied(
    goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried(monkeypatch, 1.0)

    @in_a_loop
    async def run() -> None:
        one = refusing()
        assert isinstance(one.target, Refusing)
        async with one.running() as running:
            await until(lambda: U in one.task._reporting.set_aside)
            await until(lambda: one.committed("t") == [b"0", b"1"])
            await asyncio.sleep(0.3)
            assert not running.done(), "it does not end as if all were copied"
            one.target.codes = {} if goes_on else {"A.u": TOPIC_AUTHORIZATION_FAILED}
            await running
            assert one.committed("t") == [b"0", b"1"]
            if goes_on:
                assert one.task.left == ()
                assert one.committed("u") == [b"0", b"1"]
            else:
                (left,) = one.task.left
                assert left.startswith("u-0: ")
                assert "TOPIC_AUTHORIZATION_FAILED" in left
                assert one.committed("u") == []

    run()


def test_a_slot_that_is_asked_to_end_names_what_was_left_out_of_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried(monkeypatch, 30.0)

    @in_a_loop
    async def run() -> None:
        one = refusing()
        async with one.running() as running:
            await until(lambda: U in one.task._reporting.set_aside)
            await until(lambda: one.committed("t") == [b"0", b"1"])
            one.stop()
            await running
            assert one.task.left == ("u-0: left out of transactions for a while",)

    run()


@in_a_loop
async def test_a_slot_whose_positions_are_refused_says_so_and_starts_over_less_and_less_often() -> None:
    one = PlayedTask("t")
    target = Refusing(*(topic for topic, _ in one.target.logs))
    target.codes, target.identities = {"positions": TOPIC_AUTHORIZATION_FAILED}, one.target.identities
    one.target = target
    one.source.append("t", b"0")

    async def told() -> list[str]:
        reports = [entry for entry in await one.told() if isinstance(entry, board.Report)]
        return [trouble.kind for trouble in reports[-1].troubles] if reports else []

    async with one.running() as running:
        while await told() != [Kind.POSITIONS.value]:
            await asyncio.sleep(0.05)
        await asyncio.sleep(3.0)
        assert len([each for each in one.transactional if isinstance(each, InitProducerId)]) <= 5
        target.codes = {}
        await until(lambda: one.committed("t") == [b"0"])
        while await told() != []:
            await asyncio.sleep(0.05)
        one.stop()
        await running


@in_a_loop
async def test_a_partition_that_stops_for_want_of_a_position_is_noticed_for_slots_and_drivers_to_come() -> None:
    one = PlayedTask("t", once=True, doubted=True)
    one.source.append("t", b"0", b"1")
    one.target.append("A.t", b"of another tool")
    async with one.running() as running:
        await running
    (left,) = one.task.left
    assert left.startswith("t-0: there is no position, but A.t-0 holds records")
    (notice,) = [entry for entry in await one.told() if isinstance(entry, board.Notice)]
    assert (notice.kind, notice.subject) == (board.NoticeKind.POSITIONS_UNKNOWN.value, "positions")


@in_a_loop
async def test_what_its_plan_no_longer_holds_is_named_and_not_waited_for() -> None:
    """As when a source topic is deleted while what was there at the start is copied."""
    one = PlayedTask("t", "u", once=True)
    one.source.append("u", b"0")
    async with one.running() as running:
        await until(lambda: one.task._until is not None)
        del one.source.logs["u", 0]
        await one.plan("t")
        await running
        (left,) = one.task.left
        assert left.startswith("u-0: ")


@in_a_loop
async def test_a_slot_says_for_which_open_transaction_it_waits_with_its_positions_unread() -> None:
    """Another Connect worker may have begun it, with a position of ours in it."""
    one = PlayedTask("t")
    one.source.append("t", b"1")
    key = source_key("MirrorSourceConnector", "A", T)
    one.target.append("positions", b'{"offset":7}', producer_id=99, key=key)
    async with one.running():

        async def newest() -> tuple[board.TroubleReport, ...]:
            reports = [each for each in await one.told() if isinstance(each, board.Report)]
            return reports[-1].troubles if reports else ()

        while not (troubles := await newest()):
            await asyncio.sleep(0.1)
        assert [each.kind for each in troubles] == [Kind.PLAN.value]
        assert troubles[0].reason.startswith("positions cannot be read yet: ")
        assert one.appended("t") == []
        one.target.end("positions", 99, commit=False)
        await until(lambda: one.committed("t") == [b"1"])
        while await newest():
            await asyncio.sleep(0.1)
