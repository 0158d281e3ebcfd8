"""What no log of the product may hold: faults of its own, stack traces, and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_FAULT = "fault in Farshore"
_TRACEBACK = "Traceback (most recent call last)"
_PYTHON_FRAME = re.compile(r'\bFile "([^"]+)", line \d+')
_JAVA_FRAME = re.compile(
    r"\bat (?:[\w$.@-]+/)*[\w$]+(?:\.[\w$<>]+)+\((?:[\w$]+\.(?:java|scala|kt)(?::\d+)?|Native Method|Unknown Source)\)"
)
_OURS = "/farshore/"
_SHOWN = 3
_LONGEST = 200


class Found(NamedTuple):
    line: int
    what: str
    text: str


def search(lines: Iterable[str], secrets: Sequence[str], *, of_spark: bool = False) -> list[Found]:
    """A stack trace counts once. `of_spark`: it is a log of Spark's own, which tells of killed processes with stack
    traces; there only those of Python count whose last frame is Farshore's."""
    found: list[Found] = []
    in_java = False
    traceback: Found | None = None
    frame = ""
    for number, line in enumerate(lines, 1):
        text = _without(line, secrets)
        if any(secret in line for secret in secrets):
            found.append(Found(number, "a secret", text))
        if _FAULT in line:
            found.append(Found(number, "a fault in Farshore", text))
        if _TRACEBACK in line:
            if of_spark:
                found += _last(traceback, frame)
                traceback, frame = Found(number, "a Python traceback", text), ""
            else:
                found.append(Found(number, "a Python traceback", text))
        elif (match := _PYTHON_FRAME.search(line)) is not None:
            frame = match[1]
        java = _JAVA_FRAME.search(line) is not None
        if java and not in_java and not of_spark:
            found.append(Found(number, "a Java stack trace", text))
        in_java = java
    return sorted([*found, *_last(traceback, frame)])


def search_all(home: Path, secrets: Sequence[str]) -> list[str]:
    """In all that Farshores said, and that Spark said for them; what MirrorMaker 2 and brokers say is their own."""
    said: list[str] = []
    for path, of_spark in _logs(home):
        with path.open(errors="replace") as lines:
            found = search(lines, secrets, of_spark=of_spark)
        for what in dict.fromkeys(each.what for each in found):
            places = [each for each in found if each.what == what]
            shown = "; ".join(f"line {each.line}: {each.text}" for each in places[:_SHOWN])
            times = f" {len(places)} times" if len(places) > 1 else ""
            said.append(f"{path.relative_to(home)} holds {what}{times}: {shown}")
    return said


def _logs(home: Path) -> Iterator[tuple[Path, bool]]:
    for pattern, of_spark in (
        ("first-*.log", False), ("second-*.log", False), ("master.log", True), ("worker*.log", True),
        ("worker*/**/std*", True),
    ):  # fmt: skip
        for path in sorted(home.glob(pattern)):
            if path.is_file():
                yield path, of_spark


def _last(traceback: Found | None, frame: str) -> list[Found]:
    return [traceback] if traceback is not None and _OURS in frame else []


def _without(line: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        line = line.replace(secret, "[the secret]")
    return line.strip()[:_LONGEST]
