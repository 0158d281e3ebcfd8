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

Dial = Callable[[Connection, str], Connect]
"""How to connect to the brokers of a cluster, given its settings and our client id; `log_in` for real ones."""


class Purpose(Enum):
    """Connections are not shared between these: a broker answers in order, so a long poll holds up all behind it."""

    FETCH = "fetch"
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
        """The answer of the first who gives one: a few of the brokers known, then every bootstrap server.

        AuthenticationFailed, if any of them did not let us in; Unreachable, with what each had to say.
        """
        failures: list[KafkaError] = []
        *others, last = self._candidates()
        for address in others:
            try:
                async with asyncio.timeout(_NEXT_AFTER_SECONDS):
                    return await self._link(address, Purpose.CONTROL).ask(request)
            except TimeoutError:
                self._silent[address] = None  # asked last from now on, until it answers
                failures.append(lost(self._alias, address, f"no answer within {_NEXT_AFTER_SECONDS:.0f} s"))
            except (Unreachable, AuthenticationFailed) as failure:
                failures.append(failure)
        try:
            answer = await self._link(last, Purpose.CONTROL).ask(request)
        except (Unreachable, AuthenticationFailed) as failure:
            failures.append(failure)
        else:
            self._silent.pop(last, None)
            return answer
        kept_out = [one for one in failures if isinstance(one, AuthenticationFailed)]
        if kept_out:
            raise kept_out[0]
        said = "; ".join(dict.fromkeys(str(one).removeprefix(f"{self._alias}: ") for one in failures))
        raise Unreachable(f"{self._alias}: no broker can be reached: {said}", cluster=self._alias)

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
