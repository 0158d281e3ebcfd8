"""The client library's errors, in Farshore's words.

librdkafka reports a wrong password or an untrusted certificate only beside the request, through a callback; the request
itself just times out. `Complaints` listens, so that the real reason is said.
"""

from __future__ import annotations

import re
import time
from threading import Lock

from confluent_kafka import KafkaError as ClientError

_REFUSED_LOGIN = {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
_NO_ANSWER = {"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_TIMED_OUT_QUEUE"}

# "ssl://host:9092/bootstrap: what happened (after 12ms in state CONNECT, 3 identical error(s) suppressed)"
_PREFIX = re.compile(r"^(?:[a-z_]+://)?(?P<broker>[^/ ]+)/(?:bootstrap|\d+): ")
_SUFFIX = re.compile(r" \(after \d+ms in state [^)]*(?:\([^)]*\)[^)]*)*\)$")
_ALERT = re.compile(r"alert (?:bad certificate|certificate required|unknown ca|certificate unknown|handshake failure)")


class Complaints:
    """What librdkafka complained about beside the requests; give `hear` as its `error_cb`. Safe between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._login: str | None = None
        self._refused_since: float | None = None
        self._down_since: float | None = None
        self._transport: str | None = None

    def hear(self, error: ClientError) -> None:
        with self._lock:
            if error.name() in _REFUSED_LOGIN or _ALERT.search(error.str()):
                self._login = _tidy(error.str())
                self._refused_since = self._refused_since or time.monotonic()
            elif error.name() in ("_TRANSPORT", "_RESOLVE"):
                self._transport = _tidy(error.str())
            elif error.name() == "_ALL_BROKERS_DOWN" and self._down_since is None:
                self._down_since = time.monotonic()

    def forget(self) -> None:
        """A broker answered, whatever others may have said."""
        with self._lock:
            self._login = self._transport = self._refused_since = self._down_since = None

    @property
    def refused_for(self) -> float:
        """For how many seconds we have not been let in, as far as is known."""
        return self._since(self._refused_since)

    @property
    def down_for(self) -> float:
        """For how many seconds no broker has been there, as far as is known."""
        return self._since(self._down_since)

    def _since(self, when: float | None) -> float:
        return 0.0 if when is None else time.monotonic() - when

    @property
    def login(self) -> str | None:
        """Why the brokers, or we, refused to go on; None if nobody did."""
        with self._lock:
            return self._login

    @property
    def transport(self) -> str | None:
        """What the network said last."""
        with self._lock:
            return self._transport


def _tidy(text: str) -> str:
    """The broker and what it said, without librdkafka's internals."""
    text = _SUFFIX.sub("", text)
    return _PREFIX.sub(lambda match: f"{match['broker']}: ", text)
