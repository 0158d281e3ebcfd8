"""`farshore status`: how flows stand, as their boards tell. Asks no Farshore, so it needs none to be well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from farshore.config import FlowSettings
from farshore.dataplane import board
from farshore.dataplane.picture import Picture
from farshore.errors import KafkaError
from farshore.ops.sight import LAPSED_AFTER_SECONDS, Sight, State, look

_FLOWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """`silent_since`: it has said nothing since then, while its driver goes on: it died, and is started again."""

    report: board.Report
    silent_since: float | None = None


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


def status_of(flows: Sequence[FlowSettings]) -> list[FlowStatus]:
    """All flows are asked about at the same time; raises nothing."""
    with ThreadPoolExecutor(min(len(flows), _FLOWS_AT_ONCE) or 1, thread_name_prefix="status") as pool:
        return list(pool.map(_status, flows))


def _status(flow: FlowSettings) -> FlowStatus:
    try:
        return summary(str(flow.flow), look(flow))
    except KafkaError as error:
        return FlowStatus(str(flow.flow), None, unreadable=str(error))


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
    return found


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
        "lag": report.lag,
        "lag_seconds": report.lag_seconds,
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
