"""`farshore status`: how flows stand, as their boards tell. Asks no Farshore, so it needs none to be well."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from farshore.config import FlowSettings
from farshore.control.loop import COPYING_PASS, TOPICS_PASS
from farshore.dataplane import board
from farshore.dataplane.backlog import TRUE_FOR_SECONDS, UNKNOWN, Backlog
from farshore.dataplane.flushing import TROUBLES_TOLD
from farshore.dataplane.picture import Picture
from farshore.driver.backlog import RELEASED
from farshore.errors import FarshoreError, KafkaError
from farshore.kafka.internal_topics.blocking import on_cluster
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from farshore.naming import board_topic
from farshore.ops.backlog import backlogs_of, has_run
from farshore.ops.sight import LAPSED_AFTER_SECONDS, Sight, State, look
from farshore.words import counted

NOT_STARTED = "planned, not started"
"""The state of a slot that is planned, and has not been heard of: Spark has no core for it, or is about to start it."""

_ANSWER_SECONDS = 4.2
"""For all of it, whatever is dead: of the five seconds that the command has, the rest is for its start and end."""
_FAR_SECONDS = 10.0
"""For all of it, where the target is there and its answers take long."""
_LISTEN_SECONDS, _SOURCE_SECONDS, _SPARE_SECONDS = 2.8, 3.5, 0.3
"""Of that, from the start on: until when it listens whether a driver lives, and within what time the source is to
answer. At the end there is some to spare for connections to be closed."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """`silent_since`: it has said nothing since then, while its driver goes on: it died, and is started again. One that
    has not `started` has never said anything: its report is made up of what is planned for it. `backlog` is what it
    says itself, where that is new, or else what was asked for; `partitions` are those of its plan."""

    report: board.Report
    silent_since: float | None = None
    started: bool = True
    backlog: Backlog = UNKNOWN
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """`since` is when it was last heard of, unless a driver has it. `unreadable` says why nothing is known of it,
    `unreachable` why its source cannot be reached, where no driver can tell.

    Slots and upkeep are those of the last generation, also when that is over.
    """

    flow: str
    state: State | None
    since: float | None = None
    generation: int = 0
    slots: tuple[SlotStatus, ...] = ()
    upkeep: board.Upkeep | None = None
    gaps: tuple[board.Gaps, ...] = ()
    notices: tuple[board.Notice, ...] = ()
    unreadable: str | None = None
    unreachable: str | None = None
    unplanned: int = 0

    @property
    def troubles(self) -> list[board.TroubleReport]:
        """What ails partitions, the oldest first; nothing does any more once no driver has them."""
        if self.state not in (State.RUNNING, State.WAITING):
            return []
        found = (trouble for slot in self.slots for trouble in slot.report.troubles)
        return sorted(found, key=lambda trouble: trouble.since)

    @property
    def backlog(self) -> Backlog:
        """Of all slots together; not known if it is not of one of them, or while partitions are in no slot's plan."""
        if self.unplanned:
            return UNKNOWN
        offsets, seconds = [s.backlog.offsets for s in self.slots], [s.backlog.seconds for s in self.slots]
        behind, ages = [n for n in offsets if n is not None], [n for n in seconds if n is not None]
        return Backlog(
            sum(behind) if self.slots and len(behind) == len(offsets) else None,
            max(ages) if self.slots and len(ages) == len(seconds) else None,
        )

    @property
    def problem(self) -> str | None:
        """Why it is not as it should be; None also for a flow that was stopped or handed back, or never run."""
        return self.unreadable or "; ".join(self._problems()) or None

    def _problems(self) -> Iterator[str]:
        if self.state is State.LAPSED:
            yield f"nothing has been heard of it since {moment(self.since)}"
        if self.state is State.PAUSED:
            yield "its driver has lost the lock, and waits to hold it again"
        if self.unreachable is not None:
            yield f"its source cannot be reached: {self.unreachable}"
        if self.state in (State.RUNNING, State.WAITING):
            yield from self._ailing_slots()
        if self.state is not None and self.state.at_work and self.upkeep is not None:
            passes = self.upkeep.passes
            yield from (f"{each.name}: {each.reason}" for each in passes if each.degraded_since is not None)
            if self.state is State.WAITING and any(each.name == TOPICS_PASS and each.took is None for each in passes):
                yield "topics are being looked for"

    def _ailing_slots(self) -> Iterator[str]:
        all_slots = counted(len(self.slots), "slot")
        silent = sum(slot.silent_since is not None for slot in self.slots)
        if silent:
            yield f"{silent} of {all_slots} silent"
        waiting = [slot.report for slot in self.slots if not slot.started]
        if waiting:
            partitions = sum(report.partitions for report in waiting)
            left = f"{counted(partitions, 'partition')} {'is' if partitions == 1 else 'are'} not copied"
            yield f"{len(waiting)} of {all_slots} {NOT_STARTED}: {left}"
        if self.troubles:
            yield f"partitions in trouble: {len(self.troubles)}"


def status_of(flows: Sequence[FlowSettings]) -> list[FlowStatus]:
    """All flows are asked about at the same time; raises nothing. What does not answer is not waited for longer than
    some seconds."""
    asked = [_Asked(flow) for flow in flows]
    give_up_at = time.monotonic() + _ANSWER_SECONDS
    return [each.answer(give_up_at) for each in asked]


class _Asked:
    """About one flow, in threads that nothing waits for at the end of the program."""

    def __init__(self, flow: FlowSettings) -> None:
        self._flow = flow
        self._began = time.monotonic()
        self._answered = threading.Event()
        self._found: FlowStatus | None = None
        self._source = _Source(flow)
        self._thread = threading.Thread(target=self._ask, name=f"status of {flow.flow}", daemon=True)
        self._thread.start()

    def answer(self, give_up_at: float) -> FlowStatus:
        self._thread.join(max(0.0, give_up_at - time.monotonic()))
        if self._answered.is_set():
            self._thread.join(max(0.0, self._began + _FAR_SECONDS - time.monotonic()))
        found = self._found
        if found is None:
            said = f"{self._flow.flow.target}: no answer within {_ANSWER_SECONDS:.0f} s: is it there?"
            return FlowStatus(str(self._flow.flow), None, unreadable=said)
        if found.state in (State.NEVER, State.STOPPED, State.LAPSED):
            self._source.wait(max(0.0, give_up_at - time.monotonic()))
            return replace(found, unreachable=self._source.failure)
        return found

    def _ask(self) -> None:
        try:
            sight = look(self._flow, listen_until=self._began + _LISTEN_SECONDS, answered=self._answered.set)
            if sight.state is State.NEVER and has_run(self._flow):
                self._found = FlowStatus(str(self._flow.flow), None, unreadable=self._without_board)
            else:
                self._found = summary(str(self._flow.flow), sight)
                self._found = self._with_backlogs(self._found)
        except KafkaError as error:
            self._found = self._found or FlowStatus(str(self._flow.flow), None, unreadable=str(error))

    @property
    def _without_board(self) -> str:
        source, target = self._flow.flow.source, self._flow.flow.target
        return (
            f"{target}: {board_topic(source)}, which tells how the flow stands, is empty or gone, although the flow "
            "has run: if a Farshore runs, it writes it again; else start one"
        )

    def _with_backlogs(self, found: FlowStatus) -> FlowStatus:
        """Ask for what slots do not tell."""
        unknown = {s.report.slot: s.partitions for s in found.slots if s.backlog.offsets is None and s.partitions}
        if not unknown:
            return found
        left = self._began + _ANSWER_SECONDS - _SPARE_SECONDS - time.monotonic()
        if left <= 0 or self._source.failure is not None:
            return found
        asked = backlogs_of(self._flow, unknown, left)
        slots = (replace(s, backlog=asked.get(s.report.slot, s.backlog)) for s in found.slots)
        return replace(found, slots=tuple(slots))


class _Source:
    """Whether the source of a flow answers, asked in a thread. `failure` says why not; None also while that is open, or
    where the flow does not need it."""

    def __init__(self, flow: FlowSettings) -> None:
        self.failure: str | None = None
        self._flow = flow
        checkpoint = flow.checkpoint
        self._thread: threading.Thread | None = None
        if flow.copies or (checkpoint is not None and not checkpoint.paused):
            self._thread = threading.Thread(target=self._ask, name=f"source of {flow.flow}", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _ask(self) -> None:
        alias = self._flow.flow.source
        try:
            on_cluster(self._flow.side(alias).admin.connection, alias, _is_there)
        except TimeoutError:
            self.failure = f"{alias}: no answer within {_SOURCE_SECONDS:.0f} s"
        except FarshoreError as error:
            self.failure = str(error)


async def _is_there(cluster: RawCluster) -> None:
    """Raises KafkaError, TimeoutError."""
    async with asyncio.timeout(_SOURCE_SECONDS):
        await cluster.metadata([])


def summary(flow: str, sight: Sight) -> FlowStatus:
    """Pure."""
    picture = sight.picture
    gone = sight.state in (State.STOPPED, State.HANDED_BACK, State.LAPSED)
    slots = tuple(_slots(sight.generation, picture, sight.state))
    upkeep = picture.upkeep if picture.upkeep and picture.upkeep.generation == sight.generation else None
    stuck = sight.state is State.RUNNING and not any(map(_copies, slots))
    blind = sight.state is State.IDLE and _is_looking(upkeep)
    held_up = sight.state in (State.RUNNING, State.IDLE) and _is_held_up(upkeep)
    return FlowStatus(
        flow,
        State.WAITING if stuck or blind or held_up else sight.state,
        sight.heard_at if gone else None,
        sight.generation,
        slots,
        upkeep,
        tuple(picture.gaps[partition] for partition in sorted(picture.gaps)),
        tuple(sorted(picture.notices.values(), key=lambda notice: notice.at)),
        unplanned=0 if gone else _unplanned(sight.generation, picture),
    )


def _unplanned(generation: int, picture: Picture) -> int:
    """How many partitions no slot has at the moment, because they move from one to another."""
    lease = picture.lease
    if lease is None or lease.generation != generation or lease.partitions is None:
        return 0
    planned = sum(len(plan.copied) for plan in picture.plans.values() if plan.generation == generation)
    return max(0, lease.partitions - planned)


def _is_looking(upkeep: board.Upkeep | None) -> bool:
    """Whether it is not known what there is to copy: topics were not found yet, or not all of them could be."""
    passes = upkeep.passes if upkeep is not None else ()
    return any(each.name == TOPICS_PASS and (each.took is None or each.degraded_since is not None) for each in passes)


def _is_held_up(upkeep: board.Upkeep | None) -> bool:
    """Whether the driver says that nothing is copied: slots that only wait for an answer tell of no trouble."""
    return upkeep is not None and any(each.name == COPYING_PASS and each.degraded_since for each in upkeep.passes)


def _slots(generation: int, picture: Picture, state: State) -> list[SlotStatus]:
    """Those that have anything to copy: what others told last is no more."""
    found = []
    for number in sorted(picture.reports.keys() | picture.plans.keys()):
        plan, report = picture.plans.get(number), picture.reports.get(number)
        plan = plan if plan is not None and plan.generation == generation else None
        started = report is not None and report.generation == generation
        if report is None or report.generation != generation:
            if plan is None or not plan.copied:
                continue
            report = board.Report(number, generation, NOT_STARTED, partitions=len(plan.copied))
        if plan is not None and (plan.end or not plan.copied):
            continue
        if plan is None and report.state == RELEASED and state is State.RUNNING:
            continue  # it has ended, and the board has lost the plan that said so
        # By the driver's clock, if the slot has heard a lease: that of the slot may be seconds behind.
        at = report.lease_at or picture.reported_at.get(number, 0.0)
        silent = state is State.RUNNING and at < picture.lease_at - LAPSED_AFTER_SECONDS
        partitions = tuple(copied.partition for copied in plan.copied) if plan is not None else ()
        told = _as_told(report, plan, picture.lease_at) if state is State.RUNNING else UNKNOWN
        found.append(SlotStatus(report, at if silent and started else None, started, told, partitions))
    return found


def _as_told(report: board.Report, plan: board.Plan | None, lease_at: float) -> Backlog:
    """What a slot says of itself, if that is new by the clock of its driver, and about all that it is to copy."""
    age = None if report.lag_age is None else report.lag_age + max(0.0, lease_at - report.lease_at)
    if age is None or age > TRUE_FOR_SECONDS or plan is None or report.plan != plan.version:
        return UNKNOWN
    return Backlog(report.lag, report.lag_seconds if report.age_is_known else None, age, report.ends)


def _copies(slot: SlotStatus) -> bool:
    """Whether it is there, and anything of it can be copied."""
    troubles = len(slot.report.troubles)
    is_stuck = troubles > 0 and troubles >= min(slot.report.partitions, TROUBLES_TOLD)
    return slot.started and slot.silent_since is None and not is_stuck


def counts(upkeep: board.Upkeep) -> Iterator[str]:
    """What is known of heartbeats and groups, in words."""
    if upkeep.heartbeat_age is not None:
        yield f"last heartbeat {upkeep.heartbeat_age:,.1f} s old"
    if upkeep.groups:
        yield f"{counted(upkeep.groups, 'group')} followed"
    for reason, count in upkeep.skipped:
        yield f"{counted(count, 'group offset')} not written: {reason}"


def data(flows: Sequence[FlowStatus]) -> dict[str, Any]:
    """Ready for JSON. Names stay as they are; more may come beside them."""
    return {"flows": [_flow_data(each) for each in flows]}


def _flow_data(status: FlowStatus) -> dict[str, Any]:
    return {
        "flow": status.flow,
        "state": None if status.state is None else status.state.value,
        "since": moment(status.since),
        "generation": status.generation,
        "unreadable": status.unreadable,
        "unreachable": status.unreachable,
        "problem": status.problem,
        "lag": status.backlog.offsets,
        "lag_seconds": status.backlog.seconds,
        "slots": [_slot_data(each) for each in status.slots],
        "troubles": [
            {"partition": each.partition, "kind": each.kind, "reason": each.reason, "since": moment(each.since)}
            for each in status.troubles
        ],
        "upkeep": None if status.upkeep is None else _upkeep_data(status.upkeep),
        "gaps": [
            {
                "partition": str(each.partition),
                "times": each.times,
                "offsets": each.offsets,
                "newest": [
                    {"begin": gap.begin, "end": gap.end, "reason": gap.reason, "at": moment(gap.at)}
                    for gap in each.newest
                ],
            }
            for each in status.gaps
        ],
        "notices": [
            {"kind": each.kind, "subject": each.subject, "times": each.times, "text": each.text, "at": moment(each.at)}
            for each in status.notices
        ],
    }


def _slot_data(slot: SlotStatus) -> dict[str, Any]:
    report = slot.report
    as_is, merged, anew = report.batches
    return {
        "slot": report.slot,
        "state": report.state,
        "silent_since": moment(slot.silent_since),
        "partitions": report.partitions,
        "records": report.records,
        "bytes": report.bytes,
        "lag": slot.backlog.offsets,
        "lag_seconds": slot.backlog.seconds,
        "held_bytes": report.held_bytes,
        "batches": {"as_is": as_is, "merged": merged, "anew": anew},
    }


def _upkeep_data(upkeep: board.Upkeep) -> dict[str, Any]:
    return {
        "heartbeat_age_seconds": upkeep.heartbeat_age,
        "groups": upkeep.groups,
        "group_offsets_skipped": dict(upkeep.skipped),
        "passes": [
            {
                "name": each.name,
                "every_seconds": each.every,
                "fine": each.degraded_since is None,
                "degraded_since": moment(each.degraded_since),
                "reason": each.reason,
                "last_run": moment(each.last_run),
                "took_seconds": each.took,
            }
            for each in upkeep.passes
        ],
    }


def moment(at: float | None) -> str | None:
    """ISO 8601 in UTC, to the second."""
    return None if not at else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
