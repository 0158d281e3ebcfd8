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
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
]


def test_after_two_minutes_of_faults_all_records_are_where_they_should_be(java: Java, tmp_path: Path) -> None:  # noqa: ARG001
    plan = make_plan(random.randrange(1 << 20), 2.0, on_spark_cluster=False)
    report = run(plan, tmp_path, bulk_rate=20_000)
    again = f'make chaos ARGS="--seed {plan.seed} --minutes 2 --rate 20000 --spark here"'
    assert report.wrong == [], f"{again}: see {tmp_path}\n{report.text()}"
    assert sum(report.faults.values()) > 15
    assert report.compared > 1_000_000
