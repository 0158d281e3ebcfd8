"""One Kafka cluster, looked at through an administrative client. Nothing here changes anything on it.

Many things are asked about in one call, and each has an answer of its own: one topic that may not be seen does not
hide the others. Only what makes the whole call senseless is raised, as a `farshore.errors.KafkaError`.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import KafkaException as ClientException
from confluent_kafka import TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not for mypy
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic as ClientNewTopic

from farshore.config.settings import AdminTuning, Client
from farshore.errors import AuthenticationFailed, KafkaError, Unreachable
from farshore.kafka.clients import librdkafka_config
from farshore.kafka.facts import (
    Answers,
    Broker,
    ClusterDescription,
    Configs,
    ConfigSource,
    ConfigValue,
    GroupMembership,
    Member,
    NewTopic,
    Operation,
    Operations,
    TopicDescription,
)
from farshore.kafka.failures import CLOSED, Complaints, translated
from farshore.model import TopicPartition

K = TypeVar("K")
R = TypeVar("R")

_LISTEN_EVERY_SECONDS = 0.05
_GRACE_SECONDS = 5.0
"""How much longer than its own time limit a call may take before we stop believing in its answer."""

_DOWN_FOR_GOOD_SECONDS = 5.0
_REFUSED_FOR_GOOD_SECONDS = 1.0
"""With no broker there, or none that lets us in, for so long, a call is given up before its time is over."""

_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_SOURCES = {
    1: ConfigSource.DYNAMIC_TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}

# What librdkafka wants to log is said by the errors, in better words.
_quiet = logging.getLogger(f"{__name__}.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False

_changing_warnings = Lock()


class Cluster:
    """The cluster `alias`, as `client` reaches it. Every call has a time limit. Connections end with the object."""

    def __init__(self, alias: str, client: Client[AdminTuning]) -> None:
        self.alias = alias
        self.connection = client.connection
        self.timeout = client.tuning.request_timeout.total_seconds()
        self._complaints = Complaints()
        self._client_id = client.tuning.client_id or "farshore"

    @cached_property
    def _admin(self) -> AdminClient:
        config: dict[str, Any] = {
            **librdkafka_config(self.connection),
            "client.id": self._client_id,
            "allow.auto.create.topics": False,
            "error_cb": self._complaints.hear,
        }
        try:
            return AdminClient(config, logger=_quiet)
        except ClientException as error:
            raise translated(error, self.alias, "set up the connection", self._complaints) from None

    def describe(self) -> ClusterDescription:
        """Who the cluster is. As the first call it also tells whether it lets us in: it raises at once if not."""
        future = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=self.timeout)
        found = self._answer(future, "describe the cluster")
        brokers = (Broker(node.id, node.host, node.port) for node in found.nodes)
        return ClusterDescription(
            found.cluster_id, tuple(sorted(brokers, key=lambda broker: broker.id)), _operations(found)
        )

    def topics(self) -> dict[str, int]:
        """All topics that we may see, internal ones too, with the number of their partitions."""
        try:
            found = self._admin.list_topics(timeout=self.timeout)
        except ClientException as error:
            raise self._translated(error, "list topics") from None
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def describe_topics(self, names: Collection[str]) -> Answers[TopicDescription]:
        """The topics with what we may do on them."""
        if not names:
            return {}
        futures = self._admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self.timeout
        )
        found = self._answers(futures, "describe topics")
        return {
            name: TopicDescription(name, len(each.partitions), _operations(each))
            if not isinstance(each, KafkaError) else each
            for name, each in found.items()
        }  # fmt: skip

    def topic_configs(self, names: Collection[str]) -> Answers[Configs]:
        if not names:
            return {}
        futures = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=self.timeout
        )
        by_name = {resource.name: future for resource, future in futures.items()}
        found = self._answers(by_name, "describe the configuration of topics")
        return {name: each if isinstance(each, KafkaError) else _configs(each) for name, each in found.items()}

    def broker_configs(self, broker: int) -> Configs:
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        future = self._admin.describe_configs([resource], request_timeout=self.timeout)[resource]
        return _configs(self._answer(future, "describe the configuration of a broker"))

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The first offset that is still there."""
        return self._offsets(partitions, _EARLIEST)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The next offset to be written, whether what stands before it is committed or not."""
        return self._offsets(partitions, _LATEST)

    def consumer_groups(self) -> frozenset[str]:
        """The consumer groups that we may see. Connect's workers are no consumer groups."""
        future = self._admin.list_consumer_groups(request_timeout=self.timeout)
        return frozenset(group.group_id for group in self._answer(future, "list groups").valid)

    def group_operations(self, groups: Collection[str]) -> Answers[Operations]:
        """What we may do on consumer groups, existing or not.

        Ask only where there has been a group before: else the brokers make `__consumer_offsets` to answer.
        A group that is not of consumers is refused.
        """
        if not groups:
            return {}
        futures = self._admin.describe_consumer_groups(
            list(groups), include_authorized_operations=True, request_timeout=self.timeout
        )
        found = self._answers(futures, "describe groups")
        return {group: each if isinstance(each, KafkaError) else _operations(each) for group, each in found.items()}

    def membership(self, group: str) -> GroupMembership | None:
        """Who is in a group of whatever kind; None if there is no such group or we may not see it."""
        try:
            # The only call that shows Connect's groups. It is deprecated in favour of two that refuse to.
            with _changing_warnings, warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                found: list[Any] = list(self._admin.list_groups(group=group, timeout=self.timeout))
        except ClientException as error:
            raise self._translated(error, f"describe group {group}") from None
        for each in found:
            if each.id == group:
                members = tuple(Member(m.client_id or "", (m.client_host or "").lstrip("/")) for m in each.members)
                return GroupMembership(group, each.state or "", each.protocol_type or "", members)
        return None

    def refusals(self, topics: Collection[NewTopic]) -> dict[str, KafkaError | None]:
        """Whether topics could be made, without making them: None, or why not."""
        if not topics:
            return {}
        wanted = [
            ClientNewTopic(
                each.name,
                num_partitions=each.partitions,
                replication_factor=each.replication_factor,
                config=dict(each.configs),
            )
            for each in topics
        ]
        futures = self._admin.create_topics(wanted, validate_only=True, request_timeout=self.timeout)
        return self._answers(futures, "validate the creation of topics")

    def _offsets(self, partitions: Collection[TopicPartition], spec: Any) -> dict[TopicPartition, int | KafkaError]:
        if not partitions:
            return {}
        wanted = {ClientPartition(each.topic, each.partition): spec for each in partitions}
        futures = {
            TopicPartition(asked.topic, asked.partition): future
            for asked, future in self._admin.list_offsets(wanted, request_timeout=self.timeout).items()
        }
        found = self._answers(futures, "list offsets")
        return {at: each if isinstance(each, KafkaError) else each.offset for at, each in found.items()}

    def _answers(self, futures: Mapping[K, Future[Any]], what: str) -> dict[K, Any]:
        """The result of each, or its error in Farshore's words; raises where nobody answered any of them."""
        answers: dict[K, Any] = {}
        for key, future in futures.items():
            try:
                answers[key] = self._answer(future, what)
            except KafkaError as error:
                answers[key] = error
        lost = [each for each in answers.values() if isinstance(each, (Unreachable, AuthenticationFailed))]
        if lost and len(lost) == len(answers):
            raise lost[0]
        return answers

    def _answer(self, future: Future[R], what: str) -> R:
        give_up = time.monotonic() + self.timeout + _GRACE_SECONDS
        while not future.done() and time.monotonic() < give_up:
            # Tokens and complaints come through here. Whom no broker lets in need not wait until the end.
            self._admin.poll(_LISTEN_EVERY_SECONDS)
            if self._complaints.refused_for > _REFUSED_FOR_GOOD_SECONDS:
                raise AuthenticationFailed(f"{self.alias}: {self._complaints.login}", cluster=self.alias)
            if self._complaints.down_for > _DOWN_FOR_GOOD_SECONDS:
                said = self._complaints.transport or CLOSED
                raise Unreachable(f"{self.alias}: {what}: {said}", cluster=self.alias)
        try:
            answer = future.result(0)
        except ClientException as error:
            raise self._translated(error, what) from None
        except TimeoutError:
            raise Unreachable(f"{self.alias}: {what}: no answer in time", cluster=self.alias) from None
        self._complaints.forget()
        return answer

    def _translated(self, error: ClientException, what: str) -> KafkaError:
        self._admin.poll(0)
        return translated(error, self.alias, what, self._complaints)


def _operations(described: Any) -> Operations:
    """None stands for an empty list; what we have no word for is left out."""
    known = Operation.__members__
    return frozenset(known[each.name] for each in described.authorized_operations or () if each.name in known)


def _configs(entries: Mapping[str, Any]) -> Configs:
    return {
        name: ConfigValue(
            entry.value, _SOURCES.get(entry.source, ConfigSource.OTHER), entry.is_read_only, entry.is_sensitive
        )
        for name, entry in entries.items()
    }
