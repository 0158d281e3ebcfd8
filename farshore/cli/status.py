"""`farshore status`: how flows stand, without asking whoever runs them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from farshore.cli.arguments import ConfigFiles, JaasFile, SecretsDir, SomeFlows, output, plain_table
from farshore.config import load
from farshore.dataplane.board import Gaps, Upkeep
from farshore.ops.flows import flows_meant
from farshore.ops.sight import State
from farshore.ops.status import FlowStatus, SlotStatus, counts, data, moment, status_of

_STYLES = {
    State.RUNNING: "bold green", State.IDLE: "bold green", State.WAITING: "bold red", State.PAUSED: "bold red",
    State.LAPSED: "bold red", None: "bold red",
}  # fmt: skip
_TROUBLES_SHOWN = 50


def status(
    config: ConfigFiles,
    flow: SomeFlows = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    secrets: SecretsDir = None,
    jaas: JaasFile = None,
) -> None:
    """Show how flows stand: who copies, how far behind, what is in trouble, what was never copied.

    The exit code is 1 if any flow is lapsed, waiting, paused, in trouble or cannot be reached.
    """
    flows = status_of(flows_meant(load(config, secrets_dir=secrets, jaas=jaas), flow))
    if as_json:
        print(json.dumps(data(flows), indent=2, ensure_ascii=False))
    else:
        console = output()
        for number, each in enumerate(flows):
            if number:
                console.print()
            _show(console, each)
    if any(each.problem is not None for each in flows):
        raise typer.Exit(1)


def _show(console: Console, flow: FlowStatus) -> None:
    state = flow.state.value if flow.state else "not known"
    since = f" since {moment(flow.since)}" if flow.since else ""
    generation = f", generation {flow.generation}" if flow.generation else ""
    console.print(
        Text.assemble((flow.flow, "bold cyan"), "  ", (state, _STYLES.get(flow.state, "bold")), since, generation)
    )
    if flow.problem:
        console.print(Text(f"problem: {flow.problem}", style="red"), soft_wrap=True)
    _show_slots(console, flow)
    _show_troubles(console, flow)
    if flow.upkeep is not None and flow.state is not None and flow.state.at_work:
        _show_upkeep(console, flow.upkeep)
    _show_gaps(console, flow)
    _show_notices(console, flow)


def _show_slots(console: Console, flow: FlowStatus) -> None:
    if not flow.slots:
        return
    table = plain_table("slot", "partitions", "records", "MB", "lag", "behind", "as is", "merged", "anew", "state")
    for slot in flow.slots:
        report = slot.report
        table.add_row(
            str(report.slot),
            f"{report.partitions:,}",
            f"{report.records:,}",
            f"{report.bytes / 1e6:,.1f}",
            "?" if slot.backlog.offsets is None else f"{slot.backlog.offsets:,}",
            "?" if slot.backlog.seconds is None else f"{slot.backlog.seconds:,.1f} s",
            *(f"{count:,}" for count in report.batches),
            _state_of(slot, flow),
        )
    console.print(table)


def _state_of(slot: SlotStatus, flow: FlowStatus) -> str:
    if slot.silent_since is not None:
        return f"silent since {moment(slot.silent_since)}"
    state = slot.report.state
    return f"was {state}" if flow.state is State.LAPSED and slot.started else state


def _show_troubles(console: Console, flow: FlowStatus) -> None:
    if not flow.troubles:
        return
    table = plain_table("in trouble", "kind", "since", "reason", left=3)
    for each in flow.troubles[:_TROUBLES_SHOWN]:
        table.add_row(each.partition, each.kind, moment(each.since), Text(each.reason))
    console.print(table)
    more = len(flow.troubles) - _TROUBLES_SHOWN
    if more > 0:
        console.print(f"and {more} more: see --json")


def _show_upkeep(console: Console, upkeep: Upkeep) -> None:
    table = plain_table("upkeep", "every", "last run", "", left=3)
    for each in upkeep.passes:
        fine = Text("fine", style="dim")
        degraded = Text(f"degraded since {moment(each.degraded_since)}: {each.reason}", style="red")
        last = moment(each.last_run) or "not yet"
        table.add_row(each.name, f"{each.every:g} s", last, fine if each.degraded_since is None else degraded)
    if upkeep.passes:
        console.print(table)
    if counted := "; ".join(counts(upkeep)):
        console.print(counted, soft_wrap=True)


def _show_gaps(console: Console, flow: FlowStatus) -> None:
    """What is missing, and apart from it where a log was another one than before: there nothing can be counted, and
    mostly nothing is missing, since all of it is copied again."""
    for title, rows in (("never copied", missing(flow.gaps)), ("another log", replaced(flow.gaps))):
        if not rows:
            continue
        table = plain_table(title, *(("times", "offsets") if title == "never copied" else ("times",)), "newest")
        for cells in rows:
            table.add_row(*cells[:-1], Text(cells[-1]))
        console.print(table)


def missing(gaps: Iterable[Gaps]) -> list[tuple[str, ...]]:
    """A row for each partition of which offsets were left out."""
    rows: list[tuple[str, ...]] = []
    for each in gaps:
        if each.offsets:
            newest = next((gap for gap in reversed(each.newest) if gap.end > gap.begin), None)
            told = f"{newest.begin}–{newest.end - 1} at {moment(newest.at)}: {newest.reason}" if newest else ""
            rows.append((str(each.partition), f"{each.times:,}", f"{each.offsets:,}", told))
    return rows


def replaced(gaps: Iterable[Gaps]) -> list[tuple[str, ...]]:
    """A row for each partition of which nothing was left out that could be counted."""
    rows: list[tuple[str, ...]] = []
    for each in gaps:
        if not each.offsets:
            newest = each.newest[-1] if each.newest else None
            told = f"after offset {newest.begin - 1} at {moment(newest.at)}: {newest.reason}" if newest else ""
            rows.append((str(each.partition), f"{each.times:,}", told))
    return rows


def _show_notices(console: Console, flow: FlowStatus) -> None:
    if not flow.notices:
        return
    table = plain_table("vanished and restored", "times", "last", "")
    for each in flow.notices:
        table.add_row(each.kind, f"{each.times:,}", moment(each.at), Text(each.text))
    console.print(table)
