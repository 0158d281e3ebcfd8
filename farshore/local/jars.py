"""Kafka's own jars, downloaded once for a user and kept.

They come from Maven Central through the Ivy that lies inside pyspark, so nothing but Python and Java has to
be installed first. Invariants of the cache directory: a set of jars is a directory that appears complete,
by one rename, or not at all; what an interrupted download leaves lies beside it under another name and is
removed by the next one; two processes that want the same set at the same time download it once.

FARSHORE_CACHE names another cache directory, FARSHORE_IVY_SETTINGS an Ivy settings file, for a mirror of
the jars.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farshore.errors import LocalClusterError
from farshore.local.java import find_java
from farshore.local.processes import BoundProcess

KAFKA_VERSION = "4.3.1"
DOWNLOAD_WITHIN_SECONDS = 900.0

Progress = Callable[[str], None]
"""Called with one short sentence at a time, fit to be shown in place of the one before."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Modules (organisation, name, revision) that share one class path with all they depend on."""

    name: str
    title: str
    modules: tuple[tuple[str, str, str], ...]


# Kafka's artefacts bring no logging back end along: without one the brokers would be silent.
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")

BROKER = JarSet(
    f"kafka-{KAFKA_VERSION}",
    f"Kafka {KAFKA_VERSION}",
    (("org.apache.kafka", "kafka_2.13", KAFKA_VERSION), _LOGGING),
)
TOOLS = JarSet(
    f"kafka-tools-{KAFKA_VERSION}",
    f"Kafka {KAFKA_VERSION}'s tools and MirrorMaker",
    (
        ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
        ("org.apache.kafka", "connect-mirror-client", KAFKA_VERSION),
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        _LOGGING,
    ),
)


def cache_directory() -> Path:
    """Where this user's downloads are kept; not created here."""
    override = os.environ.get("FARSHORE_CACHE", "")
    if override:
        return Path(override).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "farshore"


def resolve(jar_set: JarSet, progress: Progress | None = None) -> Path:
    """The directory that holds exactly the jars of `jar_set`, downloaded if they are not there yet.

    Raises LocalClusterError when they can neither be found nor downloaded, JavaMissing without a Java.
    """
    home = cache_directory() / jar_set.name
    if home.is_dir():
        return home
    tell = progress or (lambda _sentence: None)
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with locked(home.parent / f"{jar_set.name}.lock", tell):
            if not home.is_dir():
                _download(jar_set, home, tell)
    except OSError as failure:
        raise LocalClusterError(f"cannot keep {jar_set.title} in {home}: {failure}") from failure
    return home


def class_path(directory: Path) -> str:
    """All jars in `directory`, as Java's -cp wants it."""
    return str(directory / "*")


@contextmanager
def locked(path: Path, tell: Progress) -> Iterator[None]:
    """Hold the file lock `path` against other processes of this user, waiting for it no longer than a
    download may take.

    The file stays: removing it would let two processes hold "the" lock.
    """
    deadline = time.monotonic() + DOWNLOAD_WITHIN_SECONDS
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LocalClusterError(
                        f"another process has held {path} for {DOWNLOAD_WITHIN_SECONDS:.0f} s: end it and try again"
                    ) from None
                tell(f"waiting for another process that prepares {path.stem}")
                time.sleep(0.2)
        yield


def _download(jar_set: JarSet, home: Path, tell: Progress) -> None:
    for leftover in home.parent.glob(f".{jar_set.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{jar_set.name}.", dir=home.parent))
    try:
        _run_ivy(jar_set, workshop, tell)
        (workshop / "jars").rename(home)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _run_ivy(jar_set: JarSet, workshop: Path, tell: Progress) -> None:
    """Fill `workshop`/jars. Ivy's own cache lies in the workshop too: what Ivy keeps is not atomic."""
    ivy = BoundProcess(
        _ivy_command(jar_set, workshop), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, leftovers=workshop
    )
    timer = threading.Timer(DOWNLOAD_WITHIN_SECONDS, ivy.kill)
    timer.start()
    try:
        assert ivy.popen.stdout is not None
        output = _follow(ivy.popen.stdout, jar_set, tell)
        code = ivy.wait(DOWNLOAD_WITHIN_SECONDS)
    finally:
        timer.cancel()
        ivy.kill()
        ivy.popen.communicate()
    if code != 0 or not any((workshop / "jars").glob("*.jar")):
        raise LocalClusterError(
            f"cannot download {jar_set.title}: {_reason(output, code)}; check the network, or name an Ivy"
            " settings file with a mirror in FARSHORE_IVY_SETTINGS, and try again"
        )


def _ivy_command(jar_set: JarSet, workshop: Path) -> list[str | Path]:
    wanted = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="default"/>'
        for organisation, name, revision in jar_set.modules
    )
    module = workshop / "ivy.xml"
    module.write_text(
        f'<ivy-module version="2.0"><info organisation="farshore" module="{jar_set.name}"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
    settings = os.environ.get("FARSHORE_IVY_SETTINGS", "")
    if settings and not Path(settings).is_file():
        raise LocalClusterError(f"FARSHORE_IVY_SETTINGS names {settings}, which is not a file")
    return [
        *(find_java().executable, "-jar", _ivy_jar(), "-ivy", module, "-confs", "default"),
        *(("-settings", settings) if settings else ()),
        *("-cache", workshop / "ivy-cache", "-types", "jar", "bundle"),
        *("-retrieve", workshop / "jars" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _ivy_jar() -> Path:
    # Found without importing pyspark, which takes a second and is not needed for it.
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        for jar in (Path(spec.origin).parent / "jars").glob("ivy-*.jar"):
            return jar
    raise LocalClusterError(
        "no Ivy in the installed pyspark, so Kafka cannot be downloaded: install pyspark from PyPI again"
    )


def _follow(output: Iterator[str], jar_set: JarSet, tell: Progress) -> list[str]:
    """Turn Ivy's talk into progress until it falls silent; returns all it said."""
    said: list[str] = []
    found = done = kilobytes = 0
    tell(f"looking up what {jar_set.title} needs")
    for line in output:
        said.append(line.strip())
        if line.startswith("\tfound "):
            found += 1
            tell(f"looking up what {jar_set.title} needs: {found} jars so far")
        elif size := re.match(r"\.+ \((\d+)kB\)$", line.strip()):
            kilobytes += int(size.group(1))
        elif "[SUCCESSFUL ]" in line:
            done += 1
            tell(f"downloading {jar_set.title}: {done} of {found} jars, {kilobytes / 1000:.1f} MB")
    return said


def _reason(output: list[str], code: int) -> str:
    """The one line of Ivy's long report that says most."""
    for sign in (r"Host \S+ not found", r"Server access error", r":: \S+#\S+: ", r"\w+Exception"):
        for line in output:
            if re.match(sign, line):
                return line.strip(": ")
    return f"Ivy ended with exit code {code}" + (f" after saying: {output[-1]}" if output else "")
