"""Writing: whatever may be sent is sent, one batch a partition and request, several requests in flight a broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

from farshore.dataplane import refusals
from farshore.dataplane.cargo import Sent
from farshore.dataplane.in_hand import Entry, InHand
from farshore.dataplane.transaction import Transaction
from farshore.dataplane.trouble import Kind
from farshore.errors import Fenced, KafkaError, WireError
from farshore.kafka.raw import Produced, ProducePartition, RawCluster
from farshore.kafka.raw_errors import Category, error_info

_REQUEST_BYTES = 4 << 20
_STOP_WITHIN_SECONDS = 20.0
_FAR_SECONDS = 0.01
_TICK_SECONDS = 0.1
_UNSURE = (Category.NETWORK, Category.REPLICAS, Category.LEADERSHIP, Category.UNKNOWN)
"""After these a batch may have been appended all the same: a leader says that it no longer leads also to who waited for
the replicas of what it has appended."""


class Sending:
    def __init__(self, target: RawCluster, hand: InHand) -> None:
        self._target = target
        self._hand = hand
        self._joining = asyncio.Lock()
        self._requests: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        ticking = asyncio.create_task(self._tick())
        try:
            while True:
                await self._hand.sendable.wait()
                self._hand.sendable.clear()
                while self._round():
                    await asyncio.sleep(0)
        finally:
            ticking.cancel()

    async def _tick(self) -> None:
        """A pause after trouble ends without anybody saying so."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._hand.sendable.set()

    async def finish(self) -> None:
        """Wait for what is in flight, unless the target does not answer for 20 s."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=_STOP_WITHIN_SECONDS)
        for task in self._requests:
            task.cancel()

    def _round(self) -> bool:
        """One batch of each partition that has anything to be sent."""
        batches: dict[int, list[tuple[Entry, Sent]]] = {}
        for entry in list(self._hand.loaded.values()):
            if entry.copy.idle and entry.copy.unfit is None:
                del self._hand.loaded[entry.partition]
                continue
            if entry.target_leader is None or not entry.placed or entry.releasing or not entry.trouble.over:
                continue
            sent = self._next_of(entry)
            if sent is not None:
                batches.setdefault(entry.target_leader, []).append((entry, sent))
        for broker, all_of_it in batches.items():
            for some in _requests(all_of_it):
                task = asyncio.create_task(self._produce(broker, some))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
        return bool(batches)

    def _next_of(self, entry: Entry) -> Sent | None:
        copy = entry.copy
        if copy.unfit is not None and copy.unfit is entry.told_unfit and not copy.in_flight:
            copy.try_unfit_again()
        try:
            sent = copy.next_to_send(far=self._hand.quickest_answer > _FAR_SECONDS, only_again=self._hand.paused)
        except WireError as error:
            entry.trouble.begin(
                f"offset {copy.position}: the source's log is corrupt: {error}; go past it with `farshore skip`",
                Kind.REFUSED,
            )
            self._hand.place_again(entry)  # perhaps it was only the way here that damaged it
            return None
        if sent is None and copy.unfit is not None:
            entry.told_unfit = unfit = copy.unfit
            words = refusals.too_large if unfit.reason is None else refusals.refused
            entry.trouble.begin(words(unfit, entry.remote), Kind.REFUSED)
        return sent

    async def _produce(self, broker: int, batches: Sequence[tuple[Entry, Sent]]) -> None:
        parts = [ProducePartition(*e.remote, (sent.header, sent.payload)) for e, sent in batches]
        timeout = self._hand.limits.produce_timeout
        transaction = self._hand.transaction
        if transaction is not None and not await self._join(transaction, batches):
            return
        began = time.monotonic()
        try:
            answers = await self._target.produce(
                broker, parts, timeout=timeout, transactional_id=transaction.id if transaction else None
            )
        except KafkaError as error:
            for entry, sent in batches:
                entry.copy.send_again(sent)
                entry.trouble.begin(str(error))
            self._hand.stale.set()
        else:
            self._hand.note_answer(time.monotonic() - began)
            sent_to = {(e.remote.topic, e.remote.partition): (e, sent) for e, sent in batches}
            for answer in answers:
                self._answered(*sent_to[answer.topic, answer.partition], answer)
        self._hand.sendable.set()

    async def _join(self, transaction: Transaction, batches: Sequence[tuple[Entry, Sent]]) -> bool:
        """Whether the partitions are part of the transaction. One after another, so that batches stay in order."""
        async with self._joining:
            try:
                codes = await transaction.join([entry.remote for entry, _ in batches])
            except KafkaError as error:
                self._hand.break_off(error)
                return False
        failed = {partition: code for partition, code in codes.items() if code}
        for entry, sent in batches if failed else ():
            entry.copy.send_again(sent, unsure=False)
            info = error_info(failed.get(entry.remote, 0))
            if info.category is not Category.NONE and info.name != "OPERATION_NOT_ATTEMPTED":
                kinds = {Category.TOPIC_GONE: Kind.REMOTE_GONE, Category.PERMISSION: Kind.REFUSED}
                entry.trouble.begin(f"{entry.remote} cannot join: {info}", kinds.get(info.category, Kind.PASSING))
        if failed:
            self._hand.sendable.set()
        return not failed

    def _answered(self, entry: Entry, sent: Sent, answer: Produced) -> None:
        info = error_info(answer.error)
        if info.category in (Category.NONE, Category.DUPLICATE):
            known = answer.base_offset if info.category is Category.NONE and answer.base_offset >= 0 else None
            self._acknowledged(entry, sent, known)
        elif info.category is Category.TOO_LARGE:
            # The broker does not say what it would take: half of what it refused, down to single records.
            limit = max(sent.size // 2, 256) if sent.record_count > 1 else sent.size - 1
            entry.copy.split(sent, limit)
        elif info.category is Category.REFUSED_BY_TOPIC:
            entry.copy.refuse(sent, refusals.unfit_record(sent, answer, info))
        else:
            self._failed(entry, sent, answer)

    def _acknowledged(self, entry: Entry, sent: Sent, base_offset: int | None) -> None:
        hand = self._hand
        done = entry.copy.acknowledged(sent, base_offset)
        for each in done:  # in their order: answers may come in another
            if each.base_offset is not None:
                if each.base_offset < entry.remote_next and entry.remote_lost_from is None:
                    entry.remote_lost_from = each.base_offset
                    hand.place_again(entry)
                entry.remote_next = each.base_offset + each.record_count
        hand.bytes += sent.size
        entry.bytes += sent.size
        hand.batches[sent.path] += 1
        if entry.remote_lost_from is not None:
            return  # all of it will be copied again
        entry.trouble.end()
        if done:
            hand.progress.moved(entry.partition, done, entry.copy.position)

    def _failed(self, entry: Entry, sent: Sent, answer: Produced) -> None:
        info, copy = error_info(answer.error), entry.copy
        copy.send_again(sent, unsure=info.category in _UNSURE)
        if info.category in (Category.SEQUENCE, Category.FENCED) and copy.is_oldest_and_alone(sent):
            if self._hand.transaction is not None:
                self._hand.break_off(Fenced(f"{entry.remote}: {info}", cluster=self._target.alias))
            elif not copy.begin_epoch():
                self._hand.place_again(entry)  # which begins another producer
            return
        if info.category is Category.TRANSACTION and self._hand.transaction is not None:
            self._hand.break_off(Fenced(f"{entry.remote}: {info}", cluster=self._target.alias))
            return
        if info.category is not Category.SEQUENCE:
            # Those behind a batch that failed are out of sequence, which is no trouble of their own.
            kinds = {Category.TOPIC_GONE: Kind.REMOTE_GONE, Category.PERMISSION: Kind.REFUSED}
            reason = refusals.failed(sent, entry.remote, answer, info)
            entry.trouble.begin(reason, kinds.get(info.category, Kind.PASSING), name=info.name)
        if info.refresh:
            self._hand.stale.set()


def _requests(batches: list[tuple[Entry, Sent]]) -> Iterator[list[tuple[Entry, Sent]]]:
    """The batches in requests of a few megabytes, or of a single batch that is larger."""
    some: list[tuple[Entry, Sent]] = []
    size = 0
    for each in batches:
        if some and size + each[1].size > _REQUEST_BYTES:
            yield some
            some, size = [], 0
        some.append(each)
        size += each[1].size
    yield some
