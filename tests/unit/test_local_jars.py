"""The cache of jars is complete or empty, whatever happens to a download.

The downloads here are done by a stand-in for Java that behaves like Ivy: well, or as the test orders.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import farshore
from farshore.errors import LocalClusterError
from farshore.local.jars import JarSet, cache_directory, resolve

WANTED = JarSet("kafka-0", "Kafka 0", (("org.example", "kafka", "0"), ("org.example", "logging", "1")))
WAIT_SECONDS = 20.0

FAKE_JAVA = """#!{python}
import os, pathlib, signal, sys, time
if "-version" in sys.argv:
    sys.stderr.write('openjdk version "17.0.1"\\n')
    sys.exit(0)
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
conduct = (here / "conduct").read_text()
target = pathlib.Path(sys.argv[sys.argv.index("-retrieve") + 1]).parent
print("\\tfound org.example#kafka;0 in public")
print("\\tfound org.example#logging;1 in public")
if conduct == "offline":
    print("Host registry.example not found. url=https://registry.example/kafka-0.pom")
    sys.exit(1)
target.mkdir()
(target / "kafka-0.jar").write_bytes(b"half")
print("downloading https://registry.example/kafka-0.jar ...")
print("...... (1500kB)")
print("\\t[SUCCESSFUL ] org.example#kafka;0!kafka.jar (12ms)", flush=True)
if conduct == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
if conduct == "stalls":
    (here / "stalled").write_text(str(os.getpid()))
    time.sleep(600)
(target / "logging-1.jar").write_bytes(b"jar")
print("... (500kB)")
print("\\t[SUCCESSFUL ] org.example#logging;1!logging.jar (5ms)")
"""


class FakeJava:
    def __init__(self, home: Path) -> None:
        self.directory = home / "bin"
        self.directory.mkdir(parents=True)
        executable = self.directory / "java"
        executable.write_text(FAKE_JAVA.replace("{python}", sys.executable))
        executable.chmod(0o755)
        self.will("download")

    def will(self, conduct: str) -> None:
        (self.directory / "conduct").write_text(conduct)

    @property
    def downloads(self) -> list[str]:
        calls = self.directory / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def fake_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeJava:
    monkeypatch.setenv("FARSHORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.delenv("FARSHORE_IVY_SETTINGS", raising=False)
    return FakeJava(tmp_path / "java")


def leftovers() -> list[str]:
    return [path.name for path in cache_directory().iterdir() if path.name != f"{WANTED.name}.lock"]


def test_a_download_is_kept_and_not_repeated(fake_java: FakeJava) -> None:
    home = resolve(WANTED)
    assert sorted(path.name for path in home.iterdir()) == ["kafka-0.jar", "logging-1.jar"]
    assert resolve(WANTED) == home
    assert len(fake_java.downloads) == 1
    assert leftovers() == [WANTED.name]


@pytest.mark.usefixtures("fake_java")
def test_progress_tells_jars_and_megabytes() -> None:
    sentences: list[str] = []
    resolve(WANTED, sentences.append)
    assert sentences == [
        "looking up what Kafka 0 needs",
        "looking up what Kafka 0 needs: 1 jars so far",
        "looking up what Kafka 0 needs: 2 jars so far",
        "downloading Kafka 0: 1 of 2 jars, 1.5 MB",
        "downloading Kafka 0: 2 of 2 jars, 2.0 MB",
    ]


def test_without_network_one_sentence_says_why_and_nothing_is_kept(fake_java: FakeJava) -> None:
    fake_java.will("offline")
    with pytest.raises(
        LocalClusterError, match=r"^cannot download Kafka 0: Host registry.example not found.*try again$"
    ):
        resolve(WANTED)
    assert leftovers() == []


def test_a_download_that_dies_half_way_is_not_kept(fake_java: FakeJava) -> None:
    fake_java.will("dies")
    with pytest.raises(LocalClusterError, match="cannot download Kafka 0: Ivy ended with exit code 137"):
        resolve(WANTED)
    assert leftovers() == []
    fake_java.will("download")
    assert (resolve(WANTED) / "logging-1.jar").exists()


def test_what_an_earlier_run_left_unfinished_is_removed_and_never_used(fake_java: FakeJava) -> None:
    unfinished = cache_directory() / f".{WANTED.name}.abc" / "jars"
    unfinished.mkdir(parents=True)
    (unfinished / "kafka-0.jar").write_bytes(b"half")
    assert (resolve(WANTED) / "logging-1.jar").exists()
    assert leftovers() == [WANTED.name]
    assert len(fake_java.downloads) == 1


def test_killing_the_downloading_process_kills_the_download_and_leaves_nothing(fake_java: FakeJava) -> None:
    fake_java.will("stalls")
    program = (
        "from farshore.local.jars import JarSet, resolve\n"
        f"resolve(JarSet({WANTED.name!r}, {WANTED.title!r}, {WANTED.modules!r}))\n"
    )
    packages = str(Path(farshore.__file__).parent.parent)
    parent = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": packages})
    stalled = fake_java.directory / "stalled"
    try:
        await_that(lambda: stalled.exists() and stalled.read_text() != "")
        ivy = int(stalled.read_text())
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait(WAIT_SECONDS)
    await_that(lambda: not Path(f"/proc/{ivy}").exists() if Path("/proc").exists() else True)
    await_that(lambda: leftovers() == [])
    fake_java.will("download")
    assert (resolve(WANTED) / "logging-1.jar").exists()


def test_two_who_want_the_same_jars_at_once_download_them_once(fake_java: FakeJava) -> None:
    with ThreadPoolExecutor(4) as pool:
        homes = set(pool.map(lambda _number: resolve(WANTED), range(4)))
    assert len(homes) == 1
    assert len(fake_java.downloads) == 1


def test_a_settings_file_is_handed_to_ivy(fake_java: FakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    monkeypatch.setenv("FARSHORE_IVY_SETTINGS", str(settings))
    with pytest.raises(LocalClusterError, match=r"FARSHORE_IVY_SETTINGS names .*ivysettings.xml, which is not a file"):
        resolve(WANTED)
    settings.write_text("<ivysettings/>")
    resolve(WANTED)
    assert f"-settings {settings}" in fake_java.downloads[0]


def test_a_cache_that_cannot_be_written_gives_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    monkeypatch.setenv("FARSHORE_CACHE", str(obstacle / "cache"))
    with pytest.raises(LocalClusterError, match="cannot keep Kafka 0 in"):
        resolve(WANTED)


def test_the_cache_lies_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FARSHORE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "farshore"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "farshore"


def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
