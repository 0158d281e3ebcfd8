"""Runs in the ledger and in sync headers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farshore.errors import MalformedRecord
from farshore.model import OffsetSync, Run, TopicPartition
from farshore.wire.runs import decode_run_header, decode_runs, encode_run_header, encode_runs

ORDERS = TopicPartition("orders", 3)

offsets = st.integers(0, 2**40)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    count = draw(st.integers(1, 1000))
    upstream = draw(offsets)
    return Run(upstream, upstream + count - 1 + draw(st.integers(0, 9)), draw(offsets), count)


@given(st.lists(runs(), min_size=1, max_size=5))
def test_runs_come_back_from_the_ledger(some: list[Run]) -> None:
    [record] = encode_runs(ORDERS, some)
    assert decode_runs(*record) == (ORDERS, some)


def test_more_runs_than_brokers_take_at_once_are_several_records_that_compaction_keeps() -> None:
    many = [Run(10 * n, 10 * n + 4, 5 * n, 5) for n in range(50_000)]
    records = list(encode_runs(ORDERS, many))
    assert max(len(key) + len(value) for key, value in records) < 512_000
    assert len(dict(records)) == len(records), "each under a key of its own"
    assert [run for record in records for run in decode_runs(*record)[1]] == many
    assert list(encode_runs(ORDERS, many + many[:1]))[:3] == records[:3], "more of them leave the first as they were"


def test_a_record_of_the_ledger_is_read_as_it_was_always_written() -> None:
    key = b"\0\6orders" + struct.pack(">iqq", 3, 5, 2)
    value = struct.pack(">h8q", 0, 5, 9, 2, 5, 11, 12, 9, 2)
    assert decode_runs(key, value) == (ORDERS, [Run(5, 9, 2, 5), Run(11, 12, 9, 2)])
    assert list(encode_runs(ORDERS, [Run(5, 9, 2, 5), Run(11, 12, 9, 2)])) == [(key, value)]


@given(runs())
def test_a_sync_with_its_header_is_the_run_that_ends_there(run: Run) -> None:
    sync = OffsetSync(ORDERS, run.last_upstream, run.last_downstream)
    assert decode_run_header(sync, encode_run_header(run)) == run


def test_the_longer_run_has_the_key_of_the_shorter_one() -> None:
    [(shorter, _)], [(longer, _)] = (encode_runs(ORDERS, [run]) for run in (Run(5, 9, 2, 5), Run(5, 19, 2, 15)))
    assert shorter == longer


def test_runs_join_where_both_offsets_go_on_without_holes() -> None:
    assert Run(5, 9, 2, 5).joined(Run(10, 11, 7, 2)) == Run(5, 11, 2, 7)
    assert Run(5, 9, 2, 5).joined(Run(11, 12, 7, 2)) is None, "an upstream offset without a record between"
    assert Run(5, 9, 2, 5).joined(Run(10, 11, 8, 2)) is None, "somebody else's record between"
    assert Run(5, 10, 2, 5).joined(Run(11, 12, 7, 2)) is None, "holes in the first"
    assert Run(5, 9, 2, 5).joined(Run(10, 12, 7, 2)) is None, "holes in the second"


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=90))
def test_nonsense_in_the_ledger_is_called_malformed(key: bytes | None, value: bytes | None) -> None:
    try:
        decode_runs(key, value)
    except MalformedRecord:
        return
    assert key is not None


@pytest.mark.parametrize(
    "header", [b"", b"\0" * 15, encode_run_header(Run(6, 6, 0, 1)), encode_run_header(Run(0, 0, 9, 1))]
)
def test_a_header_that_contradicts_its_sync_is_called_malformed(header: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_run_header(OffsetSync(ORDERS, 5, 5), header)
