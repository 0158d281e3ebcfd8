"""What goes wrong with brokers, topics and permissions of a cluster. The cluster is whole again when each returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from acl_support import deny
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    PartitionMetadata,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions

from chaos.faults import Missed, drawn, wait_for
from chaos.plan import Fault
from chaos.scene import USER, Scene
from chaos.topics import Kind, create, topic_name
from chaos.writers import Writer
from farshore.errors import LocalClusterError
from farshore.local import Cluster
from farshore.local.broker import Broker
from farshore.local.javatools import run_java

_WITHIN_SECONDS = 60.0
_IN_SYNC_SECONDS = 90.0
_SHRINK_SECONDS = 30.0
_ASK_SECONDS = 120.0
_ANSWER_SECONDS = 20.0
_SEEN_SECONDS = 10.0
_MOST_PARTITIONS = 12


def _admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.direct_bootstrap_servers, "log_level": 0})


def _cluster(scene: Scene, fault: Fault) -> Cluster:
    return scene.clusters[fault.track.side]


def is_in_sync(cluster: Cluster) -> bool:
    """Every partition has all its copies."""
    try:
        topics = _admin(cluster).list_topics(timeout=10).topics.values()
    except KafkaException:
        return False
    return all(len(one.isrs) == len(one.replicas) for topic in topics for one in topic.partitions.values())


def make_whole(cluster: Cluster) -> None:
    """A broker that is not ready in time is waited for once more: on a busy machine that happens."""
    for broker in cluster.brokers:
        broker.thaw()
        try:
            broker.start()
        except LocalClusterError:
            broker.start()
    wait_for(lambda: is_in_sync(cluster), _IN_SYNC_SECONDS, 1.0)


def until_true(wish: Callable[[], object], true: Callable[[], bool], what: str) -> None:
    """Ask for it until it is so. The answer to a request may be lost, or tell that an earlier one was carried out."""
    said: object = "it is not so"
    give_up_at = time.monotonic() + _ASK_SECONDS
    while time.monotonic() < give_up_at:
        try:
            wish()
        except (KafkaException, TimeoutError) as error:
            said = error
        with suppress(KafkaException, TimeoutError):
            if wait_for(true, _SEEN_SECONDS):
                return
    raise AssertionError(f"{what}: not after {_ASK_SECONDS:.0f} s: {said}")


# -- brokers


def kill(scene: Scene, fault: Fault) -> str:
    return _without_a_broker(scene, fault, Broker.kill)


def freeze(scene: Scene, fault: Fault) -> str:
    return _without_a_broker(scene, fault, Broker.freeze)


def restart(scene: Scene, fault: Fault) -> str:
    return _without_a_broker(scene, fault, Broker.stop)


def _without_a_broker(scene: Scene, fault: Fault, take_away: Callable[[Broker], None]) -> str:
    broker = drawn(fault, _cluster(scene, fault).brokers, "broker")
    try:
        take_away(broker)
        time.sleep(fault.lasts)
    finally:
        make_whole(_cluster(scene, fault))
    return broker.name


def move_leaders(scene: Scene, fault: Fault) -> str:
    """Back to those that led at first; after a broker was away others do."""
    servers = _cluster(scene, fault).direct_bootstrap_servers
    try:
        said = run_java(
            *("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", servers),
            *("--election-type", "preferred", "--all-topic-partitions"),
            timeout=_WITHIN_SECONDS,
        )
    except LocalClusterError as error:
        raise Missed(str(error)) from error
    if said.returncode != 0 and "Successfully completed" not in said.stdout:
        raise Missed(f"the cluster refuses: {(said.stderr.strip() or said.stdout.strip())[-200:]}")
    if "Successfully completed" not in said.stdout:
        raise Missed("all are led by those that led at first")
    return f"{said.stdout.count('-')} partitions"


def elect_uncleanly(scene: Scene, fault: Fault) -> str:
    """The follower dies, the leader goes on alone and dies, the follower comes back and knows less."""
    cluster = _cluster(scene, fault)
    topic = topic_name(Kind.FORGETS, cluster)
    behind, ahead = cluster.brokers[:2] if fault.draw % 2 else cluster.brokers[1::-1]
    try:
        behind.kill()
        if not wait_for(lambda: _led_by(cluster, topic, ahead), _SHRINK_SECONDS):
            raise Missed("the other broker does not lead alone")
        time.sleep(fault.lasts)
        ahead.kill()
        behind.start()
        wait_for(lambda: _led_by(cluster, topic, behind), _SHRINK_SECONDS)
    finally:
        make_whole(cluster)
    return f"{ahead.name} was ahead of {behind.name}"


def _led_by(cluster: Cluster, topic: str, broker: Broker) -> bool:
    """And no other broker has a copy in sync."""
    try:
        found = _partitions(_admin(cluster), topic)
    except KafkaException:
        return False
    return bool(found) and all(one.leader == broker.node.id and one.isrs == [broker.node.id] for one in found)


def _partitions(admin: AdminClient, topic: str) -> list[PartitionMetadata]:
    """None, if a broker knows of no such topic."""
    found = admin.list_topics(topic, timeout=10).topics.get(topic)
    return list(found.partitions.values()) if found is not None else []


# -- topics


def _writer(scene: Scene, side: str, kind: Kind) -> Writer:
    writer = scene.writers[side][kind]
    assert isinstance(writer, Writer)
    return writer


def add_partition(scene: Scene, fault: Fault) -> str:
    writer = _writer(scene, fault.track.side, Kind.GROWS)
    if writer.partitions == _MOST_PARTITIONS:
        raise Missed("it has enough of them")
    count = writer.partitions + 1
    admin = _admin(_cluster(scene, fault))  # which ends what it does when it is let go
    until_true(
        lambda: admin.create_partitions([NewPartitions(writer.topic, count)])[writer.topic].result(_ANSWER_SECONDS),
        lambda: len(_partitions(admin, writer.topic)) >= count,
        f"{writer.topic} has {count} partitions",
    )
    writer.grow(count)
    return f"{writer.topic} has {writer.partitions}"


def recreate(scene: Scene, fault: Fault) -> str:
    cluster = _cluster(scene, fault)
    writer = _writer(scene, fault.track.side, Kind.REBORN)
    admin = _admin(cluster)
    with writer.held():
        ends = scene.ledger.keep(cluster, writer.topic)
        until_true(
            lambda: admin.delete_topics([writer.topic])[writer.topic].result(_ANSWER_SECONDS),
            lambda: writer.topic not in admin.list_topics(timeout=10).topics,
            f"{writer.topic} is deleted",
        )
        scene.ledger.end_life(cluster, writer.topic)
        time.sleep(fault.lasts)
        until_true(
            lambda: create(cluster, [Kind.REBORN]),
            lambda: len(_partitions(admin, writer.topic)) == writer.partitions,
            f"{writer.topic} is created again",
        )
    return f"{writer.topic}, which had {sum(ends.values())} offsets"


def expire(scene: Scene, fault: Fault) -> str:
    """Whatever the mirror has not read by now is gone. It cannot read while that happens."""
    cluster = _cluster(scene, fault)
    writer = _writer(scene, fault.track.side, Kind.EXPIRES)
    with scene.network(fault.track.side):
        cluster.proxy.cut(silently=True)
        try:
            time.sleep(fault.lasts)
            ends = scene.ledger.keep(cluster, writer.topic)
            before = [TopicPartition(writer.topic, each.partition, end) for each, end in ends.items()]
            admin = _admin(cluster)

            def delete() -> None:
                for future in admin.delete_records(before).values():
                    future.result(_ANSWER_SECONDS)
                done.append(True)

            done: list[bool] = []
            until_true(delete, lambda: bool(done), f"{writer.topic} is expired")
        finally:
            cluster.proxy.heal()
    return f"{writer.topic} begins at {sorted(ends.values())}"


# -- permissions


def revoke(scene: Scene, fault: Fault) -> str:
    """To read a topic, or to write to a copy of one."""
    cluster = _cluster(scene, fault)
    kind = drawn(fault, (Kind.IDEMPOTENT, Kind.LONE, Kind.TRANSACTIONAL, Kind.BURSTS), "topic")
    if fault.draw // 10 % 2:
        topic, operation = topic_name(kind, cluster), "READ"
    else:
        other = scene.other(fault.track.side)
        topic, operation = f"{other.name}.{topic_name(kind, other)}", "WRITE"
    try:
        deny(cluster.direct_bootstrap_servers, USER, "TOPIC", topic, operation)
        time.sleep(fault.lasts)
    except (KafkaException, TimeoutError) as error:
        raise Missed(f"the cluster does not answer: {error}") from error
    finally:
        denied = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.ANY,
            AclPermissionType.DENY,
        )  # fmt: skip
        admin = _admin(cluster)
        until_true(
            lambda: [each.result(_ANSWER_SECONDS) for each in admin.delete_acls([denied]).values()],
            lambda: not admin.describe_acls(denied).result(_ANSWER_SECONDS),
            f"{operation} of {topic} is permitted again",
        )
    return f"{operation} of {topic}"


CLUSTER_FAULTS: dict[str, Callable[[Scene, Fault], str]] = {
    "broker killed": kill,
    "broker frozen": freeze,
    "broker restarted": restart,
    "leaders moved": move_leaders,
    "partitions added": add_partition,
    "topic recreated": recreate,
    "retention": expire,
    "permission revoked": revoke,
    "unclean election": elect_uncleanly,
}
