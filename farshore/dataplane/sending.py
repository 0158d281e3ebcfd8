"""Writing: whatever may be sent is sent, one batch a partition and request, several requests in flight a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence

from farshore.clock import Clock
from farshore.dataplane import refusals
from farshore.dataplane.cargo import Sent
from farshore.dataplane.in_hand import Entry, InHand, StartOver
from farshore.dataplane.transaction import Transaction
from farshore.dataplane.trouble import Kind
from farshore.errors import Fenced, KafkaError, NotSent, WireError
from farshore.kafka.raw import Produced, ProducePartition, RawCluster
from farshore.kafka.raw_errors import Category, error_info

_REQUEST_BYTES = 4 << 20
_STOP_WITHIN_SECONDS = 4.0
_FAR_SECONDS = 0.01
_TICK_SECONDS = 0.1
_REST_SECONDS = 60.0
"""After which a broker may have forgotten the producer. It does so after producer.id.expiration.ms, counted from the
newest timestamp of its last batch: old records may make it do so at any moment, which D and E of `partition` bear."""
_UNSURE = (Category.NETWORK, Category.REPLICAS, Category.LEADERSHIP, Category.UNKNOWN)
"""After these a batch may have been appended all the same: a leader says that it no longer leads also to who waited for
the replicas of what it has appended."""


class Sending:
    def __init__(self, target: RawCluster, hand: InHand, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        self._hand = hand
        self._joining = asyncio.Lock()
        self._requests: dict[asyncio.Task[None], None] = {}

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
        """Wait for what is in flight, unless the target does not answer for some seconds."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=_STOP_WITHIN_SECONDS)
        for task in self._requests:
            task.cancel()

    def _start(self, request: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(request)
        self._requests[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A bug ends the slot: what the task had in flight would stay there for good."""
        del self._requests[task]
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._hand.break_off(error)

    def _round(self) -> bool:
        """One batch of each partition that has anything to be sent."""
        batches: dict[int, list[tuple[Entry, Sent]]] = {}
        now, losses = self._clock.monotonic(), self._target.produce_losses()
        for entry in list(self._hand.loaded.values()):
            if entry.copy.idle and entry.copy.unfit is None:
                del self._hand.loaded[entry.partition]
                continue
            if entry.target_leader is None or not entry.placed or not entry.trouble.over:
                continue
            if losses and losses.get(entry.target_leader, 0) != entry.target_losses:
                # With nothing under way nothing else tells of it.
                entry.target_leader = None
                self._hand.stale.set()
                continue
            if (self._hand.paused or entry.releasing) and not self._has_to_settle(entry):
                continue
            if not self._hand.progress.may_copy(entry.partition):
                continue
            sent = self._next_of(entry, now)
            if sent is not None:
                batches.setdefault(entry.target_leader, []).append((entry, sent))
        for broker, all_of_it in batches.items():
            for some in _requests(all_of_it):
                # Now, and not when the request is written: by then metadata may tell of another topic of that name.
                parts = [ProducePartition(*e.remote, (s.header, s.payload), e.remote_id) for e, s in some]
                self._start(self._produce(broker, some, parts))
        return bool(batches)

    def _has_to_settle(self, entry: Entry) -> bool:
        """Nothing else is sent while the slot is paused, so that without an open outcome there is none to become so."""
        return self._hand.transaction is not None and entry.copy.unsettled

    def _next_of(self, entry: Entry, now: float) -> Sent | None:
        copy = entry.copy
        if now - entry.appended_at > _REST_SECONDS:
            copy.rest()
        if copy.unfit is not None and copy.unfit is entry.told_unfit and not copy.in_flight:
            copy.try_unfit_again()
        try:
            sent = copy.next_to_send(
                far=self._hand.quickest_answer > _FAR_SECONDS, only_again=self._hand.paused or entry.releasing
            )
        except WireError as error:
            entry.trouble.begin(refusals.corrupt(copy.position, error), Kind.REFUSED)
            self._hand.place_again(entry)  # perhaps it was only the way here that damaged it
            return None
        if sent is None and copy.astray and not copy.in_flight:
            self._renew(entry)
        elif sent is None and copy.unfit is not None:
            entry.told_unfit = unfit = copy.unfit
            words = refusals.too_large if unfit.reason is None else refusals.refused
            entry.trouble.begin(words(unfit, entry.remote), Kind.REFUSED)
        return sent

    def _renew(self, entry: Entry) -> None:
        """Its producer has no next epoch: go on with another one."""
        if self._hand.transaction is None and not entry.renewing:
            entry.renewing = True
            self._start(self._begin_producer(entry))

    async def _begin_producer(self, entry: Entry) -> None:
        try:
            identity = await self._target.init_producer_id()
        except KafkaError as error:
            entry.trouble.begin(str(error))
        else:
            if entry.copy.astray:  # and not placed elsewhere meanwhile, which begins one too
                entry.copy.begin_producer(*identity)
        entry.renewing = False
        self._hand.sendable.set()

    async def _produce(
        self, broker: int, batches: Sequence[tuple[Entry, Sent]], parts: Sequence[ProducePartition]
    ) -> None:
        timeout = self._hand.limits.produce_timeout
        transaction = self._hand.transaction
        if transaction is not None and not await self._join(transaction, batches):
            return
        began = self._clock.monotonic()
        try:
            answers = await self._target.produce(
                broker, parts, timeout=timeout, transactional_id=transaction.id if transaction else None
            )
        except KafkaError as error:
            for entry, sent in batches:
                entry.copy.send_again(sent, unsure=not isinstance(error, NotSent))
                entry.trouble.begin(str(error))
                # Not before we know who leads: a broker that came back may lack the end of its log.
                entry.target_leader = None
                if entry.copy.astray and transaction is not None:
                    self._hand.break_off(StartOver(f"{entry.remote}: what became of a batch will not be known"))
            self._hand.stale.set()
        else:
            now = self._clock.monotonic()
            self._hand.note_answer(now - began)
            sent_to = {(e.remote.topic, e.remote.partition): (e, sent) for e, sent in batches}
            for answer in answers:
                self._answered(*sent_to.pop((answer.topic, answer.partition)), answer, now)
            for entry, sent in sent_to.values():
                entry.copy.send_again(sent)
                entry.trouble.begin(f"{entry.remote}: the broker has not said what became of {sent.size} bytes")
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

    def _answered(self, entry: Entry, sent: Sent, answer: Produced, now: float) -> None:
        info = error_info(answer.error)
        if info.category in (Category.NONE, Category.DUPLICATE):
            entry.appended_at = now
            known = answer.base_offset if info.category is Category.NONE and answer.base_offset >= 0 else None
            self._acknowledged(entry, sent, known)
        elif info.category in (Category.TOO_LARGE, Category.REFUSED_BY_TOPIC):
            self._refused(entry, sent, answer)
        else:
            self._failed(entry, sent, answer)
        if entry.copy.astray and self._hand.transaction is not None:
            self._hand.break_off(StartOver(f"{entry.remote}: what became of a batch will not be known"))

    def _refused(self, entry: Entry, sent: Sent, answer: Produced) -> None:
        info = error_info(answer.error)
        try:
            if info.category is Category.REFUSED_BY_TOPIC:
                entry.copy.refuse(sent, refusals.unfit_record(sent, answer, info))
            else:
                # The broker does not say what it would take: half of what it refused, down to single records.
                limit = max(sent.size // 2, 256) if sent.record_count > 1 else sent.size - 1
                entry.copy.split(sent, limit)
        except WireError as error:
            entry.copy.send_again(sent, unsure=False)
            entry.trouble.begin(f"{info.name}, and {refusals.corrupt(sent.first_offset, error)}", Kind.REFUSED)

    def _acknowledged(self, entry: Entry, sent: Sent, base_offset: int | None) -> None:
        hand = self._hand
        done = entry.copy.acknowledged(sent, base_offset)
        for each in done:  # in their order: answers may come in another
            if each.before_epoch and each.base_offset is not None:
                entry.remote_next = max(entry.remote_next, each.base_offset + each.record_count)
            elif each.base_offset is not None:
                if each.base_offset < entry.remote_next and entry.remote_lost_from is None:
                    entry.remote_lost_from = each.base_offset
                    hand.place_again(entry)
                    if hand.transaction is not None:
                        # Else it would be copied again in the same transaction, which has it already.
                        hand.break_off(StartOver(f"{entry.remote} has lost records"))
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
        said = f"{entry.remote}: {info}"
        copy.send_again(sent, unsure=info.category in _UNSURE)
        if info.category in (Category.SEQUENCE, Category.FENCED) and copy.is_oldest_and_alone(sent):
            copy.give_up_identity()
            if self._hand.transaction is not None:
                fenced = info.category is Category.FENCED
                self._hand.break_off(Fenced(said, cluster=self._target.alias) if fenced else StartOver(said))
            self._hand.place_again(entry)  # perhaps the log has lost what we wrote: look before anything follows it
            return
        if info.category is Category.TRANSACTION and self._hand.transaction is not None:
            self._hand.break_off(StartOver(said))
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
