"""What a Java that was killed leaves behind: nothing, neither threads nor files."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import FinalizerWorker, JavaParameters, PythonParameters  # type: ignore[import-untyped]
from pyspark import java_gateway

from farshore.dataplane.spark import Java, leave_context

WAIT_SECONDS = 10.0


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made. A `sleep` is launched in the place of Java."""

    def launch_gateway(_: Any, popen_kwargs: dict[str, Any]) -> Any:
        gateway: Any = java_gateway
        gateway.Popen(["sleep", "60"], stdin=subprocess.PIPE, env=dict(os.environ), **popen_kwargs)
        return gateway.ClientServer(JavaParameters(port=1), PythonParameters(port=0, eager_load=False))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(java_gateway, "launch_gateway", launch_gateway)
    return tmp_path


def finalizers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if isinstance(each, FinalizerWorker)]


def launched() -> Java:
    java = Java()
    java.launch(None, subprocess.DEVNULL)
    return java


def wait_until_gone(files: Path, before: int) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS
    while list(files.iterdir()) or len(finalizers()) > before:
        assert time.monotonic() < give_up_at, (list(files.iterdir()), finalizers())
        time.sleep(0.02)


def test_the_end_of_a_java_ends_py4js_thread_and_removes_its_files(files: Path) -> None:
    before = len(finalizers())
    java = launched()
    (directory,) = files.iterdir()
    environment = Path(f"/proc/{java._launched[0].pid}/environ").read_text()
    assert f'SPARK_SUBMIT_OPTS="-Djava.io.tmpdir={directory}"\0' in environment + "\0"
    (directory / "blockmgr").mkdir()
    assert len(finalizers()) == before + 1
    java.kill()
    leave_context(None, java)
    wait_until_gone(files, before)


def test_a_java_that_fails_after_its_launch_leaves_nothing_either(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(conf: Any, popen_kwargs: dict[str, Any]) -> Any:
        launch(conf, popen_kwargs=popen_kwargs)
        raise ConnectionRefusedError("[Errno 111] Connection refused")

    launch: Any = java_gateway.launch_gateway
    monkeypatch.setattr(java_gateway, "launch_gateway", fails)
    java, before = Java(), len(finalizers())
    with pytest.raises(ConnectionRefusedError):
        java.launch(None, subprocess.DEVNULL)
    java.kill()
    java.sweep(WAIT_SECONDS)
    wait_until_gone(files, before)


def test_one_that_was_ended_before_it_was_up_leaves_no_thread(files: Path) -> None:
    java, before = Java(), len(finalizers())
    java.kill()
    java.launch(None, subprocess.DEVNULL)
    java.sweep(WAIT_SECONDS)
    wait_until_gone(files, before)


def test_java_options_of_the_user_come_last_and_win(monkeypatch: pytest.MonkeyPatch, files: Path) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Djava.io.tmpdir=/mine")
    java = launched()
    environment = Path(f"/proc/{java._launched[0].pid}/environ").read_text()
    assert '" -Djava.io.tmpdir=/mine\0' in environment + "\0"
    java.kill()
    java.sweep(WAIT_SECONDS)
    assert list(files.iterdir()) == []


def test_where_no_directory_can_be_made_java_is_launched_all_the_same(
    monkeypatch: pytest.MonkeyPatch, files: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(files / "nowhere"))
    java = launched()
    assert java._launched[0].poll() is None
    java.kill()
    java.sweep(WAIT_SECONDS)
