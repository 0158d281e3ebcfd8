"""Whom to ask: any broker, each of them, or the controller; within what time; and what it means if none answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TypeVar

from farshore.errors import KafkaError, RequestRefused, Unreachable
from farshore.kafka.admin.alterations import Alteration
from farshore.kafka.admin.looks import DescribeTopics, Found, Refused
from farshore.kafka.admin.words import NOT_CONTROLLER, attempted
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_brokers import Purpose
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import AnswerT, Request

ItemT = TypeVar("ItemT", bound=Hashable)

_PAUSE_SECONDS = 0.2
_DOWN_FOR_GOOD_SECONDS = 5.0
"""With no broker there for so long, a call is given up before its time is over."""
_CONTROLLER_WITHIN_SECONDS = 10.0
"""How long the brokers may take to agree on a controller, or to see that one is gone."""
_GRACE_SECONDS = 5.0
"""How much longer than one request may take a whole call may: a lost connection is then noticed by the request."""


class Asking:
    """One cluster, asked by those who name `what` they want, which errors repeat.

    Every call ends within the request timeout and five seconds, and may be cancelled. It raises Unreachable if no
    broker answers, AuthenticationFailed if none lets us in, RequestRefused if the brokers are too old for it.
    """

    def __init__(self, raw: RawCluster, *, timeout: float) -> None:
        self._raw = raw
        self._alias = raw.alias
        self._timeout = timeout

    @asynccontextmanager
    async def within_time(self, what: str) -> AsyncIterator[None]:
        """What happens inside ends in time, and its errors say what was attempted."""
        limit = self._timeout + _GRACE_SECONDS
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError:
            message = f"{self._alias}: {what}: no answer within {limit:.0f} s"
            raise Unreachable(message, cluster=self._alias) from None
        except KafkaError as error:
            raise attempted(error, self._alias, what) from error

    async def any_broker(self, what: str, request: Request[AnswerT]) -> AnswerT:
        """Tried again for five seconds if no broker is there."""
        async with self.within_time(what):
            return await self._any_broker(request)

    async def metadata(self, what: str, request: DescribeTopics) -> Found:
        """Like `any_broker`. The brokers that the answer names are those asked from then on."""
        async with self.within_time(what):
            return await self._metadata(request)

    async def broker(self, number: int, what: str, request: Request[AnswerT]) -> AnswerT:
        async with self.within_time(what):
            await self._metadata(DescribeTopics())
            return await self._raw.brokers.ask(number, Purpose.CONTROL, request)

    async def each_broker(self, what: str, request: Request[AnswerT]) -> dict[int, AnswerT | KafkaError]:
        """All of them at once; each has an answer of its own."""

        async def ask(number: int) -> AnswerT | KafkaError:
            try:
                async with self.within_time(what):
                    return await self._raw.brokers.ask(number, Purpose.CONTROL, request)
            except KafkaError as error:
                return error

        numbers = [each.id for each in (await self.metadata(what, DescribeTopics())).nodes.brokers]
        return dict(zip(numbers, await asyncio.gather(*map(ask, numbers)), strict=True))

    async def controller(
        self, what: str, items: list[ItemT], request: Callable[[list[ItemT]], Alteration[ItemT]]
    ) -> dict[ItemT, Refused]:
        """What the controller answers about each item. Brokers with KRaft pass it on; of older ones one does it, and
        the others say that they are not it: then it is looked for.

        Nothing is sent twice but what was refused for that reason, or had not been written yet. If an answer is lost,
        whether the change was made stays open, and Unreachable is raised.
        """
        answers: dict[ItemT, Refused] = {}
        async with self.within_time(what):
            give_up_at = _now() + min(self._timeout, _CONTROLLER_WITHIN_SECONDS)
            while True:
                sent = _Sent()
                try:
                    controller = (await self._metadata(DescribeTopics())).nodes.controller
                    if controller is None:
                        raise Unreachable(f"{self._alias}: there is no controller", cluster=self._alias)
                    answered = await self._raw.brokers.ask(controller, Purpose.CONTROL, request(items), sent)
                except Unreachable:
                    if sent.yes or _now() + _PAUSE_SECONDS > give_up_at:
                        raise
                else:
                    answers |= answered
                    items = [item for item, each in answered.items() if each.code == NOT_CONTROLLER]
                    if not items or _now() + _PAUSE_SECONDS > give_up_at:
                        return answers
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _any_broker(self, request: Request[AnswerT]) -> AnswerT:
        give_up_at = _now() + min(self._timeout, _DOWN_FOR_GOOD_SECONDS)
        while True:
            try:
                return await self._raw.brokers.ask_anybody(request)
            except Unreachable:
                if self._raw.brokers.closed or _now() + _PAUSE_SECONDS > give_up_at:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _metadata(self, request: DescribeTopics) -> Found:
        found = await self._any_broker(request)
        known = {each.id: BrokerAddress(each.host, each.port) for each in found.nodes.brokers}
        if known:
            await self._raw.brokers.replace(known)
        return found


class _Sent:
    """As a permit: it always says yes, and remembers that it was asked, which is when the request is written."""

    yes = False

    def __call__(self) -> bool:
        self.yes = True
        return True


def is_too_old(error: KafkaError) -> bool:
    """Whether the brokers do not know such a request."""
    return isinstance(error, RequestRefused) and error.code == "UNSUPPORTED_VERSION"


def _now() -> float:
    return asyncio.get_running_loop().time()
