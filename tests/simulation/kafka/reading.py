"""A fetch on one broker: which partitions, how many bytes of each, and when it is answered.

Facts that are easily forgotten:

- In the version of the request that we send, followers answer consumers too, out of their own log. So a broker that has
  lost leadership goes on answering whoever does not name the leader's epoch.
- Only the first batch of all may exceed the limits. Of every other partition the first batch comes whole or not at all;
  what follows it is cut off where the limit is.
- A fetch waits only for bytes: neither a marker's arrival nor a leader's change is an answer, but an error is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from farshore.kafka.raw_batches import Fetch
from farshore.kafka.raw_fetch_session import FetchAnswer
from farshore.kafka.raw_model import Fetched, FetchPartition, IsolationLevel
from farshore.model import TopicPartition
from simulation.kafka import codes
from simulation.kafka.fetch_sessions import FetchSessions, Opened
from simulation.kafka.host import Host
from simulation.kafka.log import Log

Logs = Mapping[TopicPartition, Log]
Ids = Mapping[str, str]
"""The ids of topics by their names."""


def wrong_epoch(log: Log, epoch: int) -> int:
    """The code for a client whose idea of the leader's epoch is another; -1 stands for none."""
    if epoch in (-1, log.leader_epoch):
        return codes.NONE
    return codes.FENCED_LEADER_EPOCH if epoch < log.leader_epoch else codes.UNKNOWN_LEADER_EPOCH


class WaitingFetch:
    """One fetch, until it is answered."""

    def __init__(
        self,
        logs: Logs,
        ids: Ids,
        sessions: FetchSessions,
        request: Fetch,
        reply: Callable[[FetchAnswer], None],
        host: Host,
    ) -> None:
        self._logs = logs
        self._ids = ids
        self._sessions = sessions
        self._request = request
        self._reply = reply
        self._host = host
        self._deadline = host.now() + request.max_wait
        self._answered = self._looking = False
        self._opened: Opened | None = None

    def begin(self) -> None:
        opened = self._sessions.open(self._request.session, set(self._ids.values()))
        if isinstance(opened, FetchAnswer):
            self._reply(opened)
            return
        self._look(opened)
        if not self._answered:
            self._opened = opened
            for one in opened.wanted:
                self._logs[TopicPartition(one.topic, one.partition)].wait(self._wake)
            self._host.call_at(self._deadline, self._look, opened)

    def _look(self, opened: Opened) -> None:
        self._looking = False
        if self._answered:
            return
        found = self._found(opened)
        size = sum(len(one.records) for one in found)
        ready = size >= self._request.min_bytes or not found or any(one.error for one in found)
        if not ready and self._host.now() < self._deadline:
            return
        self._answered = True
        for one in opened.wanted:
            if log := self._logs.get(TopicPartition(one.topic, one.partition)):
                log.wait_no_more(self._wake)
        self._reply(self._sessions.answer(opened, found))

    def _wake(self) -> None:
        if not self._looking and self._opened is not None:
            self._looking = True
            self._host.call_at(self._host.now(), self._look, self._opened)

    def _found(self, opened: Opened) -> list[Fetched]:
        found: list[Fetched] = []
        room, any_data = self._request.max_bytes, False
        for one in opened.wanted:
            fetched = self._fetched(opened, one, room, at_least_one=not any_data)
            room = max(0, room - len(fetched.records))
            any_data = any_data or bool(fetched.records)
            found.append(fetched)
        return found

    def _fetched(self, opened: Opened, one: FetchPartition, room: int, *, at_least_one: bool) -> Fetched:
        log = self._logs.get(TopicPartition(one.topic, one.partition))
        if opened.is_unknown(one):
            error = codes.UNKNOWN_TOPIC_ID
        elif log is None:
            error = codes.UNKNOWN_TOPIC_OR_PARTITION
        elif opened.has_ids and self._ids[one.topic] != one.topic_id:
            error = codes.INCONSISTENT_TOPIC_ID
        elif not (error := wrong_epoch(log, one.leader_epoch)) and not log.start <= one.offset <= log.end:
            error = codes.OFFSET_OUT_OF_RANGE
        if error or log is None:
            return Fetched(one.topic, one.partition, error, -1, -1, -1, (), None, b"", 0)
        committed = self._request.isolation_level is IsolationLevel.READ_COMMITTED
        read = log.read(one.offset, min(room, one.max_bytes), committed=committed, at_least_one=at_least_one)
        facts = log.end, log.last_stable_offset, log.start
        return Fetched(one.topic, one.partition, codes.NONE, *facts, read.aborted, None, read.data, 0)
