"""`farshore local`: real Kafka clusters on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from farshore.cli.arguments import output
from farshore.cli.progress import Progress
from farshore.local import prepare, registry
from farshore.local.jars import TOOLS, resolve
from farshore.local.registry import Record
from farshore.local.running import keep_running, parse_wanted, start_in_background, take_down

app = typer.Typer(help="Real Kafka clusters on this machine, for trying things out.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.command()
def up(
    clusters: Annotated[
        list[str],
        typer.Argument(help="NAME, NAME:BROKERS or NAME@PORT:BROKERS, as in: A B:3 C@19092:3", metavar="CLUSTER..."),
    ],
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return, and leave them in the background.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring clusters up, print where they listen, and wait for Ctrl-C, which takes them down."""
    wanted = parse_wanted(clusters)
    errors = Console(stderr=True)
    with Progress(errors) as progress:

        def announce(records: list[Record]) -> None:
            progress.stop()
            _show(records, as_json)
            if not (detach or as_json):
                errors.print("Ctrl-C ends them and removes their data.", style="dim")

        prepare(progress.say)
        progress.say(f"starting {', '.join(each.name for each in wanted)}")
        if detach:
            announce(start_in_background(wanted))
        else:
            keep_running(wanted, announce, warn=lambda sentence: errors.print(sentence, style="yellow"))


@app.command()
def fetch(
    tools: Annotated[bool, typer.Option("--tools", help="Also Kafka's own tools and MirrorMaker 2.")] = False,
) -> None:
    """Download Kafka ahead of time, so that later starts need no network."""
    with Progress(Console(stderr=True)) as progress:
        prepare(progress.say)
        if tools:
            resolve(TOOLS, progress.say)


@app.command()
def down(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all of them if none is named.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep their data: `up` goes on with it.")] = False,
) -> None:
    """Take clusters down and remove their data, also that of clusters that were kept."""
    ended = take_down(names or [], keep=keep)
    output().print(f"{'Kept' if keep else 'Ended'}: {', '.join(ended)}" if ended else "No cluster is running.")


@app.command("list")
def list_clusters(as_json: AsJson = False) -> None:
    """Show the clusters that run now."""
    _show(registry.running(), as_json)


def _show(records: list[Record], as_json: bool) -> None:
    alive = {record.name: record.brokers_alive() for record in records}
    if as_json:
        fields = [
            {
                "name": record.name,
                "bootstrap_servers": record.bootstrap_servers,
                "brokers": record.brokers,
                "brokers_alive": alive[record.name],
                "pid": record.owner,
                "directory": record.directory,
            }
            for record in records
        ]
        # Not through rich: it would fold long lines.
        print(json.dumps(fields), flush=True)
        return
    if not records:
        output().print("No cluster is running.")
        return
    table = Table("cluster", "alive", Column("bootstrap servers", overflow="fold"), "process")
    for record in records:
        count = f"{alive[record.name]} of {record.brokers}"
        table.add_row(record.name, count, record.bootstrap_servers, str(record.owner))
    output().print(table)
