"""`farshore check`: what a configuration means, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from farshore.cli.arguments import JaasFile
from farshore.config import read
from farshore.config.describe import describe, describe_finding
from farshore.config.entries import Finding, Severity
from farshore.driver.cores import slots_at_most
from farshore.ops.preflight import Level, Report, preflight
from farshore.words import counted

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
_LEVELS: dict[Level | None, str] = {
    Level.PROBLEM: "bold red",
    Level.WARNING: "yellow",
    Level.NOTE: "dim",
    Level.OK: "green",
}


def check(
    config: Annotated[
        list[Path],
        typer.Argument(
            help="MirrorMaker 2 properties, Connect connector JSON and worker properties, or Strimzi YAML.",
            metavar="CONFIG...",
        ),
    ],
    clusters: Annotated[
        list[str] | None, typer.Option(help="Only flows into these target clusters.", metavar="ALIAS...")
    ] = None,
    secrets: Annotated[
        Path | None, typer.Option(help="Directory with Kubernetes secrets, as SECRET/KEY.", metavar="DIR")
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Look at the live clusters too. Changes nothing there.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Secrets and stores need not be at hand: absent ones are warnings.")
    ] = False,
    jaas: JaasFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a configuration would replicate, and everything that is wrong with it."""
    if offline and connect:
        raise typer.BadParameter("--offline makes do without secrets, --connect needs them: give one of the two")
    reading = read(config, only_targets=clusters or (), secrets_dir=secrets, jaas=jaas, offline=offline)
    if reading.settings is None:
        if as_json:
            _print_json({"findings": [describe_finding(f) for f in reading.findings]})
        _print_findings(reading.findings)
        raise typer.Exit(1)
    description = describe(reading.settings)
    _say_slots(description, {str(flow.flow) for flow in reading.settings.flows if flow.copies})
    report = preflight(reading.settings) if connect else None
    if as_json:
        _print_json(description if report is None else description | {"preflight": report.data()})
    elif report is not None:
        _print_findings(reading.findings)
        _print_report(report)
        _print_slots(description)
    else:
        _print_description(description)
        _print_findings(reading.findings)
    if report is not None and not report.passed:
        raise typer.Exit(1)


def _say_slots(description: dict[str, Any], copying: Collection[str]) -> None:
    """As many as `farshore run` would have here, without a Spark master, and why no more; none for flows that are
    paused. Elsewhere `tasks.max` alone is the rule."""
    for flow in description["flows"]:
        if flow["replicates"]:
            tasks_max = flow["slots_at_most"]
            most, rule = slots_at_most(tasks_max, None, len(copying)) if flow["flow"] in copying else (0, "paused")
            flow["slots_at_most"], flow["slots_rule"], flow["slots_at_most_elsewhere"] = most, rule, tasks_max


def slots_in_words(flow: dict[str, Any]) -> str:
    most, elsewhere = flow["slots_at_most"], flow["slots_at_most_elsewhere"]
    if not most:
        return f"no slots ({flow['slots_rule']})"
    more = f"; with --master elsewhere up to {elsewhere}: tasks.max" if elsewhere != most else ""
    return f"up to {counted(most, 'slot')} ({flow['slots_rule']}{more})"


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _print_findings(findings: tuple[Finding, ...]) -> None:
    """To stderr, where they are seen even if the description goes into a file."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for finding in findings:
        console.print(
            Text.assemble(
                f"{finding.origin}: ",
                (f"{finding.severity}", _COLOURS[finding.severity]),
                ": ",
                finding.message,
            )
        )
    counts = {s: sum(f.severity is s for f in findings) for s in Severity}
    said = ", ".join(counted(n, s) for s, n in counts.items() if n)
    if said:
        console.print(Text(said, style="bold red" if counts[Severity.ERROR] else ""))


def _print_report(report: Report) -> None:
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    for line in report.lines():
        style = "bold cyan" if line.level is None and not line.text else _LEVELS.get(line.level, "")
        console.print(Text.assemble((line.label, style), line.text))


def _print_slots(description: dict[str, Any]) -> None:
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    for flow in description["flows"]:
        if flow["replicates"]:
            console.print(Text.assemble((flow["flow"], "bold cyan"), f"  {slots_in_words(flow)}"))


def _print_description(description: dict[str, Any]) -> None:
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    for alias, cluster in description["clusters"].items():
        security = " ".join(filter(None, (cluster["security_protocol"], cluster["sasl_mechanism"])))
        console.print(Text.assemble((f"{alias:<12}", "bold"), f" {','.join(cluster['bootstrap_servers'])}  {security}"))
    for flow in description["flows"]:
        console.print()
        for line in _flow_lines(flow):
            console.print(line)


def _flow_lines(flow: dict[str, Any]) -> list[Text]:
    lines = [Text.assemble((flow["flow"], "bold cyan"), f"  {_headline(flow)}")]

    def row(label: str, text: str) -> None:
        lines.append(Text.assemble(f"  {label:<10} ", text))

    if flow["replicates"]:
        row("topics", _selection(flow["topics"]))
        row("named", f"{flow['remote_topics']['example']}  ({flow['remote_topics']['policy']} policy)")
    if flow["groups"]:
        synced = ", offsets synced" if flow["group_offsets_synced"] else ""
        row("groups", f"{_selection(flow['groups'])}{synced}")
    for number, topic in enumerate(flow["internal_topics"]):
        row("internal" if number == 0 else "", f"{topic['name']} on {topic['cluster']}  ({topic['purpose']})")
    row("group", flow["worker_group"])
    for number, item in enumerate(flow["settings"]):
        row(
            "settings" if number == 0 else "",
            f"{item['key']} = {item['value']}  [{item['scope']}; {item['origin']}]",
        )
    return lines


def _headline(flow: dict[str, Any]) -> str:
    if not flow["replicates"]:
        return "heartbeats only" if flow["heartbeats"] else "nothing is copied"
    paused = [c["kind"] for c in flow["connectors"] if c["paused"]]
    parts = [
        slots_in_words(flow),
        "exactly once" if flow["exactly_once"] else "at least once",
        f"paused: {', '.join(paused)}" if paused else "",
    ]
    return ", ".join(filter(None, parts))


def _selection(patterns: dict[str, list[str]]) -> str:
    include = ", ".join(patterns["include"]) or "none"
    exclude = ", ".join(patterns["exclude"])
    return f"{include}  except {exclude}" if exclude else include
