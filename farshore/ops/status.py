"""`farshore status`: how flows stand, as their boards tell. Asks no Farshore, so it needs none to be well."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from farshore.config import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.picture import Picture
from farshore.errors import KafkaError
from farshore.ops.sight import LAPSED_AFTER_SECONDS, Sight, State, look

_ANSWER_SECONDS = 5.0
_LISTEN_SECONDS = 30.0


NOT_STARTED = "planned, not started"


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """`silent_since`: it has said nothing since then, while its driver goes on: it died, and is started again. One that
    has not `started` has never said anything: its report is made up of what is planned for it."""

    report: board.Report
    silent_since: float | None = None
    started: bool = True


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
    unreadable: str | None = None

    @property
    def troubles(self) -> list[board.TroubleReport]:
        """What ails partitions, the oldest first; nothing does any more once nobody copies them."""
        if self.state is not State.RUNNING:
            return []
        found = (trouble for slot in self.slots for trouble in slot.report.troubles)
        return sorted(found, key=lambda trouble: trouble.since)

    @property
    def problem(self) -> str | None:
        """Why it is not as it should be; None also for a flow that was stopped, or never run."""
        if self.unreadable is not None:
            return self.unreadable
        if self.state is State.LAPSED:
            return f"nothing has been heard of it since {moment(self.since)}"
        silent = sum(slot.silent_since is not None for slot in self.slots)
        if silent:
            return f"{silent} of {len(self.slots)} slots silent"
        waiting = [slot.report for slot in self.slots if not slot.started]
        if waiting and self.state is State.RUNNING:
            partitions = sum(report.partitions for report in waiting)
            return f"{len(waiting)} of {len(self.slots)} slots {NOT_STARTED}: {partitions} partitions are not copied"
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
            self._found = summary(str(self._flow.flow), look(self._flow, on_read=self._was_read.set))
        except KafkaError as error:
            self._found = FlowStatus(str(self._flow.flow), None, unreadable=str(error))
        finally:
            self._was_read.set()


def summary(flow: str, sight: Sight) -> FlowStatus:
    """Pure."""
    picture = sight.picture
    gone = sight.state in (State.STOPPED, State.LAPSED)
    return FlowStatus(
        flow,
        sight.state,
        sight.heard_at if gone else None,
        sight.generation,
        tuple(_slots(sight.generation, picture, sight.state)),
        picture.upkeep if picture.upkeep and picture.upkeep.generation == sight.generation else None,
        tuple(picture.gaps[partition] for partition in sorted(picture.gaps)),
    )


def _slots(generation: int, picture: Picture, state: State) -> list[SlotStatus]:
    """Those that the plan still has."""
    found = []
    for number, report in sorted(picture.reports.items()):
        plan = picture.plans.get(number)
        if report.generation != generation or (plan is not None and plan.generation == generation and plan.end):
            continue
        at = picture.reported_at.get(number, 0.0)
        silent = state is State.RUNNING and at < picture.lease_at - LAPSED_AFTER_SECONDS
        found.append(SlotStatus(report, at if silent else None))
    heard = {slot.report.slot for slot in found}
    for number, plan in picture.plans.items():
        if plan.generation == generation and plan.copied and number not in heard:
            planned = board.Report(number, generation, NOT_STARTED, partitions=len(plan.copied))
            found.append(SlotStatus(planned, started=False))
    return sorted(found, key=lambda slot: slot.report.slot)


def counts(upkeep: board.Upkeep) -> Iterator[str]:
    """What is known of heartbeats and groups, in words."""
    if upkeep.heartbeat_age is not None:
        yield f"last heartbeat {upkeep.heartbeat_age:,.1f} s old"
    if upkeep.groups:
        yield f"{upkeep.groups:,} {'group' if upkeep.groups == 1 else 'groups'} followed"
    for reason, count in upkeep.skipped:
        yield f"{count:,} group offsets not written: {reason}"


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
        "lag": report.lag if slot.started else None,
        "lag_seconds": report.lag_seconds if slot.started else None,
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
