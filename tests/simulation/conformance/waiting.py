"""Transactions that are being ended: decided, but without their markers, because a partition's leader does not answer."""

from __future__ import annotations

import asyncio
import math
import random

from farshore.kafka.raw_batches import Produce
from farshore.kafka.raw_model import At, IsolationLevel, PartitionMetadata, ProducePartition, ProducerIdentity
from farshore.kafka.raw_requests import ListOffsets, Metadata
from farshore.kafka.raw_transaction_requests import AddPartitionsToTxn, EndTxn, InitProducerId
from farshore.local import Cluster
from farshore.model import TopicPartition
from farshore.wire.records import Producer
from simulation.conformance.batch_draws import drawn_batch
from simulation.conformance.comparing import WRONG_PRODUCER
from simulation.conformance.running import Run
from simulation.conformance.sides import ModelSide, RealSide

_TIMEOUT = 600.0


class WaitingRun:
    """`held` is led by broker 1 and by no other, `free` by `alive`, which is asked and has the coordinators."""

    def __init__(
        self,
        run: Run,
        model: ModelSide,
        real: RealSide,
        brokers: Cluster,
        *,
        held: TopicPartition,
        free: TopicPartition,
        alive: int,
    ) -> None:
        self._run = run
        self._model = model
        self._real = real
        self._brokers = brokers
        self._held, self._free, self._alive = held, free, alive
        self._rng = random.Random(1)

    async def go(self, name: str) -> None:
        """For each way to end a transaction: all that its producer, or another, may ask while the markers wait, and
        afterwards. There must be no controller without broker 1: else the partition soon has no leader.
        """
        committed, aborted, fenced = [await self._name(f"{name}-{way}") for way in ("committed", "aborted", "fenced")]
        holders = {each: await self._begun(each) for each in (committed, aborted, fenced)}
        await self._kill()
        self._model.host.waits = True
        await self._run.asked(EndTxn(committed, holders[committed], True), settle=False)
        await self._run.asked(EndTxn(aborted, holders[aborted], False), settle=False)
        await self._run.asked(InitProducerId(fenced, _TIMEOUT), settle=False)
        for each, identity in holders.items():
            await self._ask_everything(each, identity, settle=False)
        await asyncio.to_thread(self._brokers.brokers[0].start)
        await self._follow()
        self._model.host.waits = False
        self._model.host.go_on()
        # Whether the markers are in the log now is chance: while broker 1 starts, its partitions have no leader.
        for each, identity in holders.items():
            await self._run.compare_state(each)
            await self._ask_everything(each, identity, settle=True)

    async def give_up(self, name: str) -> None:
        """The same without a leader: no marker is written, and the transaction is complete."""
        name = await self._name(name)
        identity = await self._begun(name)
        await self._kill()
        while (await self._known()).leader is not None:
            await asyncio.sleep(0.1)
        self._model.cluster.shown[self._held] = None, 0
        await self._run.asked(EndTxn(name, identity, True))
        await self._ask_everything(name, identity, settle=True)
        await asyncio.to_thread(self._brokers.brokers[0].start)
        await self._follow()
        await self._compare_ends()

    async def expire(self, name: str) -> None:
        """The coordinator aborts a transaction that is open for too long."""
        identity = await self._begun(name, timeout=1.0)
        while (await self._real.described(name)).state == "Ongoing":
            await asyncio.sleep(0.2)
        self._model.cluster.coordinator.expire(now=math.inf)
        self._model.host.go_on()
        await self._run.compare_state(name)
        await self._ask_everything(name, identity, settle=True)
        await self._compare_ends()

    async def _kill(self) -> None:
        self._brokers.brokers[0].kill()
        self._model.cluster.sessions[1].forget()
        self._run.script.broker = self._alive

    async def _known(self) -> PartitionMetadata:
        metadata = await self._real.ask(self._alive, Metadata((self._held.topic,)))
        return metadata.topics[self._held.topic].partitions[self._held.partition]

    async def _follow(self) -> None:
        await self._real.await_topics([self._held.topic])
        self._model.cluster.logs[self._held].lead(1, (await self._known()).leader_epoch)

    async def _compare_ends(self) -> None:
        self._run.script.broker = 1
        for level in IsolationLevel:
            await self._run.asked(ListOffsets([self._held], At.LATEST, level))

    async def _name(self, name: str) -> str:
        """With a coordinator that goes on when broker 1 does not."""
        number = 0
        while await self._real.coordinator_of(f"{name}-{number}") == 1:
            number += 1
        return f"{name}-{number}"

    async def _begun(self, transactional_id: str, timeout: float = _TIMEOUT) -> ProducerIdentity:
        outcome = await self._run.asked(InitProducerId(transactional_id, timeout))
        identity: ProducerIdentity = outcome.value
        await self._run.asked(AddPartitionsToTxn(transactional_id, identity, [self._held]))
        self._run.script.broker = 1
        await self._run.asked(self._produced(transactional_id, identity, self._held))
        return identity

    async def _ask_everything(self, transactional_id: str, identity: ProducerIdentity, *, settle: bool) -> None:
        following = identity._replace(producer_epoch=identity.producer_epoch + 1)
        wrong = ProducerIdentity(WRONG_PRODUCER, identity.producer_epoch)
        for whose in (identity, following, wrong):
            for commit in (True, False):
                await self._run.asked(EndTxn(transactional_id, whose, commit), settle=settle)
            await self._run.asked(AddPartitionsToTxn(transactional_id, whose, [self._free]), settle=settle)
            await self._run.asked(self._produced(transactional_id, whose, self._free), settle=settle)
        for current in (wrong, identity, following, None):
            await self._run.asked(InitProducerId(transactional_id, _TIMEOUT, current), settle=settle)

    def _produced(self, transactional_id: str, identity: ProducerIdentity, one: TopicPartition) -> Produce:
        batch = drawn_batch(self._rng, Producer(*identity, 0, True), sound=True)
        return Produce([ProducePartition(one.topic, one.partition, (batch.data,))], -1, 30.0, transactional_id)
