"""Reading: one long poll at a time for each broker of the source that leads any partition in hand, in a fetch session,
so that what is idle costs next to nothing.

Memory: what was read and is not yet acknowledged is bounded by `Limits.budget_bytes`, plus one batch a source broker
where a batch is larger than what was asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from farshore.clock import Clock
from farshore.dataplane.in_hand import Entry, InHand, OpenTransaction
from farshore.dataplane.trouble import Kind
from farshore.errors import KafkaError, WireError
from farshore.kafka.raw import Fetched, FetchPartition, FetchSession, IsolationLevel, RawCluster
from farshore.kafka.raw_errors import Category, error_info
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan

_PAUSE_SECONDS = 0.02
_LITTLE_BYTES = 16_384
_BREATH_SECONDS = 0.003
"""After an answer that brought little we wait so long before we ask again: else each record that trickles in would
cost a fetch and an append, at both brokers too. What comes after a silence is not delayed: a poll waits for it."""
_LONG_OPEN_SECONDS = 10.0
"""After which a transaction is looked at that keeps committed records from being read."""


class Fetching:
    def __init__(self, source: RawCluster, hand: InHand, clock: Clock) -> None:
        self._source = source
        self._hand = hand
        self._clock = clock
        self._limits = hand.limits
        self._brokers = 0
        self._sessions: dict[int, FetchSession] = {}
        self._answered: dict[int, float] = {}
        self._line: dict[int, None] = {}  # brokers that wait for memory, in the order in which they came

    async def run(self) -> None:
        """Until cancelled."""
        polling: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                leaders = {e.source_leader for e in self._hand.entries.values() if e.source_leader is not None}
                self._brokers = len(leaders)
                for broker in sorted(leaders - polling.keys()):
                    polling[broker] = asyncio.create_task(self._keep_polling(broker))
                if polling:
                    await asyncio.wait(polling.values(), timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(_PAUSE_SECONDS)
                for broker in [broker for broker, each in polling.items() if each.done()]:
                    polling.pop(broker).result()
        finally:
            for each in polling.values():
                each.cancel()
            await asyncio.gather(*polling.values(), return_exceptions=True)

    async def _keep_polling(self, broker: int) -> None:
        """As long as the broker leads any partition in hand."""
        try:
            while any(entry.source_leader == broker for entry in self._hand.entries.values()):
                await self._poll(broker)
        finally:
            self._line.pop(broker, None)

    async def _poll(self, broker: int) -> None:
        hand = self._hand
        asked, wait = self._askable(broker), hand.pace.wait
        most = self._room_for(broker, asked) if wait <= 0 else 0
        if not most:
            await asyncio.sleep(max(_PAUSE_SECONDS, min(wait, 0.25)))
            return
        max_bytes = min(most, hand.pace.most or most)
        session = self._sessions.setdefault(broker, FetchSession())
        hand.reserved += max_bytes
        asked_at = self._clock.monotonic()
        try:
            answers = await self._source.fetch(
                broker,
                [e.next_request() for e in asked],
                max_wait=self._limits.fetch_max_wait,
                min_bytes=self._limits.fetch_min_bytes,
                max_bytes=max_bytes,
                isolation_level=self._limits.isolation_level,
                rack=self._limits.rack,
                session=session,
            )
        except KafkaError as error:
            for entry in asked:
                entry.trouble.begin(str(error))
            hand.stale.set()
            return
        finally:
            hand.reserved -= max_bytes
        if session.speaks_for_all:
            self._answered[broker] = asked_at
        brought = sum(len(answer.records) for answer in answers)
        hand.pace.spend(brought)
        for answer in [*answers, *self._unchanged(session, asked, answers)]:
            taken = hand.entries.get(TopicPartition(answer.topic, answer.partition))
            # Sent back meanwhile, or placed again, it has no use for an answer to what it asked before: to take it
            # would be a gap, or another log's.
            if taken is not None and taken.placed and taken.has_asked(session.asked(*taken.partition)):
                await self._take(taken, answer, asked_at)
            else:
                session.begin_anew()  # the broker tells only once what nobody has taken now
        hand.sendable.set()
        self._rotate(answers)
        if 0 < brought < _LITTLE_BYTES:
            await asyncio.sleep(_BREATH_SECONDS)

    def _room_for(self, broker: int, asked: Sequence[Entry]) -> int:
        """How many bytes to ask the broker for; 0: nothing now. While memory is short, brokers take turns.

        Without turns, a broker that has just answered takes what it gave back before any other can, and those that wait
        are not read for as long as the target is slow.
        """
        is_next = next(iter(self._line), broker) == broker
        most = self._hand.bytes_to_ask(self._brokers) if asked and is_next else 0
        if most or not asked:
            self._line.pop(broker, None)
        else:
            self._line.setdefault(broker)
            self._hand.make_room()
        return most

    def note_ends(self) -> None:
        """Let entries know where their logs end by the last answers of their brokers, also by those that had nothing
        to say of them. There may be thousands."""
        sessions, answered, level = self._sessions, self._answered, self._limits.isolation_level
        for entry in self._hand.entries.values():
            leader = entry.source_leader
            if leader is None or leader not in answered or answered[leader] < entry.end_at:
                continue
            end = sessions[leader].end_of(entry.partition, level)
            if end is not None:
                entry.log_end, entry.end_at = end, answered[leader]

    def _askable(self, broker: int) -> list[Entry]:
        """Those that it leads and that may be read on, in the order in which to ask for them. One look at each: there
        may be thousands, of which nearly all are idle. What could not be written is not read.

        Those of which, as far as the last answer knew, there is no more go behind: requests group partitions by topic,
        and one that is idle would draw the busy ones of its topic before those who have waited longer.
        """
        most_held = self._limits.budget_bytes // 2
        ahead: list[Entry] = []
        behind: list[Entry] = []
        for entry in self._hand.entries.values():
            if entry.source_leader != broker or not entry.placed or entry.releasing or entry.target_leader is None:
                continue
            copy, trouble = entry.copy, entry.trouble
            if trouble.reason is not None and not (trouble.over and copy.idle):
                continue
            if copy.unfit is None and copy.held < most_held:
                seems_read = entry.log_end is None or copy.next_fetch >= entry.log_end
                (behind if seems_read else ahead).append(entry)
        return ahead + behind

    def _unchanged(self, session: FetchSession, asked: Iterable[Entry], answers: Iterable[Fetched]) -> list[Fetched]:
        """That there is nothing new, as an answer, for those to whom even that means something."""
        listed = {(answer.topic, answer.partition) for answer in answers}
        waiting = (e for e in asked if e.trouble.reason is not None or e.uncommitted or e.log_end is None)
        found = (session.unchanged(*e.partition) for e in waiting if e.partition not in listed)
        return [each for each in found if each is not None]

    def _rotate(self, answers: Iterable[Fetched]) -> None:
        """Only the first partition of a fetch may get more than the limit: let it be who has waited longest."""
        entries = self._hand.entries
        for answer in answers:
            partition = TopicPartition(answer.topic, answer.partition)
            if answer.records and partition in entries:
                entries[partition] = entries.pop(partition)

    async def _take(self, entry: Entry, fetched: Fetched, asked_at: float) -> None:
        if fetched.error:
            self._failed(entry, fetched)
            return
        if fetched.preferred_read_replica is not None:
            entry.source_leader = fetched.preferred_read_replica  # nearer to our rack; until leaders are looked for
            return
        committed = self._limits.isolation_level is IsolationLevel.READ_COMMITTED
        entry.log_end = fetched.last_stable_offset if committed else fetched.high_watermark
        entry.end_at = asked_at
        entry.uncommitted = fetched.high_watermark > fetched.last_stable_offset
        if not fetched.records:
            if entry.copy.idle and entry.copy.next_fetch >= entry.log_end:
                entry.trouble.end()  # it can be read, and there is nothing to be written whose success would end it
            await self._watch_transactions(entry, fetched)
            return
        entry.open_transaction = None
        before = entry.copy.next_fetch
        self._hand.loaded[entry.partition] = entry
        try:
            same_log = entry.copy.accept(fetched.records, fetched.aborted_transactions)
        except WireError as error:
            entry.trouble.begin(f"offset {before}: {error}", Kind.REFUSED)
            return
        if not same_log:
            self._hand.place_again(entry)
        elif entry.copy.next_fetch == before:
            scan = Scan(fetched.records)
            list(scan)
            entry.fetch_bytes = max(entry.fetch_bytes, scan.needed)  # its next batch is larger than we asked for
        elif entry.copy.idle:
            self._hand.progress.moved(entry.partition, (), entry.copy.position)

    def _failed(self, entry: Entry, fetched: Fetched) -> None:
        info = error_info(fetched.error)
        if info.category is Category.OFFSET_OUT_OF_RANGE:
            self._hand.place_again(entry)
            return
        if info.refresh:
            self._hand.stale.set()
        kinds = {Category.TOPIC_GONE: Kind.SOURCE_GONE, Category.PERMISSION: Kind.REFUSED}
        advice = (
            f"; grant our principal READ on {entry.partition.topic}" if info.category is Category.PERMISSION else ""
        )
        reason = f"cannot be read at offset {entry.copy.next_fetch}: {info}{advice}"
        entry.trouble.begin(reason, kinds.get(info.category, Kind.PASSING))

    async def _watch_transactions(self, entry: Entry, fetched: Fetched) -> None:
        """Nothing committed comes although there is more: whose transaction is it that holds it back?"""
        stable = fetched.last_stable_offset
        if fetched.high_watermark <= stable or entry.copy.next_fetch < stable:
            entry.open_transaction = None
            return
        known = entry.open_transaction
        if known is None or known.offset != stable:
            entry.open_transaction = OpenTransaction(stable, self._clock.wall())
        elif known.told is None and self._clock.wall() - known.since > _LONG_OPEN_SECONDS:
            known.told = await self._first_batch(entry, stable)

    async def _first_batch(self, entry: Entry, offset: int) -> str:
        assert entry.source_leader is not None
        try:
            (answer,) = await self._source.fetch(
                entry.source_leader,
                [FetchPartition(*entry.partition, offset, 1024, topic_id=entry.source_id)],
                max_wait=0,
                max_bytes=1024,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
            )
            batch = next(iter(Scan(answer.records)), None)
        except (KafkaError, WireError):
            batch = None
        if not isinstance(batch, Batch):
            return f"a transaction is open since offset {offset}: what follows is not committed yet"
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(batch.base_timestamp / 1000))
        return (
            f"producer {batch.producer_id} (epoch {batch.producer_epoch}) has had a transaction open since offset "
            f"{offset}, written {began}: what follows is not committed; if that producer is gone, end it with "
            f"`kafka-transactions.sh abort --topic {entry.partition.topic} --partition {entry.partition.partition} "
            f"--start-offset {offset}`"
        )
