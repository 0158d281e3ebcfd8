"""A batch of which nobody knows whether it was appended, and what happens to it then."""

from __future__ import annotations

import pytest
from source_and_target import Broker, Refused, all_records, batch_at, batches_of, body

from farshore.dataplane import packing
from farshore.dataplane.cargo import Sent, Target, Unfit
from farshore.dataplane.partition import LAST_EPOCH, PartitionCopy
from farshore.errors import CorruptBatch, WireError
from farshore.wire.batch import Codec

_RECORDS = [(n, 1000 + n, body(n, 50)) for n in range(10)]


def begun(count: int, *, transactional: bool = False) -> tuple[PartitionCopy, Broker, list[Sent]]:
    """The first of `count` batches is acknowledged, and those that follow are in flight."""
    copy = PartitionCopy(0, 7, Target(merge_below=100), transactional=transactional)
    broker = Broker(1 << 20)
    copy.accept(b"".join(batches_of(count)), None)
    acknowledge(copy, broker, one_of(copy))
    return copy, broker, all_of(copy)


def one_of(copy: PartitionCopy) -> Sent:
    sent = copy.next_to_send()
    assert sent is not None
    return sent


def all_of(copy: PartitionCopy) -> list[Sent]:
    return [sent for sent in (copy.next_to_send() for _ in range(20)) if sent is not None]


def append(broker: Broker, sent: Sent) -> int | str | Refused:
    return broker.append(sent.header + sent.payload)


def acknowledge(copy: PartitionCopy, broker: Broker, sent: Sent) -> None:
    base = append(broker, sent)
    assert isinstance(base, int)
    copy.acknowledged(sent, base)


def copy_the_rest(copy: PartitionCopy, broker: Broker, log: bytes) -> None:
    copy.accept(log, None)
    while (sent := copy.next_to_send()) is not None:
        acknowledge(copy, broker, sent)


def test_a_batch_refused_twice_for_different_records_stops_at_the_first_of_them() -> None:
    copy, broker = PartitionCopy(0, 7), Broker(1 << 20)
    log = batch_at(0, _RECORDS, Codec.NONE)
    copy.accept(log, None)
    copy.refuse(one_of(copy), Unfit(6, 10, "the seventh"))
    copy.refuse(one_of(copy), Unfit(2, 10, "the third"))
    acknowledge(copy, broker, one_of(copy))
    assert copy.unfit is not None
    assert (copy.unfit.offset, copy.position, copy.next_fetch) == (2, 2, 2)
    copy.try_unfit_again()
    copy_the_rest(copy, broker, log)
    assert [timestamp for _, timestamp, _ in broker.log] == [timestamp for _, timestamp, _ in _RECORDS]


def test_a_partition_goes_on_although_those_behind_a_refused_batch_were_acknowledged_before() -> None:
    copy, broker, (first, second) = begun(3)
    append(broker, first)
    copy.send_again(first)  # it was appended, but the answer says that it may not have been
    acknowledge(copy, broker, second)
    copy.refuse(one_of(copy), Unfit(1, 10, "by now it is refused"))
    assert (copy.position, copy.next_fetch, copy.idle, copy.held) == (1, 1, True, 0)
    copy.try_unfit_again()
    copy_the_rest(copy, broker, b"".join(batches_of(3)[1:]))
    assert (copy.position, copy.producer_epoch) == (3, 1)
    assert [timestamp - 1000 for _, timestamp, _ in broker.log] == [0, 1, 2, 1, 2]


def test_the_position_does_not_pass_a_refused_record_when_the_broker_has_forgotten_the_producer() -> None:
    copy, broker, (first, second, *_) = begun(6)
    broker.forget_producer()
    broker.refuses = {1001}
    assert append(broker, first) == Refused(0)
    copy.refuse(first, Unfit(1, 10, "refused"))
    acknowledge(copy, broker, second)  # which takes any first sequence
    assert (copy.position, copy.next_fetch) == (1, 1)
    assert copy.astray


def test_after_a_rest_the_first_batch_travels_alone_again() -> None:
    copy, broker, flying = begun(2)
    for sent in flying:
        acknowledge(copy, broker, sent)
    copy.rest()
    copy.accept(b"".join(batches_of(6)[2:]), None)
    (alone,) = all_of(copy)
    acknowledge(copy, broker, alone)
    assert len(all_of(copy)) == 3


def test_after_a_refusal_the_first_batch_travels_alone_again() -> None:
    copy, _, (first, second) = begun(3)
    copy.refuse(first, Unfit(1, 10, "refused"))
    copy.send_again(second, unsure=False)
    copy.try_unfit_again()
    copy.accept(b"".join(batches_of(3)[1:]), None)
    assert len(all_of(copy)) == 1


def with_lost_answer() -> tuple[PartitionCopy, Broker, Sent]:
    """A batch of ten records was appended, the answer was lost, and it is sent again."""
    copy, broker = PartitionCopy(0, 7, transactional=True), Broker(1 << 20)
    copy.accept(batch_at(0, _RECORDS, Codec.NONE), None)
    append(broker, sent := one_of(copy))
    copy.send_again(sent)
    assert copy.unsettled
    assert one_of(copy) is sent
    return copy, broker, sent


def test_a_split_batch_with_an_open_outcome_leaves_it_open() -> None:
    copy, broker, sent = with_lost_answer()
    copy.split(sent, 400)
    assert copy.unsettled
    piece = one_of(copy)
    assert append(broker, piece) == "OUT_OF_ORDER"
    copy.send_again(piece, unsure=False)
    assert copy.unsettled


@pytest.mark.parametrize("offset", [0, 5])
def test_a_refused_batch_with_an_open_outcome_leaves_it_open_also_when_no_piece_of_it_remains(offset: int) -> None:
    copy, broker, sent = with_lost_answer()
    copy.refuse(sent, Unfit(offset, 10, "INVALID_TIMESTAMP"))
    assert copy.position == 0
    assert copy.unsettled
    assert copy.astray
    assert copy.next_to_send() is None, "a transaction that cannot be committed gets nothing more"
    copy.try_unfit_again()
    assert copy.unsettled
    assert len(broker.log) == 10


def test_a_record_that_is_too_large_by_now_leaves_an_open_outcome_open() -> None:
    copy, _, (first, *_) = begun(2, transactional=True)
    copy.send_again(first)
    assert one_of(copy) is first
    copy.split(first, first.size - 1)
    assert copy.unfit is not None
    assert copy.unsettled


def test_what_is_let_go_behind_a_refused_record_leaves_its_outcome_open() -> None:
    copy, _, (first, second, third) = begun(4, transactional=True)
    copy.send_again(second)
    copy.refuse(first, Unfit(1, 10, "refused"))
    assert copy.astray, "it waited to be sent again"
    copy, _, (first, second, third) = begun(4, transactional=True)
    copy.refuse(first, Unfit(1, 10, "refused"))
    copy.send_again(second, unsure=False)
    assert not copy.astray
    copy.send_again(third)
    assert copy.astray, "it was in flight"


def test_what_was_acknowledged_before_its_turn_is_not_settled() -> None:
    copy, _, (first, second) = begun(3, transactional=True)
    copy.acknowledged(second, 2)
    copy.send_again(first, unsure=False)
    assert not copy.in_flight
    assert copy.unsettled


def test_pieces_of_a_merge_that_were_never_sent_are_settled() -> None:
    copy = PartitionCopy(0, 7, Target(max_message_bytes=400), transactional=True)
    copy.accept(batch_at(0, _RECORDS, Codec.NONE), None)
    copy.acknowledged(one_of(copy), 0)
    assert not copy.idle
    assert not copy.unsettled


def test_a_partition_taken_back_continues_its_sequences() -> None:
    copy, broker, (first, second, third) = begun(4, transactional=True)
    acknowledge(copy, broker, first)
    for sent in (second, third):
        copy.send_again(sent, unsure=False)
    back = PartitionCopy(copy.position, 7, Target(merge_below=100), transactional=True)
    back.resume_sequences(copy.sequences)
    back.accept(b"".join(batches_of(4)[2:]), None)
    (alone,) = all_of(back)
    acknowledge(back, broker, alone)
    copy_the_rest(back, broker, b"")
    assert [record[1:] for record in broker.log] == [record[1:] for record in all_records(batches_of(4))]


def test_under_another_epoch_a_partition_taken_back_begins_at_0() -> None:
    copy, _, flying = begun(2, transactional=True)
    for sent in flying:
        copy.acknowledged(sent, 1)
    back = PartitionCopy(2, 7, producer_epoch=1, transactional=True)
    back.resume_sequences(copy.sequences)
    back.accept(batches_of(3)[2], None)
    assert one_of(back).sequence == 0


def test_going_on_elsewhere_takes_back_the_sequences_of_what_was_never_appended() -> None:
    copy, broker, flying = begun(3, transactional=True)
    for sent in flying:
        copy.send_again(sent, unsure=False)
    assert copy.go_on_at(9)
    copy_the_rest(copy, broker, batch_at(9, [(9, 1009, body(9, 5))], Codec.NONE))
    assert [timestamp for _, timestamp, _ in broker.log] == [1000, 1009]


@pytest.mark.parametrize("refusal", ["split", "refuse"])
def test_a_batch_that_cannot_be_packed_again_stays_as_it_was(refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CorruptBatch("its records cannot be read")

    copy, broker, (first, second) = begun(3)
    before = copy.held
    monkeypatch.setattr(packing, "records_of", fail)
    with pytest.raises(WireError):
        copy.split(first, 100) if refusal == "split" else copy.refuse(first, Unfit(1, 10, "refused"))
    assert (copy.held, copy.position, copy.in_flight, copy.unfit) == (before, 1, True, None)
    copy.send_again(first, unsure=False)
    copy.send_again(second, unsure=False)
    copy_the_rest(copy, broker, b"")
    assert [timestamp - 1000 for _, timestamp, _ in broker.log] == [0, 1, 2]


def test_without_a_next_epoch_nothing_goes_out_before_another_producer_begins() -> None:
    copy = PartitionCopy(0, 7, producer_epoch=LAST_EPOCH)
    copy.accept(batches_of(1)[0], None)
    copy.send_again(one_of(copy))
    copy.give_up_identity()
    assert copy.next_to_send() is None
    copy.begin_producer(8, 0)
    assert (one_of(copy).batch.producer_id, copy.astray) == (8, False)


def test_what_was_acknowledged_before_its_turn_may_lie_before_what_goes_out_under_the_next_epoch() -> None:
    """So that its lower offset is not taken for a loss of the remote log."""
    copy, broker, (first, second) = begun(3)
    append(broker, first)
    copy.send_again(first)
    acknowledge(copy, broker, second)
    copy.give_up_identity()
    assert copy.begin_epoch()
    assert second.before_epoch
    assert not one_of(copy).before_epoch
