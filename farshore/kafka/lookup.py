"""Names of brokers, looked up in threads of our own.

uvloop would do it in libuv's threads and asyncio in those of its executor. The end of a process waits for both, however
long a name server keeps silent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any

from farshore.threads import in_thread


class LookupTimedOut(TimeoutError):
    """No name server has answered in time."""


async def addresses_of(host: str, within: float) -> tuple[str, ...]:
    """The addresses that the name has, IPv4 and IPv6, in the order to try them; an address is its own. Takes so many
    seconds at most. Raises socket.gaierror if the name has none, and LookupTimedOut."""
    if _is_address(host):
        return (host,)
    try:
        async with asyncio.timeout(within):
            return await in_thread(lambda: _look_up(host), "look up a name")
    except TimeoutError:
        raise LookupTimedOut(f"{host} was not resolved within {within:.0f} s") from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _look_up(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # such as a label of more than 63 letters
        raise socket.gaierror(socket.EAI_NONAME, f"no host has such a name: {error}") from None
    return tuple(dict.fromkeys(_text(address) for *_, address in found))


def _text(address: tuple[Any, ...]) -> str:
    """A link-local address means nothing without its interface."""
    interface = address[3] if len(address) == 4 else 0
    return f"{address[0]}%{interface}" if interface else str(address[0])
