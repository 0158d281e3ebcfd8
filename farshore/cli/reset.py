"""`farshore reset`: set where the copying of a stopped flow starts."""

from __future__ import annotations

from typing import Annotated

import typer

from farshore.cli.arguments import ConfigFiles, JaasFile, OneFlow, SecretsDir, output, plain_table
from farshore.config import load
from farshore.ops.flows import flow_meant
from farshore.ops.moves import Move
from farshore.ops.resetting import parse_destination, preview_reset, resetting
from farshore.words import counted


def reset(
    config: ConfigFiles,
    topics: Annotated[str, typer.Option(help="Topics on the source, as in `topics` of a file.", metavar="PATTERN")],
    to: Annotated[
        str, typer.Option(help="earliest, latest, offset:N, or timestamp:ISO8601-or-milliseconds.", metavar="WHERE")
    ],
    flow: OneFlow = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    secrets: SecretsDir = None,
    jaas: JaasFile = None,
) -> None:
    """Set where the copying of a stopped flow starts, for Farshore and for MirrorMaker 2."""
    destination = parse_destination(to)
    settings = flow_meant(load(config, secrets_dir=secrets, jaas=jaas), flow)
    if dry_run:
        preview = preview_reset(settings, topics, destination)
        _show(preview.moves)
        print("Nothing was changed." + (f" {settings.flow} is running: stop it first." if preview.running else ""))
        return
    with resetting(settings, topics, destination) as planned:
        _show(planned.moves)
        if not planned.changes:
            print("Nothing to change.")
            return
        if not yes:
            typer.confirm("Write these positions?", abort=True)
        planned.write()
    count = len(planned.changes)
    print(f"{count} position{'s' if count > 1 else ''} written: copying starts there, whoever is started next.")


def _show(moves: tuple[Move, ...]) -> None:
    table = plain_table("partition", "before", "after", "")
    for move in moves:
        if not move.changes_nothing:
            table.add_row(str(move.partition), _before(move), f"{move.to:,}", _meaning(move))
    if table.row_count:
        output().print(table)
    same = len(moves) - table.row_count
    if same:
        print(f"{same} partition{'s' if same > 1 else ''} already there.")


def _before(move: Move) -> str:
    return f"{move.stands:,}" if move.positioned else f"({move.stands:,})"


def _meaning(move: Move) -> str:
    if move.left_out:
        return f"{counted(move.left_out, 'offset')} {'is' if move.left_out == 1 else 'are'} not copied"
    if move.again:
        are = "is" if move.again == 1 else "are"
        again = f"{counted(move.again, 'offset')} {are} copied again"
        return again if move.positioned else f"{move.again:,} more {are} copied"
    return "had no position"
