"""The pre-flight's result: as data for machines, as lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from farshore.errors import KafkaError
from farshore.ops.preflight.facts import ClusterFacts, FlowFacts
from farshore.ops.preflight.judge_positions import Start, starts
from farshore.ops.preflight.verdict import Level, Verdict, listed
from farshore.words import counted

_FIRST = 5
_LARGEST = 3
_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text. `label` is its first word, with the colour of `level`."""

    label: str = ""
    text: str = ""
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class Report:
    clusters: tuple[ClusterFacts, ...]
    flows: tuple[FlowFacts, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether there is no problem. Warnings do not count."""
        return all(verdict.level is not Level.PROBLEM for verdict in self.verdicts)

    def data(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "passed": self.passed,
            "clusters": [_cluster_data(facts) for facts in self.clusters],
            "flows": [_flow_data(facts) for facts in self.flows],
            "verdicts": [
                {
                    "level": str(each.level),
                    "subject": each.subject,
                    "check": each.check,
                    "message": each.message,
                    "advice": each.advice or None,
                    "names": list(each.names),
                }
                for each in self.verdicts
            ],
        }

    def lines(self) -> Iterator[Line]:
        """The same for people: clusters, flows, then what is wrong, the worst first."""
        width = max(len(facts.alias) for facts in self.clusters)
        for facts in self.clusters:
            yield _cluster_line(facts, width, self.verdicts)
        for flow in self.flows:
            yield Line()
            yield Line(flow.name)
            yield from _flow_lines(flow)
            fine = [each.check for each in self.verdicts if each.subject == flow.name and each.level is Level.OK]
            if fine:
                yield _row("fine", ", ".join(fine))
        worth_saying = [each for each in self.verdicts if each.level is not Level.OK]
        if worth_saying:
            yield Line()
        for each in worth_saying:
            yield Line(f"{each.level:<{_WIDTH}}", f"{each.subject}: {each.message}", each.level)
            if each.advice:
                yield Line(" " * _WIDTH, f"→ {each.advice}")
        yield Line()
        yield self._summary()

    def _summary(self) -> Line:
        counts: Counter[Level] = Counter(each.level for each in self.verdicts if each.level is not Level.OK)
        said = ", ".join(counted(counts[level], str(level)) for level in Level if counts[level])
        worst = next((level for level in Level if counts[level]), Level.OK)
        return Line(f"{'ready' if self.passed else 'not ready'}{': ' if said else ''}", said, worst)


def _cluster_line(facts: ClusterFacts, width: int, verdicts: tuple[Verdict, ...]) -> Line:
    label = f"{facts.alias:<{width}}  "
    if facts.description is None:
        why = next((each.message.partition(":")[0] for each in verdicts if each.subject == facts.alias), "no answer")
        return Line(label, f"{why}: {','.join(facts.connection.bootstrap_servers)}", Level.PROBLEM)
    release = f"Kafka {facts.release}" if facts.release else "Kafka of unknown release"
    silent = sum(each.failure is not None for each in facts.greetings)
    parts = (
        "ok" if not silent else f"{silent} of {len(facts.greetings)} addresses without an answer",
        counted(len(facts.description.brokers), "broker"), release, f"id {facts.description.cluster_id}",
        f"{counted(len(facts.topics), 'topic')} seen" if facts.topics is not None else "",
    )  # fmt: skip
    return Line(label, ", ".join(filter(None, parts)), Level.WARNING if silent else Level.OK)


def _row(label: str, text: str) -> Line:
    return Line(f"  {label:<{_WIDTH}}", text)


def _flow_lines(facts: FlowFacts) -> Iterator[Line]:
    settings = facts.settings
    if settings.source is None:
        yield _row("topics", "heartbeats only" if settings.heartbeat else "nothing is copied")
        return
    if facts.selected is None:
        yield _row("topics", f"unknown: {facts.source.alias} did not tell")
    else:
        partitions = counted(sum(facts.selected.values()), "partition")
        yield _row("topics", f"{len(facts.selected):,} selected ({partitions})" + _names(tuple(facts.selected)))
        if facts.remote and facts.target.topics is not None:
            existing = sum(facts.exists(remote) for remote in set(facts.remote.values()))
            fresh = len(set(facts.remote.values())) - existing
            yield _row("remote", f"{existing:,} exist on {facts.target.alias}, {fresh:,} to be created")
    if facts.groups is not None:
        yield _row("groups", f"{len(facts.groups):,} followed" + _names(tuple(facts.groups)))
    known = starts(facts)
    if known is None:
        yield _row("positions", "unknown")
        return
    positioned = sum(each.positioned for each in known)
    yield _row("positions", f"{positioned:,} of {counted(len(known), 'partition')} in {settings.positions_topic}")
    yield _row("to copy", _to_copy(known))


def _names(names: tuple[str, ...]) -> str:
    return f": {listed(names, _FIRST)}" if names else ""


def _to_copy(known: tuple[Start, ...]) -> str:
    by_topic = _by_topic(known)
    total = sum(by_topic.values())
    largest = ", ".join(f"{topic} {count:,}" for topic, count in by_topic.most_common(_LARGEST) if count)
    return f"{counted(total, 'record')}" + (
        f": {largest}{', …' if len(+by_topic) > _LARGEST else ''}" if largest else ""
    )


def _by_topic(known: tuple[Start, ...]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in known:
        counts[each.partition.topic] += each.to_copy
    return counts


def _cluster_data(facts: ClusterFacts) -> dict[str, Any]:
    description = facts.description
    return {
        "alias": facts.alias,
        "cluster_id": description and description.cluster_id,
        "release": facts.release and str(facts.release),
        "brokers": [{"id": each.id, "address": each.address} for each in (description.brokers if description else ())],
        "addresses": [
            {"address": each.address, "answers": each.failure is None, "failure": each.failure}
            for each in facts.greetings
        ],
        "operations": sorted(description.operations) if description else None,
    }


def _flow_data(facts: FlowFacts) -> dict[str, Any]:
    known = starts(facts)
    to_copy = _by_topic(known or ())
    positioned = Counter(each.partition.topic for each in known or () if each.positioned)
    return {
        "flow": facts.name,
        "topics": None if facts.selected is None else [
            {
                "name": topic, "partitions": partitions, "remote": facts.remote[topic],
                "remote_exists": None if facts.target.topics is None else facts.exists(facts.remote[topic]),
                "positions": None if known is None else positioned[topic],
                "to_copy": None if known is None else to_copy[topic],
            }
            for topic, partitions in facts.selected.items()
        ],
        "groups": None if facts.groups is None else [
            {"name": group, "topics": None if isinstance(topics, KafkaError) else sorted(topics)}
            for group, topics in facts.groups.items()
        ],
        "positions_topic": facts.settings.positions_topic,
        "positions": None if facts.positions is None else len(facts.positions.ours),
        "to_copy": None if known is None else sum(to_copy.values()),
        "lost": None if known is None else sum(each.lost for each in known),
    }  # fmt: skip
