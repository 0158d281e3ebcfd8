"""`farshore status`: how flows stand, as their boards tell. Asks no Farshore, so it needs none to be well."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from farshore.config import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.backlog import TRUE_FOR_SECONDS, UNKNOWN, Backlog
from farshore.dataplane.flushing import TROUBLES_TOLD
from farshore.dataplane.picture import Picture
from farshore.errors import KafkaError
from farshore.model import TopicPartition
from farshore.naming import board_topic
from farshore.ops.backlog import backlogs_of, has_run
from farshore.ops.sight import LAPSED_AFTER_SECONDS, Sight, State, look

NOT_STARTED = "planned, not started"
"""The state of a slot that is planned, and has not been heard of: Spark has no core for it, or is about to start it."""

_ANSWER_SECONDS = 5.0
_LISTEN_SECONDS = 30.0
_SPARE_SECONDS, _LEAST_SECONDS = 0.5, 2.0
"""To ask for the lag there is what is left of the time for an answer, or at least the second."""


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
    """`since` is when it was last heard of, unless somebody has it. `unreadable` says why nothing is known of it.

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

    @property
    def troubles(self) -> list[board.TroubleReport]:
        """What ails partitions, the oldest first; nothing does any more once nobody copies them."""
        if self.state not in (State.RUNNING, State.WAITING):
            return []
        found = (trouble for slot in self.slots for trouble in slot.report.troubles)
        return sorted(found, key=lambda trouble: trouble.since)

    @property
    def backlog(self) -> Backlog:
        """Of all slots together; not known if it is not of one of them."""
        offsets, seconds = [s.backlog.offsets for s in self.slots], [s.backlog.seconds for s in self.slots]
        behind, ages = [n for n in offsets if n is not None], [n for n in seconds if n is not None]
        return Backlog(
            sum(behind) if self.slots and len(behind) == len(offsets) else None,
            max(ages) if self.slots and len(ages) == len(seconds) else None,
        )

    @property
    def problem(self) -> str | None:
        """Why it is not as it should be; None also for a flow that was stopped or handed back, or never run."""
        if self.unreadable is not None:
            return self.unreadable
        if self.state is State.LAPSED:
            return f"nothing has been heard of it since {moment(self.since)}"
        if self.state not in (State.RUNNING, State.WAITING):
            return None
        silent = sum(slot.silent_since is not None for slot in self.slots)
        if silent:
            return f"{silent} of {len(self.slots)} slot{'' if len(self.slots) == 1 else 's'} silent"
        waiting = [slot.report for slot in self.slots if not slot.started]
        if waiting:
            partitions = sum(report.partitions for report in waiting)
            slots = f"{len(waiting)} of {len(self.slots)} slots {NOT_STARTED}"
            return f"{slots}: {partitions} partition{' is' if partitions == 1 else 's are'} not copied"
        return f"partitions in trouble: {len(self.troubles)}" if self.troubles else None


def status_of(flows: Sequence[FlowSettings]) -> list[FlowStatus]:
    """All flows are asked about at the same time; raises nothing. A cluster that does not answer is not waited for
    longer than some seconds; to hear whether a driver has lapsed takes as long as it may be silent."""
    asked = [_Asked(flow) for flow in flows]
    give_up_at = time.monotonic() + _ANSWER_SECONDS
    return [each.answer(give_up_at) for each in asked]


class _Asked:
    """About one flow, in a thread that nothing waits for at the end of the program."""

    def __init__(self, flow: FlowSettings) -> None:
        self._flow = flow
        self._began = time.monotonic()
        self._found: FlowStatus | None = None
        self._was_read = threading.Event()
        self._thread = threading.Thread(target=self._ask, name=f"status of {flow.flow}", daemon=True)
        self._thread.start()

    def answer(self, give_up_at: float) -> FlowStatus:
        if self._was_read.wait(max(0.0, give_up_at - time.monotonic())):
            self._thread.join(_LISTEN_SECONDS)
        if self._found is not None:
            return self._found
        target = self._flow.flow.target
        return FlowStatus(
            str(self._flow.flow), None, unreadable=f"{target}: no answer within {_ANSWER_SECONDS:.0f} s: is it there?"
        )

    def _ask(self) -> None:
        try:
            sight = look(self._flow, on_read=self._was_read.set)
            if sight.state is State.NEVER and has_run(self._flow):
                self._found = FlowStatus(str(self._flow.flow), None, unreadable=self._without_board)
            else:
                self._found = self._with_backlogs(summary(str(self._flow.flow), sight))
        except KafkaError as error:
            self._found = FlowStatus(str(self._flow.flow), None, unreadable=str(error))
        finally:
            self._was_read.set()

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
        asked = backlogs_of(self._flow, unknown, max(_LEAST_SECONDS, left))
        slots = (replace(s, backlog=asked.get(s.report.slot, s.backlog)) for s in found.slots)
        return replace(found, slots=tuple(slots))


def summary(flow: str, sight: Sight) -> FlowStatus:
    """Pure."""
    picture = sight.picture
    gone = sight.state in (State.STOPPED, State.HANDED_BACK, State.LAPSED)
    slots = tuple(_slots(sight.generation, picture, sight.state))
    state = State.WAITING if sight.state is State.RUNNING and not any(map(_copies, slots)) else sight.state
    return FlowStatus(
        flow,
        state,
        sight.heard_at if gone else None,
        sight.generation,
        slots,
        picture.upkeep if picture.upkeep and picture.upkeep.generation == sight.generation else None,
        tuple(picture.gaps[partition] for partition in sorted(picture.gaps)),
        tuple(sorted(picture.notices.values(), key=lambda notice: notice.at)),
    )


def _slots(generation: int, picture: Picture, state: State) -> list[SlotStatus]:
    """Those that the plan still has."""
    found = []
    for number in sorted(picture.reports.keys() | picture.plans.keys()):
        plan, report = picture.plans.get(number), picture.reports.get(number)
        plan = plan if plan is not None and plan.generation == generation else None
        started = report is not None and report.generation == generation
        if report is None or report.generation != generation:
            if plan is None or not plan.copied:
                continue
            report = board.Report(number, generation, NOT_STARTED, partitions=len(plan.copied))
        if plan is not None and plan.end:
            continue
        at = picture.reported_at.get(number, 0.0)
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
        yield f"{upkeep.groups:,} {'group' if upkeep.groups == 1 else 'groups'} followed"
    for reason, count in upkeep.skipped:
        yield f"{count:,} group offset{'' if count == 1 else 's'} not written: {reason}"


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
