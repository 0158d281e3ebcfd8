"""What must not be in a log is found there, and told with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.said import search, search_all

SECRET = "A wave-breaker"
FINE = "2026-11-18T11:00:00Z INFO A->B: copying 12 partitions in 2 slots"
TRACEBACK = [
    "2026-11-18T11:00:01Z WARNING Spark: Traceback (most recent call last):",
    '2026-11-18T11:00:01Z WARNING Spark:   File "{}", line 10, in run',
    "2026-11-18T11:00:01Z WARNING Spark:     run()",
    "2026-11-18T11:00:01Z WARNING Spark: BrokenPipeError: [Errno 32] Broken pipe",
]
JAVA = [
    "java.io.IOException: Connection reset",
    "\tat java.base/sun.nio.ch.SocketDispatcher.read0(Native Method)",
    "\tat org.apache.spark.rpc.RpcTimeout.org$apache$spark$rpc$RpcTimeout$$create(RpcTimeout.scala:47)",
    "Caused by: java.io.IOException",
    "\t... 12 more",
]


def traceback(innermost: str) -> list[str]:
    return [line.format(innermost) for line in TRACEBACK]


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["A->B: this is a fault in Farshore, please report it"], "a fault in Farshore"),
        (traceback("/lib/pyspark/worker.py"), "a Python traceback"),
        (JAVA[1:], "a Java stack trace"),
        ([f"password={SECRET}"], "a secret"),
    ],
)
def test_it_is_found_once_with_its_line_and_without_the_secret(lines: list[str], what: str) -> None:
    (found,) = search([FINE, *lines, FINE], [SECRET])
    assert (found.line, found.what) == (2, what)
    assert SECRET not in found.text


def test_each_of_two_traces_is_found() -> None:
    assert [each.line for each in search([*JAVA[1:2], FINE, *JAVA[1:2]], [])] == [1, 3]


@pytest.mark.parametrize(
    "line", [FINE, "it was copied at least once (see docs)", "cut at A.orders(3), looked at once", "no fault", ""]
)
def test_what_is_no_trace_is_not_found(line: str) -> None:
    assert search([line], [SECRET]) == []


def test_in_logs_of_spark_only_tracebacks_that_end_in_farshore_count() -> None:
    ours, other = traceback("/srv/farshore/dataplane/task.py"), traceback("/lib/pyspark/worker.py")
    assert search([*other, *JAVA], [], of_spark=True) == []
    assert [each.line for each in search([*other, *ours, FINE, *ours, *other], [], of_spark=True)] == [5, 10]
    assert search([f"x {SECRET}"], [SECRET], of_spark=True)


def test_files_are_searched_by_what_wrote_them(tmp_path: Path) -> None:
    executor = tmp_path / "worker0" / "app-1" / "0" / "stderr"
    executor.parent.mkdir(parents=True)
    for path in (tmp_path / "first-01.log", tmp_path / "worker0.log", tmp_path / "mm2-60.log", executor):
        path.write_text("\n".join([FINE, *JAVA, *JAVA]) + "\n")
    with executor.open("a") as file:
        file.write(f"{SECRET}\n")
    java, secret = search_all(tmp_path, [SECRET])
    assert java.startswith("first-01.log holds a Java stack trace 2 times: line 3: at java.base/")
    assert secret.startswith("worker0/app-1/0/stderr holds a secret: line 12: ")
