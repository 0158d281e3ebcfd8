"""Figures of a run as JSON, to be kept, and as Markdown, to be read."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.cases import PARTITIONS, TASKS
from bench.crowd import CrowdOutcome, CrowdResult
from bench.mirrors import Kind
from bench.results import LATENCY_COLUMNS, Column, Outcome, Result, throughput_columns
from bench.scale_report import scale_section
from bench.tables import cell, table
from farshore import __version__
from farshore.local.jars import KAFKA_VERSION
from farshore.local.java import find_java


def environment(scale: float, rounds: int) -> dict[str, object]:
    """What the figures depend on, and nothing that tells machines of the same kind apart."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "farshore": __version__,
        "revision": _revision(),
        "kafka": KAFKA_VERSION,
        "java": find_java().version,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9),
        "partitions": PARTITIONS,
        "tasks": TASKS,
        "scale": scale,
        "rounds": rounds,
    }


def _processor() -> str:
    """Its model, as Linux gives it."""
    models = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return str(models[0]) if models else "unknown"


def _revision() -> str:
    """The commit that was measured, if this is a working copy; `-dirty` if it was changed since."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True
        )
    except FileNotFoundError:
        return "unknown"
    return described.stdout.strip() or "unknown"


def as_json(about: dict[str, object], results: Sequence[Result], crowds: Sequence[CrowdResult]) -> str:
    everything = {**about, "cases": [_plain(each) for each in results], "crowds": [asdict(each) for each in crowds]}
    return json.dumps(everything, indent=1) + "\n"


def _plain(result: Result) -> dict[str, object]:
    case = asdict(result.case)
    case["where"] = result.case.where.value
    return {
        **case,
        "source_bytes": result.source_bytes,
        "source_batches": result.source_batches,
        "outcomes": [
            {"mirror": each.kind.value, "error": each.error, **(asdict(each.figures) if each.figures else {})}
            for each in result.outcomes
        ],
    }


def as_markdown(about: dict[str, object], results: Sequence[Result], crowds: Sequence[CrowdResult]) -> str:
    """Medians. Behind each figure of Farshore: how many times MirrorMaker 2's it is."""
    compared = [result for result in results if result.case.compared]
    throughput = [result for result in compared if result.case.rate is None]
    delays = [result for result in compared if result.case.rate is not None]
    slots = [result for result in results if not result.case.compared]
    parts = [
        "{cores} cores, {memory_gb} GB, everything on them; Kafka {kafka}, Java {java}, Python {python}; "
        "{partitions} partitions, tasks.max={tasks}, medians of {rounds}.".format(**about)
    ]
    if about["scale"] != 1.0:
        parts.append(f"**A try at scale {about['scale']}: these figures say that it runs, not how fast.**")
    if throughput:
        parts.append(_table([(result, throughput_columns(result.case)) for result in throughput]))
    if delays:
        parts.append(_table([(result, LATENCY_COLUMNS) for result in delays]))
    if slots or crowds:
        parts.append(scale_section(slots, crowds))
    failed = [_failure(each.case.title, outcome) for each in results for outcome in each.outcomes if outcome.error]
    failed += [_failure(each.crowd.title, outcome) for each in crowds for outcome in each.outcomes if outcome.error]
    if failed:
        parts.append("Failed:\n\n" + "\n".join(failed))
    return "\n\n".join(parts) + "\n"


def _failure(title: str, outcome: Outcome | CrowdOutcome) -> str:
    assert outcome.error is not None
    return f"- {title}, {outcome.kind}: {outcome.error.splitlines()[0]}"


def _table(rows: Sequence[tuple[Result, Sequence[Column]]]) -> str:
    lines = []
    for result, columns in rows:
        for kind in Kind:
            first = kind is Kind.MIRROR_MAKER
            cells = [
                cell(
                    result.of(kind, column.figure),
                    column.digits,
                    None if first else result.of(Kind.MIRROR_MAKER, column.figure),
                )
                for column in columns
            ]
            on_source = result.source_bytes / result.case.records or None
            lines.append([result.case.title if first else "", kind.value, *cells, cell(on_source, 0)])
    return table([*(column.title for column in rows[0][1]), "on the source's"], lines, texts=2)


def write_all(
    directory: Path, about: dict[str, object], cases: Sequence[str], texts: Mapping[str, str], *, complete: bool
) -> list[Path]:
    """Each text under its suffix, the date and the size of the machine; named after its cases if not all are there,
    and marked as a try if the scale is not 1."""
    directory.mkdir(parents=True, exist_ok=True)
    some = "" if complete else "-" + "+".join(cases)
    mark = "" if about["scale"] == 1.0 else "-try"
    stem = f"{about['date']}-{about['cores']}-cores{some}{mark}"
    for suffix, text in texts.items():
        (directory / f"{stem}{suffix}").write_text(text)
    return [directory / f"{stem}{suffix}" for suffix in texts]
