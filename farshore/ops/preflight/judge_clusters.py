"""Judging the clusters: reachable, let in, who they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from farshore.config import FlowSettings
from farshore.errors import AuthenticationFailed, Unreachable
from farshore.ops.preflight.facts import ClusterFacts, Trouble
from farshore.ops.preflight.verdict import Level, Verdict, listed

CHECK = "connection"


def judge_cluster(facts: ClusterFacts) -> Iterator[Verdict]:
    servers = facts.connection.bootstrap_servers
    silent = [each for each in facts.greetings if each.failure is not None]
    failed = {each.address: each.failure for each in silent}
    if silent and all(server in failed for server in servers):
        said = "; ".join(f"{server}: {failed[server]}" for server in servers)
        advice = "check bootstrap.servers, security.protocol and the network between here and there"
        if "certificate" in said:
            advice = "check ssl.truststore.location, which must hold the authority of the brokers' certificates, and "
            advice += "ssl.keystore.location, if the brokers ask for one of ours"
        yield Verdict(Level.PROBLEM, facts.alias, CHECK, f"cannot be reached: {said}", advice)
        return
    for each in silent:
        advertised = each.address not in servers
        who = "a broker that the cluster advertises" if advertised else "a bootstrap server"
        yield Verdict(
            Level.PROBLEM if advertised else Level.WARNING, facts.alias, CHECK,
            f"{each.address}, {who}, does not answer: {each.failure}",
            "every broker must be reachable from here: check advertised.listeners, DNS and firewalls" if advertised
            else "the others do; take it out of bootstrap.servers if it is gone for good",
        )  # fmt: skip
    for trouble in facts.troubles:
        yield judge_trouble(facts.alias, trouble)


def judge_trouble(subject: str, trouble: Trouble) -> Verdict:
    """A question without an answer: what it was to tell is unknown."""
    said = str(trouble.error).removeprefix(f"{subject}: ")
    match trouble.error:
        case AuthenticationFailed():
            advice = "check user, password, sasl.mechanism and certificates of this cluster"
            return Verdict(Level.PROBLEM, subject, CHECK, f"login refused: {said}", advice)
        case Unreachable():
            advice = "if it asks for a login, check security.protocol; else check the brokers"
            return Verdict(Level.PROBLEM, subject, CHECK, f"no answer: {said}", advice)
        case _:
            return Verdict(Level.WARNING, subject, CHECK, f"could not {trouble.what}: {said}")


def judge_identities(clusters: Sequence[ClusterFacts]) -> Iterator[Verdict]:
    """No two aliases may be one cluster."""
    by_id: dict[str, list[str]] = defaultdict(list)
    for facts in clusters:
        if facts.description is not None and facts.description.cluster_id:
            by_id[facts.description.cluster_id].append(facts.alias)
    for cluster_id, aliases in by_id.items():
        if len(aliases) > 1:
            yield Verdict(
                Level.PROBLEM, " and ".join(aliases), "identity",
                f"{listed(aliases)} are one and the same cluster, {cluster_id}: mirrored into itself it would grow "
                "for ever",
                "check bootstrap.servers of both", tuple(aliases),
            )  # fmt: skip


def judge_logins(settings: FlowSettings) -> Iterator[Verdict]:
    """Only the administrative clients were tried; others may connect differently."""
    tried = {settings.side(alias).admin.connection for alias in (settings.flow.source, settings.flow.target)}
    others = {
        f"{side.alias} {role}": client.connection
        for connector in settings.connectors
        for side in (connector.source, connector.target)
        for role, client in (("consumer", side.consumer), ("producer", side.producer), ("admin", side.admin))
    }
    others["worker"] = settings.worker.connection
    others["worker producer"] = settings.worker.producer.connection
    untried = sorted(role for role, connection in others.items() if connection not in tried)
    if untried:
        yield Verdict(
            Level.NOTE, str(settings.flow), CHECK,
            f"{listed(untried)} connect or log in differently from the admin clients, whose login was checked",
            names=tuple(untried),
        )  # fmt: skip
