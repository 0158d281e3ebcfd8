"""Where Spark listens: on loopback alone if it stays on this machine, on its own choice of address if it does not."""

from __future__ import annotations

import os
from typing import Any

import pytest

from farshore.dataplane import spark
from farshore.errors import SparkUnavailable

HERE = (None, "local", "local[4]", "local[*]", "local[2,3]", "local-cluster[1,1,512]")
ELSEWHERE = ("spark://a:7077", "yarn", "k8s://https://a:443")


def address_at_start(monkeypatch: pytest.MonkeyPatch, master: str | None) -> str | None:
    """What Spark's Java would be started with. None is started."""
    started_with = []

    def gateway(*_: Any) -> Any:
        started_with.append(os.environ.get("SPARK_LOCAL_IP"))
        raise OSError("no Java in this test")

    monkeypatch.setattr(spark, "_gateway", gateway)
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")})
    with pytest.raises(SparkUnavailable, match="no Java in this test"):
        spark.open_context(master, 2, spark.Java())
    [address] = started_with
    return address


@pytest.mark.parametrize("master", HERE)
def test_spark_on_this_machine_stays_on_loopback(monkeypatch: pytest.MonkeyPatch, master: str | None) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert address_at_start(monkeypatch, master) == "127.0.0.1"
    assert spark.runs_here(master)


@pytest.mark.parametrize("master", ELSEWHERE)
def test_executors_elsewhere_must_reach_the_driver(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert address_at_start(monkeypatch, master) is None
    assert not spark.runs_here(master)


@pytest.mark.parametrize("master", [*HERE, *ELSEWHERE])
def test_whoever_sets_an_address_gets_it(monkeypatch: pytest.MonkeyPatch, master: str | None) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    assert address_at_start(monkeypatch, master) == "10.0.0.7"
