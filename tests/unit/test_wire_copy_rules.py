import struct
from dataclasses import dataclass

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import MalformedBatch
from farshore.wire.batch import Batch, Codec, OldBatch, Scan
from farshore.wire.copy_rules import CommittedOnly, ControlType, NotAsItIs, control_type, why_not_as_it_is

TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 1 << 4, 1 << 5, 1 << 3


def batch(
    base: int,
    count: int = 1,
    *,
    delta: int | None = None,
    attributes: int = 0,
    producer: int = -1,
    payload: bytes = b"",
) -> Batch:
    last = count - 1 if delta is None else delta
    covered = struct.pack(">hiqqqhii", attributes, last, 0, 0, producer, 0, 0, count) + payload
    body = struct.pack(">ibI", 0, 2, google_crc32c.value(covered)) + covered
    (found,) = Scan(struct.pack(">qi", base, len(body)) + body)
    assert isinstance(found, Batch)
    return found


def marker(base: int, producer: int, kind: int, *, timestamp_delta: bytes = b"\x00") -> Batch:
    """An end marker: length, attributes, timestamp delta, offset delta, key, value, no headers."""
    record = b"\x00" + timestamp_delta + b"\x00" + b"\x08" + struct.pack(">hh", 0, kind)
    record += b"\x0c" + bytes(6) + b"\x00"
    payload = bytes([len(record) * 2]) + record
    return batch(base, attributes=TRANSACTIONAL | CONTROL, producer=producer, payload=payload)


def test_a_marker_says_how_its_transaction_ended() -> None:
    assert control_type(marker(0, 1, 0)) is ControlType.ABORT
    assert control_type(marker(0, 1, 1)) is ControlType.COMMIT
    assert control_type(marker(0, 1, 0, timestamp_delta=b"\xff\xff\x7f")) is ControlType.ABORT


def test_other_markers_and_empty_control_batches_end_no_transaction() -> None:
    assert control_type(marker(0, 1, 2)) is None
    assert control_type(batch(0, 0, delta=0, attributes=TRANSACTIONAL | CONTROL, producer=1)) is None


@pytest.mark.parametrize(
    "payload", [b"", b"\x20", b"\x20\x00\x00\x00\x08\x00", b"\x80" * 9, b"\x08\x00\x00\x00\x04\x00"]
)
def test_a_marker_that_cannot_be_read_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedBatch, match="control record"):
        control_type(batch(0, attributes=TRANSACTIONAL | CONTROL, producer=1, payload=payload))


def test_what_a_producer_commits_after_an_abort_is_kept() -> None:
    committed = CommittedOnly([(7, 0)])
    assert not committed.keeps(batch(0, 5, attributes=TRANSACTIONAL, producer=7))
    assert not committed.keeps(marker(5, 7, 0))
    assert committed.keeps(batch(6, 5, attributes=TRANSACTIONAL, producer=7))


def test_batches_outside_transactions_are_kept_whatever_their_producer_does() -> None:
    committed = CommittedOnly([(7, 0)])
    assert committed.keeps(batch(0, producer=7))
    assert committed.keeps(batch(1, producer=8, attributes=TRANSACTIONAL))
    assert committed.keeps(batch(2))


def test_an_empty_control_batch_does_not_end_an_aborted_transaction() -> None:
    committed = CommittedOnly([(7, 0)])
    assert not committed.keeps(batch(0, 0, delta=0, attributes=TRANSACTIONAL | CONTROL, producer=7))
    assert not committed.keeps(batch(1, producer=7, attributes=TRANSACTIONAL))


def test_a_transaction_that_aborts_in_mid_batch_offsets_is_known_by_the_batchs_last_offset() -> None:
    assert not CommittedOnly([(7, 3)]).keeps(batch(0, 5, producer=7, attributes=TRANSACTIONAL))
    assert CommittedOnly([(7, 5)]).keeps(batch(0, 5, producer=7, attributes=TRANSACTIONAL))


def test_without_aborted_transactions_only_markers_are_left_out() -> None:
    committed = CommittedOnly(None)
    assert committed.keeps(batch(0, producer=7, attributes=TRANSACTIONAL))
    assert not committed.keeps(marker(1, 7, 1))


@dataclass
class Log:
    """A partition as a broker would hold it, and what is known about each batch: the slow, obvious model."""

    batches: list[Batch]
    visible: list[bool]
    aborted: list[tuple[int, int, int]]  # producer id, first and last offset


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Interleaved producers that write, commit and abort, until every transaction has ended."""
    log = Log([], [], [])
    open_since: dict[int, tuple[int, list[int]]] = {}
    offset = draw(st.integers(0, 3))

    def end(producer: int, kind: int) -> None:
        nonlocal offset
        first, members = open_since.pop(producer)
        if kind == ControlType.ABORT.value:
            log.aborted.append((producer, first, offset))
            for member in members:
                log.visible[member] = False
        log.batches.append(marker(offset, producer, kind))
        log.visible.append(False)
        offset += 1

    for producer, step, count in draw(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("wwwpca"), st.integers(1, 3)), max_size=30)
    ):
        if step in "wp":
            if step == "w":
                open_since.setdefault(producer, (offset, []))[1].append(len(log.batches))
            attributes = TRANSACTIONAL if step == "w" else 0
            log.batches.append(batch(offset, count, attributes=attributes, producer=producer))
            log.visible.append(True)
            offset += count + draw(st.integers(0, 1))
        elif producer in open_since:
            end(producer, ControlType.COMMIT.value if step == "c" else ControlType.ABORT.value)
    for producer in list(open_since):
        end(producer, draw(st.integers(0, 1)))
    return log


@given(logs(), st.data())
def test_committed_only_agrees_with_what_happened_wherever_a_fetch_is_cut(log: Log, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(log.batches)))
    stop = data.draw(st.integers(start, len(log.batches)))
    fetched = log.batches[start:stop]
    # as a broker answers: the aborted transactions that overlap the fetched range, in any order
    listed = [
        (producer, first)
        for producer, first, last in log.aborted
        if fetched and first <= fetched[-1].last_offset and last >= fetched[0].base_offset
    ]
    committed = CommittedOnly(data.draw(st.permutations(listed)))
    assert [committed.keeps(each) for each in fetched] == log.visible[start:stop]


def reason(
    candidate: Batch | OldBatch, codec: Codec | None = None, *, log_append_time: bool = False
) -> NotAsItIs | None:
    return why_not_as_it_is(
        candidate, position=10, target_log_append_time=log_append_time, max_message_bytes=71, codec=codec
    )


def test_an_ordinary_batch_is_copied_as_it_is() -> None:
    assert reason(batch(10, 3)) is None
    assert reason(batch(10, 3, payload=bytes(10))) is None
    assert reason(batch(12, 3, attributes=TRANSACTIONAL | Codec.LZ4), Codec.LZ4) is None
    assert reason(batch(10, 3, attributes=LOG_APPEND_TIME), log_append_time=True) is None


def test_every_other_batch_has_a_reason() -> None:
    (old,) = Scan(struct.pack(">qiIbbii", 10, 14, 0, 0, 0, -1, -1))
    assert reason(old) is NotAsItIs.OLD_FORMAT
    assert reason(batch(10, 0, delta=3)) is NotAsItIs.EMPTY
    assert reason(batch(9, 3)) is NotAsItIs.STRADDLES
    assert reason(batch(10, 3, delta=3)) is NotAsItIs.HOLES
    assert reason(batch(10, 3, attributes=LOG_APPEND_TIME)) is NotAsItIs.TIMESTAMP_TYPE
    assert reason(batch(10, 3, attributes=Codec.LZ4), Codec.NONE) is NotAsItIs.OTHER_CODEC
    assert reason(batch(10, 3, payload=bytes(11))) is NotAsItIs.TOO_LARGE
