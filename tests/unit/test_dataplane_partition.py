"""One partition's copying against a broker that behaves like Kafka's, and misbehaves like a network."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_and_target import Broker, all_records, batch_at, batches_of, body, histories, log_at
from test_wire_records_old import message, wrapper

from farshore.dataplane.cargo import Path, Sent, Target, Unfit
from farshore.dataplane.packing import FAR_BATCH_BYTES
from farshore.dataplane.partition import PartitionCopy
from farshore.errors import CorruptBatch
from farshore.wire.batch import Batch, Codec
from farshore.wire.records import RawRecord, records_of


@settings(max_examples=150, deadline=None)
@given(histories(), st.integers(0, 2**32), st.sampled_from([150, 400, 4000]), st.booleans())
def test_every_record_arrives_once_and_in_order_whatever_the_network_does(
    batches: list[bytes], seed: int, merge_below: int, tight: bool
) -> None:
    dice = random.Random(seed)
    source = list(all_records(batches))
    broker = Broker(max_message_bytes=500 if tight else 1 << 20)
    start = source[dice.randrange(len(source))][0] if dice.random() < 0.3 else 0
    copy = PartitionCopy(start, 7, Target(max_message_bytes=dice.choice([500, 1 << 20]), merge_below=merge_below))
    wire: list[Sent] = []
    done: list[Sent] = []
    for step in range(5000):
        calm = step > 2000
        if not calm and dice.random() < (0.05 if copy.unfit is None else 0.3):
            copy.refetch()
        elif copy.unfit is not None and not wire and dice.random() < 0.3:
            broker.max_message_bytes = dice.choice([500, 1 << 20])
            copy.try_unfit_again()
        elif (
            copy.unfit is None
            and dice.random() < 0.5
            and (data := log_at(batches, copy.next_fetch, dice.randint(1, 8)))
        ):
            copy.accept(data, None)
        elif dice.random() < 0.7 and (sent := copy.next_to_send()) is not None:
            wire.append(sent)
        elif wire:
            done += answer(copy, broker, wire, dice, calm=calm)
        elif copy.idle and copy.unfit is None and not log_at(batches, copy.next_fetch):
            break
        assert copy.position <= copy.next_fetch
        assert copy.position <= min((sent.first_offset for sent in wire), default=copy.position)
        assert copy.unfit is None or copy.position <= copy.unfit.offset
    assert copy.unfit is None
    assert copy.idle
    wanted = [record for record in source if record[0] >= start]
    assert [(timestamp, rest) for _, timestamp, rest in broker.log] == [(t, rest) for _, t, rest in wanted]
    assert copy.position == copy.next_fetch > source[-1][0]
    assert copy.held == 0
    for run in (sent.run for sent in done):
        if run is not None and not run.has_holes:
            for step in range(run.record_count):
                assert wanted[run.downstream + step][0] == run.upstream + step
    assert [sent.first_offset for sent in done] == sorted(sent.first_offset for sent in done)


def answer(copy: PartitionCopy, broker: Broker, wire: list[Sent], dice: random.Random, *, calm: bool) -> list[Sent]:
    """What becomes of requests on the wire, of some or all, in their order, on one connection."""
    done: list[Sent] = []
    lost = False
    answered = dice.randint(1, len(wire))
    for number, sent in enumerate(list(wire)):
        if number >= answered and not lost:
            break
        luck = 1.0 if calm else dice.random()
        wire.remove(sent)
        if lost or luck < 0.15:
            copy.send_again(sent)  # the connection broke before the broker read it, or the leader has moved
            lost = True
            continue
        outcome = broker.append(sent.header + sent.payload)
        if outcome == "TOO_LARGE":
            copy.split(sent, broker.max_message_bytes)
            lost = True
        elif outcome == "OUT_OF_ORDER":
            copy.send_again(sent)
        elif luck < 0.3:
            copy.send_again(sent)  # appended, but the answer was lost, or it says that replicas were slow
            lost = luck < 0.22
        elif outcome == "DUPLICATE":
            done += copy.acknowledged(sent, dice.choice([None, broker.base_of(sent.header + sent.payload)]))
        else:
            assert isinstance(outcome, int), outcome
            done += copy.acknowledged(sent, outcome)
    return done


def test_the_first_batch_of_an_epoch_travels_alone() -> None:
    copy = PartitionCopy(0, 7, Target(merge_below=100))
    copy.accept(b"".join(batches_of(8)), None)
    first = copy.next_to_send()
    assert first is not None
    assert copy.next_to_send() is None
    copy.acknowledged(first, 0)
    flying = [copy.next_to_send() for _ in range(6)]
    assert [sent is not None for sent in flying] == [True] * 5 + [False]


def test_what_is_acknowledged_before_its_turn_waits_for_those_before_it() -> None:
    """A leader was slow with the first, or has gone with its answer; the batches behind it were appended all the same."""
    copy, broker = PartitionCopy(0, 7, Target(merge_below=100)), Broker(1 << 20)
    copy.accept(b"".join(batches_of(5)), None)
    (alone,) = sent_by(copy)
    copy.acknowledged(alone, broker.append(alone.header + alone.payload))  # type: ignore[arg-type]
    first, second, *behind = sent_by(copy)
    bases = {sent.first_offset: broker.append(sent.header + sent.payload) for sent in (first, second, *behind)}
    copy.send_again(first)
    copy.send_again(second)
    for sent in behind:
        assert copy.acknowledged(sent, bases[sent.first_offset]) == []  # type: ignore[arg-type]
    assert copy.position == first.first_offset
    copy.refetch()
    assert copy.next_fetch == 5, "what is appended already is not asked for again"
    assert sent_by(copy) == [first]
    assert copy.acknowledged(first, bases[first.first_offset]) == [first]  # type: ignore[arg-type]
    assert sent_by(copy) == [second]
    assert copy.acknowledged(second, bases[second.first_offset]) == [second, *behind]  # type: ignore[arg-type]
    assert (copy.position, copy.held, copy.idle) == (5, 0, True)


def test_under_a_new_epoch_nothing_is_lost_and_sequences_begin_at_0() -> None:
    copy, broker = PartitionCopy(0, 7, Target(merge_below=100)), Broker(1 << 20)
    copy.accept(b"".join(batches_of(4)), None)
    first = copy.next_to_send()
    assert first is not None
    copy.acknowledged(first, broker.append(first.header + first.payload))  # type: ignore[arg-type]
    flying = [copy.next_to_send() for _ in range(2)]
    for sent in flying:
        assert sent is not None
        copy.send_again(sent)  # neither was heard of again
    assert copy.position == 1
    assert copy.begin_epoch()
    while (sent := copy.next_to_send()) is not None:
        outcome = broker.append(sent.header + sent.payload)
        assert isinstance(outcome, int)
        copy.acknowledged(sent, outcome)
    assert [timestamp for _, timestamp, _ in broker.log] == [1000, 1001, 1002, 1003]
    assert (broker.epoch, copy.position) == (1, 4)


def test_a_record_too_large_for_the_target_stops_the_partition_at_its_offset() -> None:
    copy = PartitionCopy(0, 7, Target(max_message_bytes=400, merge_below=100))
    copy.accept(b"".join([batch_at(0, [(0, 1, body(0, 10))], Codec.NONE), *batches_of(2)[1:]]), None)
    first = copy.next_to_send()
    assert first is not None
    copy.acknowledged(first, 0)
    assert copy.next_to_send() is None
    assert copy.unfit is not None
    assert (copy.unfit.offset, copy.position) == (1, 1)


def sent_by(copy: PartitionCopy, *, far: bool = False) -> list[Sent]:
    """All that may be sent now."""
    return [sent for sent in (copy.next_to_send(far=far) for _ in range(20)) if sent is not None]


def test_a_refused_record_stops_the_partition_there_and_what_is_before_it_goes_out() -> None:
    copy, broker = PartitionCopy(0, 7, Target(merge_below=100)), Broker(1 << 20)
    records = [(n, 1000 + n, body(n, 50)) for n in range(10)]
    copy.accept(batch_at(0, records, Codec.LZ4), None)
    (sent,) = sent_by(copy)
    copy.refuse(sent, Unfit(6, 54, "no key"))
    (before,) = sent_by(copy)
    assert (before.first_offset, before.last_offset) == (0, 5)
    copy.acknowledged(before, broker.append(before.header + before.payload))  # type: ignore[arg-type]
    assert copy.position == copy.next_fetch == 6
    copy.accept(batch_at(0, records, Codec.LZ4), None)
    assert sent_by(copy) == [], "nothing from it on"
    copy.try_unfit_again()
    while (sent := copy.next_to_send()) is not None:  # type: ignore[assignment]
        copy.acknowledged(sent, broker.append(sent.header + sent.payload))  # type: ignore[arg-type]
    assert [timestamp for _, timestamp, _ in broker.log] == [timestamp for _, timestamp, _ in records]


def test_going_on_elsewhere_forgets_what_waits_and_leaves_no_sequence_out() -> None:
    copy, broker = PartitionCopy(0, 7, Target(merge_below=100)), Broker(1 << 20)
    copy.accept(b"".join(batches_of(4)), None)
    (first,) = sent_by(copy)
    copy.acknowledged(first, broker.append(first.header + first.payload))  # type: ignore[arg-type]
    for sent in sent_by(copy):
        copy.send_again(sent)
    assert copy.go_on_at(9)
    assert (copy.held, copy.position, copy.producer_epoch) == (0, 9, 1)
    copy.accept(batch_at(9, [(9, 1009, body(9, 5))], Codec.NONE), None)
    (sent,) = sent_by(copy)
    assert isinstance(broker.append(sent.header + sent.payload), int)


def test_the_first_batch_after_going_on_elsewhere_travels_alone() -> None:
    """The log may be a new one, which takes any first sequence."""
    copy = PartitionCopy(0, 7, Target(merge_below=100))
    copy.accept(b"".join(batches_of(4)), None)
    (first,) = sent_by(copy)
    copy.acknowledged(first, 0)
    for sent in sent_by(copy):
        copy.acknowledged(sent, 0)
    assert copy.go_on_at(0)
    assert copy.producer_epoch == 0
    copy.accept(b"".join(batches_of(4)), None)
    assert len(sent_by(copy)) == 1


def test_asking_anew_keeps_what_was_sent_since_its_outcome_may_be_open() -> None:
    copy = PartitionCopy(0, 7, Target(merge_below=100))
    copy.accept(b"".join(batches_of(4)), None)
    (first,) = sent_by(copy)
    copy.send_again(first)
    copy.refetch()
    assert (copy.position, copy.next_fetch) == (0, 1)
    assert sent_by(copy) == [first]


def test_asking_anew_leaves_nothing_out_behind_a_record_that_is_refused() -> None:
    copy, broker = PartitionCopy(0, 7, Target(merge_below=100)), Broker(1 << 20)
    log = batches_of(8)
    copy.accept(b"".join(log), None)
    (alone,) = sent_by(copy)
    copy.acknowledged(alone, 0)
    broker.append(alone.header + alone.payload)
    refused, *behind = sent_by(copy)
    copy.refuse(refused, Unfit(1, 500, "INVALID_TIMESTAMP"))
    assert copy.position == 1
    copy.refetch()
    for sent in behind:
        assert broker.append(sent.header + sent.payload) == "OUT_OF_ORDER"
        copy.send_again(sent, unsure=False)
    assert (copy.position, copy.next_fetch, copy.held) == (1, 1, 0)
    copy.try_unfit_again()
    copy.accept(b"".join(log[1:]), None)
    while (later := copy.next_to_send()) is not None:
        base = broker.append(later.header + later.payload)
        assert isinstance(base, int)
        copy.acknowledged(later, base)
    assert [timestamp - 1000 for _, timestamp, _ in broker.log] == list(range(8))


def test_what_was_merged_can_be_split_after_the_rest_of_its_fetch_is_forgotten() -> None:
    copy = PartitionCopy(0, 7, Target(merge_below=4000))
    log = batches_of(50)
    copy.accept(b"".join(log), None)
    (first,) = sent_by(copy)
    assert first.path is Path.MERGED
    copy.refetch()
    (source,) = first.sources
    assert isinstance(source, Batch)
    assert first.payload is source.payload, "it goes as it is"
    assert source.size == copy.held < 4000
    copy.split(first, 1000)
    again: list[RawRecord] = []
    while (piece := copy.next_to_send()) is not None:
        again += records_of(piece.batch)
        copy.acknowledged(piece, piece.first_offset)
    wanted = list(all_records(log[: first.record_count]))
    assert [record[1:] for record in again] == [record[1:] for record in wanted]


def test_good_batches_of_one_record_go_out_before_a_damaged_one() -> None:
    log = batches_of(12)
    damaged = bytearray(log[8])
    damaged[-2] ^= 1
    copy = PartitionCopy(0, 7)
    copy.accept(b"".join(log[:8]) + bytes(damaged) + b"".join(log[9:]), None)
    (good,) = sent_by(copy)
    assert (good.path, good.first_offset, good.last_offset) == (Path.MERGED, 0, 7)
    copy.acknowledged(good, 0)
    with pytest.raises(CorruptBatch):
        copy.next_to_send()
    assert copy.position == 8


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_what_is_taken_of_a_fetch_holds_on_to_nothing_of_it(codec: Codec) -> None:
    large = [batch_at(n * 20, [(n * 20 + i, 1, body(i, 700)) for i in range(20)], codec) for n in range(3)]
    alone = [batch_at(60 + n, [(60 + n, 1, body(n, 700))], Codec.NONE) for n in range(5)]
    memory = bytearray(b"".join(large + alone))
    copy = PartitionCopy(0, 7)
    assert copy.accept(memoryview(memory), None)
    memory.clear()  # which nobody may do while others look at it
    assert copy.next_fetch == 65
    assert [sent.record_count for sent in sent_by(copy)] == [20]


def test_the_position_does_not_pass_an_old_batch_that_waits() -> None:
    def messages(first: int) -> bytes:
        return b"".join(message(1, n, timestamp=first + n, value=b"v") for n in range(10))

    log = b"".join(wrapper(1, n + 9, Codec.GZIP, messages(n), timestamp=n + 9) for n in (0, 10, 20))
    copy = PartitionCopy(0, 7, Target(merge_below=100))
    copy.accept(log, None)
    (first,) = sent_by(copy)
    copy.acknowledged(first, 0)
    assert copy.position == first.last_offset + 1 == 10


def test_a_leader_epoch_that_goes_back_is_another_log() -> None:
    def with_epoch(data: bytes, epoch: int) -> bytes:
        return data[:12] + epoch.to_bytes(4, "big") + data[16:]

    first, second, third = batches_of(3)
    copy = PartitionCopy(0, 7)
    assert copy.accept(with_epoch(first, 3) + with_epoch(second, 4), None)
    assert not copy.accept(with_epoch(third, 2), None)
    assert copy.next_fetch == 2


def test_a_full_window_on_a_long_way_packs_what_waits_into_large_batches() -> None:
    near, far = (PartitionCopy(0, 7, Target(merge_below=100)) for _ in range(2))
    for copy in (near, far):
        copy.accept(b"".join(batches_of(40)), None)
        (first,) = sent_by(copy)
        copy.acknowledged(first, 0)
    for copy, is_far, records in ((near, False, 1), (far, True, 34)):
        flying = sent_by(copy, far=is_far)
        assert [sent.record_count for sent in flying] == [1] * 5, "the window was not full yet"
        copy.acknowledged(flying[0], 1)
        (sent,) = sent_by(copy, far=is_far)
        assert sent.record_count == records
        assert sent.size < FAR_BATCH_BYTES


def test_while_the_window_is_full_tiny_batches_of_many_records_are_packed_too() -> None:
    copy = PartitionCopy(0, 7)
    batches = [batch_at(at, [(at + n, 1, body(n, 10)) for n in range(30)], Codec.NONE) for at in range(0, 1200, 30)]
    copy.accept(b"".join(batches), None)
    (first,) = sent_by(copy)
    copy.acknowledged(first, 0)
    flying = sent_by(copy)
    assert [sent.record_count for sent in flying] == [30] * 5, "the window was not full yet"
    copy.acknowledged(flying[0], 30)
    assert [sent.record_count for sent in sent_by(copy)] == [1020]


def test_a_corrupt_batch_stops_its_partition_after_what_is_good_before_it() -> None:
    good, bad = batches_of(2)
    copy = PartitionCopy(0, 7, Target(merge_below=10_000))
    copy.accept(good + bad[:-5] + b"?" + bad[-4:], None)
    (first,) = sent_by(copy)
    assert (first.first_offset, first.last_offset) == (0, 0)
    copy.acknowledged(first, 0)
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            copy.next_to_send()
        assert copy.position == 1
    copy.refetch()
    assert (copy.held, copy.next_fetch) == (0, 1)
