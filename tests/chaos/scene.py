"""Two clusters, what is written on them, and what mirrors them into each other."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from acl_support import allow
from request_proxy import RequestProxy
from spark_support import SparkCluster
from test_run_support import replication_factors

from chaos.bulk import BulkWriter
from chaos.disk import DiskWatch
from chaos.ledger import Ledger
from chaos.mirrors import Place
from chaos.plan import Plan
from chaos.processes import Process, below, executors, workers
from chaos.topics import Kind, create, create_copy, pattern
from chaos.writers import TransactionalWriter, Writer
from farshore.local import Cluster, Security, prepare, started
from farshore.local.ports import LOOPBACK, free_port

USER = "mirror"
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_BROKERS = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2", "log.cleaner.backoff.ms": "2000"}
_RATES = {Kind.LARGE: 0.4, Kind.LONE: 60.0, Kind.KEYED: 100.0, Kind.TRANSACTIONAL: 200.0, Kind.IDEMPOTENT: 400.0}
_USUAL_RATE = 60.0
_HEAVY = (Kind.BULK, Kind.LARGE)

AnyWriter = Writer | BulkWriter


class Scene:
    """What faults are done to. `first` is where Farshore runs, `second` where a standby may."""

    def __init__(self, home: Path, plan: Plan, bulk_rate: float, tell: Callable[[str], None]) -> None:
        self.home = home
        self.plan = plan
        self.tell = tell
        self.clusters = {side: _cluster(side) for side in "AB"}
        self.ledger = Ledger()
        self._networks = {side: threading.Lock() for side in "AB"}
        self.properties = home / "mm2.properties"
        self.writers: dict[str, dict[Kind, AnyWriter]] = {}
        self.notes: list[str] = []
        """What is no fault, and is to be known of."""
        directories = [home, *(cluster.directory for cluster in self.clusters.values())]
        self.disk = DiskWatch(directories, self._end_heavy_writers)
        self._bulk_rate = bulk_rate
        self._spark: SparkCluster | None = None

    @property
    def places(self) -> list[Place]:
        return [self.first, self.second]

    def processes(self, part: str) -> list[Process]:
        """Of what runs now: each `driver`, Spark's `jvm` beside it, its `executors` and its Python `workers`."""
        if self._spark is None or part in ("driver", "jvm"):
            return [process for place in self.places for process in place.part(part)]
        below_spark = [process for worker in self._spark.workers for process in below(worker.pid)]
        return executors(below_spark) if part == "executors" else workers(below_spark)

    def other(self, side: str) -> Cluster:
        return self.clusters["B" if side == "A" else "A"]

    def network(self, side: str) -> threading.Lock:
        """Held while a fault takes the network of this cluster away."""
        return self._networks[side]

    def proxy(self, side: str) -> RequestProxy:
        proxy = self.clusters[side].proxy
        assert isinstance(proxy, RequestProxy)
        return proxy

    @contextmanager
    def running(self) -> Iterator[None]:
        """Brokers run, and writers write; whatever is left of anything at the end is killed."""
        prepare()
        with started(*self.clusters.values()), ExitStack() as stack:
            stack.callback(self._keep_logs)
            for side, cluster in self.clusters.items():
                self._let_in(cluster)
                create(cluster, Kind)
                if not self.delivers_once(side):
                    create_copy(cluster, self.other(side))
                self.writers[side] = self._writers(cluster)
            self._configure()
            if self.plan.on_spark_cluster:
                self._spark = SparkCluster(self.home, stack)
            options = self._spark.options if self._spark is not None else ()
            self.first, self.second = (
                Place(name, self.home, self.properties, options, self.tell) for name in ("first", "second")
            )
            for place in self.places:
                stack.callback(place.close)
            for writer in self.all_writers():
                stack.callback(writer.abandon)
                writer.start()
            self.disk.start()
            stack.callback(self.disk.end)
            yield

    def all_writers(self) -> list[AnyWriter]:
        return [writer for some in self.writers.values() for writer in some.values()]

    def delivers_once(self, source: str) -> bool:
        return self.plan.exactly_once_into != source

    def _end_heavy_writers(self, used: int) -> None:
        for some in self.writers.values():
            for kind in _HEAVY:
                some[kind].finish()
        note = f"{used / 1e9:.1f} GB are on the disk: nothing more was written to {' and '.join(_HEAVY)} topics"
        self.notes.append(note)
        self.tell(note)

    def _writers(self, cluster: Cluster) -> dict[Kind, AnyWriter]:
        found: dict[Kind, AnyWriter] = {Kind.BULK: BulkWriter(cluster, self.plan.seed, self._bulk_rate)}
        for kind in Kind:
            make = TransactionalWriter if kind is Kind.TRANSACTIONAL else Writer
            if kind is not Kind.BULK:
                found[kind] = make(kind, cluster, self.plan.seed, _RATES.get(kind, _USUAL_RATE))
        return found

    def _let_in(self, cluster: Cluster) -> None:
        servers = cluster.direct_bootstrap_servers
        for kind, name in (("TOPIC", "*"), ("GROUP", "*"), ("TRANSACTIONAL_ID", "*"), ("CLUSTER", "kafka-cluster")):
            allow(servers, USER, kind, name, "ALL")

    def _configure(self) -> None:
        lines = {"clusters": "A, B"}
        for side, cluster in self.clusters.items():
            other = "B" if side == "A" else "A"
            lines |= {f"{side}.{key}": value for key, value in cluster.client_properties(USER).items()}
            lines |= {
                f"{side}->{other}.enabled": "true",
                f"{side}->{other}.topics": pattern(cluster),
                f"{side}.offset.flush.interval.ms": "1000",
                # MirrorMaker 2's own default copies records of aborted transactions.
                f"{side}.consumer.isolation.level": "read_committed",
                f"{side}.consumer.request.timeout.ms": "10000",
                f"{side}.producer.request.timeout.ms": "10000",
            }
        lines |= {
            f"{self.plan.exactly_once_into}.exactly.once.source.support": "enabled",
            **replication_factors(3),
            "tasks.max": "2",
            "refresh.topics.interval.seconds": "5",
            "sync.topic.acls.enabled": "false",
            # MirrorMaker 2 needs these for exactly once.
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://{LOOPBACK}:{free_port()}",
        }
        self.properties.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))

    def _keep_logs(self) -> None:
        for cluster in self.clusters.values():
            for log in (cluster.directory / "logs").glob("*.log"):
                shutil.copy(log, self.home / f"{cluster.name}-{log.name}")


def secret_of(side: str) -> str:
    """The password of USER there; no log may hold it."""
    return f"{side} wave-breaker"


def _cluster(name: str) -> Cluster:
    return Cluster(
        name,
        brokers=3,
        settings=_BROKERS,
        security=Security.SASL_PLAINTEXT,
        users={USER: secret_of(name)},
        authorizer=True,
        proxied=True,
        make_proxy=RequestProxy,
        jvm_options=_JVM,
    )
