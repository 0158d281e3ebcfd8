"""Free TCP ports on this machine's loopback address."""

from __future__ import annotations

import random
import socket
import threading

LOOPBACK = "127.0.0.1"

# Below the range from which systems take the ports of outgoing connections: a broker that was stopped finds
# its port still free when it comes back.
_CANDIDATES = range(20_000, 32_000)

_given_out: set[int] = set()
_lock = threading.Lock()


def free_port() -> int:
    """A port that nobody listens on now, and that this process has not been given before."""
    with _lock:
        while True:
            port = random.choice(_CANDIDATES)
            if port in _given_out:
                continue
            if not _is_free(port):
                continue
            _given_out.add(port)
            return port


def claim_port(port: int) -> bool:
    """Whether `port` can be had: nobody listens there, and this process has not given it out before."""
    with _lock:
        if port in _given_out or not _is_free(port):
            return False
        _given_out.add(port)
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
