"""Each kind of request, and what a broker answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from farshore.kafka.raw_batches import Fetch, Produce
from farshore.kafka.raw_group_requests import FindGroupCoordinators
from farshore.kafka.raw_membership_requests import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    MembershipRequest,
    Synced,
    SyncGroup,
)
from farshore.kafka.raw_model import (
    At,
    ClusterMetadata,
    EpochEnd,
    IsolationLevel,
    ListedOffset,
    PartitionMetadata,
    Produced,
    ProducePartition,
    ProducerIdentity,
    TopicMetadata,
)
from farshore.kafka.raw_requests import ListOffsets, Metadata, OffsetForLeaderEpoch, Request
from farshore.kafka.raw_transaction_requests import (
    AddPartitionsToTxn,
    EndTxn,
    FindTransactionCoordinator,
    InitProducerId,
    Outcome,
)
from farshore.model import TopicPartition
from farshore.wire.batch import Batch, Scan
from simulation.kafka import codes
from simulation.kafka.checks import judged
from simulation.kafka.log import Log
from simulation.kafka.reading import WaitingFetch, wrong_epoch
from simulation.kafka.transactions import NOBODY

if TYPE_CHECKING:
    from simulation.kafka.cluster import ModelCluster

Reply = Callable[[Any], None]


class Answers:
    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster

    def give(self, broker: int, request: Request[Any], client: str, reply: Reply) -> None:
        match request:
            case Fetch():
                cluster = self._cluster
                sessions = cluster.sessions[broker]
                WaitingFetch(cluster.logs, cluster.topic_ids, sessions, request, reply, cluster.host).begin()
            case Produce():
                host = self._cluster.host
                # Of a request that cannot be said by ids, as of one in a transaction, brokers never hear them.
                puts = [one if request.by_id else one._replace(topic_id=None) for one in request.partitions]
                answer = [self._produced(broker, one, request.transactional_id, client) for one in puts]
                if delay := host.produce_delay(self._cluster):
                    host.call_at(host.now() + delay, reply, answer)
                else:
                    reply(answer)
            case JoinGroup() | SyncGroup() | Heartbeat() | LeaveGroup():
                self._of_group(broker, request, client, reply)
            case _:
                reply(self._at_once(broker, request))

    def _of_group(self, broker: int, request: MembershipRequest[Any], client: str, reply: Reply) -> None:
        groups, error = self._cluster.groups, self._cluster.not_coordinator(broker, request.group)
        match request:
            case JoinGroup():
                if error:
                    reply(Joined(error, -1, None, "", request.member, ()))
                else:
                    groups.join(request, client, reply)
            case SyncGroup():
                if error:
                    reply(Synced(error, b""))
                else:
                    groups.sync(request, reply)
            case Heartbeat():
                reply(error or groups.heartbeat(request))
            case LeaveGroup():
                reply(error or groups.leave(request))

    def _at_once(self, broker: int, request: Request[Any]) -> Any:
        match request:
            case Metadata():
                return self._metadata(request)
            case ListOffsets():
                return [self._listed(broker, TopicPartition(*one), request) for one in request.partitions]
            case OffsetForLeaderEpoch():
                return [self._epoch_end(broker, one, request) for one in request.epochs]
            case FindTransactionCoordinator():
                found = self._cluster.coordinator_of(request.transactional_id)
                return Outcome(codes.NONE, (found, self._cluster.address(found)))
            case FindGroupCoordinators():
                found_of = {group: self._cluster.coordinator_of(group) for group in request.groups}
                return {group: (codes.NONE, (each, self._cluster.address(each))) for group, each in found_of.items()}
            case InitProducerId():
                return self._init(broker, request)
            case AddPartitionsToTxn():
                return self._add(broker, request)
            case EndTxn():
                error = self._cluster.not_coordinator(broker, request.transactional_id)
                ask = self._cluster.coordinator
                error = error or ask.end(request.transactional_id, request.identity, commit=request.commit)
                return Outcome(error, None)
        raise NotImplementedError(f"the model does not know {type(request).__name__}")

    # -- what there is

    def _metadata(self, request: Metadata) -> ClusterMetadata:
        cluster = self._cluster
        topics = {}
        for name in cluster.topic_ids if request.topics is None else request.topics:
            if name not in cluster.topic_ids:
                topics[name] = TopicMetadata(name, codes.UNKNOWN_TOPIC_OR_PARTITION, None, {})
                continue
            partitions = {one.partition: self._partition(one) for one in cluster.partitions_of(name)}
            topics[name] = TopicMetadata(name, codes.NONE, cluster.topic_ids[name], partitions)
        brokers = {broker: cluster.address(broker) for broker in cluster.brokers}
        return ClusterMetadata(cluster.cluster_id, brokers, topics)

    def _partition(self, one: TopicPartition) -> PartitionMetadata:
        leader, epoch = self._cluster.shown[one]
        error = codes.LEADER_NOT_AVAILABLE if leader is None else codes.NONE
        replicas = tuple(self._cluster.brokers)
        return PartitionMetadata(one.partition, error, leader, epoch, replicas, replicas)

    def _listed(self, broker: int, one: TopicPartition, request: ListOffsets) -> ListedOffset:
        log = self._cluster.logs.get(one)
        if log is None or log.leader != broker:
            error = codes.UNKNOWN_TOPIC_OR_PARTITION if log is None else codes.NOT_LEADER_OR_FOLLOWER
            return ListedOffset(one.topic, one.partition, error, -1, -1, -1)
        committed = request.isolation_level is IsolationLevel.READ_COMMITTED
        end = log.last_stable_offset if committed else log.end
        timestamp = -1
        if request.timestamp == At.EARLIEST:
            offset, epoch = log.start, log.epoch_at(log.start)
        elif request.timestamp == At.LATEST:
            offset, epoch = end, log.leader_epoch
        else:
            offset, timestamp, epoch = log.first_at(request.timestamp, end)
        return ListedOffset(one.topic, one.partition, codes.NONE, offset, timestamp, epoch)

    def _epoch_end(self, broker: int, one: TopicPartition, request: OffsetForLeaderEpoch) -> EpochEnd:
        log = self._cluster.logs.get(one)
        if log is None:
            return EpochEnd(one.topic, one.partition, codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        error = wrong_epoch(log, request.current[one])
        if not error and log.leader != broker:
            error = codes.NOT_LEADER_OR_FOLLOWER
        found = (-1, -1) if error else log.epoch_end(request.epochs[one])
        return EpochEnd(one.topic, one.partition, error, *found)

    # -- appending

    def _produced(self, broker: int, put: ProducePartition, transactional_id: str | None, client: str) -> Produced:
        cluster = self._cluster
        batch = _batch_of(put.batch)
        fault = cluster.host.produce_fault(cluster, put.topic, put.partition, batch)
        if fault is not None and not fault.appended:
            wrong = tuple((index, "simulated") for index in fault.record_errors)
            return Produced(put.topic, put.partition, fault.error, -1, -1, -1, wrong, None, 0)
        answer = self._truly_produced(broker, put, batch, transactional_id, client)
        if fault is not None and not answer.error:
            return Produced(put.topic, put.partition, fault.error, -1, -1, -1, (), None, 0)
        return answer

    def _truly_produced(
        self, broker: int, put: ProducePartition, batch: Batch, transactional_id: str | None, client: str
    ) -> Produced:
        cluster = self._cluster
        log = cluster.logs.get(TopicPartition(put.topic, put.partition))
        error = self._no_leader(broker, log)
        if put.topic_id is not None and cluster.topic_ids.get(put.topic) != put.topic_id:
            error = codes.UNKNOWN_TOPIC_ID
        if log is None or error or (error := self._unverified(log, batch, transactional_id)):
            return Produced(put.topic, put.partition, error, -1, -1, -1, (), None, 0)
        verdict = judged(log, batch, cluster.settings[put.topic], cluster.wall_ms())
        base, append_time = -1, -1
        if verdict.duplicate_at is not None:
            base, append_time = verdict.duplicate_at, verdict.duplicate_time
        elif not verdict.error:
            entry = log.append(batch, client)
            base = entry.base
            cluster.host.appended(cluster, log, entry.batch, client)
        start = -1 if verdict.error in (codes.MESSAGE_TOO_LARGE, codes.CORRUPT_MESSAGE) else log.start
        wrong = tuple((index, None) for index in verdict.wrong_records)
        return Produced(put.topic, put.partition, verdict.error, base, append_time, start, wrong, None, 0)

    @staticmethod
    def _no_leader(broker: int, log: Log | None) -> int:
        if log is None:
            return codes.UNKNOWN_TOPIC_OR_PARTITION
        return codes.NONE if log.leader == broker else codes.NOT_LEADER_OR_FOLLOWER

    def _unverified(self, log: Log, batch: Batch, transactional_id: str | None) -> int:
        if not batch.is_transactional or log.producers.in_transaction(batch):
            return codes.NONE
        if transactional_id is None:
            return codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if log.producers.is_fenced(batch):
            return codes.INVALID_PRODUCER_EPOCH
        log.producers.begin_verification(batch)
        if self._cluster.coordinators_loading:
            return codes.NOT_ENOUGH_REPLICAS
        identity = ProducerIdentity(batch.producer_id, batch.producer_epoch)
        return self._cluster.coordinator.verify(transactional_id, identity, TopicPartition(log.topic, log.partition))

    # -- transactions

    def _init(self, broker: int, request: InitProducerId) -> Outcome[ProducerIdentity]:
        cluster = self._cluster
        if request.transactional_id is None:
            return Outcome(codes.NONE, ProducerIdentity(cluster.coordinator.new_producer_id(), 0))
        if error := cluster.not_coordinator(broker, request.transactional_id):
            return Outcome(error, NOBODY)
        asked = request.transactional_id, request.transaction_timeout, request.current
        error, identity = cluster.coordinator.init(*asked)
        return Outcome(error, identity)

    def _add(self, broker: int, request: AddPartitionsToTxn) -> Outcome[dict[TopicPartition, int]]:
        cluster = self._cluster
        unknown = [one for one in request.partitions if one not in cluster.logs]
        if unknown:
            found = dict.fromkeys(request.partitions, codes.OPERATION_NOT_ATTEMPTED)
            return Outcome(codes.NONE, found | dict.fromkeys(unknown, codes.UNKNOWN_TOPIC_OR_PARTITION))
        error = cluster.not_coordinator(broker, request.transactional_id)
        asked = request.transactional_id, request.identity, request.partitions
        error = error or cluster.coordinator.add(*asked, cluster.host.now())
        return Outcome(error, dict.fromkeys(request.partitions, error))


def _batch_of(parts: Sequence[bytes]) -> Batch:
    (batch,) = Scan(b"".join(parts))
    assert isinstance(batch, Batch), "old formats cannot be produced"
    return batch
