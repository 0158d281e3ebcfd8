"""What Spark is told, whatever the user asks for, and what is refused."""

from __future__ import annotations

import pytest

from farshore.dataplane.spark_settings import NEEDED, UNLESS_TOLD, properties, refuse_conflicts
from farshore.errors import ConfigError

WORKERS_LIVE_FOR_LONG = {
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "farshore.dataplane.daemon",
    "spark.python.worker.reuse": "true",
    "spark.python.worker.idleTimeoutSeconds": "0",
    "spark.python.worker.killOnIdleTimeout": "false",
    "spark.python.worker.tracebackDumpIntervalSeconds": "0",
}
NO_SECOND_ATTEMPT = {"spark.speculation": "false", "spark.task.maxFailures": "1"}
EXECUTORS_STAY = {"spark.dynamicAllocation.enabled": "false", "spark.excludeOnFailure.enabled": "false"}


def test_what_slots_depend_on_is_set_whatever_the_defaults_of_a_spark_are() -> None:
    told = properties({})
    for wanted in (WORKERS_LIVE_FOR_LONG, NO_SECOND_ATTEMPT, EXECUTORS_STAY):
        assert told | wanted == told
    assert told["spark.scheduler.mode"] == "FAIR"
    assert told["spark.api.mode"] == "classic"
    for bounded in (
        "spark.python.task.killTimeout",
        "spark.python.authenticate.socketTimeout",
        "spark.network.timeout",
        "spark.executor.heartbeatInterval",
        "spark.task.reaper.enabled",
    ):
        assert bounded in UNLESS_TOLD


@pytest.mark.parametrize("key", NEEDED)
def test_another_value_of_what_is_needed_is_refused_with_the_one_that_is(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}=other would copy .* Farshore needs {NEEDED[key]}"):
        properties({key: "other"})
    refuse_conflicts({key: NEEDED[key]})


def test_whoever_runs_a_cluster_may_want_the_rest_otherwise() -> None:
    assert properties({"spark.network.timeout": "300s", "spark.ui.enabled": "true"}) == {
        **UNLESS_TOLD,
        **NEEDED,
        "spark.network.timeout": "300s",
        "spark.ui.enabled": "true",
    }
