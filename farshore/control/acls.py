"""Who may read the remote topics: ACLs of the source's topics, carried over by MirrorMaker 2's rules.

| on the source, for a selected topic by its literal name | on the target, for the remote topic   |
|---------------------------------------------------------|---------------------------------------|
| ALLOW WRITE                                             | nothing: only the mirror writes there |
| ALLOW ALL                                               | ALLOW READ                            |
| anything else, DENY too                                 | the same                              |

The topic need not exist. ACLs are only ever added: one that is withdrawn on the source has to be withdrawn on the
target by hand. ACLs of prefixes, groups and clusters stay where they are. Unlike there, only those missing are created.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from farshore.config.settings import FlowSettings
from farshore.control.problems import Problem
from farshore.errors import PermissionDenied
from farshore.kafka.admin import Admin
from farshore.kafka.facts import TopicAcl
from farshore.selection import selects_topic

_log = logging.getLogger(__name__)

_ALL_TOPICS = "*"
_OFF = "or set sync.topic.acls.enabled=false"


def wanted_acls(flow: FlowSettings, source: Iterable[TopicAcl]) -> frozenset[TopicAcl]:
    """The ACLs of remote topics, given those of all topics of the source."""
    settings = flow.source
    if settings is None:
        return frozenset()
    wanted = set()
    for acl in source:
        if (acl.permission, acl.operation) == ("ALLOW", "WRITE"):
            continue
        selected = selects_topic(
            acl.topic, settings.topics, settings.policy, target=flow.flow.target,
            heartbeats_replicated=settings.heartbeats_replication_enabled,
        )  # fmt: skip
        remote = settings.policy.format_remote_topic(flow.flow.source, acl.topic)
        # What is said of all topics still means them under the identity policy, and with a prefix no topic at all.
        if not selected or (acl.topic == _ALL_TOPICS and remote != _ALL_TOPICS):
            continue
        everything = (acl.permission, acl.operation) == ("ALLOW", "ALL")
        wanted.add(replace(acl, topic=remote, operation="READ" if everything else acl.operation))
    return frozenset(wanted)


class AclsPass:
    """Runs in the driver, a pass of the control loop, on `sync.topic.acls.interval.seconds`.

    Two requests, and more only where ACLs are missing. A cluster without an authorizer is no problem: it is said once.
    """

    name = "ACLs"

    def __init__(self, flow: FlowSettings, source: Admin, target: Admin) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._told: str | None = None

    @property
    def every(self) -> float:
        settings = self._flow.source
        if settings is None or not settings.sync_topic_acls_enabled:
            return 0.0
        return settings.sync_topic_acls_interval.total_seconds()

    async def run(self) -> list[Problem]:
        """Every ACL has its own fate. Raises KafkaError where ACLs cannot be seen at all."""
        theirs = await self._look(self._source)
        there = None if theirs is None else await self._look(self._target)
        if theirs is None or there is None:
            self._tell_no_authorizer(self._source if theirs is None else self._target)
            return []
        self._told = None
        missing = sorted(wanted_acls(self._flow, theirs) - there)
        outcomes = await self._target.create_acls(missing)
        problems = []
        for acl, error in outcomes.items():
            if error is None:
                _log.info("%s: ACL created on %s: %s", self._flow.flow, self._target.alias, acl)
            else:
                denied = isinstance(error, PermissionDenied)
                advice = f": allow ALTER on the cluster, {_OFF}" if denied else ""
                problems.append(Problem(str(acl), f"cannot be created: {error}{advice}", error.retriable))
        return problems

    async def _look(self, cluster: Admin) -> frozenset[TopicAcl] | None:
        try:
            return await cluster.topic_acls()
        except PermissionDenied as error:
            # To create them, ALTER is needed, which includes DESCRIBE.
            needed = "DESCRIBE" if cluster is self._source else "ALTER"
            raise PermissionDenied(f"{error}: allow {needed} on the cluster, {_OFF}", cluster=cluster.alias) from None

    def _tell_no_authorizer(self, cluster: Admin) -> None:
        if self._told != cluster.alias:
            self._told = cluster.alias
            _log.info(
                "%s: %s has no authorizer, so there are no ACLs to be kept in step", self._flow.flow, cluster.alias
            )
