"""Fetch sessions against a broker that does by the book what Kafka's FetchSession and FetchManager do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farshore.kafka.raw_fetch_session import FetchAnswer, FetchSession, SessionRequest
from farshore.kafka.raw_model import Fetched, FetchPartition, IsolationLevel

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
Name = tuple[str, int]
NAMES: list[Name] = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
ID_NOT_FOUND, INVALID_EPOCH, NOT_LEADER = 70, 71, 6


@dataclass
class Log:
    """One byte a record. What lies behind `stable` belongs to a transaction that is open."""

    end: int = 0
    stable: int = 0
    start: int = 0
    error: int = 0


def records(offset: int, count: int) -> bytes:
    return bytes(number % 251 for number in range(offset, offset + count))


@dataclass
class Cached:
    """A partition as a broker keeps it in mind."""

    asked: FetchPartition
    high_watermark: int = -1
    log_start: int = -1

    def must_be_told(self, fetched: Fetched) -> bool:
        changed = (self.high_watermark, self.log_start) != (fetched.high_watermark, fetched.log_start_offset)
        self.high_watermark = -1 if fetched.error else fetched.high_watermark
        self.log_start = fetched.log_start_offset
        return bool(fetched.records or fetched.error) or changed


@dataclass
class ModelBroker:
    """Knows at most one session. `batch_bytes`: a smaller rest of an answer's room has no use for anybody but the
    first with data."""

    logs: dict[Name, Log] = field(default_factory=lambda: {name: Log() for name in NAMES})
    keeps_sessions: bool = True
    throttles: bool = False
    batch_bytes: int = 1
    session_id: int = 0
    epoch: int = 0
    cached: dict[Name, Cached] = field(default_factory=dict)
    made: int = 0

    def answer(self, request: SessionRequest, max_bytes: int = 1000) -> FetchAnswer:
        names = [one[:2] for one in request.listed]
        assert len(set(names)) == len(names)
        assert not set(names) & {one[:2] for one in request.forgotten}
        if request.epoch == 0:
            return self._full(request, max_bytes)
        if request.session_id != self.session_id or self.session_id == 0:
            return FetchAnswer(ID_NOT_FOUND, 0, 0, [])
        if request.epoch != self.epoch:
            return FetchAnswer(INVALID_EPOCH, 0, 0, [])
        for one in request.listed:
            if one[:2] in self.cached:
                self.cached[one[:2]].asked = one
            else:
                self.cached[one[:2]] = Cached(one)
        for one in request.forgotten:
            self.cached.pop(one[:2], None)
        self.epoch += 1
        if self.throttles:
            return FetchAnswer(0, self.session_id, 100, [])
        told = []
        for fetched in self._read([one.asked for one in self.cached.values()], max_bytes):
            name = fetched.topic, fetched.partition
            if self.cached[name].must_be_told(fetched):
                told.append(fetched)
                self.cached[name] = self.cached.pop(name)  # to the end
        return FetchAnswer(0, self.session_id, 0, told)

    def evict(self) -> None:
        self.session_id, self.cached = 0, {}

    def _full(self, request: SessionRequest, max_bytes: int) -> FetchAnswer:
        if request.session_id == self.session_id:
            self.evict()
        if self.throttles:
            return FetchAnswer(0, 0, 100, [])
        told = self._read(request.listed, max_bytes)
        if self.keeps_sessions:
            self.made += 1
            self.session_id, self.epoch = 1000 + self.made, 1
            self.cached = {one[:2]: Cached(one) for one in request.listed}
            for fetched in told:
                self.cached[fetched.topic, fetched.partition].must_be_told(fetched)
        return FetchAnswer(0, self.session_id if self.keeps_sessions else 0, 0, told)

    def _read(self, asked: Iterable[FetchPartition], room: int) -> list[Fetched]:
        told, first = [], True
        for one in asked:
            log = self.logs[one[:2]]
            there = 0 if log.error else max(0, log.stable - one.offset)
            count = min(there, one.max_bytes, room)
            if there and count < self.batch_bytes:
                count = self.batch_bytes if first else 0
            first, room = first and not count, max(0, room - count)
            facts = (-1, -1, -1) if log.error else (log.end, log.stable, log.start)
            told.append(Fetched(one.topic, one.partition, log.error, *facts, (), None, records(one.offset, count), 0))
        return told


@dataclass
class Reader:
    """Reads with a session as a slot does: whoever got something goes behind the others."""

    broker: ModelBroker
    session: FetchSession = field(default_factory=FetchSession)
    offsets: dict[Name, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    wanted: set[Name] = field(default_factory=lambda: set(NAMES))
    max_bytes: int = 500
    ends: dict[Name, tuple[int, int]] = field(default_factory=dict)

    def ask(self) -> SessionRequest:
        listed = [
            FetchPartition(*name, offset, self.max_bytes)
            for name, offset in self.offsets.items()
            if name in self.wanted
        ]
        return self.session.ask(listed)

    def poll(self, room: int = 1000) -> tuple[SessionRequest, FetchAnswer]:
        request = self.ask()
        answer = self.broker.answer(request, room)
        self.session.answered(answer, COMMITTED)
        listed = {(one.topic, one.partition) for one in answer.partitions}
        assert listed <= self.wanted
        silent = [self.session.unchanged(*name) for name in self.wanted - listed]
        for fetched in [*answer.partitions, *(one for one in silent if one)]:
            name = fetched.topic, fetched.partition
            if not fetched.error:
                self.ends[name] = fetched.high_watermark, fetched.last_stable_offset
            if fetched.records:
                assert fetched.records == records(self.offsets[name], len(fetched.records))
                self.offsets[name] = self.offsets.pop(name) + len(fetched.records)
                assert self.offsets[name] <= self.broker.logs[name].stable
        return request, answer


names = st.sampled_from(NAMES)
ACTIONS = st.one_of(
    st.tuples(st.just("poll")),
    st.tuples(st.just("append"), names, st.integers(1, 9)),
    st.tuples(st.just("append in a transaction"), names, st.integers(1, 9)),
    st.tuples(st.just("take away or bring back"), names),
    st.tuples(st.just("go back"), names),
    st.tuples(st.just("fail or recover"), names),
    st.tuples(st.just("lose the request")),
    st.tuples(st.just("lose the answer")),
    st.tuples(st.just("evict")),
    st.tuples(st.just("throttle or not")),
    st.tuples(st.just("keep sessions or not")),
    st.tuples(st.just("ask for other sizes"), st.integers(100, 600)),
)


def act(reader: Reader, action: str, *details: object) -> None:
    broker = reader.broker
    match action, details:
        case "poll", ():
            reader.poll()
        case "append", ((str(topic), int(number)), int(count)):
            broker.logs[topic, number].end += count
            broker.logs[topic, number].stable = broker.logs[topic, number].end
        case "append in a transaction", ((str(topic), int(number)), int(count)):
            broker.logs[topic, number].end += count
        case "take away or bring back", ((str(topic), int(number)),):
            reader.wanted ^= {(topic, number)}
        case "go back", ((str(topic), int(number)),):
            reader.offsets[topic, number] //= 2
        case "fail or recover", ((str(topic), int(number)),):
            broker.logs[topic, number].error ^= NOT_LEADER
        case "lose the request", ():
            reader.ask()
        case "lose the answer", ():
            broker.answer(reader.ask())
        case "evict", ():
            broker.evict()
        case "throttle or not", ():
            broker.throttles = not broker.throttles
        case "keep sessions or not", ():
            broker.keeps_sessions = not broker.keeps_sessions
        case "ask for other sizes", (int(size),):
            reader.max_bytes = size
        case unknown:
            raise AssertionError(unknown)


@settings(max_examples=400, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_whatever_happens_the_broker_looks_for_what_is_wanted_and_all_of_it_is_read_and_known(
    actions: list[tuple[str]],
) -> None:
    reader = Reader(ModelBroker())
    broker = reader.broker
    for action in actions:
        act(reader, *action)
    for log in broker.logs.values():
        log.error = 0
    broker.throttles = False
    for _ in range(4):  # a refusal, a full request, and what is left of a log after a fetch of 100 bytes
        reader.poll(room=1 << 20)
    assert all(reader.offsets[name] == broker.logs[name].stable for name in reader.wanted)
    assert all(reader.ends[name] == (broker.logs[name].end, broker.logs[name].stable) for name in reader.wanted)
    request, answer = reader.poll()
    if request.full:
        assert not broker.keeps_sessions
        assert {one[:2] for one in request.listed} == reader.wanted
    else:
        assert (list(request.listed), list(request.forgotten)) == ([], [])
        assert (answer.error, answer.partitions) == (0, [])
        assert set(broker.cached) == reader.wanted
        assert all(broker.cached[name].asked.offset == reader.offsets[name] for name in reader.wanted)
        assert all(one.asked.max_bytes == reader.max_bytes for one in broker.cached.values())


def test_a_request_lists_only_what_is_new_and_what_has_changed() -> None:
    reader = Reader(ModelBroker(), wanted={("a", 0), ("a", 1)})
    first, _ = reader.poll()
    assert (first.session_id, first.epoch, len(first.listed)) == (0, 0, 2)
    second, answer = reader.poll()
    assert (second.session_id, second.epoch, list(second.listed), answer.partitions) == (1001, 1, [], [])
    act(reader, "append", ("a", 1), 5)
    reader.poll()
    reader.wanted.add(("b", 0))
    fourth, _ = reader.poll()
    assert (fourth.session_id, fourth.epoch) == (1001, 3)
    assert sorted(fourth.listed) == [FetchPartition("a", 1, 5, 500), FetchPartition("b", 0, 0, 500)]


def test_what_is_not_wanted_any_more_is_forgotten_and_not_sent() -> None:
    reader = Reader(ModelBroker())
    reader.poll()
    act(reader, "append", ("a", 0), 5)
    reader.wanted.remove(("a", 0))
    request, answer = reader.poll()
    assert ([one[:2] for one in request.forgotten], answer.partitions) == ([("a", 0)], [])
    reader.wanted.add(("a", 0))
    request, answer = reader.poll()
    assert [one[:2] for one in request.listed] == [("a", 0)]
    assert [len(one.records) for one in answer.partitions] == [5]


def test_after_a_lost_answer_the_old_session_is_closed_with_the_full_request() -> None:
    reader = Reader(ModelBroker())
    reader.poll()
    act(reader, "lose the answer")
    request = reader.ask()
    assert (request.session_id, request.epoch, len(request.listed)) == (1001, 0, 4)


@pytest.mark.parametrize(("error", "session_id"), [(70, 0), (71, 1001), (106, 1001), (-1, 1001)])
def test_a_session_refused_begins_anew(error: int, session_id: int) -> None:
    reader = Reader(ModelBroker())
    reader.poll()
    reader.ask()
    reader.session.answered(FetchAnswer(error, 0, 0, []), COMMITTED)
    assert reader.session.unchanged("a", 0) is None
    request = reader.ask()
    assert (request.session_id, request.epoch, len(request.listed)) == (session_id, 0, 4)


def test_a_broker_that_keeps_no_session_is_asked_for_everything_every_time() -> None:
    reader = Reader(ModelBroker(keeps_sessions=False))
    for _ in range(3):
        request, answer = reader.poll()
        assert (request.session_id, request.epoch, len(request.listed), len(answer.partitions)) == (0, 0, 4, 4)


def test_silence_says_that_all_is_as_it_was_but_not_if_the_broker_throttles() -> None:
    reader = Reader(ModelBroker())
    act(reader, "append", ("a", 0), 5)
    act(reader, "append in a transaction", ("a", 0), 2)
    reader.poll()
    reader.poll()
    known = reader.session.unchanged("a", 0)
    assert known is not None
    assert (known.error, known.records, known.high_watermark, known.last_stable_offset) == (0, b"", 7, 5)
    reader.broker.throttles = True
    reader.poll()
    assert reader.session.unchanged("a", 0) is None


def test_a_partition_in_error_is_listed_until_the_broker_says_something_else() -> None:
    reader = Reader(ModelBroker())
    reader.poll()
    act(reader, "fail or recover", ("a", 0))
    reader.poll()
    assert reader.session.unchanged("a", 0) is None
    act(reader, "fail or recover", ("a", 0))
    request, answer = reader.poll()
    assert [one[:2] for one in request.listed] == [("a", 0)]
    assert [one.error for one in answer.partitions] == [0]
    assert list(reader.poll()[0].listed) == []


def test_the_epoch_after_the_last_is_the_first() -> None:
    session = FetchSession()
    session.ask([])
    session.answered(FetchAnswer(0, 5, 0, []), COMMITTED)
    session._epoch = (1 << 31) - 1
    assert session.ask([]).epoch == (1 << 31) - 1
    session.answered(FetchAnswer(0, 5, 0, []), COMMITTED)
    assert session.ask([]).epoch == 1


@pytest.mark.parametrize("keeps_sessions", [True, False])
def test_where_an_answer_has_room_for_one_and_all_logs_grow_everybody_has_his_turn(keeps_sessions: bool) -> None:
    reader = Reader(ModelBroker(batch_bytes=50, keeps_sessions=keeps_sessions))
    for _ in range(40):
        for name in NAMES:
            act(reader, "append", name, 50)
        reader.poll(room=10)
    assert min(reader.offsets.values()) >= 250


@pytest.mark.parametrize(("isolation_level", "full"), [(COMMITTED, False), (UNCOMMITTED, True)])
def test_what_is_not_committed_passes_nobody_over_who_reads_what_is_committed(
    isolation_level: IsolationLevel, full: bool
) -> None:
    session = FetchSession()
    wanted = [FetchPartition("a", 0, 5, 100)]
    session.ask(wanted)
    session.answered(FetchAnswer(0, 9, 0, [Fetched("a", 0, 0, 5, 5, 0, (), None, b"", 0)]), isolation_level)
    session.ask(wanted)
    session.answered(FetchAnswer(0, 9, 0, [Fetched("a", 0, 0, 8, 5, 0, (), None, b"", 0)]), isolation_level)
    assert session.ask(wanted).full is full
