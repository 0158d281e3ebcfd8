"""How property tests draw their examples, and fixtures for tests against real brokers.

Property tests draw the same examples in every run, so that `make test` does not pass or fail by luck. With
HYPOTHESIS_PROFILE=explore, as in `make test-all`, they draw new ones; a counterexample stays as an `@example`.

One pair of single-broker clusters serves the whole run; it starts when the first test asks for it. Tests
share it, so each works on topics, groups and users named after its own `topic`.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from farshore.errors import JavaMissing
from farshore.local import Cluster, prepare, started
from farshore.local.jars import TOOLS, resolve
from farshore.local.java import Java, find_java

# A busy machine is slow, which is no fault of what is tested.
_SLOW_IS_FINE = (HealthCheck.too_slow,)
hypothesis_settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
hypothesis_settings.register_profile(
    "explore", derandomize=False, print_blob=True, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def java() -> Java:
    """The machine's Java. Without any the test is skipped; one that is too old or broken fails it."""
    try:
        return find_java()
    except JavaMissing as missing:
        if os.environ.get("JAVA_HOME") or shutil.which("java"):
            raise
        pytest.skip(f"needs a real Kafka broker: {missing}")


@pytest.fixture(scope="session")
def jars(java: Java) -> Path:  # noqa: ARG001
    """Kafka's jars are on this machine; the directory with those of the tools and of MirrorMaker."""
    prepare()
    return resolve(TOOLS)


@pytest.fixture(scope="session")
def cluster_pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """Source and target, plain text, one broker each, started together."""
    prepare()
    source, target = Cluster("source"), Cluster("target")
    with started(source, target):
        yield source, target


@pytest.fixture(scope="session")
def source_cluster(cluster_pair: tuple[Cluster, Cluster]) -> Cluster:
    return cluster_pair[0]


@pytest.fixture(scope="session")
def target_cluster(cluster_pair: tuple[Cluster, Cluster]) -> Cluster:
    return cluster_pair[1]


@pytest.fixture
def own_pair(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """Clusters that no other test uses, so that they may be stopped, or have aliases that others would use."""
    prepare()
    source, target = Cluster("source"), Cluster("target")
    with started(source, target):
        yield source, target


@pytest.fixture
def threes(java: Java) -> Iterator[tuple[Cluster, Cluster]]:  # noqa: ARG001
    """Source and target of three brokers each; a record is acknowledged when two have it."""
    prepare()
    settings = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}
    source, target = (Cluster(name, brokers=3, settings=settings) for name in ("source", "target"))
    with started(source, target):
        yield source, target


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name no other test uses, recognisable in the brokers' logs."""
    readable = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")[:60]
    return f"{readable}-{uuid.uuid4().hex[:8]}"
