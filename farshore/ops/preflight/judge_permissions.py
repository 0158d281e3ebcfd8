"""Judging permissions: one line for each that is missing, with the command that grants it."""

from __future__ import annotations

from collections.abc import Iterator

from farshore.config.security import Connection, Plain, Scram
from farshore.errors import KafkaError, PermissionDenied
from farshore.kafka.facts import Operation
from farshore.ops.preflight.facts import ClusterFacts, FlowFacts
from farshore.ops.preflight.needs import Feature, Missing, Resource, missing
from farshore.ops.preflight.verdict import Level, Verdict, listed

_MOST_IN_A_COMMAND = 10
CHECK = "permissions"


def judge_permissions(facts: FlowFacts) -> Iterator[Verdict]:
    alike: dict[tuple[str, Operation, Resource, Feature], list[Missing]] = {}
    for each in missing(facts):
        alike.setdefault((each.cluster, each.operation, each.resource, each.feature), []).append(each)
    for (alias, operation, resource, feature), lacking in alike.items():
        cluster = facts.source if alias == facts.source.alias else facts.target
        names = tuple(each.name for each in lacking)
        where = f"the cluster {alias}" if resource is Resource.CLUSTER else f"{resource} {listed(names)} of {alias}"
        advice = _command(cluster, operation, resource, names)
        if operation is Operation.CREATE:
            advice += "; if it exists and may only not be seen, Read and Write instead"
        if feature.switch:
            advice += f"; or set {feature.switch}=false"
        yield Verdict(
            Level.PROBLEM if feature.essential else Level.WARNING, facts.name, CHECK,
            f"{operation} on {where} is not allowed: needed for {feature.name}", advice, names,
        )  # fmt: skip
    yield from _unchecked(facts)


def _unchecked(facts: FlowFacts) -> Iterator[Verdict]:
    """What brokers with an authorizer do not tell in advance."""
    settings, target = facts.settings, facts.target
    if settings.source is None or target.description is None or not target.guarded:
        return
    fresh = [each.topic.name for each in facts.creations if each.cluster == target.alias and each.refusal is None]
    if fresh:
        yield Verdict(
            Level.NOTE, facts.name, CHECK,
            f"WRITE and ALTER on topics that do not exist yet cannot be checked on {target.alias}: {listed(fresh)}",
            names=tuple(fresh),
        )  # fmt: skip
    answer = facts.target_groups.get(settings.worker.group_id)
    if answer is None or (isinstance(answer, KafkaError) and not isinstance(answer, PermissionDenied)):
        why = "there is no sign of any group" if answer is None else "the brokers do not tell of Connect's groups"
        yield Verdict(
            Level.NOTE, facts.name, CHECK,
            f"READ on group {settings.worker.group_id} cannot be checked on {target.alias}: {why}",
        )  # fmt: skip
    if settings.worker.exactly_once_source_support.lower() == "enabled":
        prefix = f"{settings.worker.group_id}-{settings.source.name}-"
        yield Verdict(
            Level.NOTE, facts.name, CHECK,
            f"WRITE on transactional ids {prefix}… cannot be checked on {target.alias} without fencing who uses them",
            f"{_grant(target)} --operation Write --operation Describe --resource-pattern-type prefixed "
            f"--transactional-id {prefix}",
        )  # fmt: skip


def _command(cluster: ClusterFacts, operation: Operation, resource: Resource, names: tuple[str, ...]) -> str:
    spelled = "".join(word.capitalize() for word in operation.split("_"))
    grant = f"{_grant(cluster)} --operation {spelled}"
    if resource is Resource.CLUSTER:
        return f"{grant} --cluster"
    shown = " ".join(f"--{resource} {name}" for name in names[:_MOST_IN_A_COMMAND])
    more = len(names) - _MOST_IN_A_COMMAND
    return f"{grant} {shown}" + (f" (and {more:,} more, see --json)" if more > 0 else "")


def _grant(cluster: ClusterFacts) -> str:
    server = cluster.connection.bootstrap_servers[0]
    return f"kafka-acls.sh --bootstrap-server {server} --add --allow-principal {_principal(cluster.connection)}"


def _principal(connection: Connection) -> str:
    """As brokers name it unless told otherwise. A certificate's name depends on the brokers' mapping rules."""
    sasl = connection.security.sasl
    return f"User:{sasl.username}" if isinstance(sasl, Plain | Scram) else "User:PRINCIPAL"
