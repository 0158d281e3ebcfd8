"""The coordinators of groups: found, and asked until they have more to say than "not yet"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TypeVar

from farshore.errors import KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.raw_brokers import Brokers, Purpose
from farshore.kafka.raw_errors import NONE, UNSUPPORTED_VERSION, Category, error_info
from farshore.kafka.raw_group_requests import CommitOffsets, Committed, FetchOffsets, FindGroupCoordinators
from farshore.kafka.raw_requests import Request
from farshore.model import TopicPartition

ValueT = TypeVar("ValueT")
Outcomes = dict[str, ValueT | KafkaError]
Asked = Request[dict[str, tuple[int, ValueT]]]
"""Answers with an error code for each group, and with what to know if that is 0."""

_GROUPS_A_REQUEST = 100
_PAUSE_SECONDS = 0.2

UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
_OF_GROUPS = {
    12: "OFFSET_METADATA_TOO_LARGE",
    22: "ILLEGAL_GENERATION",
    24: "INVALID_GROUP_ID",
    25: UNKNOWN_MEMBER_ID,
    27: "REBALANCE_IN_PROGRESS",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    69: "GROUP_ID_NOT_FOUND",
    113: "STALE_MEMBER_EPOCH",
}
"""Codes that only coordinators of groups answer with."""


class GroupCoordinators:
    """Those of one cluster, in one event loop. What passes by itself is waited for, `timeout` seconds at most.

    Each group has an answer of its own; raised is only what keeps us from everybody.
    """

    def __init__(self, brokers: Brokers, *, alias: str, timeout: float) -> None:
        self._brokers = brokers
        self._alias = alias
        self._timeout = timeout
        self._many = _GROUPS_A_REQUEST

    async def fetch(self, groups: Collection[str]) -> Outcomes[dict[TopicPartition, Committed]]:
        """What each group has committed; nothing for one that does not exist."""
        return await self.ask(groups, FetchOffsets, "read the offsets of a group")

    async def commit(
        self, offsets: Mapping[str, Mapping[TopicPartition, Committed]]
    ) -> Outcomes[dict[TopicPartition, KafkaError]]:
        """Commit for groups without members. The answers are the partitions that were refused."""
        what = "write the offsets of a group"
        answers = await self.ask(offsets, lambda one: CommitOffsets((one[0],), offsets[one[0]]), what, at_a_time=1)
        return {
            group: answer
            if isinstance(answer, KafkaError)
            else {at: self._error(code, what) for at, code in answer.items()}
            for group, answer in answers.items()
        }

    async def ask(
        self,
        groups: Collection[str],
        request: Callable[[list[str]], Asked[ValueT]],
        what: str,
        at_a_time: int = _GROUPS_A_REQUEST,
    ) -> Outcomes[ValueT]:
        """What the coordinator of each group answers to `request`, which is about some of them."""
        give_up_at = asyncio.get_running_loop().time() + self._timeout
        answers: Outcomes[ValueT] = {}
        left = list(groups)
        while left:
            outcomes = await self._ask_once(left, request, what, at_a_time)
            answers |= outcomes
            if asyncio.get_running_loop().time() + _PAUSE_SECONDS > give_up_at:
                break
            left = [group for group, each in outcomes.items() if isinstance(each, KafkaError) and each.retriable]
            if left:
                await asyncio.sleep(_PAUSE_SECONDS)
        return answers

    async def _ask_once(
        self, groups: list[str], request: Callable[[list[str]], Asked[ValueT]], what: str, at_a_time: int
    ) -> Outcomes[ValueT]:
        async def find(some: list[str]) -> Outcomes[int]:
            answer = await self._brokers.ask_anybody(FindGroupCoordinators(some))
            for code, (broker, address) in answer.values():
                if code == NONE:
                    self._brokers.add(broker, address)
            return {
                group: broker if code == NONE else self._error(code, what)
                for group, (code, (broker, _)) in answer.items()
            }

        async def ask(broker: int, some: list[str]) -> Outcomes[ValueT]:
            try:
                answer = await self._brokers.ask(broker, Purpose.CONTROL, request(some))
            except Unreachable as error:
                return dict.fromkeys(some, error)
            return {
                group: value if code == NONE else self._error(code, what) for group, (code, value) in answer.items()
            }

        by_coordinator: dict[int, list[str]] = {}
        outcomes: Outcomes[ValueT] = {}
        for group, found in (await self._in_portions(groups, find, _GROUPS_A_REQUEST)).items():
            if isinstance(found, KafkaError):
                outcomes[group] = found
            else:
                by_coordinator.setdefault(found, []).append(group)
        asked = (self._in_portions(some, partial(ask, broker), at_a_time) for broker, some in by_coordinator.items())
        for answered in await asyncio.gather(*asked):
            outcomes |= answered
        return outcomes

    async def _in_portions(
        self, groups: list[str], ask: Callable[[list[str]], Awaitable[Outcomes[ValueT]]], at_a_time: int
    ) -> Outcomes[ValueT]:
        try:
            answers = await asyncio.gather(*(ask(some) for some in _portions(groups, min(at_a_time, self._many))))
        except RequestRefused as refused:
            if refused.code != error_info(UNSUPPORTED_VERSION).name or self._many == 1:
                raise
            self._many = 1  # brokers before Kafka 3.0
            return await self._in_portions(groups, ask, at_a_time)
        return {group: each for answer in answers for group, each in answer.items()}

    def _error(self, code: int, what: str) -> KafkaError:
        info = error_info(code)
        if info.category is Category.PERMISSION:
            return PermissionDenied(f"{self._alias}: {what}: not allowed ({info.name})", cluster=self._alias)
        name = _OF_GROUPS.get(code, info.name)
        passing = info.retriable and info.category is not Category.UNKNOWN
        said = name if code in _OF_GROUPS else str(info)
        return RequestRefused(f"{self._alias}: {what}: {said}", cluster=self._alias, code=name, retriable=passing)


def _portions(groups: list[str], size: int) -> Iterator[list[str]]:
    rest = iter(groups)
    while portion := list(islice(rest, size)):
        yield portion
