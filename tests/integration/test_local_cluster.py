"""Local clusters: brokers that come up, die, come back and forget."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from farshore.local import Cluster
from farshore.local.javatools import run_java

ANSWER_WITHIN_SECONDS = 20.0


def create_topic(bootstrap_servers: str, topic: str, copies: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, copies)])[topic].result(ANSWER_WITHIN_SECONDS)


def produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    failures: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error))
    assert producer.flush(ANSWER_WITHIN_SECONDS) == 0
    assert failures == [None]


def first_record(bootstrap_servers: str, topic: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(ANSWER_WITHIN_SECONDS)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def test_a_record_written_to_a_local_cluster_can_be_read_back(source_cluster: Cluster, topic: str) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, b"ashore")
    assert first_record(source_cluster.bootstrap_servers, topic) == b"ashore"


def test_the_two_clusters_of_a_test_run_are_different_clusters(
    source_cluster: Cluster, target_cluster: Cluster, topic: str
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    there = AdminClient({"bootstrap.servers": target_cluster.bootstrap_servers})
    assert topic not in there.list_topics(timeout=ANSWER_WITHIN_SECONDS).topics


def test_kafkas_own_tools_talk_to_a_local_cluster(source_cluster: Cluster, topic: str) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    done = run_java(
        *(
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            source_cluster.bootstrap_servers,
            "--list",
        )
    )
    assert done.returncode == 0, done.stderr
    assert topic in done.stdout.splitlines()
