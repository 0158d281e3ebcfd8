"""Exactly once: records, positions and runs of a slot in one transaction after another.

Partitions join when they have data. At a commit nothing is in flight and no outcome open, so that what the positions
say is exactly what is committed with them. A transaction that cannot be committed is aborted as a whole, and the slot
starts over from the positions of the last one that was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from farshore.clock import Clock
from farshore.errors import KafkaError, PermissionDenied
from farshore.kafka.internal_topics.writer import InternalRecord, append_all, batches_of, by_partition
from farshore.kafka.raw import ProducerIdentity, RawCluster
from farshore.kafka.raw_errors import error_info
from farshore.model import TopicPartition


def transactional_id(group: str, connector: str, slot: int) -> str:
    """Connect's name for the transactions of one task of a connector, by which either fences the other."""
    return f"{group}-{connector}-{slot}"


async def fence(target: RawCluster, ids: Sequence[str]) -> None:
    """No earlier producer with one of these ids can go on; what it left open is aborted.

    Raises PermissionDenied, which names all ids that are needed, or another KafkaError.
    """
    try:
        await asyncio.gather(*(target.init_producer_id(each) for each in ids))
    except PermissionDenied as error:
        raise PermissionDenied(f"{error}; all slots need {ids[0]} to {ids[-1]}", cluster=target.alias) from error


class Transaction:
    """The transactions of one slot. `begin` first.

    `identity` is what the transactional id was given to when it was fenced for this attempt of the slot, or at the last
    `begin`. Only its newest holder gets the next epoch: without it a broker gives the id to any caller, so that a slot
    that was replaced would take it back.
    """

    def __init__(self, target: RawCluster, id: str, timeout: float, identity: ProducerIdentity, clock: Clock) -> None:
        self.id = id
        self.identity = identity
        self._target = target
        self._timeout = timeout
        self._clock = clock
        self._joined: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._unsure = False  # what became of the last request: then nothing more may be written under this epoch

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    def holds(self, partition: TopicPartition) -> bool:
        """Whether something may have been appended to it that is not committed."""
        return partition in self._joined

    async def begin(self) -> None:
        """Nothing that was sent under an earlier epoch can take effect any more.

        Raises Fenced if another holds the id, PermissionDenied, which names what is missing, or another KafkaError.
        """
        self.identity = await self._target.init_producer_id(
            self.id, current=self.identity, transaction_timeout=self._timeout
        )
        self._unsure = False
        self._joined.clear()
        self._sequences.clear()

    async def join(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Codes of the partitions that are new; if one is not 0, none of them has joined. Raises KafkaError."""
        new = [partition for partition in partitions if partition not in self._joined]
        if not new:
            return {}
        codes = await self._target.add_to_transaction(self.id, self.identity, new)
        if not any(codes.values()):
            self._joined.update(new)
        return codes

    async def write(self, records: Sequence[InternalRecord]) -> None:
        """Append internal records as part of the transaction. Raises KafkaError if that cannot be done for good."""
        alias, now_ms = self._target.alias, round(self._clock.wall() * 1000)
        if self._unsure:
            raise KafkaError(f"{alias}: {self.id}: what became of the last request is not known", cluster=alias)
        self._unsure = True  # until the answer: we may be cancelled
        batches = batches_of(alias, by_partition(records), self.identity, self._sequences, now_ms, transactional=True)
        failed = {partition: code for partition, code in (await self.join(batches)).items() if code}
        for partition, code in failed.items():
            raise KafkaError(f"{alias}: {partition}: {error_info(code)}", cluster=alias)
        await append_all(
            self._target, batches, within=self._timeout / 2, transactional_id=self.id, leaders=self._leaders
        )
        self._unsure = False

    async def commit(self) -> bool:
        """Whether the next transaction may begin under the same epoch.

        False if an answer to the request was lost: a copy of it may still be on its way, and would commit the next
        transaction before its positions are written. After `begin` it cannot. Raises KafkaError.
        """
        return await self._end(commit=True)

    async def abort(self) -> None:
        """Raises KafkaError. `begin` must follow."""
        await self._end(commit=False)

    async def _end(self, *, commit: bool) -> bool:
        if not self._joined:
            return True
        self._unsure = True
        answered = await self._target.end_transaction(self.id, self.identity, commit=commit)
        self._unsure = not answered
        self._joined.clear()
        return answered
