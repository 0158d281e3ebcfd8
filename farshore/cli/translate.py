"""`farshore translate`: where a consumer group would go on on the other cluster."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from farshore.cli.arguments import ConfigFiles, JaasFile, SecretsDir, output, plain_table
from farshore.config import load
from farshore.ops.translation import GroupTranslation, PartitionTranslation, flow_between, translate_group


def translate(
    config: ConfigFiles,
    source: Annotated[str, typer.Option("--from", help="The cluster that the group reads from.", metavar="ALIAS")],
    target: Annotated[str, typer.Option("--to", help="The cluster that it would go on on.", metavar="ALIAS")],
    group: Annotated[str, typer.Option("--group", help="The consumer group.", metavar="GROUP")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    secrets: SecretsDir = None,
    jaas: JaasFile = None,
) -> None:
    """Show where a consumer group would go on on the other cluster, and how exactly that is known. Changes nothing."""
    found = translate_group(flow_between(load(config, secrets_dir=secrets, jaas=jaas), source, target), group)
    if as_json:
        print(json.dumps(_data(found), indent=2, ensure_ascii=False))
    else:
        _show(output(), found)
    if any(each.downstream_offset is None for each in found.partitions):
        raise typer.Exit(1)


def _show(console: Console, found: GroupTranslation) -> None:
    where = "its offsets there, read just now" if found.from_source else "its last checkpoints"
    console.print(Text.assemble((str(found.flow), "bold cyan"), f"  group {found.group}, by {where}"))
    table = plain_table("partition", "there", "lag", "goes on at", "exact", "checkpoint", "based on")
    for each in found.partitions:
        seen = each.checkpoint
        table.add_row(
            f"{each.source} → {each.remote}",
            f"{each.upstream_offset:,}",
            "?" if each.lag is None else f"{each.lag:,}",
            "?" if each.downstream_offset is None else f"{each.downstream_offset:,}",
            "yes" if each.exact else "no",
            f"{seen.downstream_offset:,} of {_moment(seen.written)}" if seen else "none",
            Text(_basis(each)),
        )
    console.print(table)
    for problem in found.problems:
        console.print(Text(f"{problem.subject}: {problem.reason}", style="yellow"), soft_wrap=True)


def _basis(each: PartitionTranslation) -> str:
    if each.downstream_offset is not None or each.log_start is None:
        return each.basis
    return f"{each.basis}; nothing is lost from {each.log_start:,} on, where the log begins"


def _moment(at: datetime) -> str:
    return at.astimezone().isoformat(sep=" ", timespec="seconds")


def _data(found: GroupTranslation) -> dict[str, Any]:
    return {
        "flow": str(found.flow),
        "group": found.group,
        "offsets_of": "group" if found.from_source else "checkpoints",
        "partitions": [
            {
                "topic": each.source.topic,
                "partition": each.source.partition,
                "remote_topic": each.remote.topic,
                "upstream_offset": each.upstream_offset,
                "downstream_offset": each.downstream_offset,
                "exact": each.exact,
                "basis": each.basis,
                "lag": each.lag,
                "log_start": each.log_start,
                "checkpoint": {
                    "upstream_offset": each.checkpoint.upstream_offset,
                    "downstream_offset": each.checkpoint.downstream_offset,
                    "written": each.checkpoint.written.isoformat(),
                }
                if each.checkpoint
                else None,
            }
            for each in found.partitions
        ],
        "problems": [{"subject": each.subject, "reason": each.reason} for each in found.problems],
    }
