"""Incremental fetch sessions (KIP-227) on one broker.

Facts that are easily forgotten:

- A partition is listed when it has records or an error, or when its high watermark or its log's start has changed since
  it was last listed; a change of the last stable offset alone does not count.
- A partition goes to the end of the line only when it got records.
- A request lists partitions by topic, so those of one topic are served one after the other.
- A session comes into being with the answer, not with the request. One that wants nothing any more is dropped.
- A session has ids of topics or names, for good. An id is looked up when it is first heard of, and again in each request
  of its session until it is found. A topic that was found once and is no more is missing by its name, and if there is
  another one of that name, its id is the wrong one.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from farshore.kafka.raw_fetch_session import FetchAnswer, SessionRequest
from farshore.kafka.raw_model import Fetched, FetchPartition
from farshore.kafka.raw_requests import by_topic
from simulation.kafka import codes

_NO_SESSION = 0
_FULL, _SESSIONLESS = 0, -1
_LAST_EPOCH = (1 << 31) - 1

Key = tuple[str, int]
"""A topic's id, or its name where the session has names, and a partition."""


@dataclass(slots=True)
class _Cached:
    asked: FetchPartition
    found: bool = False
    high_watermark: int = -1
    log_start: int = -1

    def is_news(self, found: Fetched) -> bool:
        """Whether an answer has to list it; what it lists is remembered."""
        changed = (self.high_watermark, self.log_start) != (found.high_watermark, found.log_start_offset)
        self.high_watermark, self.log_start = found.high_watermark, found.log_start_offset
        if found.error:
            self.high_watermark = -1
        return bool(found.error or found.records) or changed


@dataclass(slots=True)
class _Session:
    epoch: int
    cached: dict[Key, _Cached]
    has_ids: bool


@dataclass(slots=True)
class Opened:
    """A request that was accepted: what it wants, in the order in which it is served. `unknown` are those whose
    topic id is not known."""

    wanted: Sequence[FetchPartition]
    unknown: set[Key]
    session_id: int
    session: _Session | None
    epoch: int
    makes_session: bool
    has_ids: bool

    def is_unknown(self, one: FetchPartition) -> bool:
        return _key(one, self.has_ids) in self.unknown


class FetchSessions:
    """`slots` is how many sessions there is room for; beyond that a full fetch is answered without one."""

    def __init__(self, chance: random.Random, *, slots: int = 1000) -> None:
        self.slots = slots
        self._chance = chance
        self._sessions: dict[int, _Session] = {}

    def forget(self) -> None:
        """As after a restart."""
        self._sessions.clear()

    def open(self, asked: SessionRequest, ids: Collection[str]) -> Opened | FetchAnswer:
        """What the request wants, or the answer that refuses it. `ids` are those of the topics that there are."""
        has_ids, listed = asked.names is not None, _in_order(asked.listed)
        unknown = {_key(one, has_ids) for one in listed if has_ids and one.topic_id not in ids}
        if asked.epoch in (_FULL, _SESSIONLESS):
            self._sessions.pop(asked.session_id, None)
            return Opened(listed, unknown, _NO_SESSION, None, 0, asked.epoch == _FULL, has_ids)
        session = self._sessions.get(asked.session_id)
        if session is None:
            return FetchAnswer(codes.FETCH_SESSION_ID_NOT_FOUND, _NO_SESSION, 0, [])
        if session.epoch != asked.epoch:
            return FetchAnswer(codes.INVALID_FETCH_SESSION_EPOCH, _NO_SESSION, 0, [])
        if session.has_ids != has_ids:
            return FetchAnswer(codes.FETCH_SESSION_TOPIC_ID_ERROR, _NO_SESSION, 0, [])
        for one in listed:
            known = session.cached.setdefault(_key(one, has_ids), _Cached(one))
            known.asked = one
        for one in asked.forgotten:
            session.cached.pop(_key(one, has_ids), None)
        if not session.cached:
            del self._sessions[asked.session_id]
            return Opened(listed, unknown, _NO_SESSION, None, 0, False, has_ids)
        session.epoch = session.epoch + 1 if session.epoch < _LAST_EPOCH else 1
        for known in session.cached.values():
            known.found = known.found or not has_ids or known.asked.topic_id in ids
        wanted = [known.asked for known in session.cached.values()]
        unknown = {key for key, known in session.cached.items() if not known.found}
        return Opened(wanted, unknown, asked.session_id, session, session.epoch, False, has_ids)

    def answer(self, opened: Opened, found: Sequence[Fetched]) -> FetchAnswer:
        """The answer with what was found of each partition wanted."""
        session = opened.session
        if session is None:
            return FetchAnswer(codes.NONE, self._made(opened, found), 0, list(found))
        if session.epoch != opened.epoch:
            return FetchAnswer(codes.INVALID_FETCH_SESSION_EPOCH, opened.session_id, 0, [])
        listed = []
        for asked, one in zip(opened.wanted, found, strict=True):
            key = _key(asked, opened.has_ids)
            known = session.cached.get(key)
            if known is None or not known.is_news(one):
                continue
            listed.append(one)
            if one.records:
                session.cached[key] = session.cached.pop(key)
        return FetchAnswer(codes.NONE, opened.session_id, 0, listed)

    def _made(self, opened: Opened, found: Sequence[Fetched]) -> int:
        if not opened.makes_session or len(self._sessions) >= self.slots:
            return _NO_SESSION
        session_id = self._chance.randrange(1, 1 << 31)
        while session_id in self._sessions:
            session_id = self._chance.randrange(1, 1 << 31)
        cached = {
            _key(asked, opened.has_ids): _Cached(
                asked, not opened.is_unknown(asked), one.high_watermark, one.log_start_offset
            )
            for asked, one in zip(opened.wanted, found, strict=True)
        }
        self._sessions[session_id] = _Session(1, cached, opened.has_ids)
        return session_id


def _key(one: FetchPartition, has_ids: bool) -> Key:
    return (one.topic_id or "") if has_ids else one.topic, one.partition


def _in_order(listed: Sequence[FetchPartition]) -> list[FetchPartition]:
    return [one for _, some in by_topic((one.topic_id or one.topic, one) for one in listed) for one in some]
