"""One question to a broker, spoken by hand: which brokers does your cluster have?

Written out here because `farshore.local` knows no client library, and a client would be heavy for a
readiness check.
"""

from __future__ import annotations

import socket
import struct

from farshore.local.ports import LOOPBACK

_METADATA = 3
_VERSION = 4
_ANSWER_LIMIT = 1 << 20


def live_brokers(port: int, timeout: float) -> frozenset[int]:
    """The ids of the brokers that the one behind `port` (a listener without TLS or SASL) counts as alive.

    Empty when nobody answers properly within `timeout`.
    """
    header = struct.pack(">hhih", _METADATA, _VERSION, 1, -1)
    no_topics_no_creation = struct.pack(">i?", 0, False)
    request = header + no_topics_no_creation
    try:
        with socket.create_connection((LOOPBACK, port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                if not 0 < size <= _ANSWER_LIMIT:
                    return frozenset()
                return _broker_ids(answer.read(size))
    except (OSError, struct.error):
        return frozenset()


def listens(port: int, timeout: float) -> bool:
    """Whether somebody accepts connections on `port`."""
    try:
        socket.create_connection((LOOPBACK, port), timeout).close()
    except OSError:
        return False
    return True


def _broker_ids(answer: bytes) -> frozenset[int]:
    _correlation, _throttle_ms, count = struct.unpack_from(">iii", answer)
    place = 12
    ids = set()
    for _ in range(count):
        node, host_length = struct.unpack_from(">ih", answer, place)
        ids.add(node)
        place += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", answer, place)
        place += 2 + max(rack_length, 0)
    return frozenset(ids)
