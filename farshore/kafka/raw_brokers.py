"""The brokers of a cluster: where they are, and the connections to them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from enum import Enum

from farshore.config.security import Connection
from farshore.errors import AuthenticationFailed, KafkaError, Unreachable
from farshore.kafka.raw_connection import log_in
from farshore.kafka.raw_failures import lost
from farshore.kafka.raw_link import Connect, Link, Permit
from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import AnswerT, Request

_CONNECT_WITHIN_SECONDS = 10.0
_KNOWN_BROKERS_TRIED = 3
_NEXT_AFTER_SECONDS = 5.0
"""A broker that hangs must not hold up what any other can answer."""
_CONNECTED_AFTER_SECONDS = 1.0
"""A broker that has not even let us in by then is probably away: the next is asked beside it."""

Dial = Callable[[Connection, str], Connect]
"""How to connect to the brokers of a cluster, given its settings and our client id; `log_in` for real ones."""


class Purpose(Enum):
    """Connections are not shared between these: a broker answers in order, so a long poll holds up all behind it."""

    FETCH = "fetch"
    READ = "read"
    """Fetches that are answered at once."""
    PRODUCE = "produce"
    CONTROL = "control"
    GROUP = "group"
    """Joining a group, which is answered when all members have joined; heartbeats must not wait behind it."""


class Brokers:
    """Links by address and purpose, made when first used. The bootstrap servers are always kept in mind."""

    def __init__(
        self, connection: Connection, *, alias: str, client_id: str, request_timeout: float, dial: Dial = log_in
    ) -> None:
        self._alias = alias
        self._request_timeout = request_timeout
        self._bootstrap = [_address(server) for server in connection.bootstrap_servers]
        self._connect = dial(connection, client_id)
        self._known: dict[int, BrokerAddress] = {}
        self._links: dict[tuple[BrokerAddress, Purpose], Link] = {}
        self._silent: dict[BrokerAddress, None] = {}
        self.closed = False

    async def ask(
        self, broker: int, purpose: Purpose, request: Request[AnswerT], permit: Permit | None = None
    ) -> AnswerT:
        """The answer of the broker with this id. NotSent if `permit` says no when it would be written."""
        address = self._known.get(broker)
        if address is None:
            message = f"{self._alias}: broker {broker} is not known: ask for metadata"
            raise Unreachable(message, cluster=self._alias)
        return await self._link(address, purpose).ask(request, permit)

    async def ask_anybody(self, request: Request[AnswerT]) -> AnswerT:
        """The first answer that one gives: a few of the brokers known, then every bootstrap server.

        AuthenticationFailed, if any of them did not let us in; Unreachable, with what each had to say.
        """
        asked: dict[asyncio.Task[AnswerT], BrokerAddress] = {}
        failures: list[KafkaError] = []
        try:
            for address in (candidates := self._candidates()):
                patience = None if address == candidates[-1] else _NEXT_AFTER_SECONDS
                task = asyncio.create_task(self._ask_in_time(address, request, patience))
                asked[task] = address
                while asked and not await self._is_next_due(task, asked, last=patience is None):
                    done = next(each for each in asked if each.done())
                    try:
                        answer = done.result()
                    except (Unreachable, AuthenticationFailed) as failure:
                        failures.append(failure)
                        del asked[done]
                        continue
                    before = list(asked.values())[: list(asked).index(done)]
                    self._silent |= dict.fromkeys(before)
                    self._silent.pop(asked[done], None)
                    return answer
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        kept_out = [one for one in failures if isinstance(one, AuthenticationFailed)]
        if kept_out:
            raise kept_out[0]
        said = "; ".join(dict.fromkeys(str(one).removeprefix(f"{self._alias}: ") for one in failures))
        raise Unreachable(f"{self._alias}: no broker can be reached: {said}", cluster=self._alias)

    async def _ask_in_time(self, address: BrokerAddress, request: Request[AnswerT], within: float | None) -> AnswerT:
        """Raises Unreachable, also where no answer comes in time, and AuthenticationFailed."""
        try:
            async with asyncio.timeout(within):
                return await self._link(address, Purpose.CONTROL).ask(request)
        except TimeoutError:
            self._silent[address] = None  # asked last from now on, until it answers
            raise lost(self._alias, address, f"no answer within {within:.0f} s") from None

    async def _is_next_due(
        self, newest: asyncio.Task[AnswerT], asked: Mapping[asyncio.Task[AnswerT], BrokerAddress], *, last: bool
    ) -> bool:
        """Wait until any of `asked` is done, or the next is to be asked beside them: the `newest` has failed, or has
        not let us in for a while. One that has let us in may take longer over its answer."""
        if newest not in asked and not last:
            return True
        while not any(task.done() for task in asked):
            done, _ = await asyncio.wait(
                asked, timeout=None if last else _CONNECTED_AFTER_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and not self._link(asked[newest], Purpose.CONTROL).connected:
                return True
        return False

    def losses(self, purpose: Purpose) -> dict[int, int]:
        """How often the connection for this purpose was lost, by broker, as far as it was at all."""
        if not any(link.losses for link in self._links.values()):
            return {}
        links = {number: self._links.get((address, purpose)) for number, address in self._known.items()}
        return {number: link.losses for number, link in links.items() if link is not None and link.losses}

    def add(self, broker: int, address: BrokerAddress) -> None:
        self._known[broker] = address

    async def replace(self, brokers: Mapping[int, BrokerAddress]) -> None:
        """These are the brokers now. Links to other addresses are closed, but not under the hands of a user."""
        self._known = dict(brokers)
        addresses = set(brokers.values())
        idle = [key for key, link in self._links.items() if key[0] not in addresses and not link.in_use]
        await asyncio.gather(*(self._links.pop(key).close() for key in idle))

    async def close(self) -> None:
        """Close all links for good; takes about a second at most."""
        self.closed = True
        links = list(self._links.values())
        self._links.clear()
        await asyncio.gather(*(link.close() for link in links))

    def _candidates(self) -> list[BrokerAddress]:
        """Whom to ask, in this order: brokers we are connected to, others known, bootstrap servers."""
        known = random.sample(list(self._known.values()), len(self._known))
        known.sort(key=lambda address: not self._link(address, Purpose.CONTROL).connected)
        known.sort(key=lambda address: address in self._silent)
        bootstrap = random.sample(self._bootstrap, len(self._bootstrap))
        bootstrap.sort(key=lambda address: address in self._silent)
        return list(dict.fromkeys([*known[:_KNOWN_BROKERS_TRIED], *bootstrap]))

    def _link(self, address: BrokerAddress, purpose: Purpose) -> Link:
        if self.closed:
            raise Unreachable(f"{self._alias}: the client is closed", cluster=self._alias)
        key = (address, purpose)
        if key not in self._links:
            within = min(_CONNECT_WITHIN_SECONDS, self._request_timeout)
            self._links[key] = Link(
                self._alias,
                address,
                self._connect,
                connect_within=within,
                patience=self._request_timeout,
            )
        return self._links[key]


def _address(server: str) -> BrokerAddress:
    host, _, port = server.rpartition(":")
    return BrokerAddress(host.strip("[]"), int(port))
