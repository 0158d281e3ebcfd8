"""Judging names: what is selected, what it will be called, and whether it can be made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from farshore.errors import PermissionDenied, RequestRefused
from farshore.ops.preflight.facts import Creation, FlowFacts
from farshore.ops.preflight.verdict import Level, Verdict, listed
from farshore.words import counted


def judge_selection(facts: FlowFacts) -> Iterator[Verdict]:
    if facts.settings.source is None or facts.selected is None:
        return
    absent = [name for name, refusal in facts.unseen.items() if refusal is None]
    if absent:
        yield Verdict(
            Level.WARNING, facts.name, "selection",
            f"{listed(absent)}, named in topics, {'do' if len(absent) > 1 else 'does'} not exist on "
            f"{facts.source.alias}",
            "they will be copied once they exist; check the spelling", tuple(absent),
        )  # fmt: skip
    if not facts.selected and not facts.unseen:
        yield Verdict(
            Level.WARNING, facts.name, "selection",
            f"no topic of {facts.source.alias} is selected, of {counted(len(facts.source.topics or ()), 'topic')} "
            "that we may see",
            "check topics and topics.exclude; topics that the principal may not DESCRIBE are not seen",
        )  # fmt: skip


def judge_names(facts: FlowFacts) -> Iterator[Verdict]:
    sources: dict[str, list[str]] = defaultdict(list)
    for topic, remote in facts.remote.items():
        sources[remote].append(topic)
    for remote, topics in sources.items():
        if len(topics) > 1:
            yield Verdict(
                Level.PROBLEM, facts.name, "names", f"{listed(topics)} would all be copied into {remote}",
                "exclude all but one of them", (remote, *topics),
            )  # fmt: skip
    there = facts.target.topics or {}
    wanted = {remote: (facts.selected or {})[topic] for topic, remote in facts.remote.items()}
    smaller = [f"{name} ({there[name]} of {n})" for name, n in wanted.items() if name in there and there[name] < n]
    larger = [f"{name} ({there[name]}, not {n})" for name, n in wanted.items() if name in there and there[name] > n]
    if smaller:
        yield Verdict(
            Level.NOTE, facts.name, "names",
            f"{counted(len(smaller), 'remote topic')} with fewer partitions than the source will get more: "
            f"{listed(smaller)}", names=tuple(smaller),
        )  # fmt: skip
    if larger:
        yield Verdict(
            Level.WARNING, facts.name, "names",
            f"{counted(len(larger), 'remote topic')} with more partitions than the source: {listed(larger)}",
            "partitions are copied one to one, so the rest stays empty; did somebody else make the topic, or was the "
            "source's made anew?", tuple(larger),
        )  # fmt: skip


def judge_shared_names(flows: Sequence[FlowFacts]) -> Iterator[Verdict]:
    """Flows that copy into the same topics of the same target."""
    writers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for facts in flows:
        for remote in set(facts.remote.values()):
            writers[facts.target.alias, remote].append(facts.name)
    shared: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for (_, remote), names in writers.items():
        if len(names) > 1:
            shared[tuple(names)].append(remote)
    for flow_names, topics in shared.items():
        topics.sort()
        yield Verdict(
            Level.WARNING, ", ".join(flow_names), "names",
            f"{listed(flow_names)} copy into the same {counted(len(topics), 'topic')}: {listed(topics)}",
            "records of the clusters will be mixed; if that is not meant, use the default replication policy",
            tuple(topics),
        )  # fmt: skip


_REMOTE_FACTOR_KEY = "replication.factor"
"""Internal topics are made on as many brokers as there are. Remote ones are not: where records lie is for people to
say."""


def judge_creation(facts: FlowFacts) -> Iterator[Verdict]:
    """Topics to be made. Refused permissions are judged with the permissions."""
    too_many: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    refused: dict[str, list[Creation]] = defaultdict(list)
    for creation in facts.creations:
        brokers = (facts.source if creation.cluster == facts.source.alias else facts.target).brokers
        factor = creation.topic.replication_factor
        # The controller also counts brokers that are down for now: its word is better than our counting.
        if brokers is not None and factor > brokers and creation.refusal is not None:
            too_many[creation.cluster, creation.factor_key, factor].append(creation.topic.name)
        elif creation.refusal is not None and not (isinstance(creation.refusal, PermissionDenied) or creation.hidden):
            refused[_reason(creation)].append(creation)
    for (cluster, key, factor), names in too_many.items():
        brokers = (facts.source if cluster == facts.source.alias else facts.target).brokers or 0
        remote = key == _REMOTE_FACTOR_KEY
        comes_to = "cannot be created" if remote else f"will have a factor of {brokers}"
        yield Verdict(
            Level.PROBLEM if remote else Level.WARNING, facts.name, "replication factors",
            f"{key} is {factor}, but {cluster} has {counted(brokers, 'broker')}: {listed(names)} {comes_to}",
            f"set {key} to at most {brokers}, or to -1 for the brokers' default", tuple(names),
        )  # fmt: skip
    for reason, creations in refused.items():
        names = [creation.topic.name for creation in creations]
        yield Verdict(
            Level.PROBLEM, facts.name, "creation",
            f"{creations[0].cluster} would refuse to create {listed(names)}: {reason}", names=tuple(names),
        )  # fmt: skip


def _reason(creation: Creation) -> str:
    error = creation.refusal
    text = str(error).split(": ", 2)[-1]
    return text if isinstance(error, RequestRefused) else str(error)
