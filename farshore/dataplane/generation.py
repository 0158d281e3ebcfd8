"""One generation of a flow: the slots that copy while one driver holds it, their plans, and the lease that lets them.

Runs in the driver. Partitions move between slots in two steps: the plan of the one who has it lets go, and when he has
reported that he follows it, the plan of the next takes up. Slots that are not concerned do not notice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from farshore.dataplane import board
from farshore.dataplane.assignment import Copied
from farshore.dataplane.picture import Picture
from farshore.dataplane.spark import SlotJob
from farshore.dataplane.task import Order, Outcome
from farshore.errors import KafkaError
from farshore.kafka.small_records import SmallRecord, SmallRecords
from farshore.model import TopicPartition

_log = logging.getLogger(__name__)

_STOP_WITHIN_SECONDS = 45.0
_CANCEL_WITHIN_SECONDS = 10.0
# A flow writes no more positions a second, unless its partitions are so many that one would wait longer than this: what
# is not noted is copied again after a crash, and a transaction must not outlive its timeout.
_POSITIONS_A_SECOND = 200
_NOTED_WITHIN_SECONDS = 10
_WRITE_WITHIN_SECONDS = 10.0

Shares = Sequence[tuple[Copied, ...]]


@dataclass(slots=True)
class _Slot:
    """`held` are the partitions that it may still copy, by any plan that it might be following."""

    job: SlotJob
    plan: board.Plan
    held: set[TopicPartition] = field(default_factory=set)
    written: bool = True


class Generation:
    """Begins to copy with the first `follow`. `stop` returns when every slot has released its partitions, or was
    cancelled.

    The lease is renewed only while `may_lease` says that the flow is still ours. `order` is what all slots are told.
    """

    def __init__(
        self,
        session: Any,
        order: Order,
        number: int,
        may_lease: Callable[[], bool],
        picture: Picture,
        bytes_per_second: int | None = None,
    ) -> None:
        self.number = number
        self.outcomes: list[Outcome] = []
        self._session = session
        self._order = order
        self._may_lease = may_lease
        self._picture = picture
        self._bytes_per_second = bytes_per_second
        self._slots: dict[int, _Slot] = {}
        self._wanted: Shares = ()
        self._settled: Shares | None = None  # what is wanted, once every slot has said that it follows it
        self._version = 0
        self._stopping = False
        self._ended = False
        self._again = threading.Event()
        self._done = threading.Event()
        self._changing = threading.Lock()
        self._writer = SmallRecords(order.target.connection, cluster=order.flow.target, client_id="farshore")
        self._leasing = threading.Thread(target=self._keep_leasing, name=f"lease {order.flow}", daemon=True)

    def start(self) -> None:
        """Raises KafkaError if no lease can be given; nothing has been started then."""
        self._write([self._lease()])
        self._leasing.start()

    def follow(self, shares: Shares) -> None:
        """Share number n is for slot n. Returns at once; what moves does so as soon as it is let go."""
        with self._changing:
            self._wanted = shares
        self._again.set()

    @property
    def done(self) -> bool:
        """All slots have ended by themselves."""
        with self._changing:
            return bool(self._slots) and len(self.outcomes) >= len(self._slots)

    @property
    def failures(self) -> list[str]:
        return [slot.job.failure for slot in self._slots.values() if slot.job.failure is not None]

    def stop(self) -> None:
        with self._changing:
            self._stopping = True
            jobs = [slot.job for slot in self._slots.values()]
        for job in jobs:
            job.do_not_restart()
        self._again.set()
        give_up_at = time.monotonic() + _STOP_WITHIN_SECONDS
        late = [job for job in jobs if not job.join(max(0.0, give_up_at - time.monotonic()))]
        for job in late:
            job.cancel()
            job.join(_CANCEL_WITHIN_SECONDS)
        # Only what is known to have ended is called over; the next holder waits for the rest to lapse.
        self._ended = all(job.join(0) and job.surely_ended for job in jobs)
        self._done.set()
        self._again.set()
        self._leasing.join()
        self._writer.close()

    def _keep_leasing(self) -> None:
        """The one thread that writes leases and plans, so that the last one written is the last one said."""
        while True:
            last = self._done.is_set()
            if last or self._again.wait(board.LEASE_EVERY_SECONDS):
                self._again.clear()
            if self._stopping or self._may_lease():
                try:
                    # The lease first: it names the attempts, and a slot may be about to ask whether it may begin.
                    self._write([self._lease(), *self._gaps()])
                    if not self._stopping:
                        self._plan()
                except KafkaError as error:
                    _log.warning("%s", error)
            if last:
                return

    def _lease(self) -> board.Lease:
        attempts = tuple((number, slot.job.attempt) for number, slot in self._slots.items() if slot.job.attempt)
        return board.Lease(self.number, self._stopping, self._ended, attempts)

    def _plan(self) -> None:
        """Bring the plans nearer to what is wanted, as far as partitions have been let go."""
        with self._changing:
            if self._settled is self._wanted:
                return
            wanted = {number: {c.partition: c for c in share} for number, share in enumerate(self._wanted)}
            for number, slot in list(self._slots.items()):
                if slot.plan.end and slot.job.join(0):
                    del self._slots[number]
                    continue
                report = self._picture.reports.get(number)
                if report and (report.generation, report.plan) == (self.number, slot.plan.version):
                    slot.held = {copied.partition for copied in slot.plan.copied}
                    slot.written = True
            changed = [
                plan for number in sorted(wanted.keys() | self._slots.keys()) if (plan := self._next(number, wanted))
            ]
            if not changed and all(slot.written and not slot.plan.end for slot in self._slots.values()):
                self._settled = self._wanted
        if changed:
            self._write(changed)
        with self._changing:
            for plan in changed:
                if self._slots[plan.slot].job.is_new and not self._stopping:
                    self._slots[plan.slot].job.start()

    def _next(self, number: int, wanted: Mapping[int, Mapping[TopicPartition, Copied]]) -> board.Plan | None:
        """The plan that slot `number` is to be told now; None if it knows it."""
        others = {p for other, slot in self._slots.items() if other != number for p in slot.held}
        share = tuple(copied for p, copied in sorted(wanted.get(number, {}).items()) if p not in others)
        slot = self._slots.get(number)
        if slot is None and not share:
            return None
        active = max(1, len(wanted))
        plan = board.Plan(
            number,
            self.number,
            slot.plan.version if slot else 0,
            share,
            self._bytes_per_second and max(1, self._bytes_per_second // active),
            max(10, _POSITIONS_A_SECOND // active, len(share) // _NOTED_WITHIN_SECONDS),
            end=number not in wanted,
        )
        if slot is not None and plan == slot.plan:
            return None if slot.written else plan
        self._version += 1
        plan = replace(plan, version=self._version)
        if slot is None:
            slot = self._slots[number] = _Slot(
                SlotJob(self._session, number, self._order_of, self.outcomes.append), plan
            )
        slot.plan, slot.written = plan, False
        slot.held |= {copied.partition for copied in share}
        return plan

    def _order_of(self, slot: int) -> Order:
        """What an attempt of a slot that begins now is told."""
        return replace(self._order, plan=self._slots[slot].plan)

    def _gaps(self) -> list[board.Gaps]:
        """What slots have reported as never copied, and the board does not keep yet."""
        changed: dict[TopicPartition, board.Gaps] = {}
        for report in list(self._picture.reports.values()):
            for gap in report.gaps:
                known = changed.get(gap.partition) or self._picture.gaps.get(gap.partition)
                if known is None:
                    known = board.Gaps(gap.partition, 0, 0, ())
                if not known.newest or gap.at > known.newest[-1].at:
                    changed[gap.partition] = known.with_gap(gap)
        self._picture.gaps.update(changed)
        return list(changed.values())

    def _write(self, entries: Sequence[board.Entry]) -> None:
        topic = self._order.board_topic
        records = [SmallRecord(topic, 0, *record) for entry in entries for record in board.encode(entry)]
        self._writer.write(records, within=_WRITE_WITHIN_SECONDS)
