"""A short round on real brokers, real Spark and real processes. `make chaos` runs longer ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chaos.plan import make_plan
from chaos.run import run
from farshore.local.java import Java

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
]


def test_after_a_minute_of_faults_all_records_are_where_they_should_be(java: Java, tmp_path: Path) -> None:  # noqa: ARG001
    plan = make_plan(random.randrange(1 << 20), 1.0, on_spark_cluster=False)
    report = run(plan, tmp_path, bulk_rate=20_000)
    assert report.wrong == [], f'make chaos ARGS="--seed {plan.seed} --minutes 1": see {tmp_path}\n{report.text()}'
    assert sum(report.faults.values()) > 15
    assert report.compared > 1_000_000
