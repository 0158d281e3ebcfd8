"""The pre-flight: everything that can be known about a configuration and its live clusters before it runs.

    look, observe ─► facts ─► judge_… ─► verdicts ─► report

Only `look` and `observe` talk to clusters, and they change nothing there; judging is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from farshore.config import Settings
from farshore.config.settings import AdminTuning, Client
from farshore.ops.preflight.facts import ClusterFacts, FlowFacts
from farshore.ops.preflight.judge_clusters import judge_cluster, judge_identities, judge_logins, judge_trouble
from farshore.ops.preflight.judge_limits import judge_internal, judge_limits, judge_sync
from farshore.ops.preflight.judge_permissions import judge_permissions
from farshore.ops.preflight.judge_positions import judge_positions, judge_worker_group
from farshore.ops.preflight.judge_topics import judge_creation, judge_names, judge_selection, judge_shared_names
from farshore.ops.preflight.look import Look
from farshore.ops.preflight.observe import observe
from farshore.ops.preflight.report import Line, Report
from farshore.ops.preflight.verdict import Level, Verdict
from farshore.threads import side_by_side

__all__ = ["Level", "Line", "Report", "Verdict", "judge", "preflight"]

_FLOW_CHECKS: dict[str, Callable[[FlowFacts], Iterator[Verdict]]] = {
    "selection": judge_selection,
    "names": judge_names,
    "creation and replication factors": judge_creation,
    "permissions": judge_permissions,
    "sizes, timestamps, compression": judge_limits,
    "config sync": judge_sync,
    "internal topics": judge_internal,
    "worker group": judge_worker_group,
    "positions": judge_positions,
}


def preflight(settings: Settings) -> Report:
    """Look at all clusters of the configuration, and judge. Read only; every wait has an end; raises nothing."""
    looks = [Look(alias, _side(settings, alias)) for alias in settings.clusters]
    with ExitStack() as ending:
        for look in looks:
            ending.callback(look.cluster.close)
        clusters = tuple(side_by_side([look.first for look in looks], "look"))
        by_alias = {look.alias: look for look in looks}
        flows = tuple(observe(flow, by_alias[flow.flow.source], by_alias[flow.flow.target]) for flow in settings.flows)
    return judge(clusters, flows)


def _side(settings: Settings, alias: str) -> Client[AdminTuning]:
    """How the first flow that speaks of the cluster administers it."""
    flow = next(each for each in settings.flows if alias in (each.flow.source, each.flow.target))
    return flow.side(alias).admin


def judge(clusters: tuple[ClusterFacts, ...], flows: tuple[FlowFacts, ...]) -> Report:
    """What the facts mean."""
    verdicts = [verdict for facts in clusters for verdict in judge_cluster(facts)]
    verdicts += judge_identities(clusters)
    for facts in flows:
        verdicts += (judge_trouble(facts.name, trouble) for trouble in facts.troubles)
        verdicts += judge_logins(facts.settings)
        verdicts += (verdict for check in _FLOW_CHECKS for verdict in _judge_flow(check, facts))
    verdicts += judge_shared_names(flows)
    return Report(clusters, flows, tuple(sorted(verdicts, key=lambda verdict: list(Level).index(verdict.level))))


def _judge_flow(check: str, facts: FlowFacts) -> Iterator[Verdict]:
    """What a check found; that it is fine, if it found nothing and every question was answered."""
    found = list(_FLOW_CHECKS[check](facts))
    yield from found
    if not found and facts.settings.source is not None and facts.complete:
        yield Verdict(Level.OK, facts.name, check, "nothing to complain about")
