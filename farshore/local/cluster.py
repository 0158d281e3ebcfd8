"""Real Kafka clusters on this machine: KRaft, every node a broker and a controller, loopback only.

with Cluster("A", brokers=3) as a:
    print(a.bootstrap_servers)
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from farshore.errors import LocalClusterError
from farshore.local.broker import START_WITHIN_SECONDS, STOP_WITHIN_SECONDS, Broker, Storage, random_id
from farshore.local.broker_settings import Node, broker_settings, write_properties
from farshore.local.certificates import Authority, StoreKind
from farshore.local.jars import BROKER
from farshore.local.javatools import FAST_START, java_command, run_java
from farshore.local.ports import LOOPBACK, claim_port, free_port
from farshore.local.proxy import Proxy
from farshore.local.security import ADMIN, Mechanism, Security, broker_side, client_side, scram_credential

_FORMAT_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Kept:
    """A cluster that does not run, and whose data is there to go on with."""

    directory: Path
    cluster_id: str
    nodes: tuple[Node, ...]


class Cluster:
    """A cluster of `brokers` nodes with ids from 1, in a temporary directory of its own.

    `start` and `stop` may alternate, data is kept in between; `close`, or leaving the `with` block, ends all
    processes and removes the directory. If this process dies without that, both still happen: see
    `farshore.local.lifeline`.

    `settings` are broker settings that win over all others. `security` is that of the client listener,
    `users` maps the names it knows, beside `admin`, to passwords; with `Security.SSL` anybody who got a
    certificate through `client_properties` is known. `authorizer` refuses what no ACL allows, except to
    `admin` and to clients without a name: those of a plain-text listener. `proxied` puts the client
    listener behind `proxy`, which `make_proxy` makes of its routes. The brokers listen to clients from `first_port` on,
    else wherever there is room. With `kept` it goes on where the cluster was that said so.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        security: Security = Security.PLAINTEXT,
        users: Mapping[str, str] | None = None,
        authorizer: bool = False,
        proxied: bool = False,
        first_port: int | None = None,
        kept: Kept | None = None,
        make_proxy: Callable[[Mapping[int, int]], Proxy] = Proxy,
        jvm_options: Sequence[str] = FAST_START,
    ) -> None:
        self.name = name
        self.security = security
        self.cluster_id = kept.cluster_id if kept is not None else random_id()
        self.directory = kept.directory if kept is not None else Path(tempfile.mkdtemp(prefix=f"farshore-{name}-"))
        self.users = {ADMIN: secrets.token_urlsafe(12), **(users or {})}
        self.authority = Authority(self.directory / "certificates") if security.encrypted else None
        self.brokers: list[Broker] = []
        self._jvm_options = tuple(jvm_options)
        self._settings = {**broker_side(security, self.users, self.authority, authorizer), **(settings or {})}
        self._is_kept = kept is not None
        self._nodes = list(kept.nodes) if kept is not None else _nodes(brokers, proxied, first_port)
        self._proxy = make_proxy({n.advertised_port: n.client_port for n in self._nodes}) if proxied else None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{node.advertised_port}" for node in self._nodes)

    @property
    def direct_bootstrap_servers(self) -> str:
        """A way around proxy and security, for looking on: plain text, as a super user without a name."""
        return ",".join(f"{LOOPBACK}:{node.internal_port}" for node in self._nodes)

    @property
    def proxy(self) -> Proxy:
        """The network between clients and brokers; only of a cluster made with `proxied=True`."""
        if self._proxy is None:
            raise LocalClusterError(f"cluster {self.name} has no proxy: make it with proxied=True")
        return self._proxy

    def client_properties(
        self, user: str = ADMIN, *, store: StoreKind = "pem", mechanism: Mechanism = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        """Java client settings to connect as `user`; `store` and `mechanism` matter where TLS and SASL are
        used.

        Stores are written on demand into the cluster's directory and go with it.
        """
        password = self.users.get(user)
        if password is None and self.security.logs_in:
            raise LocalClusterError(f"cluster {self.name} knows no user {user}: give users={{{user!r}: ...}}")
        settings = client_side(self.security, user, password or "", mechanism, self.authority, store)
        return {"bootstrap.servers": self.bootstrap_servers, **settings}

    def start(self, *, wipe: bool = False) -> None:
        """Start all brokers and return when each counts all others as alive; `wipe` begins with no data.

        Raises LocalClusterError after ending what was started; the logs then stay for reading.
        """
        try:
            self.launch(wipe=wipe)
            self.await_ready()
        except BaseException:
            self.give_up()
            raise

    def launch(self, *, wipe: bool = False) -> None:
        """The first half of `start`: all processes exist. Running brokers are left alone."""
        if not self.brokers:
            self._make_brokers()
        if self._proxy is not None:
            self._proxy.start()
        for broker in self.brokers:
            broker.launch(wipe=wipe)

    def await_ready(self) -> None:
        """The second half of `start`: all brokers answer."""
        deadline = time.monotonic() + START_WITHIN_SECONDS
        for broker in self.brokers:
            broker.await_ready({node.id for node in self._nodes}, deadline)

    def give_up(self) -> None:
        """Like `close`, but leave the logs for whoever wants to know why, and the data of a cluster that was kept."""
        self._end_processes()
        if self._is_kept:
            return
        for leftover in self.directory.iterdir():
            if leftover.is_dir() and leftover.name != "logs":
                shutil.rmtree(leftover, ignore_errors=True)

    def stop(self) -> None:
        """Shut all brokers down; data is kept.

        All at once, so the last ones may find no controller majority to say goodbye to: they are then killed.
        """
        for broker in self.brokers:
            broker.ask_to_stop()
        deadline = time.monotonic() + STOP_WITHIN_SECONDS
        for broker in self.brokers:
            broker.await_stopped(deadline)

    def kill(self) -> None:
        """End all brokers at once (SIGKILL); data is kept."""
        for broker in self.brokers:
            broker.kill()

    def keep(self) -> Kept:
        """Like `stop`, for good: what is on disk stays for another `Cluster` to go on with."""
        self.stop()
        self._end_processes()
        return Kept(self.directory, self.cluster_id, tuple(self._nodes))

    def close(self) -> None:
        """End all processes at once and remove everything on disk."""
        self._end_processes()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_processes(self) -> None:
        self.kill()
        if self._proxy is not None:
            self._proxy.close()

    def _make_brokers(self) -> None:
        settings = {
            node.id: broker_settings(node, self._nodes, self._data(node), self.security.value, self._settings)
            for node in self._nodes
        }
        storage = self._format(settings[self._nodes[0].id])
        command = java_command(BROKER, self._jvm_options)
        (self.directory / "logs").mkdir(exist_ok=True)
        self.brokers = [
            Broker(
                name=f"{self.name}/{node.id}",
                node=node,
                data=self._data(node),
                log=self.directory / "logs" / f"broker-{node.id}.log",
                properties=self.directory / f"broker-{node.id}.properties",
                settings=settings[node.id],
                java_command=command,
                storage=storage,
                leftovers=self.directory,
            )
            for node in self._nodes
        ]

    def _data(self, node: Node) -> Path:
        return self.directory / f"data-{node.id}"

    def _format(self, settings: Mapping[str, str]) -> Storage:
        """Have Kafka's own tool write the first metadata, once for all brokers: they differ by ids only."""
        scratch = self.directory / "format"
        shutil.rmtree(scratch, ignore_errors=True)
        properties = scratch.with_suffix(".properties")
        write_properties(properties, {**settings, "log.dirs": str(scratch)})
        known = self.users.items() if self.security.logs_in else ()
        credentials = [("--add-scram", scram_credential(user, password)) for user, password in known]
        done = run_java(
            *(
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                self.cluster_id,
                "--config",
                str(properties),
            ),
            *(argument for credential in credentials for argument in credential),
            jar_set=BROKER,
            timeout=_FORMAT_WITHIN_SECONDS,
        )
        if done.returncode != 0:
            said = [line for line in (done.stderr + done.stdout).splitlines() if not line.startswith("\tat ")]
            raise LocalClusterError(f"cannot format cluster {self.name}: {' '.join(said[-3:])}")
        return Storage(self.cluster_id, (scratch / "bootstrap.checkpoint").read_bytes())


def start_together(*clusters: Cluster) -> None:
    """Start several clusters at the same time. If one fails none stays, and its failure is raised."""
    try:
        for cluster in clusters:
            cluster.launch()
        for cluster in clusters:
            cluster.await_ready()
    except BaseException:
        for cluster in clusters:
            cluster.give_up()
        raise


@contextmanager
def started(*clusters: Cluster) -> Iterator[None]:
    """Several clusters, started at the same time, for the length of the block; nothing is left of them after it.

    If one cannot be started the block is not entered: none stays, and only the logs do, which the error names.
    """
    start_together(*clusters)
    try:
        yield
    finally:
        for cluster in clusters:
            cluster.close()


def _nodes(brokers: int, proxied: bool, first_port: int | None) -> list[Node]:
    """Raises LocalClusterError if a port that is asked for is taken."""
    nodes = []
    for number in range(1, brokers + 1):
        wanted = None if first_port is None else first_port + number - 1
        if wanted is not None and not claim_port(wanted):
            raise LocalClusterError(f"port {wanted} is taken: ask for another one, or end what listens there")
        outside = free_port() if wanted is None else wanted
        client = free_port() if proxied else outside
        nodes.append(Node(number, client, free_port(), free_port(), advertised_port=outside))
    return nodes
