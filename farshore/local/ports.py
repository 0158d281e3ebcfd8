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
            with socket.socket() as probe:
                try:
                    probe.bind((LOOPBACK, port))
                except OSError:
                    continue
            _given_out.add(port)
            return port
