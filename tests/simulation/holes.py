"""What the product did, or did not do, while its holes were open: each function gives the patches that open one again."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

from farshore.dataplane import board, bookkeeping, finding
from farshore.dataplane.backlog import Backlog, BacklogWatch
from farshore.dataplane.bookkeeping import Bookkeeper
from farshore.dataplane.cargo import Sent, Unfit
from farshore.dataplane.in_hand import Entry
from farshore.dataplane.lease import LeasedCluster
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.picture import Picture
from farshore.dataplane.progress import Progress
from farshore.dataplane.sending import Sending
from farshore.dataplane.slot import Slot
from farshore.dataplane.transaction import Transaction
from farshore.driver.backlog import FlowBacklog
from farshore.kafka import raw_fetch_session
from farshore.kafka.facts import Record
from farshore.kafka.internal_topics.tail import Tail
from farshore.kafka.lock_tenure import Tenure
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_batches import Produce
from farshore.model import TopicPartition

Patch = tuple[Any, str, Any]
"""An owner, the name of one of its attributes, and what takes its place."""


def _nothing(*_: Any, **__: Any) -> None:
    return


# -- exactly once


def positions_to_the_last_stable_offset() -> list[Patch]:
    true: Any = vars(bookkeeping)["read_topic"]

    async def read_topic(*arguments: Any, **more: Any) -> Any:
        return await true(*arguments, **{**more, "ours": None})

    return [(bookkeeping, "read_topic", read_topic)]


def release_forgets_open_outcomes() -> list[Patch]:
    true: Any = vars(PartitionCopy)["sequences"]

    def sequences(copy: PartitionCopy) -> Any:
        for sent in copy._again:
            sent.unsure = False
        copy.astray = False
        copy._in_flight.clear()
        return true.fget(copy)

    async def in_flight_only(slot: Slot, leaving: list[Entry]) -> None:  # noqa: ARG001
        while any(entry.copy.in_flight for entry in leaving):
            await asyncio.sleep(0.02)

    settles = Sending._has_to_settle

    return [
        (Slot, "_know_all_of", in_flight_only),
        (PartitionCopy, "sequences", property(sequences)),
        (Sending, "_has_to_settle", lambda sending, entry: not entry.releasing and settles(sending, entry)),
    ]


def sends_again_while_it_commits() -> list[Patch]:
    return [(Sending, "_has_to_settle", lambda *_: True)]


def sequences_begin_again() -> list[Patch]:
    """Without what notices it today: an answer that it is there already, at an old offset, counts as a loss."""
    true = Sending._acknowledged

    def acknowledged(sending: Sending, entry: Entry, sent: Sent, base_offset: int | None) -> None:
        entry.remote_next = 0
        true(sending, entry, sent, base_offset)

    return [(PartitionCopy, "resume_sequences", _nothing), (Sending, "_acknowledged", acknowledged)]


def pieces_lose_their_mark() -> list[Patch]:
    true = PartitionCopy._packed_anew

    def packed_anew(copy: PartitionCopy, sent: Sent, *more: Any) -> Any:
        sent.unsure = False
        return true(copy, sent, *more)

    return [(PartitionCopy, "_packed_anew", packed_anew)]


def goes_on_after_a_lost_answer() -> list[Patch]:
    true = Transaction.commit

    async def commit(transaction: Transaction) -> bool:
        await true(transaction)
        transaction._unsure = False
        return True

    return [(Transaction, "commit", commit)]


def what_is_not_committed_counts_as_copied() -> list[Patch]:
    return [(Progress, "uncommitted", 0)]


def takes_its_id_back() -> list[Patch]:
    async def begin(transaction: Transaction) -> None:
        transaction.identity = await transaction._target.init_producer_id(
            transaction.id, transaction_timeout=transaction._timeout
        )
        transaction._joined.clear()
        transaction._sequences.clear()

    return [(Transaction, "begin", begin)]


# -- nothing lost, nothing untold


def failed_requests_are_not_watched() -> list[Patch]:
    true_split, true_refuse = PartitionCopy.split, PartitionCopy.refuse

    def ended(sending: Sending, task: asyncio.Task[None]) -> None:
        del sending._requests[task]
        if not task.cancelled():
            task.exception()

    def split(copy: PartitionCopy, sent: Sent, size: int) -> None:
        try:
            true_split(copy, sent, size)
        except BaseException:
            copy._in_flight.remove(sent)
            raise

    def refuse(copy: PartitionCopy, sent: Sent, unfit: Unfit) -> None:
        try:
            true_refuse(copy, sent, unfit)
        except BaseException:
            copy._in_flight.remove(sent)
            raise

    return [(Sending, "_ended", ended), (PartitionCopy, "split", split), (PartitionCopy, "refuse", refuse)]


def position_passes_what_was_refused() -> list[Patch]:
    true = PartitionCopy._stop_at

    def acknowledged(copy: PartitionCopy, sent: Sent, base_offset: int | None) -> list[Sent]:
        sent.acknowledged, sent.base_offset = True, base_offset
        copy._established = True
        completed = []
        before = copy._again[0].first_offset if copy._again else float("inf")
        while copy._in_flight and copy._in_flight[0].acknowledged and copy._in_flight[0].first_offset < before:
            done = copy._in_flight.popleft()
            copy.held -= done.held
            completed.append(done)
            copy._copied_to = done.last_offset + 1
        return completed

    def stop_at(copy: PartitionCopy, unfit: Unfit, sequence: int) -> None:
        established = copy._established
        true(copy, unfit, sequence)
        copy._established = established

    return [
        (PartitionCopy, "acknowledged", acknowledged),
        (PartitionCopy, "_stop_at", stop_at),
        (PartitionCopy, "rest", _nothing),
    ]


def refused_twice_loses_what_is_between() -> list[Patch]:
    true = PartitionCopy.refuse

    def refuse(copy: PartitionCopy, sent: Sent, unfit: Unfit) -> None:
        if copy.unfit is None or copy._is_behind_unfit(sent):
            true(copy, sent, unfit)
            return
        before, _ = copy._packed_anew(sent, unfit.offset - 1, copy.target.max_message_bytes)
        copy._replace(sent, before)

    return [(PartitionCopy, "refuse", refuse)]


def goes_on_elsewhere_with_many_at_once() -> list[Patch]:
    true = PartitionCopy.go_on_at

    def go_on_at(copy: PartitionCopy, offset: int) -> bool:
        established = copy._established
        done = true(copy, offset)
        copy._established = established and not copy.astray
        return done

    return [(PartitionCopy, "go_on_at", go_on_at)]


def acknowledged_behind_what_is_refused() -> list[Patch]:
    true = PartitionCopy._stop_at

    def stop_at(copy: PartitionCopy, unfit: Unfit, sequence: int) -> None:
        kept = [sent for sent in copy._in_flight if sent.acknowledged]
        for sent in kept:
            copy._in_flight.remove(sent)
        true(copy, unfit, sequence)
        copy._in_flight.extend(kept)

    return [(PartitionCopy, "_stop_at", stop_at)]


def fetches_without_leader_epoch() -> list[Patch]:
    true = Entry.next_request

    def next_request(entry: Entry) -> Any:
        entry.request = true(entry)._replace(leader_epoch=-1)
        return entry.request

    return [(Entry, "next_request", next_request)]


def failed_epoch_ends_count_as_none() -> list[Patch]:
    true = finding._Facts.failure

    def failure(facts: Any, entry: Entry) -> Any:
        return true(replace(facts, epoch_ends={}), entry)

    return [(finding._Facts, "failure", failure)]


def epochs_are_forgotten_after_a_gap() -> list[Patch]:
    true: Any = vars(finding)["place"]

    def place(*arguments: Any) -> Any:
        placed = true(*arguments)
        gap = getattr(placed, "gap", None)
        return placed if gap is None else replace(placed, epoch=None)

    return [(finding, "place", place)]


def requests_have_names() -> list[Patch]:
    return [
        (raw_fetch_session, "_have_ids", lambda _: False),
        (Produce, "by_id", property(lambda _: False)),
    ]


def gaps_wait_for_the_next_report() -> list[Patch]:
    true = Bookkeeper.write_gaps

    async def later(keeper: Bookkeeper, notes: Any) -> None:
        await asyncio.sleep(1.0)
        await true(keeper, notes)

    async def write_gaps(keeper: Bookkeeper, notes: Any) -> None:
        if notes.gaps:
            keeper.__dict__.setdefault("_later", []).append(asyncio.create_task(later(keeper, notes)))

    return [(Bookkeeper, "write_gaps", write_gaps)]


def positions_are_not_written_again() -> list[Patch]:
    true = Progress.began

    def began(
        progress: Progress, partition: TopicPartition, position: int, *more: Any, noted: bool, **others: Any
    ) -> None:
        true(progress, partition, position, *more, noted=noted, **others)
        if noted:
            progress._tracks[partition].written = position

    return [(Progress, "began", began)]


def gaps_by_their_writers_clocks() -> list[Patch]:
    true = Picture.hear

    def hear(picture: Picture, topic: str, record: Record) -> None:
        entry = board.decode(record.key, record.value)
        known = picture.single_gaps.get(entry.partition, {}) if isinstance(entry, board.Gap) else {}
        if not isinstance(entry, board.Gap) or all(gap.at < entry.at for gap in known.values()):
            true(picture, topic, record)

    return [(Picture, "hear", hear)]


def tail_stays_deaf() -> list[Patch]:
    return [(Tail, "_start_again", _nothing)]


def lease_checked_before_the_wait() -> list[Patch]:
    true = LeasedCluster.produce

    async def produce(cluster: LeasedCluster, *arguments: Any, **more: Any) -> Any:
        if cluster._turn.locked() or not cluster._lease.valid:
            async with cluster._turn:
                await cluster._allowed()
        return await RawCluster.produce(cluster, *arguments, **more)

    assert true is not None
    return [(LeasedCluster, "produce", produce)]


def the_lock_is_held_until_the_coordinator_denies_it() -> list[Patch]:
    return [(Tenure, "until", property(lambda _: math.inf))]


# -- truth


def lag_as_it_was_last_told() -> list[Patch]:
    return [(FlowBacklog, "_age_of", lambda *_: 0.0)]


def ends_of_logs_as_they_were_last_read() -> list[Patch]:
    true = BacklogWatch.measure

    async def ask_nothing(_: BacklogWatch) -> None:
        return

    def measure(watch: BacklogWatch) -> Backlog:
        return replace(true(watch), age=0.0)

    return [(BacklogWatch, "_ask_ends", ask_nothing), (BacklogWatch, "measure", measure)]
