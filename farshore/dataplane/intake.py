"""What a fetch answered, taken apart: batches that are to be copied, and those that only move the position. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from farshore.wire.batch import Batch, OldBatch, Scan
from farshore.wire.copy_rules import CommittedOnly
from farshore.wire.lone import lone_follow, merged_lone

AnyBatch = Batch | OldBatch


def taken_apart(
    records: bytes | memoryview,
    aborted: Iterable[tuple[int, int]] | None,
    *,
    from_offset: int,
    committed_only: bool,
    merged_bytes: int,
) -> Iterator[tuple[AnyBatch, bool]]:
    """The batches that reach to `from_offset` or beyond, each with whether it is to be copied.

    Control batches, aborted ones and empty ones are not. Batches of one record each come merged, at most
    `merged_bytes` of them. Raises MalformedBatch, after the good ones. None of them holds on to a view that `records`
    is.
    """
    committed = CommittedOnly(aborted)
    at = 0
    while (begun := at) < len(records):
        if lone_follow(records, at) and (found := merged_lone(records, at, from_offset, merged_bytes)) is not None:
            merged, at = found
            assert at > begun
            yield merged, True
            continue
        for batch in Scan(records, at):
            at = batch.start + batch.size
            if batch.next_offset <= from_offset:
                continue
            yield batch, isinstance(batch, OldBatch) or _is_wanted(batch, committed if committed_only else None)
            if isinstance(batch, Batch) and batch.record_count == 1:
                break  # perhaps the first of many
        else:
            return
        assert at > begun


def _is_wanted(batch: Batch, committed: CommittedOnly | None) -> bool:
    kept = not batch.is_control if committed is None else committed.keeps(batch)
    return kept and batch.record_count > 0
