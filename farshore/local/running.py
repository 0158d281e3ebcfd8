"""Clusters for people: brought up by name, in the foreground or the background, listed and taken down.

Run as a module it is the background process itself: `python -m farshore.local.running A:1 B:3`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import farshore
from farshore.errors import FarshoreError, LocalClusterError
from farshore.local import registry
from farshore.local.cluster import Cluster, start_together
from farshore.local.ports import claim_port
from farshore.local.registry import Claim, Record

MOST_BROKERS = 9
ENDED_WITHIN_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cluster somebody asks for, written `A`, `B:3` or `C@19092:3`: with three brokers, from that port on."""

    name: str
    brokers: int = 1
    first_port: int | None = None

    def __str__(self) -> str:
        port = "" if self.first_port is None else f"@{self.first_port}"
        return f"{self.name}{port}:{self.brokers}"


def parse_wanted(texts: Sequence[str]) -> list[Wanted]:
    """Read `A B:3`; raises LocalClusterError with the first that makes no sense."""
    wanted = [_parse_one(text) for text in texts]
    names = [each.name for each in wanted]
    for name in names:
        if names.count(name) > 1:
            raise LocalClusterError(f"cluster {name} is asked for more than once: give each a name of its own")
    return wanted


def _parse_one(text: str) -> Wanted:
    named, colon, count = text.partition(":")
    name, at, port = named.partition("@")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise LocalClusterError(f"{text!r}: a cluster's name consists of letters, digits, _ and -, as in A or B:3")
    if colon and (not re.fullmatch(r"[0-9]+", count) or not 1 <= int(count) <= MOST_BROKERS):
        raise LocalClusterError(f"{text!r}: the number of brokers must be 1 to {MOST_BROKERS}, as in {name}:3")
    if at and (not re.fullmatch(r"[0-9]+", port) or not 1024 <= int(port) <= 65_000):
        raise LocalClusterError(f"{text!r}: a port must be 1024 to 65000, as in {name}@19092 or {name}@19092:3")
    return Wanted(name, int(count) if colon else 1, int(port) if at else None)


def keep_running(
    wanted: Sequence[Wanted], announce: Callable[[list[Record]], None], warn: Callable[[str], None]
) -> None:
    """Run clusters in this process until it is told to end, by Ctrl-C or SIGTERM, or all were taken down.

    `announce` is called once, when all answer; `warn` when a broker is found dead. Nothing is left behind,
    neither processes nor files, however this ends. Must be called from the main thread.
    """
    held: list[tuple[Claim, Cluster]] = []
    with _signals_interrupt():
        try:
            for each in wanted:
                claim = Claim(each.name)
                try:
                    held.append((claim, _cluster(each)))
                except LocalClusterError:
                    claim.release()
                    raise
            try:
                start_together(*(cluster for _, cluster in held))
            except LocalClusterError:
                # All processes are gone; the logs, which the message names, are to stay.
                while held:
                    held.pop()[0].release()
                raise
            records = [_record(cluster) for _, cluster in held]
            for (claim, _), record in zip(held, records, strict=True):
                claim.publish(record)
            announce(records)
            with suppress(KeyboardInterrupt):
                _watch(held, warn)
        finally:
            for claim, cluster in held:
                _end(claim, cluster)


def _cluster(wanted: Wanted) -> Cluster:
    """A new one, or the one that was kept under this name; it stays kept until it ends without being kept again."""
    kept = registry.kept(wanted.name)
    if kept is None:
        return Cluster(wanted.name, brokers=wanted.brokers, first_port=wanted.first_port)
    was = Wanted(wanted.name, len(kept.nodes), kept.nodes[0].advertised_port)
    if wanted not in (Wanted(was.name), Wanted(was.name, was.brokers), was):
        raise LocalClusterError(
            f"{wanted.name} was kept as {was}: ask for that, or remove it with `farshore local down {wanted.name}`"
        )
    for node in kept.nodes:
        for port in {node.client_port, node.internal_port, node.controller_port, node.advertised_port}:
            if not claim_port(port):
                raise LocalClusterError(f"port {port}, where {wanted.name} was, is taken: end what listens there")
    return Cluster(wanted.name, brokers=len(kept.nodes), kept=kept)


def _watch(held: list[tuple[Claim, Cluster]], warn: Callable[[str], None]) -> None:
    reported: set[str] = set()
    while held:
        time.sleep(_LOOK_EVERY_SECONDS)
        for claim, cluster in list(held):
            if claim.asked_to_end:
                _end(claim, cluster)
                held.remove((claim, cluster))
                continue
            for broker in cluster.brokers:
                if not broker.running and broker.name not in reported:
                    reported.add(broker.name)
                    warn(f"broker {broker.name} has ended by itself; its log is {broker.log}")


def _end(claim: Claim, cluster: Cluster) -> None:
    if claim.asked_to_keep:
        registry.note_kept(claim.name, cluster.keep())
    else:
        registry.forget_kept(claim.name)
        cluster.close()
    claim.release()


def _record(cluster: Cluster) -> Record:
    ports = tuple(broker.node.internal_port for broker in cluster.brokers)
    return Record(cluster.name, cluster.bootstrap_servers, ports, str(cluster.directory), os.getpid())


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into KeyboardInterrupt; cleaning up is not interrupted by further
    ones."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def start_in_background(wanted: Sequence[Wanted]) -> list[Record]:
    """Have a process of its own run the clusters, and return when all answer.

    It lives on after this one, until `take_down`. Raises LocalClusterError with its reason if it fails.
    """
    packages = str(Path(farshore.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH", ""))))
    background = subprocess.Popen(
        [sys.executable, "-m", "farshore.local.running", *map(str, wanted)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    try:
        assert background.stdout is not None
        assert background.stderr is not None
        with background.stdout, background.stderr:
            # It closes both when it is ready.
            said, complaint = background.stdout.read().strip(), background.stderr.read().strip()
    except BaseException:
        background.terminate()
        background.wait(ENDED_WITHIN_SECONDS)
        raise
    if said != "ready":
        background.wait(ENDED_WITHIN_SECONDS)
        raise LocalClusterError(complaint or f"the background process ended with exit code {background.returncode}")
    return [record for each in wanted if (record := registry.read(each.name)) is not None]


def take_down(names: Sequence[str], *, keep: bool = False) -> list[str]:
    """End the clusters of these names, all if there are none; returns the names of those ended.

    Returns when processes and data are gone. With `keep` the data stays for `up` to go on with; without it, what was
    kept before goes too. Raises LocalClusterError, before anything is done, for a name that is not there. An owner that
    does not react is killed, its brokers die with it.
    """
    records = {record.name: record for record in registry.running()}
    kept = {} if keep else {name: found for name in registry.kept_names() if (found := registry.kept(name))}
    unknown = [name for name in names if name not in records and name not in kept]
    if unknown:
        known = f"running: {', '.join(records)}" if records else "none is running"
        raise LocalClusterError(f"no cluster named {unknown[0]} to take down; {known}")
    for name in [name for name in names or kept if name in kept and name not in records]:
        shutil.rmtree(kept[name].directory, ignore_errors=True)
        registry.forget_kept(name)
    chosen = {name: records[name] for name in names or records if name in records}
    for name in chosen:
        registry.ask_to_end(name, keep=keep)
    if not _gone_in_time(chosen.values(), keep=keep):
        for record in chosen.values():
            if registry.read(record.name) == record:
                # The record is locked, so this number is the owner's.
                os.kill(record.owner, signal.SIGKILL)
        if not _gone_in_time(chosen.values(), keep=keep):
            raise LocalClusterError(f"clusters {', '.join(chosen)} did not end, look for their processes yourself")
    return sorted({*chosen, *(name for name in names or kept if name in kept)})


def _gone_in_time(records: Iterable[Record], *, keep: bool) -> bool:
    deadline = time.monotonic() + ENDED_WITHIN_SECONDS
    for record in records:
        while registry.read(record.name) == record or (not keep and Path(record.directory).exists()):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_EVERY_SECONDS)
    return True


def _become_background(wanted: Sequence[Wanted]) -> int:
    def announce(_records: list[Record]) -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)

    try:
        keep_running(wanted, announce, warn=lambda _sentence: None)
    except FarshoreError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(_become_background(parse_wanted(sys.argv[1:])))
