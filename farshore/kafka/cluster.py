"""One Kafka cluster for commands and programs that wait for answers: `farshore.kafka.admin` without an event loop.

The calls here change nothing on it; what does is put to the asynchronous client with `ask`.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from farshore.config.settings import AdminTuning, Client
from farshore.errors import KafkaError
from farshore.kafka import background
from farshore.kafka.admin import Admin, Outcomes
from farshore.kafka.facts import (
    Answers,
    ClusterDescription,
    Configs,
    GroupMembership,
    NewTopic,
    Operations,
    TopicDescription,
)
from farshore.model import TopicPartition

T = TypeVar("T")


class Cluster:
    """The cluster `alias`, as `client` reaches it. Every call has a time limit; any number of threads may call.

    Connections end with `close`, with a `with` block, or with the object.
    """

    def __init__(self, alias: str, client: Client[AdminTuning]) -> None:
        self.alias = alias
        self.connection = client.connection
        self.timeout = client.tuning.request_timeout.total_seconds()
        self._held = _Held(alias, client)
        self._finalizer = weakref.finalize(self, _let_go, self._held)
        self._finalizer.atexit = False  # then the loop ends, and all connections with it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Takes a second at most. A call after it connects again."""
        if self._held.admin is not None:
            background.run(self._held.close)

    def ask(self, question: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        """The answer to a question, put to the asynchronous client of this cluster in its own event loop."""

        async def put() -> T:
            return await question(self._held.opened())

        return background.run(put)

    def describe(self) -> ClusterDescription:
        """Who the cluster is. As the first call it also tells whether it lets us in: it raises at once if not."""
        return self.ask(Admin.describe)

    def topics(self) -> dict[str, int]:
        """All topics that we may see, internal ones too, with the number of their partitions."""
        return self.ask(Admin.topics)

    def describe_topics(self, names: Collection[str]) -> Answers[TopicDescription]:
        """The topics with what we may do on them."""
        return self.ask(lambda admin: admin.describe_topics(names)) if names else {}

    def topic_configs(self, names: Collection[str]) -> Answers[Configs]:
        return self.ask(lambda admin: admin.topic_configs(names)) if names else {}

    def broker_configs(self, broker: int) -> Configs:
        return self.ask(lambda admin: admin.broker_configs(broker))

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The first offset that is still there."""
        return self.ask(lambda admin: admin.start_offsets(partitions)) if partitions else {}

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        """The next offset to be written, whether what stands before it is committed or not."""
        return self.ask(lambda admin: admin.end_offsets(partitions)) if partitions else {}

    def consumer_groups(self) -> frozenset[str]:
        """The consumer groups that we may see. Connect's workers are no consumer groups."""
        return self.ask(lambda admin: admin.groups.consumer_groups())

    def group_operations(self, groups: Collection[str]) -> Answers[Operations]:
        """What we may do on consumer groups, existing or not.

        Ask only where there has been a group before: else the brokers make `__consumer_offsets` to answer.
        A group that is not of consumers is refused.
        """
        return self.ask(lambda admin: admin.groups.operations(groups)) if groups else {}

    def membership(self, group: str) -> GroupMembership | None:
        """Who is in a group of whatever kind; None if there is no such group or we may not see it."""
        return self.ask(lambda admin: admin.groups.membership(group))

    def refusals(self, topics: Collection[NewTopic]) -> Outcomes:
        """Whether topics could be made, without making them: None, or why not."""
        return self.ask(lambda admin: admin.refusals(topics)) if topics else {}


class _Held:
    """The client behind a Cluster, made in its event loop when it is first asked."""

    def __init__(self, alias: str, client: Client[AdminTuning]) -> None:
        self._alias = alias
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self.admin: Admin | None = None

    def opened(self) -> Admin:
        loop = asyncio.get_running_loop()
        if self.admin is None or self._loop is not loop:  # a forked process has a loop of its own
            self.admin, self._loop = Admin(self._alias, self._client), loop
        return self.admin

    async def close(self) -> None:
        admin, self.admin = self.admin, None
        if admin is not None and self._loop is asyncio.get_running_loop():
            await admin.close()


def _let_go(held: _Held) -> None:
    if held.admin is not None:
        background.spawn(held.close)
