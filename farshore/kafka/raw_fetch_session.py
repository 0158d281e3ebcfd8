"""Incremental fetch sessions (KIP-227): a broker keeps in mind what we read, so that a request says only what is new.

Pure: `ask` says what the next request has to say, `answered` takes in what came of it. With thousands of idle
partitions neither requests nor answers list any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from farshore.kafka.raw_errors import FETCH_SESSION_ID_NOT_FOUND, NONE
from farshore.kafka.raw_model import Fetched, FetchPartition, IsolationLevel

_NO_SESSION = 0
_FULL, _SESSIONLESS = 0, -1
_LAST_EPOCH = (1 << 31) - 1
_TOPIC_ID = attrgetter("topic_id")


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The part of a fetch request that is about the session. A `full` one lists all that is wanted. What is `forgotten`
    is as it was listed last.

    `names` are those of all topics that the answer may tell of, by their ids; None if some have no id that is known.
    """

    session_id: int
    epoch: int
    listed: Sequence[FetchPartition]
    forgotten: Sequence[FetchPartition] = ()
    names: Mapping[str, str] | None = None

    @property
    def full(self) -> bool:
        return self.epoch in (_FULL, _SESSIONLESS)


def without_session(wanted: Sequence[FetchPartition]) -> SessionRequest:
    return SessionRequest(_NO_SESSION, _SESSIONLESS, wanted, (), _names(wanted))


def _names(wanted: Sequence[FetchPartition]) -> dict[str, str] | None:
    """By id; None if not all have one."""
    found = {one.topic_id: one.topic for one in wanted if one.topic_id is not None}
    return found if _have_ids(wanted) else None


def _have_ids(wanted: Sequence[FetchPartition]) -> bool:
    return None not in map(_TOPIC_ID, wanted)


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """`error` is about the request as a whole. `session_id` 0: the broker keeps nothing in mind.

    Old brokers have been silent for `throttle_ms` already when they answer; `silence_ms` is what is still to come.
    """

    error: int
    session_id: int
    throttle_ms: int
    partitions: list[Fetched]
    silence_ms: int = 0


class _Facts(NamedTuple):
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


@dataclass(slots=True)
class _Known:
    """`facts` None: the broker has said nothing of it yet, or an error, so it is listed again."""

    asked: FetchPartition
    facts: _Facts | None = None


class FetchSession:
    """With one broker, for one request at a time. It begins anew, with a full request, whenever it is not certain that
    both sides know the same: when an answer was lost, or the broker no longer has the session, or never made one. So it
    does when a topic has another id than before, or when ids come to be known or not: a session has ids or names.
    """

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FULL
        self._known: dict[tuple[str, int], _Known] = {}
        self._names: dict[str, str] | None = None
        self._under_way: SessionRequest | None = None
        self._speaks_for_all = False

    def ask(self, wanted: Sequence[FetchPartition]) -> SessionRequest:
        """What to say for the broker to look for all of `wanted`, which must differ, and for nothing else."""
        if self._under_way is not None or _have_ids(wanted) != (self._names is not None):
            self.begin_anew()
        listed = self._news_of(wanted) if self._epoch != _FULL else None
        if listed is None:
            self.begin_anew()
            self._known = {one[:2]: _Known(one) for one in wanted}
            self._names, listed = _names(wanted), list(wanted)
        request = SessionRequest(self._id, self._epoch, listed, self._forget_all_but(wanted), self._names)
        self._under_way, self._speaks_for_all = request, False
        return request

    def answered(self, answer: FetchAnswer, isolation_level: IsolationLevel) -> None:
        """The broker's answer to what was last asked."""
        request, self._under_way = self._under_way, None
        assert request is not None
        if answer.error != NONE:
            self.begin_anew()
            if answer.error == FETCH_SESSION_ID_NOT_FOUND:
                self._id = _NO_SESSION
            return
        for fetched in answer.partitions:
            self._note(fetched)
        # A broker that throttles us (KIP-219) answers at once and with nothing, whatever there is.
        self._speaks_for_all = bool(answer.partitions) or not answer.throttle_ms
        if request.full:
            self._id = answer.session_id
            self._epoch = _FULL if answer.session_id == _NO_SESSION else 1
        elif answer.session_id != self._id or self._anybody_passed_over(answer, isolation_level):
            self.begin_anew()
        else:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else 1

    def begin_anew(self) -> None:
        """Let the next request be a full one. It closes the session that there may be."""
        self._epoch = _FULL

    def asked(self, topic: str, partition: int) -> FetchPartition | None:
        """What the last request, or an earlier one that still holds, has asked for: the object that was given."""
        known = self._known.get((topic, partition))
        return known.asked if known is not None else None

    def unchanged(self, topic: str, partition: int) -> Fetched | None:
        """What the last answer says by not listing the partition: that all is as before. None if it does not say so."""
        known = self._known.get((topic, partition))
        if not self._speaks_for_all or known is None or known.facts is None:
            return None
        return Fetched(topic, partition, NONE, *known.facts, (), None, b"", 0)

    @property
    def speaks_for_all(self) -> bool:
        """The last answer was one, and nothing was asked since: what it does not list is as before."""
        return self._speaks_for_all

    def end_of(self, partition: tuple[str, int], isolation_level: IsolationLevel) -> int | None:
        """Where the log ends for such readers, as of the last answer that spoke for all; None if that is not known."""
        known = self._known.get(partition)
        if known is None or known.facts is None:
            return None
        return known.facts[isolation_level is IsolationLevel.READ_COMMITTED]  # the last stable offset is the second

    def _news_of(self, wanted: Sequence[FetchPartition]) -> list[FetchPartition] | None:
        """What the broker has not been told; None if it knows any topic under another id."""
        listed = []
        for one in wanted:
            known = self._known.get(one[:2])
            if known is None:
                self._known[one[:2]] = _Known(one)
                if self._names is not None and one.topic_id is not None:
                    self._names[one.topic_id] = one.topic
            elif known.asked == one and known.facts is not None:
                continue
            elif known.asked.topic_id != one.topic_id:
                return None
            else:
                known.asked = one
            listed.append(one)
        return listed

    def _forget_all_but(self, wanted: Sequence[FetchPartition]) -> list[FetchPartition]:
        if len(self._known) == len(wanted):
            return []  # all that is wanted is known, so nothing else is
        names = {one[:2] for one in wanted}
        return [self._known.pop(name).asked for name in [name for name in self._known if name not in names]]

    def _note(self, fetched: Fetched) -> None:
        known = self._known.get((fetched.topic, fetched.partition))
        if known is not None:
            sound = fetched.error == NONE and fetched.preferred_read_replica is None
            offsets = fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset
            known.facts = _Facts(*offsets) if sound else None

    def _anybody_passed_over(self, answer: FetchAnswer, isolation_level: IsolationLevel) -> bool:
        """Whether somebody got nothing, for want of room in the answer, and has lost his turn.

        A broker serves partitions in turn: whom it lists goes to the end. But it lists those too of whom only the high
        watermark has changed; one that grows always, and whose batches need what only the first may get, would never
        be first. A full request puts partitions in our order.
        """
        committed = isolation_level is IsolationLevel.READ_COMMITTED
        for one in answer.partitions:
            known = self._known.get((one.topic, one.partition))
            if known is not None and known.facts is not None and not one.records:
                end = one.last_stable_offset if committed else one.high_watermark
                if end > known.asked.offset:
                    return True
        return False
