"""A first look at a cluster: who answers, who it is, what it has. Troubles are collected, never raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from farshore.config.settings import AdminTuning, Client
from farshore.errors import AuthenticationFailed, KafkaError, Unreachable
from farshore.kafka.cluster import Cluster
from farshore.kafka.handshake import Greeting, greet_all
from farshore.model import TopicPartition
from farshore.ops.preflight.facts import ClusterFacts, Configured, Described, Span, Trouble

T = TypeVar("T")

_GREET_WITHIN_SECONDS = 10.0


class Look:
    """One cluster under observation. Once it is lost, no more questions are put to it: each would wait in vain."""

    def __init__(self, alias: str, client: Client[AdminTuning]) -> None:
        self.alias = alias
        self.cluster = Cluster(alias, client)
        self._connection = client.connection
        self._patience = min(_GREET_WITHIN_SECONDS, self.cluster.timeout)
        self._lost = False
        self._troubles: list[Trouble] = []
        self.facts = ClusterFacts(alias=alias, connection=client.connection)

    def attempt(self, what: str, ask: Callable[[], T]) -> T | None:
        """The answer to a question; None, and a trouble more, if there is none."""
        if self._lost:
            return None
        try:
            return ask()
        except KafkaError as error:
            self._lost = isinstance(error, Unreachable | AuthenticationFailed)
            self._troubles.append(Trouble(what, error))
            return None

    def take_troubles(self) -> tuple[Trouble, ...]:
        """What went wrong since the last time this was asked."""
        taken = tuple(self._troubles)
        self._troubles.clear()
        return taken

    def first(self) -> ClusterFacts:
        """Look at the cluster as a whole; `facts` are its result from then on."""
        self.facts = self._first()
        return self.facts

    def existing(self, names: Iterable[str]) -> list[str]:
        """Those of the topics that are there, each once."""
        return [name for name in dict.fromkeys(names) if name in (self.facts.topics or ())]

    def describe(self, names: Iterable[str]) -> Described:
        wanted = self.existing(names)
        return self.attempt("describe topics", lambda: self.cluster.describe_topics(wanted)) or {}

    def configs(self, names: Iterable[str]) -> Configured:
        wanted = self.existing(names)
        return self.attempt("read topic configs", lambda: self.cluster.topic_configs(wanted)) or {}

    def spans(self, names: Iterable[str]) -> Mapping[TopicPartition, Span] | None:
        """What each partition of the topics holds; those without a leader are left out."""
        sizes = self.facts.topics or {}
        partitions = [TopicPartition(name, n) for name in self.existing(names) for n in range(sizes[name])]
        starts = self.attempt("list offsets", lambda: self.cluster.start_offsets(partitions))
        ends = self.attempt("list offsets", lambda: self.cluster.end_offsets(partitions))
        if starts is None or ends is None:
            return None
        both = ((each, starts.get(each), ends.get(each)) for each in partitions)
        return {each: Span(start, end) for each, start, end in both if isinstance(start, int) and isinstance(end, int)}

    def _first(self) -> ClusterFacts:
        greetings = self._greet(self._connection.bootstrap_servers)
        if all(each.failure is not None for each in greetings):
            # The client would now try again for seconds, and then say no more than the greetings do.
            self._lost = True
            return ClusterFacts(alias=self.alias, connection=self._connection, greetings=greetings)
        description = self.attempt("log in", self.cluster.describe)
        brokers = () if description is None else description.brokers
        known = {each.address for each in greetings}
        greetings += self._greet(tuple(each.address for each in brokers if each.address not in known))
        topics = self.attempt("list topics", self.cluster.topics)
        try:
            defaults = self.cluster.broker_configs(brokers[0].id) if brokers and not self._lost else None
        except KafkaError:
            defaults = None  # it takes a permission that Farshore does not need: what depends on it is left open
        return ClusterFacts(
            alias=self.alias,
            connection=self._connection,
            greetings=greetings,
            description=description,
            topics=topics,
            defaults=defaults,
            groups=self.attempt("list groups", self.cluster.consumer_groups),
            troubles=self.take_troubles(),
        )

    def _greet(self, addresses: tuple[str, ...]) -> tuple[Greeting, ...]:
        return greet_all(self._connection, addresses, self._patience) if addresses else ()
