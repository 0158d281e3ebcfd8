"""One Kafka cluster, looked at and changed as an administrator does, in one event loop.

Many things are asked about in one call, and each has an answer of its own: one topic that may not be seen does not
hide the others. Only what makes the whole call senseless is raised, as a `farshore.errors.KafkaError`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

from farshore.config.settings import AdminTuning, Client
from farshore.errors import AuthenticationFailed, KafkaError, Unreachable
from farshore.kafka.admin.alterations import (
    Alteration,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopicAcls,
    CreateTopics,
)
from farshore.kafka.admin.asking import Asking, is_too_old
from farshore.kafka.admin.groups import AdminGroups
from farshore.kafka.admin.looks import (
    DescribeCluster,
    DescribeConfigs,
    DescribeTopicAcls,
    DescribeTopics,
    Refused,
    Resource,
)
from farshore.kafka.admin.words import SECURITY_DISABLED, refusal
from farshore.kafka.facts import Answers, ClusterDescription, Configs, NewTopic, TopicAcl, TopicDescription
from farshore.kafka.raw import At, Dial, RawCluster
from farshore.kafka.raw_connection import log_in
from farshore.kafka.raw_errors import NONE, Category, error_info
from farshore.kafka.tls_words import unusable
from farshore.model import TopicPartition

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Outcomes = dict[str, KafkaError | None]
"""What became of each topic: None, or why what was asked for did not come to be."""

_MOST_RECORDS_A_REQUEST = 5_000
"""Controllers refuse a request as a whole that takes more than 10,000 records of their metadata log."""
_MOST_ACLS_A_REQUEST = 1_000
"""The same, and controllers take a second or more for a few thousand."""
_TOPICS_A_REQUEST = 500
"""Bounds for how long one answer, with dozens of settings a topic, keeps the event loop busy."""

_BROKERS_SHARE_OF_THE_TIME = 0.8
"""The brokers get to answer "not yet" before we stop listening."""
_LEADERS_WITHIN_SECONDS = 1.0
_PAUSE_SECONDS = 0.2


class Admin:
    """The cluster `alias`, as `client` reaches it. Every call has a time limit and may be cancelled; any number of
    tasks may call. `close` ends its connections."""

    def __init__(self, alias: str, client: Client[AdminTuning], *, dial: Dial = log_in) -> None:
        self.alias = alias
        self.timeout = client.tuning.request_timeout.total_seconds()
        client_id = client.tuning.client_id or "farshore"
        try:
            self._raw = RawCluster(
                client.connection, alias=alias, client_id=client_id, request_timeout=self.timeout, dial=dial
            )
        except ssl.SSLError as error:  # such as a key that does not belong to its certificate
            message = f"{alias}: set up the connection: {unusable(error)}"
            raise AuthenticationFailed(message, cluster=alias) from error
        self._asking = Asking(self._raw, timeout=self.timeout)
        self.groups = AdminGroups(self._asking, self._raw, timeout=self.timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._raw.close()

    async def describe(self) -> ClusterDescription:
        """Who the cluster is. As the first call it also tells whether it lets us in."""
        what = "describe the cluster"
        try:
            found = await self._asking.any_broker(what, DescribeCluster())
        except KafkaError as error:
            if not is_too_old(error):
                raise
            return (await self._asking.metadata(what, DescribeTopics(with_operations=True))).cluster
        if isinstance(found, Refused):
            raise refusal(self.alias, what, *found)
        return found

    async def topics(self) -> dict[str, int]:
        """All topics that we may see, internal ones too, with the number of their partitions."""
        found = await self._asking.metadata("list topics", DescribeTopics(None))
        return {name: each.partitions for name, each in found.topics.items() if isinstance(each, TopicDescription)}

    async def describe_topics(self, names: Collection[str]) -> Answers[TopicDescription]:
        """The topics with what we may do on them."""
        what = "describe topics"

        async def ask(some: list[str]) -> Mapping[str, TopicDescription | Refused]:
            request = DescribeTopics(tuple(some), with_operations=True)
            return (await self._asking.metadata(what, request)).topics

        return self._answers(await self._in_portions(_topics_at_a_time(names), ask), what)

    async def topic_configs(self, names: Collection[str]) -> Answers[Configs]:
        what = "describe the configuration of topics"

        async def ask(some: list[str]) -> Mapping[str, Configs | Refused]:
            return await self._asking.any_broker(what, DescribeConfigs(Resource.TOPIC, some))

        return self._answers(await self._in_portions(_topics_at_a_time(names), ask), what)

    async def broker_configs(self, broker: int) -> Configs:
        what = "describe the configuration of a broker"
        found = (await self._asking.broker(broker, what, DescribeConfigs(Resource.BROKER, [str(broker)])))[str(broker)]
        if isinstance(found, Refused):
            raise refusal(self.alias, what, *found)
        return found

    async def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The first offset that is still there."""
        return await self._offsets(partitions, At.EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The next offset to be written, whether what stands before it is committed or not."""
        return await self._offsets(partitions, At.LATEST)

    async def refusals(self, topics: Collection[NewTopic]) -> Outcomes:
        """Whether topics could be made, without making them: None, or why not."""
        return await self._create_topics(topics, "validate the creation of topics", validate_only=True)

    async def create_topics(self, topics: Collection[NewTopic]) -> Outcomes:
        """Make topics that are not there. One that is, is refused as TOPIC_ALREADY_EXISTS and stays as it is.

        A topic that was made may take a moment until every broker knows it.
        """
        return await self._create_topics(topics, "create topics", validate_only=False)

    async def create_partitions(self, totals: Mapping[str, int]) -> Outcomes:
        """Let topics grow to as many partitions. One that has as many or more is refused as INVALID_PARTITIONS."""

        def request(names: list[str]) -> CreatePartitions:
            return CreatePartitions({name: totals[name] for name in names}, self._brokers_time_ms)

        return await self._change("create partitions", _portions(totals), request)

    async def alter_topic_configs(
        self, values: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> Outcomes:
        """Set these settings of topics; None lets the brokers' default hold again. All others stay as they are.

        A topic gets all that is wanted for it, or nothing. `validate_only` changes nothing and tells what would become.
        """

        def request(names: list[str]) -> AlterTopicConfigs:
            return AlterTopicConfigs({name: values[name] for name in names}, validate_only)

        sizes = {name: len(each) for name, each in values.items()}
        return await self._change("alter the configuration of topics", _portions(sizes), request)

    async def topic_acls(self) -> frozenset[TopicAcl] | None:
        """All that are there, of topics that exist or not; None if the cluster has no authorizer.

        Raises PermissionDenied without DESCRIBE on the cluster. Kinds of operations that we have no word for are left
        out.
        """
        found = await self._asking.any_broker("list ACLs", DescribeTopicAcls())
        if not isinstance(found, Refused):
            return found
        if found.code == SECURITY_DISABLED:
            return None
        raise refusal(self.alias, "list ACLs", *found)

    async def create_acls(self, acls: Collection[TopicAcl]) -> dict[TopicAcl, KafkaError | None]:
        """What became of each: None, or why it was not created. One that is there already stays as it is."""
        portions = _portions(dict.fromkeys(acls, 1), _MOST_ACLS_A_REQUEST)
        return await self._change("create ACLs", portions, CreateTopicAcls)

    @property
    def _brokers_time_ms(self) -> int:
        return int(self.timeout * _BROKERS_SHARE_OF_THE_TIME * 1000)

    async def _create_topics(self, topics: Collection[NewTopic], what: str, *, validate_only: bool) -> Outcomes:
        by_name = {each.name: each for each in topics}

        def request(names: list[str]) -> CreateTopics:
            return CreateTopics({name: by_name[name] for name in names}, self._brokers_time_ms, validate_only)

        sizes = {name: 1 + each.partitions + len(each.configs) for name, each in by_name.items()}
        return await self._change(what, _portions(sizes), request)

    async def _change(
        self, what: str, portions: Iterable[list[K]], request: Callable[[list[K]], Alteration[K]]
    ) -> dict[K, KafkaError | None]:
        answers = await self._in_portions(portions, lambda some: self._asking.controller(what, some, request))
        return {
            item: each if isinstance(each, KafkaError) else None if each.code == NONE else self._refusal(what, each)
            for item, each in answers.items()
        }

    async def _offsets(self, partitions: Collection[TopicPartition], at: At) -> dict[TopicPartition, int | KafkaError]:
        """Leaders that change are waited for, but not as long as a partition may be offline."""
        what = "list offsets"
        found: dict[TopicPartition, int | KafkaError] = {}
        left = list(partitions)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + min(self.timeout, _LEADERS_WITHIN_SECONDS)
        while left:
            async with self._asking.within_time(what):
                listed = await self._raw.list_offsets(left, at)
            for where, each in listed.items():
                found[where] = each.offset if each.error == NONE else refusal(self.alias, what, each.error)
            left = [where for where, each in listed.items() if error_info(each.error).category in _PASSING]
            if not left or loop.time() + _PAUSE_SECONDS > give_up_at:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        return found

    async def _in_portions(
        self, portions: Iterable[list[K]], ask: Callable[[list[K]], Awaitable[Mapping[K, T]]]
    ) -> dict[K, T | KafkaError]:
        """One request after the other. Raises if the first has no answer; what a later one is about gets the error."""
        found: dict[K, T | KafkaError] = {}
        for some in portions:
            try:
                found |= await ask(some)
            except (Unreachable, AuthenticationFailed) as error:
                if not found:
                    raise
                found |= dict.fromkeys(some, error)
        return found

    def _answers(self, found: Mapping[str, T | Refused | KafkaError], what: str) -> Answers[T]:
        return {name: self._refusal(what, each) if isinstance(each, Refused) else each for name, each in found.items()}

    def _refusal(self, what: str, refused: Refused) -> KafkaError:
        return refusal(self.alias, what, *refused)


_PASSING = (Category.LEADERSHIP, Category.NETWORK)


def _topics_at_a_time(names: Iterable[str]) -> Iterator[list[str]]:
    return _portions(dict.fromkeys(names, 1), _TOPICS_A_REQUEST)


def _portions(sizes: Mapping[K, int], most: int = _MOST_RECORDS_A_REQUEST) -> Iterator[list[K]]:
    """All items in order, a request's worth at a time."""
    portion: list[K] = []
    room = most
    for item, size in sizes.items():
        if portion and size > room:
            yield portion
            portion, room = [], most
        portion.append(item)
        room -= size
    if portion:
        yield portion
