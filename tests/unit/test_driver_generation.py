"""A generation: leases that wait for nothing, plans, and what each attempt of a slot is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from played_broker import SERVERS, PlayedBroker, in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap, Limits
from farshore.dataplane.bookkeeping import Books, board_records, position_records
from farshore.dataplane.picture import LeaseRecord, Picture, read_picture
from farshore.dataplane.task import ExactlyOnce, Order, Outcome
from farshore.driver import generation, planned_slot
from farshore.driver.generation import Generation
from farshore.driver.slot_jobs import OrderOf
from farshore.errors import KafkaError
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import Produced, RawCluster
from farshore.kafka.raw_transaction_requests import InitProducerId
from farshore.model import Flow, Lineage, TopicPartition

NUMBER = 4
WITHIN_SECONDS = 30.0
HOLDER = "ours"
BOOKS = Books("MirrorSourceConnector", "positions", 1, "ledger", None, False, "board")
CLIENT: Any = None
PLAIN = Order(Flow("A", "B"), NUMBER, CLIENT, CLIENT, Limits(), BOOKS)
ORDERS = TopicPartition("orders", 0)


def transactional() -> Order:
    return Order(Flow("A", "B"), NUMBER, CLIENT, CLIENT, Limits(), BOOKS, exactly_once=ExactlyOnce("group", 1.0, 60.0))


def share(topic: str, partitions: int = 1) -> tuple[Copied, ...]:
    return tuple(Copied(TopicPartition(topic, n), TopicPartition(f"A.{topic}", n)) for n in range(partitions))


@dataclass
class Job:
    """A slot's job that does nothing by itself."""

    slot: int
    order_of: OrderOf
    on_end: Callable[[Outcome], None]
    attempt: int = 0
    is_new: bool = True
    surely_ended: bool = True
    failure: str | None = None
    over: bool = False
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.is_new = False
        self.calls.append("start")

    def do_not_restart(self) -> None:
        self.calls.append("do not restart")

    def cancel(self) -> None:
        self.calls.append("cancel")

    def end(self) -> None:
        self.over = True
        self.on_end(Outcome(self.slot, 0))


class GatedCluster(RawCluster):
    """Plans are appended only while the gate is open."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.gate = asyncio.Event()
        self.gate.set()

    async def produce(self, broker: int, partitions: Any, **more: Any) -> list[Produced]:
        if any(b"plan-" in bytes(piece) for each in partitions for piece in each.batch):
            await self.gate.wait()
        return await super().produce(broker, partitions, **more)


class Driven:
    """A generation over a played broker; its picture is what the test puts there."""

    running: asyncio.Task[None]

    def __init__(self, broker: PlayedBroker, cluster: GatedCluster, order: Order) -> None:
        self.broker = broker
        self.cluster = cluster
        self.picture = Picture()
        self.ours = True
        self.jobs: dict[int, Job] = {}
        self.generation = Generation(
            order,
            HOLDER,
            writer=InternalWriter(cluster),
            target=cluster,
            new_job=self._new_job,
            may_lease=lambda: self.ours,
            picture=self.picture,
        )

    def _new_job(self, slot: int, _: str, order_of: OrderOf, on_end: Callable[[Outcome], None]) -> Job:
        self.jobs[slot] = Job(slot, order_of, on_end)
        return self.jobs[slot]

    async def entries(self) -> list[Any]:
        reader = board.Reader()
        return [reader.read(e.key, e.value) for e in await read_topic(self.cluster, "board", 1, patience=5)]

    async def plans(self) -> list[board.Plan]:
        return [each for each in await self.entries() if isinstance(each, board.Plan)]

    async def leases(self) -> list[board.Lease]:
        return [each for each in await self.entries() if isinstance(each, board.Lease)]

    def follows(self, plan: board.Plan) -> None:
        """The slot reports that it follows this plan."""
        self.picture.reports[plan.slot] = board.Report(plan.slot, plan.generation, "running", plan.version)

    async def plans_until(self, count: int) -> list[board.Plan]:
        while len(found := await self.plans()) < count:
            await asyncio.sleep(0.01)
        return found

    async def leases_until(self, count: int) -> list[board.Lease]:
        while len(found := await self.leases()) < count:
            await asyncio.sleep(0.01)
        return found


@asynccontextmanager
async def driven(order: Order = PLAIN) -> AsyncIterator[Driven]:
    broker = PlayedBroker("board", "positions")
    async with GatedCluster(SERVERS, alias="B", client_id="test", dial=broker.dial) as cluster:
        one = Driven(broker, cluster, order)
        await one.generation.start()
        one.running = asyncio.create_task(one.generation.run())
        try:
            yield one
        finally:
            one.running.cancel()
            await asyncio.gather(one.running, return_exceptions=True)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "LEASE_EVERY_SECONDS", 0.05)


def test_the_lease_names_generation_holder_and_attempts_and_comes_before_any_plan() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            await one.plans_until(1)
            assert (await one.entries())[0] == board.Lease(NUMBER, holder=HOLDER, partitions=0)
            assert one.jobs[0].calls == ["start"]
            one.jobs[0].attempt = 2
            while (await one.leases())[-1].attempts != ((0, 2),):
                await asyncio.sleep(0.01)
            one.ours = False
            await asyncio.sleep(0.2)
            before = len(await one.leases())
            await asyncio.sleep(0.3)
            assert len(await one.leases()) == before, "no lease while the flow is not ours"

    run()


def test_a_partition_moves_only_when_the_slot_that_had_it_follows_a_plan_without_it() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a", 2), share("b")])
            for plan in await one.plans_until(2):
                one.follows(plan)
            stays, moves = share("a", 2)
            one.generation.follow([(stays,), (moves, *share("b"))])
            let_go = (await one.plans_until(3))[2]
            assert (let_go.slot, let_go.copied) == (0, (stays,))
            await one.leases_until(len(await one.leases()) + 5)
            assert len(await one.plans()) == 3, "slot 0 may still copy it"
            one.follows(let_go)
            taken_up = (await one.plans_until(4))[3]
            assert (taken_up.slot, taken_up.copied) == (1, (moves, *share("b")))

    run()


def test_the_plan_of_a_slot_is_written_again_for_a_new_attempt() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            (plan,) = await one.plans_until(1)
            await one.jobs[0].order_of(0, 0)
            one.follows(plan)
            await one.leases_until(len(await one.leases()) + 5)
            assert await one.plans() == [plan], "the first attempt finds it"
            one.broker.make_again("board")
            order = await one.jobs[0].order_of(0, 1)
            assert (order.slot, order.attempt) == (0, 1)
            assert await one.plans_until(1) == [plan]

    run()


def test_on_a_board_that_was_made_again_there_are_all_plans_gaps_and_notices() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a"), share("b")])
            plans = await one.plans_until(2)
            for plan in plans:
                one.follows(plan)
            gap = Gap(ORDERS, 3, 9, "gone")
            one.picture.single_gaps[ORDERS] = {3: gap}
            await one.leases_until(len(await one.leases()) + 3)
            one.broker.make_again("board")
            one.generation.write_again()
            one.generation.tell(one.picture.notice(board.NoticeKind.TOPIC_DELETED, "board", "deleted"))
            assert await one.plans_until(2) == plans
            while not {gap, *one.picture.notices.values()} <= {*(await one.entries())}:
                await asyncio.sleep(0.01)
            await one.leases_until(len(await one.leases()) + 3)
            assert [each for each in await one.entries() if each == gap] == [gap], "once"

    run()


def test_each_attempt_of_a_transactional_slot_gets_an_identity_fenced_for_it() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven(transactional()) as one:
            one.generation.follow([share("a"), share("b")])
            await one.plans_until(2)
            first = await one.jobs[1].order_of(1, 0)
            second = await one.jobs[1].order_of(1, 1)
            other = await one.jobs[0].order_of(0, 0)
            fences = [
                each for each in one.broker.requests if isinstance(each, InitProducerId) and each.transactional_id
            ]
            name = "group-MirrorSourceConnector-1"
            assert fences[:2] == [InitProducerId(name, 60.0, None)] * 2, "with `current` it would be refused"
            assert first.identity is not None
            assert second.identity == one.broker.identities[name]
            assert second.identity == first.identity._replace(producer_epoch=first.identity.producer_epoch + 1)
            assert other.identity == one.broker.identities["group-MirrorSourceConnector-0"]
            assert PLAIN.identity is None

    run()


@pytest.mark.parametrize("newer", [True, False])
def test_a_transactional_slot_is_not_started_when_the_flow_is_no_longer_ours(newer: bool) -> None:
    @in_a_loop
    async def run() -> None:
        async with driven(transactional()) as one:
            one.generation.follow([share("a")])
            await one.plans_until(1)
            one.picture.lease = board.Lease(NUMBER + 1 if newer else NUMBER, holder="another")
            one.ours = newer
            with pytest.raises(KafkaError, match="slot 0 is not started: the flow is no longer ours"):
                await one.jobs[0].order_of(0, 1)
            assert one.broker.identities == {}, "its next holder must not be fenced"

    run()


@in_a_loop
async def test_slots_are_told_that_positions_may_be_missing_where_there_are_none_or_their_topic_was_deleted() -> None:
    position = position_records(BOOKS, Flow("A", "B"), [(ORDERS, 9, Lineage(1, None, None, None, None))])
    async with driven() as fresh:
        fresh.generation.follow([share("a")])
        await fresh.plans_until(1)
        assert (await fresh.jobs[0].order_of(0, 0)).positions_doubted
        await InternalWriter(fresh.cluster).write(position)
        assert (await fresh.jobs[0].order_of(0, 0)).positions_doubted, "one that another slot has written says nothing"
    async with driven() as other:
        await InternalWriter(other.cluster).write(position)
        other.generation.follow([share("a")])
        await other.plans_until(1)
        assert not (await other.jobs[0].order_of(0, 0)).positions_doubted
        other.picture.notice(board.NoticeKind.TOPIC_DELETED, "board", "")
        assert not (await other.jobs[0].order_of(0, 0)).positions_doubted
        other.picture.notice(board.NoticeKind.TOPIC_DELETED, "positions", "")
        assert (await other.jobs[0].order_of(0, 0)).positions_doubted


def test_a_plan_that_takes_long_to_write_does_not_hold_up_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_WRITE_WITHIN_SECONDS", 1000.0)

    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.cluster.gate.clear()
            one.generation.follow([share("a")])
            while not one.jobs:
                await asyncio.sleep(0.01)
            await one.leases_until(len(await one.leases()) + 5)
            assert await one.plans() == []
            assert one.jobs[0].calls == [], "not before its plan is on the board"
            one.cluster.gate.set()
            await one.plans_until(1)

    run()


def test_what_is_wanted_while_an_earlier_plan_is_written_is_planned_afterwards() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            (older,) = await one.plans_until(1)
            one.follows(older)
            one.cluster.gate.clear()
            await one.jobs[0].order_of(0, 1)
            await one.leases_until(len(await one.leases()) + 5)
            one.generation.follow([share("a", 2)])
            one.cluster.gate.set()
            *_, newer = await one.plans_until(3)
            assert len(newer.copied) == 2
            assert newer.version > older.version

    run()


@pytest.mark.parametrize("surely", [True, False])
def test_after_a_stop_it_is_over_only_when_every_slot_has_surely_ended(surely: bool) -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            await one.plans_until(1)
            one.generation.stop(asyncio.get_running_loop().time() + WITHIN_SECONDS)
            while not (asked := (await one.leases())[-1]).stop:
                await asyncio.sleep(0.01)
            assert not asked.over, "the slot has not ended yet"
            assert one.jobs[0].calls == ["start", "do not restart"]
            one.jobs[0].surely_ended = surely
            one.jobs[0].end()
            await one.running
            assert (await one.leases())[-1] == board.Lease(NUMBER, stop=True, over=surely, holder=HOLDER, partitions=1)
            assert one.generation.done

    run()


@pytest.mark.parametrize(("error", "cut_off"), [(None, 0), ("cancelled", 1)])
def test_what_a_slot_had_last_is_written_only_if_it_ended_as_it_was_asked_to(error: str | None, cut_off: int) -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            one.follows((await one.plans_until(1))[0])
            one.generation.stop(asyncio.get_running_loop().time() + WITHIN_SECONDS)
            one.jobs[0].over = True
            one.jobs[0].on_end(Outcome(0, 0, error))
            await one.running
            assert (one.generation.left, one.generation.cut_off) == (0, cut_off)

    run()


def test_a_slot_that_does_not_end_in_time_is_cancelled_and_then_given_up() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            await one.plans_until(1)
            one.generation.stop(asyncio.get_running_loop().time() + 3.0)
            await one.running
            assert one.jobs[0].calls == ["start", "do not restart", "cancel"]
            assert one.generation.left == 1
            assert one.generation.cut_off == 0, "it had not begun"
            assert not (await one.leases())[-1].over

    run()


def test_after_a_stop_a_job_that_spark_has_not_begun_is_cancelled_and_one_that_has_reported_is_waited_for() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a"), share("b")])
            one.follows(next(plan for plan in await one.plans_until(2) if plan.slot == 1))
            one.generation.stop(asyncio.get_running_loop().time() + WITHIN_SECONDS)
            while "cancel" not in one.jobs[0].calls:
                await asyncio.sleep(0.01)
            assert one.jobs[1].calls == ["start", "do not restart"]
            for job in one.jobs.values():
                job.end()
            await one.running

    run()


@pytest.mark.parametrize(
    ("lease", "anothers"),
    [
        (board.Lease(NUMBER, holder=HOLDER), False),
        (board.Lease(NUMBER), False),  # of a version that gives no name
        (board.Lease(NUMBER - 1, holder="another"), False),
        (board.Lease(NUMBER, holder="another"), True),
        (board.Lease(NUMBER + 1, holder="another"), True),
    ],
)
def test_a_lease_of_the_same_number_under_another_name_is_anothers(lease: board.Lease, anothers: bool) -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            assert one.generation.is_anothers(lease) == anothers
            one.picture.lease = lease
            assert one.generation.superseded == anothers

    run()


@pytest.mark.parametrize(("first", "second"), [(HOLDER, "another"), ("another", HOLDER)])
def test_without_the_lock_the_newest_lease_under_our_number_says_whose_it_is(first: str, second: str) -> None:
    """The board may lose all leases, and another driver, which has the lock by then, counts from the beginning."""

    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.picture.lease = board.Lease(NUMBER, holder=HOLDER)
            for at, holder in enumerate((first, second)):
                one.picture.lease_records[NUMBER, holder] = LeaseRecord(0, 0, float(at))
            assert not one.generation.superseded, "of two that claim it at once the first has it"
            one.ours = False
            assert one.generation.superseded == (second == "another")

    run()


def test_a_stop_does_not_wait_for_a_target_that_does_not_answer() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            await one.plans_until(1)
            one.cluster.gate.clear()
            await asyncio.sleep(0.2)  # a lease is being written by now
            one.generation.stop(asyncio.get_running_loop().time() + 3.0)
            await one.running
            assert not one.cluster.gate.is_set()

    run()


def test_many_gaps_of_a_partition_become_one_entry_that_counts_them() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            few = TopicPartition("few", 0)
            gaps = [Gap(ORDERS, 10 * n, 10 * n + 3, "gone", float(-n)) for n in range(2 * board.GAPS_KEPT + 1)]
            others = [Gap(few, 10 * n, 10 * n + 1, "gone") for n in range(2 * board.GAPS_KEPT)]
            await InternalWriter(one.cluster).write(board_records("board", [*gaps, *others]))
            told = (await read_picture(one.cluster, "board", SYSTEM_CLOCK)).gaps
            assert (told[ORDERS].times, told[ORDERS].offsets) == (41, 123)
            batches = one.broker.logs["board", 0].batches
            before = len(batches)
            for record in await read_topic(one.cluster, "board", 1, patience=5):
                one.picture.hear("board", record)
            while not any(isinstance(each, board.CountedGap) for each in await one.entries()):
                await asyncio.sleep(0.01)
            found = await read_picture(one.cluster, "board", SYSTEM_CLOCK)
            assert found.gaps == told, "nothing is told twice, and nothing is left out"
            assert list(found.single_gaps[ORDERS].values()) == gaps[-board.GAPS_KEPT :]
            assert found.counted_gaps[ORDERS].times == board.GAPS_KEPT + 1
            assert len(found.single_gaps[few]) == 2 * board.GAPS_KEPT
            # Both in one batch: else a reader in between would count some twice, or not at all.
            assert max(each.record_count for each in batches[before:]) >= board.GAPS_KEPT + 1 + 1

    run()


def test_a_slot_that_is_wanted_again_while_it_ends_gets_another_job_with_attempts_of_its_own() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("orders"), share("bills")])
            plans = await one.plans_until(2)
            for plan in plans:
                one.follows(plan)
            first = one.jobs[1]
            first.attempt = 2
            one.generation.follow([share("orders")])
            while not any(plan.end for plan in await one.plans()):
                await asyncio.sleep(0.01)
            one.generation.follow([share("orders"), share("bills")])
            await asyncio.sleep(0.05)
            assert one.jobs[1] is first, "it may still have its partitions"
            first.end()
            while one.jobs[1] is first or not one.jobs[1].calls:
                await asyncio.sleep(0.01)
            assert one.jobs[1].attempt == 3
            *_, again = [plan for plan in await one.plans() if plan.slot == 1]
            assert (again.end, again.copied) == (False, share("bills"))

    run()


def test_a_plan_that_is_not_followed_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unclean election may have taken it from the board."""
    monkeypatch.setattr(planned_slot, "_WRITE_AGAIN_SECONDS", 0.05)

    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("orders")])
            first, second = (await one.plans_until(2))[:2]
            assert first == second
            one.follows(second)
            one.generation.follow([share("orders")])
            await asyncio.sleep(0.2)
            written = len(await one.plans())
            one.generation.follow([share("orders")])
            await asyncio.sleep(0.2)
            assert len(await one.plans()) == written

    run()


@pytest.mark.parametrize("surely", [True, False])
def test_the_partitions_of_a_slot_that_never_began_move_when_it_can_no_longer_begin(
    monkeypatch: pytest.MonkeyPatch, surely: bool
) -> None:
    """Spark has no core for it: it hears neither plan nor lease."""
    monkeypatch.setattr(planned_slot, "_CANCEL_UNHEARD_SECONDS", 0.1)
    monkeypatch.setattr(board, "LEASE_LASTS_SECONDS", -0.5)

    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("orders"), share("bills")])
            one.follows((await one.plans_until(2))[0])
            one.generation.follow([(*share("bills"), *share("orders"))])
            queued = one.jobs[1]
            while "cancel" not in queued.calls:
                await asyncio.sleep(0.01)
            before = await one.plans()
            assert not any(len(plan.copied) == 2 for plan in before), "nothing moves before it is over"
            queued.surely_ended = surely
            queued.attempt += not surely
            queued.end()
            began = asyncio.get_running_loop().time()
            *_, taken_up = await one.plans_until(len(before) + 1)
            waited = asyncio.get_running_loop().time() - began
            assert (taken_up.slot, {each.partition.topic for each in taken_up.copied}) == (0, {"orders", "bills"})
            assert surely or waited > 0.4, "an attempt that may live has to lapse first"

    run()


def test_a_slot_that_was_heard_of_is_not_cancelled_while_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_slot, "_CANCEL_UNHEARD_SECONDS", 0.0)

    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("orders"), share("bills")])
            for plan in await one.plans_until(2):
                one.follows(plan)
            await asyncio.sleep(0.2)
            assert one.generation.heard == {0, 1} == set(one.generation.submitted)
            one.generation.follow([share("orders")])
            await one.plans_until(3)
            await asyncio.sleep(0.3)
            assert one.jobs[1].calls == ["start"]

    run()


def test_only_an_attempt_that_has_not_ended_is_present() -> None:
    @in_a_loop
    async def run() -> None:
        async with driven() as one:
            one.generation.follow([share("a")])
            await one.plans_until(1)
            first, second = (board.Report(0, NUMBER, "running", attempt=attempt) for attempt in (0, 1))
            assert one.generation.is_present(first)
            one.jobs[0].attempt = 1  # the first has ended, and the next is about to begin
            assert not one.generation.is_present(first)
            assert one.generation.is_present(second)
            one.jobs[0].end()
            assert not one.generation.is_present(second)

    run()
