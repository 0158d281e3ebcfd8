"""Brokers that start in half the time: their classes, loaded and verified once, archived for the next starts.

This is Java's class-data sharing. The archive belongs to one Java and one set of jars, lies beside the
jars, and is made by a broker that is started and stopped for the purpose. Nothing depends on it: without
one, brokers take longer.
"""

from __future__ import annotations

import time

from farshore.local.cluster import Cluster
from farshore.local.jars import BROKER, Progress, locked, resolve
from farshore.local.java import find_java
from farshore.local.javatools import FAST_START, archive_path

_ARCHIVED_WITHIN_SECONDS = 120.0


def prepare(progress: Progress | None = None) -> None:
    """Do once what makes later starts fast: download the jars, make the archive.

    Quick when both are there.
    """
    tell = progress or (lambda _sentence: None)
    archive = archive_path(find_java(), resolve(BROKER, tell))
    if archive.exists():
        return
    with locked(archive.with_suffix(".lock"), tell):
        if archive.exists():
            return
        tell(f"preparing {BROKER.title} for fast starts")
        unfinished = archive.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with Cluster("archive", jvm_options=(*FAST_START, f"-XX:ArchiveClassesAtExit={unfinished}")) as cluster:
            broker = cluster.brokers[0]
            broker.ask_to_stop()
            broker.await_stopped(time.monotonic() + _ARCHIVED_WITHIN_SECONDS)
        if unfinished.exists():
            unfinished.rename(archive)
