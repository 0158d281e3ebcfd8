"""Clusters that are started together for the length of a block, without their brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farshore.errors import LocalClusterError
from farshore.local import Cluster, started


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cluster, Cluster]]:
    """Clusters that count as started as soon as they have a directory for logs."""

    def launch(cluster: Cluster) -> None:
        (cluster.directory / "logs").mkdir()
        (cluster.directory / "data-1").mkdir()

    monkeypatch.setattr(Cluster, "launch", launch)
    one, other = Cluster("one"), Cluster("other")
    yield one, other
    one.close()
    other.close()


def test_nothing_is_left_of_the_clusters_however_the_block_is_left(pair: tuple[Cluster, Cluster]) -> None:
    with pytest.raises(ZeroDivisionError), started(*pair):
        raise ZeroDivisionError
    assert not any(cluster.directory.exists() for cluster in pair)


def test_where_one_cannot_be_started_the_block_is_not_entered_and_the_logs_stay(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise LocalClusterError("cannot be started")

    monkeypatch.setattr(pair[1], "await_ready", fail)
    with pytest.raises(LocalClusterError, match="cannot be started"), started(*pair):
        pytest.fail("the block was entered")
    for cluster in pair:
        assert [each.name for each in cluster.directory.iterdir()] == ["logs"]
