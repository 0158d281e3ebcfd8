"""The groups of one cluster: which there are, in what state, who is in them, and what we may do on them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from farshore.errors import KafkaError, RequestRefused
from farshore.kafka.admin.asking import Asking
from farshore.kafka.admin.group_messages import (
    DescribeConsumerGroups,
    DescribedGroup,
    DescribeGroups,
    ListedGroup,
    ListGroups,
)
from farshore.kafka.admin.words import attempted, refusal, unless_none_answers
from farshore.kafka.facts import Answers, GroupMembership, Operations
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_errors import NONE
from farshore.kafka.raw_groups import GroupCoordinators

_AGAIN_AFTER_SECONDS = 0.2
_CONSUMER, _CLASSIC = "consumer", "classic"
_OF_CONSUMERS = (_CONSUMER, "")
"""Protocol types. Groups that no member ever joined have none."""

_LIST, _DESCRIBE = "list groups", "describe groups"


class Listing(NamedTuple):
    """Groups of every kind by name, each with the broker that told of it, its coordinator. `failures` are of brokers
    that did not tell of theirs: a group not found may still exist."""

    found: dict[str, tuple[int, ListedGroup]]
    failures: tuple[KafkaError, ...]

    @property
    def of_consumers(self) -> dict[str, ListedGroup]:
        """Without those of Connect's workers, of Streams' own protocol and of shares."""
        return {name: each for name, (_, each) in self.found.items() if each.protocol_type in _OF_CONSUMERS}


class AdminGroups:
    """As `Admin.groups`, with its terms. `coordinators` reads and writes the offsets of groups."""

    def __init__(self, asking: Asking, raw: RawCluster, *, timeout: float) -> None:
        self._asking = asking
        self._alias = raw.alias
        self.coordinators = GroupCoordinators(raw.brokers, alias=raw.alias, timeout=timeout)

    async def listing(self, patience: float = 0.0) -> Listing:
        """All that we may see. Raises if no broker tells; one that may yet is asked again, for so many seconds."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + patience
        while True:
            listing = await self._list_once()
            again = any(each.retriable for each in listing.failures) and loop.time() < give_up_at
            if not again and listing.failures and not listing.found:
                raise listing.failures[0]
            if not again:
                return listing
            await asyncio.sleep(_AGAIN_AFTER_SECONDS)

    async def consumer_groups(self) -> frozenset[str]:
        """The consumer groups that we may see. Connect's workers are no consumer groups."""
        return frozenset((await self.listing()).of_consumers)

    async def describe(self, groups: Collection[str], *, with_operations: bool) -> Answers[DescribedGroup]:
        """Groups, existing or not, as their coordinators know them. Dead are those that do not exist or are not of the
        classic protocol. For a cluster that never had a group the brokers make `__consumer_offsets` to answer."""
        request = partial(DescribeGroups, with_operations=with_operations)
        try:
            return unless_none_answers(await self.coordinators.ask(groups, request, _DESCRIBE))
        except KafkaError as error:
            raise attempted(error, self._alias, _DESCRIBE) from error

    async def operations(self, groups: Collection[str]) -> Answers[Operations]:
        """What we may do on consumer groups, existing or not.

        Ask only where there has been a group before: else the brokers make `__consumer_offsets` to answer.
        A group that is not of consumers is refused.
        """
        found = await self.describe(groups, with_operations=True) if groups else {}
        return {group: each if isinstance(each, KafkaError) else self._allowed(each) for group, each in found.items()}

    async def membership(self, group: str) -> GroupMembership | None:
        """Who is in a group of whatever kind; None if there is no such group or we may not see it.

        Asks the broker that lists the group, and so leaves no traces where there is none.
        """
        what = f"describe group {group}"
        broker, listed = (await self.listing()).found.get(group, (None, None))
        if broker is None or listed is None:
            return None
        if listed.type not in ("", _CLASSIC, _CONSUMER):
            return GroupMembership(group, listed.state, listed.protocol_type, ())  # of shares, of Streams' protocol
        asked = DescribeConsumerGroups([group]) if listed.type == _CONSUMER else DescribeGroups([group], False)
        code, found = (await self._asking.broker(broker, what, asked))[group]
        if code != NONE:
            raise refusal(self._alias, what, code)
        return found.membership

    async def _list_once(self) -> Listing:
        found: dict[str, tuple[int, ListedGroup]] = {}
        failures: list[KafkaError] = []
        for broker, answer in (await self._asking.each_broker(_LIST, ListGroups())).items():
            if isinstance(answer, KafkaError):
                failures.append(answer)
                continue
            code, groups = answer
            if code != NONE:
                failures.append(refusal(self._alias, _LIST, code))
            found |= {each.name: (broker, each) for each in groups}
        return Listing(found, tuple(failures))

    def _allowed(self, described: DescribedGroup) -> Operations | KafkaError:
        membership = described.membership
        if membership.protocol_type in _OF_CONSUMERS:
            return described.operations
        message = f"{self._alias}: {_DESCRIBE}: {membership.group} is not of consumers, but {membership.protocol_type}"
        return RequestRefused(message, cluster=self._alias, code="INCONSISTENT_GROUP_PROTOCOL", retriable=False)
