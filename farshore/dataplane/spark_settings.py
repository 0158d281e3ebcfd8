"""The properties of Spark that slots depend on, each with its reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from farshore.errors import ConfigError

NEEDED = {
    # A slot is one task for as long as the flow runs, forked by our own daemon, which has everything loaded. It gives
    # Spark nothing until it ends: it is no idle worker, and neither to be looked into nor to be killed for that.
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "farshore.dataplane.daemon",
    "spark.python.worker.reuse": "true",
    "spark.python.worker.idleTimeoutSeconds": "0",
    "spark.python.worker.killOnIdleTimeout": "false",
    "spark.python.worker.tracebackDumpIntervalSeconds": "0",
    # A second attempt of a slot beside the first would copy twice. It is not Spark that tries again what failed, but
    # the driver, which knows when that is safe.
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    # Executors that go when they look idle, or that are shunned because a slot ended there, would leave slots without a
    # core.
    "spark.dynamicAllocation.enabled": "false",
    "spark.excludeOnFailure.enabled": "false",
    # Jobs never end, so that the first ones must not take all that there is.
    "spark.scheduler.mode": "FAIR",
    # Slots are tasks of a SparkContext, which Spark Connect does not have.
    "spark.api.mode": "classic",
}
"""Under other values records would be copied twice or not at all."""

_QUICK_JAVA = "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1"
"""Java only places and holds slots; no record passes through it. To compile its code well would take longer, on cores
that slots and perhaps brokers share, than anything it ever does for us. No collector is named: two of them, ours and a
user's, would keep Java from starting. Options of the user's own come behind these."""

UNLESS_TOLD = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # How long a slot that is cancelled may take to notice: a stop has ten seconds for everything.
    "spark.python.task.killTimeout": "500ms",
    # The reaper would end a whole executor for one task that is slow to end, with all its other slots.
    "spark.task.reaper.enabled": "false",
    # A dozen workers that start together on two busy cores take their time to say who they are.
    "spark.python.authenticate.socketTimeout": "60s",
    # An executor whose machine is gone without a word is missed after a minute, not two: until then its partitions are
    # not copied. Executors tell every ten seconds that they live.
    "spark.executor.heartbeatInterval": "10s",
    "spark.network.timeout": "60s",
    "spark.driver.defaultJavaOptions": _QUICK_JAVA,
    "spark.executor.defaultJavaOptions": _QUICK_JAVA,
}
"""What is better so, and anyone who runs a cluster may want otherwise."""


def properties(conf: Mapping[str, str]) -> dict[str, str]:
    """All that Spark is told, where the user wants `conf`. Raises ConfigError as `refuse_conflicts` does."""
    refuse_conflicts(conf)
    return {**UNLESS_TOLD, **conf, **NEEDED}


def refuse_conflicts(conf: Mapping[str, str]) -> None:
    """Raises ConfigError for properties under which records would be copied twice, or not at all."""
    problems = [
        f"{key}={conf[key]} would copy records twice or not at all: Farshore needs {value}"
        for key, value in NEEDED.items()
        if conf.get(key, value) != value
    ]
    if problems:
        raise ConfigError(problems)
