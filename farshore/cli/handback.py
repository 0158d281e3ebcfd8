"""`farshore handback`: give flows back to MirrorMaker 2."""

from __future__ import annotations

import sys
from functools import partial

import typer
from rich.console import Console
from rich.text import Text

from farshore.cli.arguments import ConfigFiles, JaasFile, SecretsDir, SomeFlows, output, plain_table
from farshore.config import FlowSettings, load
from farshore.errors import CommandRefused, FarshoreError
from farshore.ops.as_mm2_reads import Checked
from farshore.ops.flows import flows_meant, named
from farshore.ops.handing_back import HandedBack, hand_back
from farshore.threads import side_by_side
from farshore.words import counted

_ROWS = 40


def handback(config: ConfigFiles, flow: SomeFlows = None, secrets: SecretsDir = None, jaas: JaasFile = None) -> None:
    """End a running Farshore, and check that MirrorMaker 2 can go on where it stopped."""
    settings = flows_meant(load(config, secrets_dir=secrets, jaas=jaas), flow)
    try:
        results = side_by_side([partial(_attempt, each) for each in settings], "handback")
    except KeyboardInterrupt:  # a Farshore that does not end is not waited for; nothing was written but the request
        raise typer.Exit(130) from None
    if not any(results):
        raise CommandRefused(f"Farshore has never run {named([each.flow for each in settings])}: nothing to hand back")
    done = [each for each in results if isinstance(each, HandedBack)]
    console = output()
    for each in done:
        _show(console, each)
    if done:
        wrong = any(each.problems for each in done)
        console.print(f"\n{'Once that is in order, ' if wrong else ''}MirrorMaker 2 goes on with:")
        for line in dict.fromkeys(line for each in done for line in each.then):
            print(f"  {line}")
    failures = [each for each in results if isinstance(each, FarshoreError)]
    for failure in failures:
        print(f"farshore: {failure}", file=sys.stderr)
    if failures or any(each.problems for each in done):
        raise typer.Exit(1)


def _attempt(settings: FlowSettings) -> HandedBack | FarshoreError | None:
    """One flow that cannot be handed back keeps no other from it."""
    try:
        return hand_back(settings, lambda sentence: print(sentence, flush=True))
    except FarshoreError as error:
        return error


def _show(console: Console, result: HandedBack) -> None:
    """All partitions if they are few, else those that there is something to say of."""
    if not result.checked:
        return
    rows = result.checked if len(result.checked) <= _ROWS else [c for c in result.checked if c.note or c.problem]
    table = plain_table("partition", "goes on at", "log", "left", "")
    for row in rows:
        source = row.logs.source
        left = "" if row.stands is None else f"{max(0, source.end - row.stands):,}"
        stands = "–" if row.stands is None else f"{row.stands:,}"
        table.add_row(str(row.partition), stands, f"{source.start:,}–{source.end:,}", left, _remark(row))
    console.print()
    if rows:
        console.print(table)
    problems = len(result.problems)
    told = f"{problems} problem{'s' if problems > 1 else ''}" if problems else "no problem"
    checked = counted(len(result.checked), "partition")
    console.print(f"{result.flow}: {checked}, {told}", style="bold red" if problems else "bold")


def _remark(row: Checked) -> Text:
    return Text(row.problem, style="red") if row.problem else Text(row.note, style="dim")
