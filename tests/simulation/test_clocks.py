"""What is simulated reads only the clocks that it is given: any other would be the same for all, and would not be simulated."""

from __future__ import annotations

import ast
from pathlib import Path

import farshore

_ROOT = Path(farshore.__file__).parent
_SIMULATED = ("dataplane", "driver", "kafka/internal_topics")
_ALLOWED = {"dataplane/spark.py", "driver/service.py"}
"""These run in other threads than the event loops, and are no part of a simulated process."""
_CLOCKS = {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns", "now", "utcnow"}


def test_nothing_that_is_simulated_reads_a_clock_of_its_own() -> None:
    files = [file for folder in _SIMULATED for file in sorted((_ROOT / folder).rglob("*.py"))]
    found = {str(file.relative_to(_ROOT)): _clocks_read(ast.parse(file.read_text())) for file in files}
    assert files
    assert {file: lines for file, lines in found.items() if lines and file not in _ALLOWED} == {}


def test_the_ways_to_read_a_clock_are_found() -> None:
    ways = (
        "time.time()\nread = time.monotonic\nfrom time import time\ndatetime.now()\nloop.time()\nself.clock.monotonic()"
    )
    assert _clocks_read(ast.parse(ways)) == [1, 2, 3, 4]


def _clocks_read(tree: ast.Module) -> list[int]:
    """The lines where the clocks of the modules `time` and `datetime` are named."""
    lines = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time" | "datetime" | "date"), attr=attribute) if attribute in _CLOCKS:
                lines.append(node.lineno)
            case ast.ImportFrom(module="time", names=names) if any(each.name in _CLOCKS for each in names):
                lines.append(node.lineno)
    return sorted(lines)
