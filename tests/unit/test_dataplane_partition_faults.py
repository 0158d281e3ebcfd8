"""One partition's copying where answers are lost, requests arrive late, records are refused and producers forgotten."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from source_and_target import Broker, Refused, all_records, histories, log_at

from farshore.dataplane.cargo import Sent, Target
from farshore.dataplane.partition import PartitionCopy
from farshore.dataplane.refusals import unfit_record
from farshore.kafka.raw import Produced
from farshore.kafka.raw_errors import error_info

_INVALID_TIMESTAMP = 32
_LIMITS = (500, 1 << 20)
_STEPS = 3000
_CALM_AFTER = 1500


class World:
    """A source's log, a target, and what is on the way between them. `calm`: nothing goes wrong any more."""

    def __init__(self, batches: list[bytes], dice: random.Random, *, transactional: bool) -> None:
        self.dice = dice
        self.calm = False
        self._batches = batches
        self._source = list(all_records(batches))
        self.start = dice.choice(self._source)[0] if dice.random() < 0.3 else 0
        self.broker = Broker(dice.choice(_LIMITS))
        self._target = Target(merge_below=dice.choice([150, 400, 4000]))
        self.copy = PartitionCopy(self.start, 7, self._target, transactional=transactional)
        self._wire: list[Sent] = []
        self._late: list[bytes] = []

    @property
    def quiet(self) -> bool:
        """Nothing is on the way."""
        return not (self._wire or self._late)

    def copied(self, position: int) -> list[int]:
        """What tells the records apart that have to be on the target before this position."""
        return [timestamp for offset, timestamp, _ in self._source if self.start <= offset < position]

    def appended(self) -> list[int]:
        return [timestamp for _, timestamp, _ in self.broker.log]

    def is_over(self) -> bool:
        copy = self.copy
        return self.quiet and copy.idle and copy.unfit is None and not log_at(self._batches, copy.next_fetch)

    def go_on(self) -> None:
        """One thing happens."""
        dice, copy = self.dice, self.copy
        what = dice.choice(["fetch", "send", "send", "answer", "answer", "late", "refetch", "unfit", "settings"])
        if what == "fetch" and copy.unfit is None:
            copy.accept(log_at(self._batches, copy.next_fetch, dice.randint(1, 8)), None)
        elif what == "send" and (sent := copy.next_to_send(only_again=dice.random() < 0.1)) is not None:
            self._wire.append(sent)
        elif what == "answer" and self._wire:
            self._answer(dice.randint(1, len(self._wire)))
        elif what == "late" and self._late:
            self.broker.append(self._late.pop(0))
        elif what == "refetch" and not self.calm and dice.random() < 0.2:
            copy.refetch()
        elif what == "unfit" and copy.unfit is not None and not copy.in_flight:
            copy.try_unfit_again()
        elif what == "settings":
            self._change_settings()

    def _change_settings(self) -> None:
        refused = {timestamp for _, timestamp, _ in self._source if self.dice.random() < 0.2}
        self.broker.refuses = refused if not self.calm and self.dice.random() < 0.3 else set()
        self.broker.max_message_bytes = _LIMITS[1] if self.calm else self.dice.choice(_LIMITS)

    def _answer(self, some: int) -> None:
        """What becomes of requests on one connection, in their order. If it breaks, all behind are lost with it."""
        lost = False
        while self._wire and (some > 0 or lost):
            some -= 1
            sent = self._wire.pop(0)
            luck = 1.0 if self.calm else self.dice.random()
            lost = lost or luck < 0.1
            if lost:
                if self.dice.random() < 0.3:
                    self._late.append(sent.header + sent.payload)
                self.copy.send_again(sent)
                continue
            outcome = self.broker.append(sent.header + sent.payload)
            if luck < 0.2:  # the leader says that it no longer leads, or that replicas are slow
                self.copy.send_again(sent)
            else:
                self._hear(sent, outcome)

    def _hear(self, sent: Sent, outcome: int | str | Refused) -> None:
        copy = self.copy
        if isinstance(outcome, int):
            copy.acknowledged(sent, outcome)
        elif outcome == "DUPLICATE":
            copy.acknowledged(sent, None)
        elif outcome == "TOO_LARGE":
            copy.split(sent, max(sent.size // 2, 256) if sent.record_count > 1 else sent.size - 1)
        elif isinstance(outcome, Refused):
            answer = Produced("t", 0, _INVALID_TIMESTAMP, -1, -1, 0, ((outcome.at, None),), None, 0)
            copy.refuse(sent, unfit_record(sent, answer, error_info(_INVALID_TIMESTAMP)))
        else:
            copy.send_again(sent, unsure=False)
            if copy.is_oldest_and_alone(sent):
                copy.give_up_identity()

    def hand_over(self, position: int, *, epoch: int) -> None:
        """Another copy goes on there; under the same epoch with the sequences of this one."""
        before, self._wire = self.copy, []
        self.copy = PartitionCopy(position, 7, self._target, producer_epoch=epoch, transactional=before.transactional)
        if epoch == before.producer_epoch:
            self.copy.resume_sequences(before.sequences)


@settings(max_examples=150, deadline=None)
@given(histories(), st.integers(0, 2**32), st.booleans())
def test_nothing_is_lost_at_least_once_and_what_comes_first_comes_in_order(
    batches: list[bytes], seed: int, forgets_at_any_time: bool
) -> None:
    world = World(batches, random.Random(seed), transactional=False)
    for step in range(_STEPS):
        world.calm = step > _CALM_AFTER
        world.go_on()
        if not world.calm and world.dice.random() < 0.1 and (forgets_at_any_time or world.quiet):
            world.broker.forget_producer()
            world.copy.rest()
        copy = world.copy
        assert set(world.copied(copy.position)) <= set(world.appended()), "the position is ahead of what is copied"
        assert copy.unfit is None or copy.position <= copy.unfit.offset
        if world.is_over():
            break
    assert world.is_over()
    assert world.copy.held == 0
    wanted = world.copied(world.copy.next_fetch)
    first_ones = list(dict.fromkeys(world.appended()))
    assert (sorted(first_ones) if forgets_at_any_time else first_ones) == wanted


@settings(max_examples=150, deadline=None)
@given(histories(), st.integers(0, 2**32))
def test_whenever_a_transaction_may_be_committed_the_target_holds_exactly_what_the_position_says(
    batches: list[bytes], seed: int
) -> None:
    world = World(batches, random.Random(seed), transactional=True)
    committed, position = list(world.broker.log), world.start
    for step in range(_STEPS):
        world.calm = step > _CALM_AFTER
        world.go_on()
        copy = world.copy
        if copy.astray:
            world.broker.log = list(committed)  # the transaction is aborted, and another epoch begins
            world.broker.fence(copy.producer_epoch + 1)
            world.hand_over(position, epoch=copy.producer_epoch + 1)
        elif not copy.unsettled and world.dice.random() < 0.3:
            assert world.appended() == world.copied(copy.position)
            committed, position = list(world.broker.log), copy.position
            if world.dice.random() < 0.2:
                world.hand_over(position, epoch=copy.producer_epoch)  # released, and taken back
        if world.quiet and len(committed) == len(world.broker.log) and not world.calm and world.dice.random() < 0.05:
            world.broker.forget_producer()
            world.copy.rest()
        if world.is_over():
            break
    assert world.is_over()
    assert world.appended() == world.copied(world.copy.next_fetch)
