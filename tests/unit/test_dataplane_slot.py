"""A slot under a transaction: what it sends while its outcomes are open, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import pytest
from source_and_target import Broker, Refused, batch_at, batches_of, body, log_at

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import packing, refusals
from farshore.dataplane.assignment import Copied, Limits, Resume
from farshore.dataplane.cargo import Target
from farshore.dataplane.in_hand import StartOver
from farshore.dataplane.progress import Progress
from farshore.dataplane.slot import Slot
from farshore.dataplane.transaction import Transaction
from farshore.errors import CorruptBatch, Unreachable
from farshore.kafka.raw import Fetched, FetchPartition, FetchSession, Produced, ProducePartition, RawCluster
from farshore.kafka.raw_model import ClusterMetadata, ListedOffset, PartitionMetadata, ProducerIdentity, TopicMetadata
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

_CODES = {"OUT_OF_ORDER": 45, "TOO_LARGE": 10, "DUPLICATE": 46, "FENCED": 47}
_INVALID_TIMESTAMP = 32
_PARTITION, _REMOTE = TopicPartition("t", 0), TopicPartition("A.t", 0)
_WITHIN_SECONDS = 20.0

Answer = Callable[[ProducePartition], Awaitable[Produced]]


class FakeCluster:
    """Of one broker, with one partition a topic: what a slot asks of either of its clusters.

    `log` is that of the source. Appends go through `answer`, which is `append` unless a test puts itself between.
    """

    alias = "B"

    def __init__(self, log: list[bytes] | None = None) -> None:
        self.log = log or []
        self.broker = Broker(1 << 20)
        self.answer: Answer = self.append
        self.appends = 0

    async def metadata(self, topics: Iterable[str]) -> ClusterMetadata:
        partitions = {0: PartitionMetadata(0, 0, 1, 0, (1,), (1,))}
        return ClusterMetadata("fake", {}, {name: TopicMetadata(name, 0, name, partitions) for name in topics})

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], at: int, **_: object
    ) -> dict[TopicPartition, ListedOffset]:
        end = len(self.broker.log) if at == -1 else 0
        return {each: ListedOffset(*each, 0, end, -1, -1) for each in partitions}

    def produce_losses(self) -> dict[int, int]:
        return {}

    async def epoch_ends(self, *_: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {}

    async def fetch(
        self, _: int, partitions: Sequence[FetchPartition], *, session: FetchSession, **__: object
    ) -> list[Fetched]:
        session.ask(partitions)
        found = [(each, log_at(self.log, each.offset, 3)) for each in partitions]
        if not any(data for _, data in found):
            await asyncio.sleep(0.02)
        return [Fetched(one.topic, one.partition, 0, 99, 99, 0, (), None, data, 0) for one, data in found if data]

    async def init_producer_id(self, *_: object, **__: object) -> ProducerIdentity:
        return ProducerIdentity(7, 0)

    async def add_to_transaction(self, *_: object) -> dict[TopicPartition, int]:
        return {}

    async def produce(self, _: int, parts: Sequence[ProducePartition], **__: object) -> list[Produced]:
        return [await self.answer(part) for part in parts]

    async def append(self, part: ProducePartition) -> Produced:
        self.appends += 1
        outcome = self.broker.append(b"".join(part.batch))
        if isinstance(outcome, int):
            return Produced(part.topic, part.partition, 0, outcome, -1, 0, (), None, 0)
        code = _INVALID_TIMESTAMP if isinstance(outcome, Refused) else _CODES[outcome]
        errors = ((outcome.at, None),) if isinstance(outcome, Refused) else ()
        return Produced(part.topic, part.partition, code, -1, -1, 0, errors, None, 0)

    async def append_and_lose_the_answer(self, part: ProducePartition) -> Produced:
        await self.append(part)
        raise Unreachable("B: the connection is lost", cluster="B")

    @property
    def appended(self) -> list[int]:
        return [timestamp - 1000 for _, timestamp, _ in self.broker.log]


class World:
    """A slot that runs between a source's log and a target."""

    def __init__(self, log: list[bytes], *, transactional: bool = True, takes: Target | None = None) -> None:
        self.source, self.target = FakeCluster(log), FakeCluster()
        self.source.broker.log = [(0, 0, b"")] * 99
        self.progress = Progress()
        self.copied = [Copied(_PARTITION, _REMOTE, takes or Target(merge_below=100))]
        target = cast(RawCluster, self.target)
        identity = ProducerIdentity(7, 0)
        transaction = Transaction(target, "id", 10.0, identity, SYSTEM_CLOCK) if transactional else None
        self.slot = Slot(cast(RawCluster, self.source), target, Limits(), self.progress, SYSTEM_CLOCK, transaction)
        self.stop = asyncio.Event()

    async def take(self, at: int = 0) -> None:
        await self.slot.take(self.copied, {_PARTITION: Resume(at)})

    async def run(self, test: Callable[[], Awaitable[None]]) -> None:
        """The test beside the slot, until either ends. Raises what the test raised, or else the slot."""
        running = asyncio.create_task(self.slot.run(self.stop))
        testing = asyncio.ensure_future(test())
        async with asyncio.timeout(2 * _WITHIN_SECONDS):
            await asyncio.wait([running, testing], return_when=asyncio.FIRST_COMPLETED)
            self.stop.set()
            await asyncio.wait([testing], timeout=1.0)  # it may look at a slot that has ended
            testing.cancel()
            outcomes = await asyncio.gather(testing, running, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(_WITHIN_SECONDS):
            while not true():
                await asyncio.sleep(0.005)


def test_nothing_at_all_is_appended_between_settling_and_going_on() -> None:
    async def run() -> None:
        records = [(n, 1000 + n, body(n, 50)) for n in range(20)]
        world = World([batch_at(0, records, Codec.NONE)], takes=Target(max_message_bytes=300))
        target, settled = world.target, asyncio.Event()

        async def slowly(part: ProducePartition) -> Produced:
            await asyncio.sleep(0.01)
            return await target.append(part)

        async def test() -> None:
            await world.until(lambda: target.appends >= 2)
            assert await world.slot.settle(_WITHIN_SECONDS) == []
            settled.set()
            before = list(target.appended)
            assert len(before) < 20, "pieces of the batch wait"
            await asyncio.sleep(0.3)
            assert target.appended == before
            world.slot.go_on()
            await world.until(lambda: len(target.appended) == 20)

        target.answer = slowly
        await world.take()
        await world.run(test)
        assert target.appended == list(range(20))

    asyncio.run(run())


def test_settling_finds_out_what_became_of_a_batch_whose_answer_was_lost() -> None:
    async def run() -> None:
        world = World(batches_of(3))
        target = world.target

        async def test() -> None:
            await world.until(lambda: target.appends == 1)
            target.answer = target.append
            assert await world.slot.settle(_WITHIN_SECONDS) == []
            ((_, last, _),) = world.progress.due().positions
            assert target.appended == [0]
            assert last == 0

        target.answer = target.append_and_lose_the_answer
        await world.take()
        await world.run(test)

    asyncio.run(run())


def test_a_released_partition_waits_until_it_is_known_what_became_of_its_batches() -> None:
    async def run() -> None:
        world = World(batches_of(1))
        target = world.target

        async def test() -> None:
            await world.until(lambda: target.appends == 1)
            releasing = asyncio.create_task(world.slot.release({_PARTITION}))
            await asyncio.sleep(0.1)
            assert not releasing.done()
            target.answer = target.append
            await asyncio.wait_for(releasing, _WITHIN_SECONDS)
            ((_, last, _),) = world.progress.due().positions
            assert last == 0
            assert target.appended == [0]

        target.answer = target.append_and_lose_the_answer
        await world.take()
        await world.run(test)

    asyncio.run(run())


def test_a_partition_released_with_an_outcome_that_stays_open_breaks_the_transaction_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("farshore.dataplane.slot._RELEASE_WITHIN_SECONDS", 0.3)

    async def run() -> None:
        world = World(batches_of(1))
        target = world.target

        async def test() -> None:
            await world.until(lambda: target.appends == 1)
            with pytest.raises(StartOver, match="released"):
                await world.slot.release([_PARTITION])
            with pytest.raises(StartOver):
                await world.slot.settle(_WITHIN_SECONDS)

        target.answer = target.append_and_lose_the_answer
        await world.take()
        with pytest.raises(StartOver, match="released"):
            await world.run(test)

    asyncio.run(run())


def test_a_partition_that_is_taken_back_continues_its_sequences() -> None:
    async def run() -> None:
        world = World(batches_of(3))
        target = world.target

        async def test() -> None:
            await world.until(lambda: len(target.appended) == 3)
            await world.slot.release([_PARTITION])
            world.progress.forget([_PARTITION])
            world.source.log = batches_of(6)
            await world.take(at=3)
            await world.until(lambda: len(target.appended) == 6)

        await world.take()
        await world.run(test)
        assert target.appended == list(range(6))

    asyncio.run(run())


def test_a_batch_refused_although_it_may_be_there_breaks_the_transaction_off() -> None:
    async def run() -> None:
        world = World(batches_of(2))
        target = world.target

        async def test() -> None:
            await world.until(lambda: target.appends == 1)
            target.broker.refuses = {1000}
            target.answer = target.append
            await asyncio.sleep(_WITHIN_SECONDS)

        target.answer = target.append_and_lose_the_answer
        await world.take()
        with pytest.raises(StartOver, match="will not be known"):
            await world.run(test)

    asyncio.run(run())


@pytest.mark.parametrize("transactional", [False, True])
def test_an_unexpected_exception_in_a_request_ends_the_slot(
    transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(refusals, "unfit_record", fail)

    async def run() -> None:
        world = World(batches_of(1), transactional=transactional)
        world.target.broker.refuses = {1000}
        await world.take()
        with pytest.raises(ZeroDivisionError):
            await world.run(lambda: asyncio.sleep(_WITHIN_SECONDS))

    asyncio.run(run())


def test_a_refused_batch_whose_records_cannot_be_read_is_the_trouble_of_its_partition() -> None:
    def fail(*_: object, **__: object) -> None:
        raise CorruptBatch("its records cannot be read")

    async def run() -> None:
        world = World(batches_of(2))
        target = world.target

        async def test() -> None:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(packing, "records_of", fail)
                await world.until(lambda: bool(world.slot.troubles))
                (trouble,) = world.slot.troubles
                assert "offset 0: the source's log is corrupt: its records cannot be read" in trouble.reason
            target.broker.max_message_bytes = 1 << 20
            await world.until(lambda: target.appended == [0, 1])

        target.broker.max_message_bytes = 100
        await world.take()
        await world.run(test)

    asyncio.run(run())


def test_a_partition_that_has_rested_sends_its_first_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker has forgotten the producer meanwhile, and would take the second before the first."""
    monkeypatch.setattr("farshore.dataplane.sending._REST_SECONDS", 0.2)

    async def run() -> None:
        world = World(batches_of(2), transactional=False)
        target = world.target
        on_the_way: list[int] = []
        most = 0

        async def counted(part: ProducePartition) -> Produced:
            nonlocal most
            on_the_way.append(1)
            most = max(most, len(on_the_way)) if len(target.appended) == 2 else most
            await asyncio.sleep(0.02)
            on_the_way.pop()
            return await target.append(part)

        async def test() -> None:
            await world.until(lambda: len(target.appended) == 2)
            await asyncio.sleep(0.4)
            world.source.log = batches_of(5)
            await world.until(lambda: len(target.appended) == 5)

        target.answer = counted
        await world.take()
        await world.run(test)
        assert most == 1
        assert target.appended == list(range(5))

    asyncio.run(run())
