"""What the tests of operators' commands share: the commands as a user gives them, and a flow that one is given for."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any, NamedTuple
from unittest import mock

import pytest
from test_run_support import Mirror

from farshore.cli import main

NO_FOREIGN_TOPICS = {"heartbeats.replication.enabled": "false"}
"""Other tests leave heartbeats on the clusters, which are copied whatever the filter says."""


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return f"{self.out}{self.err}"

    @property
    def rows(self) -> list[str]:
        """The lines of its output, with one blank between words."""
        return [" ".join(line.split()) for line in self.out.splitlines()]


def farshore(command: str, mirror: Mirror, *arguments: str, answer: str = "") -> Answer:
    """`farshore COMMAND mm2.properties …`, in this process, for speed; `answer` is what is typed when it asks."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["farshore", command, str(mirror.properties), *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO(answer)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    code = ended.value.code
    assert isinstance(code, int)
    return Answer(code, out.getvalue(), err.getvalue())


def status(mirror: Mirror, flow: str | None = None) -> Any:
    """The flow, if none is given the mirror's, as `farshore status --json` tells of it."""
    name = flow or f"{mirror.alias}->B"
    answer = farshore("status", mirror, "--json", "--flow", name)
    (found,) = json.loads(answer.out)["flows"]
    assert found["flow"] == name
    assert answer.code == (0 if found["problem"] is None else 1), answer.said
    return found


def values(mirror: Mirror, topic: str, partition: int = 0) -> list[bytes | None]:
    """What was copied, in order."""
    return [record.value for record in mirror.copied(topic) if record.partition == partition]


def numbered(begin: int, end: int, partition: int = 0) -> list[dict[str, Any]]:
    """Records whose values are their numbers."""
    return [{"value": b"%d" % number, "partition": partition} for number in range(begin, end)]


def as_values(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


def once(mirror: Mirror, log: str = "farshore.log") -> str:
    """Copy what is there, with a Farshore of its own; what it said."""
    with mirror.running("--once", log=log) as program:
        assert program.ended() == 0, program.said
        return program.said
