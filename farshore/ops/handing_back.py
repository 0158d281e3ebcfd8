"""`farshore handback`: end a running Farshore, make sure that nobody has the flow, and that MirrorMaker 2 can go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farshore.config import FlowSettings
from farshore.config.entries import Deployment
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import read_position_records, read_uncommitted_position_records
from farshore.dataplane.picture import Picture
from farshore.ops.as_mm2_reads import Checked, check, left_by_aborted, positions_found
from farshore.ops.flows import look_at_logs, on_target, partitions_of, reset_policy
from farshore.ops.holding import Held, holding, write_board
from farshore.ops.sight import GLANCE_SECONDS, State, look, watching

_ENDED_WITHIN_SECONDS = 120.0
"""More than a Farshore takes whose target does not answer."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Nobody copies the flow any more. `then` is what starts MirrorMaker 2, line by line."""

    flow: str
    checked: tuple[Checked, ...]
    then: tuple[str, ...]

    @property
    def problems(self) -> tuple[Checked, ...]:
        return tuple(each for each in self.checked if each.problem)


def hand_back(flow: FlowSettings, say: Callable[[str], None]) -> HandedBack | None:
    """Whoever runs the flow is asked to end, also one that takes it up meanwhile; None if Farshore never had it.

    Raises CommandRefused if that takes too long, KafkaError.
    """
    sight = look(flow, GLANCE_SECONDS)
    if sight.state is State.NEVER:
        return None
    asked = 0
    with watching(flow) as picture:
        if sight.state.at_work:
            picture.begin_with(sight.picture)

        def ask_to_end() -> None:
            nonlocal asked
            holder = _holder(picture)
            if holder > asked:
                write_board(flow, [board.End(holder)])
                asked = holder
                say(f"{flow.flow}: generation {asked} has been asked to end")

        with holding(flow, within=_ENDED_WITHIN_SECONDS, meanwhile=ask_to_end) as held:
            say(f"{flow.flow}: nobody has it any more")
            return HandedBack(str(flow.flow), _checked(held), tuple(how_to_start(flow)))


def _holder(picture: Picture) -> int:
    """The generation that has the flow, and has not been asked to end; 0 if none is heard of."""
    lease, upkeep = picture.lease, picture.upkeep
    return max(
        lease.generation if lease is not None and not lease.stop else 0,
        upkeep.generation if upkeep is not None and not upkeep.over else 0,
    )


def _checked(held: Held) -> tuple[Checked, ...]:
    flow = held.flow
    if flow.source is None:
        return ()
    partitions = partitions_of(flow)
    logs = look_at_logs(flow, partitions)
    books = held.books
    records = on_target(flow, lambda target: read_position_records(books, flow.flow, target))
    uncommitted = on_target(flow, lambda target: read_uncommitted_position_records(books, target))
    found = positions_found(records, books, books.cluster_of(flow.flow))
    as_read = positions_found(uncommitted, books, books.cluster_of(flow.flow))
    problems = left_by_aborted(found, as_read, books.positions_topic) | found.problems
    rows = []
    for partition, remote in sorted(partitions.items()):
        row = check(partition, remote, found.positions.get(partition), logs[partition], reset_policy(flow))
        misread = problems.get(partition)
        rows.append(Checked(partition, row.stands, row.logs, problem=misread) if misread else row)
    return tuple(rows)


def how_to_start(flow: FlowSettings) -> list[str]:
    """MirrorMaker 2, with the files that were given."""
    files = " ".join(flow.files)
    match flow.deployment:
        case Deployment.DEDICATED:
            return [f"connect-mirror-maker.sh {files}"]
        case Deployment.STRIMZI:
            return ["# with spec.replicas as it was before Farshore took over, and no connector paused or stopped", *[
                f"kubectl apply -f {file}" for file in flow.files
            ]]  # fmt: skip
        case Deployment.CONNECT:
            worker = next((item.origin.file for item in flow.worker.effective if item.origin.file in flow.files), None)
            return [
                f"connect-distributed.sh {worker or 'WORKER.properties'}",
                "# for connectors that were paused or stopped; those that were deleted are to be created again",
                *(f"curl -X PUT http://localhost:8083/connectors/{each.name}/resume" for each in flow.connectors),
            ]
