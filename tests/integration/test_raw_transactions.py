"""Transactions of whole batches with real coordinators: what readers see of them, and who is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from acl_support import allow
from test_raw_client import asynchronous, create, leader, raw, read, sample
from test_raw_client_security import connection_of

from farshore.errors import Fenced, PermissionDenied, RequestRefused
from farshore.kafka.raw import (
    At,
    IsolationLevel,
    Produced,
    ProducePartition,
    ProducerIdentity,
    RawCluster,
)
from farshore.kafka.raw_errors import Category, error_info
from farshore.kafka.raw_transaction_requests import AddPartitionsToTxn, EndTxn, InitProducerId
from farshore.local import Cluster, Security
from farshore.local.java import Java
from farshore.local.javatools import run_java
from farshore.model import TopicPartition
from farshore.wire.batch import Batch

USER, PASSWORD = "mirror", "secret"
FEATURES = "org.apache.kafka.tools.FeatureCommand"


@dataclass
class Writer:
    """A holder of a transactional id, at one epoch. Each batch has one record."""

    cluster: RawCluster
    transactional_id: str
    identity: ProducerIdentity
    _written: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    async def of(cls, cluster: RawCluster, transactional_id: str) -> Writer:
        return cls(cluster, transactional_id, await cluster.init_producer_id(transactional_id))

    async def join(self, *partitions: TopicPartition) -> None:
        joined = await self.cluster.add_to_transaction(self.transactional_id, self.identity, partitions)
        assert joined == dict.fromkeys(partitions, 0)

    async def append(self, partition: TopicPartition, batch: Batch) -> Produced:
        sequence = self._written.get(partition, 0)
        sent = batch.readdressed(**self.identity._asdict(), base_sequence=sequence, transactional=True)
        broker = (await self.cluster.metadata([partition.topic])).leader_of(partition)
        assert broker is not None
        (produced,) = await self.cluster.produce(
            broker,
            [ProducePartition(partition.topic, partition.partition, sent)],
            transactional_id=self.transactional_id,
        )
        self._written[partition] = sequence + (produced.error == 0)
        return produced

    async def write(self, partition: TopicPartition, batch: Batch) -> None:
        await self.join(partition)
        assert (await self.append(partition, batch)).error == 0

    async def end(self, *, commit: bool) -> None:
        await self.cluster.end_transaction(self.transactional_id, self.identity, commit=commit)


async def end_offset(cluster: RawCluster, partition: TopicPartition, isolation_level: IsolationLevel) -> int:
    listed = await cluster.list_offsets([partition], At.LATEST, isolation_level=isolation_level)
    return listed[partition].offset


async def commit_abort_commit(cluster: Cluster, topic: str) -> None:
    """Three transactions over two partitions; ordinary readers see the first and the last, and nothing before its end."""
    create(cluster, topic, partitions=2)
    partitions = [TopicPartition(topic, number) for number in range(2)]
    values = [b"first", b"second", b"third"]
    samples = [await sample(cluster, f"{topic}-{value.decode()}", [value]) for value in values]
    async with raw(cluster) as client:
        await leader(client, topic, 1)
        writer = await Writer.of(client, topic)
        for batch, commit in zip(samples, (True, False, True), strict=True):
            await writer.join(*partitions)
            before = [await end_offset(client, one, IsolationLevel.READ_UNCOMMITTED) for one in partitions]
            for partition in partitions:
                assert (await writer.append(partition, batch)).error == 0
            stable = [await end_offset(client, one, IsolationLevel.READ_COMMITTED) for one in partitions]
            assert stable == before
            await writer.end(commit=commit)
    for number in range(2):
        assert [message.value() for message in read(cluster, topic, 2, number)] == [b"first", b"third"]


@pytest.mark.parametrize("newest", [True, False])
@asynchronous
async def test_committed_records_are_seen_and_aborted_ones_are_not(
    target_cluster: Cluster, topic: str, newest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for request in (InitProducerId, AddPartitionsToTxn, EndTxn):
        known = request.structs[:1] if newest else request.structs[-1:]
        monkeypatch.setattr(request, "structs", known)
    await commit_abort_commit(target_cluster, topic)


@pytest.mark.usefixtures("jars")
def test_the_brokers_that_are_tested_with_have_the_second_protocol_for_transactions(target_cluster: Cluster) -> None:
    done = run_java(FEATURES, "--bootstrap-server", target_cluster.bootstrap_servers, "describe")
    (line,) = [line for line in done.stdout.splitlines() if "transaction.version" in line]
    assert "FinalizedVersionLevel: 2" in line


@asynchronous
async def test_an_earlier_holder_is_fenced_everywhere_and_his_transaction_aborted(
    target_cluster: Cluster, topic: str
) -> None:
    create(target_cluster, topic)
    partition = TopicPartition(topic, 0)
    lost = await sample(target_cluster, f"{topic}-lost", [b"lost"])
    kept = await sample(target_cluster, f"{topic}-kept", [b"kept"])
    async with raw(target_cluster) as one, raw(target_cluster) as other:
        await leader(one, topic)
        old = await Writer.of(one, topic)
        await old.write(partition, lost)
        new = await Writer.of(other, topic)
        assert new.identity.producer_id == old.identity.producer_id
        assert new.identity.producer_epoch > old.identity.producer_epoch
        assert error_info((await old.append(partition, lost)).error).category is Category.FENCED
        with pytest.raises(Fenced, match=f"AddPartitionsToTxn of {topic}: PRODUCER_FENCED"):
            await old.join(partition)
        with pytest.raises(Fenced, match=f"EndTxn of {topic}: PRODUCER_FENCED"):
            await old.end(commit=True)
        with pytest.raises(Fenced, match=f"InitProducerId of {topic}: PRODUCER_FENCED"):
            await one.init_producer_id(topic, current=old.identity)
        await new.write(partition, kept)
        await new.end(commit=True)
    assert [message.value() for message in read(target_cluster, topic, 1)] == [b"kept"]


@asynchronous
async def test_a_holder_goes_on_under_his_next_epoch_and_may_ask_twice(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    partition = TopicPartition(topic, 0)
    batch = await sample(target_cluster, topic, [b"value"])
    async with raw(target_cluster) as cluster:
        await leader(cluster, topic)
        first = await Writer.of(cluster, topic)
        await first.write(partition, batch)
        await first.end(commit=False)
        bumped = await cluster.init_producer_id(topic, current=first.identity)
        assert bumped == first.identity._replace(producer_epoch=first.identity.producer_epoch + 1)
        assert await cluster.init_producer_id(topic, current=first.identity) == bumped
        second = Writer(cluster, topic, bumped)
        await second.write(partition, batch)
        await second.end(commit=True)
    assert len(read(target_cluster, topic, 1)) == 1


@asynchronous
async def test_partitions_join_together_or_not_at_all(target_cluster: Cluster, topic: str) -> None:
    create(target_cluster, topic)
    there, absent = TopicPartition(topic, 0), TopicPartition(topic, 1)
    batch = await sample(target_cluster, topic, [b"value"])
    async with raw(target_cluster) as cluster:
        await leader(cluster, topic)
        writer = await Writer.of(cluster, topic)
        joined = await cluster.add_to_transaction(topic, writer.identity, [there, absent])
        assert {one: error_info(code).name for one, code in joined.items()} == {
            there: "OPERATION_NOT_ATTEMPTED",
            absent: "UNKNOWN_TOPIC_OR_PARTITION",
        }
        assert error_info((await writer.append(there, batch)).error).name == "INVALID_TXN_STATE"


@asynchronous
async def test_an_end_can_be_repeated_but_not_changed_and_needs_a_beginning(
    target_cluster: Cluster, topic: str
) -> None:
    create(target_cluster, topic)
    batch = await sample(target_cluster, topic, [b"value"])
    async with raw(target_cluster) as cluster:
        await leader(cluster, topic)
        writer = await Writer.of(cluster, topic)
        with pytest.raises(RequestRefused) as refused:
            await writer.end(commit=True)
        assert (refused.value.code, refused.value.retriable) == ("INVALID_TXN_STATE", False)
        await writer.write(TopicPartition(topic, 0), batch)
        await writer.end(commit=True)
        await writer.end(commit=True)
        with pytest.raises(RequestRefused, match="INVALID_TXN_STATE"):
            await writer.end(commit=False)


@pytest.fixture(scope="module")
def own_cluster(jars: object) -> Iterator[Cluster]:  # noqa: ARG001
    """Its coordinator looks twice a second for transactions that have outlived their timeout."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with Cluster("own", settings=settings) as cluster:
        yield cluster


@pytest.mark.slow
@asynchronous
async def test_whoever_holds_a_transaction_for_too_long_is_fenced_like_an_earlier_holder(
    own_cluster: Cluster, topic: str
) -> None:
    """Only transaction.version 2 lets him have his next epoch then."""
    for level in (2, 1, 0):
        name = f"{topic}-{level}"
        if level < 2:
            change = ("downgrade", "--feature", f"transaction.version={level}")
            done = run_java(FEATURES, "--bootstrap-server", own_cluster.bootstrap_servers, *change)
            assert done.returncode == 0, done.stdout + done.stderr
        create(own_cluster, name)
        batch = await sample(own_cluster, name, [b"value"])
        async with raw(own_cluster) as cluster:
            await leader(cluster, name)
            writer = Writer(cluster, name, await cluster.init_producer_id(name, transaction_timeout=0.5))
            partition = TopicPartition(name, 0)
            await writer.write(partition, batch)
            while await end_offset(cluster, partition, IsolationLevel.READ_COMMITTED) < 2:
                await asyncio.sleep(0.1)
            with pytest.raises(Fenced, match="or a transaction has outlived its timeout"):
                await writer.end(commit=True)
            if level == 2:
                await cluster.init_producer_id(name, current=writer.identity)
            else:
                with pytest.raises(Fenced):
                    await cluster.init_producer_id(name, current=writer.identity)
        await commit_abort_commit(own_cluster, f"{name}-all")


@pytest.mark.slow
@asynchronous
async def test_a_coordinator_that_dies_is_followed_by_another_who_commits(java: Java, topic: str) -> None:  # noqa: ARG001
    with Cluster("three", brokers=3) as three:
        create(three, topic)
        batch = await sample(three, topic, [b"value"])
        async with raw(three) as cluster:
            broker = await leader(cluster, topic)
            for number in range(100):
                writer = await Writer.of(cluster, f"{topic}-{number}")
                coordinator = cluster._coordinators._known[writer.transactional_id]
                if coordinator != broker:
                    break
            await writer.write(TopicPartition(topic, 0), batch)
            await asyncio.to_thread(three.brokers[coordinator - 1].kill)
            await cluster.end_transaction(writer.transactional_id, writer.identity, commit=True, timeout=60)
            assert cluster._coordinators._known[writer.transactional_id] != coordinator
        assert [message.value() for message in read(three, topic, 1)] == [b"value"]


@pytest.mark.slow
@asynchronous
async def test_missing_permissions_are_named(java: Java, topic: str) -> None:  # noqa: ARG001
    with Cluster("guarded", security=Security.SASL_PLAINTEXT, users={USER: PASSWORD}, authorizer=True) as guarded:
        connection = connection_of(guarded.client_properties(USER))
        async with RawCluster(connection, alias="B", client_id="test") as cluster:
            needed = f"B: InitProducerId of {topic}: .*: grant our principal WRITE and DESCRIBE on the transactional id {topic}$"
            with pytest.raises(PermissionDenied, match=needed):
                await cluster.init_producer_id(topic)
            with pytest.raises(PermissionDenied, match=r"IDEMPOTENT_WRITE on the cluster, or WRITE on some topic$"):
                await cluster.init_producer_id()
            allow(guarded.direct_bootstrap_servers, USER, "TRANSACTIONAL_ID", topic, "WRITE")  # and so DESCRIBE
            while True:
                try:
                    identity = await cluster.init_producer_id(topic)
                    break
                except PermissionDenied:  # the broker has not heard of it yet
                    await asyncio.sleep(0.1)
            joined = await cluster.add_to_transaction(topic, identity, [TopicPartition(topic, 0)])
            assert [error_info(code).name for code in joined.values()] == ["TOPIC_AUTHORIZATION_FAILED"]
