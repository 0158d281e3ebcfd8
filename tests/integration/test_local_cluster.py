"""Local clusters: brokers that come up, die, come back and forget."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from farshore.errors import LocalClusterError
from farshore.local import Cluster
from farshore.local.javatools import run_java, start_mirror_maker

ANSWER_WITHIN_SECONDS = 20.0


def create_topic(bootstrap_servers: str, topic: str, copies: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, copies)])[topic].result(ANSWER_WITHIN_SECONDS)


def quiet(bootstrap_servers: str) -> dict[str, str | int | float | bool]:
    """Settings of a client that is expected to fail, and shall not fill the test's output with it."""
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


def topics(bootstrap_servers: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    return set(admin.list_topics(timeout=ANSWER_WITHIN_SECONDS).topics)


def in_sync(bootstrap_servers: str, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    return list(admin.list_topics(timeout=ANSWER_WITHIN_SECONDS).topics[topic].partitions[0].isrs)


def produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    failures: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error))
    assert producer.flush(ANSWER_WITHIN_SECONDS) == 0
    assert failures == [None]


def first_record(bootstrap_servers: str, topic: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False})
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
    assert topic not in topics(target_cluster.bootstrap_servers)


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


@pytest.mark.usefixtures("jars")
def test_a_killed_broker_comes_back_with_its_data_a_frozen_one_goes_on_and_a_wiped_one_has_nothing(topic: str) -> None:
    with Cluster("killed") as cluster:
        broker = cluster.brokers[0]
        create_topic(cluster.bootstrap_servers, topic)
        produce(cluster.bootstrap_servers, topic, b"kept")

        broker.kill()
        assert not broker.running
        broker.start()
        assert first_record(cluster.bootstrap_servers, topic) == b"kept"

        broker.freeze()
        with pytest.raises(KafkaException):
            AdminClient(quiet(cluster.bootstrap_servers)).list_topics(timeout=1)
        broker.thaw()
        assert topic in topics(cluster.bootstrap_servers)

        broker.stop()
        broker.start(wipe=True)
        assert topic not in topics(cluster.bootstrap_servers)


@pytest.mark.slow
@pytest.mark.usefixtures("jars")
def test_a_wiped_broker_of_three_gets_its_copy_back_from_the_others(topic: str) -> None:
    with Cluster("three", brokers=3) as cluster:
        create_topic(cluster.bootstrap_servers, topic, copies=3)
        produce(cluster.bootstrap_servers, topic, b"copied")
        cluster.brokers[1].kill()
        cluster.brokers[1].start(wipe=True)
        deadline = time.monotonic() + ANSWER_WITHIN_SECONDS
        while len(in_sync(cluster.bootstrap_servers, topic)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert first_record(cluster.bootstrap_servers, topic) == b"copied"
        cluster.stop()
        cluster.start()
        assert first_record(cluster.bootstrap_servers, topic) == b"copied"


@pytest.mark.usefixtures("jars")
def test_the_network_of_a_proxied_cluster_can_be_cut_and_healed(topic: str) -> None:
    with Cluster("proxied", proxied=True) as cluster:
        create_topic(cluster.bootstrap_servers, topic)
        advertised = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        brokers = advertised.list_topics(timeout=ANSWER_WITHIN_SECONDS).brokers.values()
        assert [f"{broker.host}:{broker.port}" for broker in brokers] == [cluster.bootstrap_servers]

        for silently in (False, True):
            cluster.proxy.cut(silently=silently)
            with pytest.raises(KafkaException):
                AdminClient(quiet(cluster.bootstrap_servers)).list_topics(timeout=1)
            assert topic in topics(cluster.direct_bootstrap_servers)
            cluster.proxy.heal()
            assert topic in topics(cluster.bootstrap_servers)

        cluster.proxy.delay(0.2)
        begun = time.monotonic()
        produce(cluster.bootstrap_servers, topic, b"late")
        assert time.monotonic() - begun >= 0.4
        cluster.proxy.delay(0)
        cluster.proxy.throttle(100_000)
        begun = time.monotonic()
        produce(cluster.bootstrap_servers, topic, bytes(200_000))
        assert time.monotonic() - begun >= 1
        assert cluster.proxy.connection_count > 0
    assert not cluster.directory.exists()


def test_a_cluster_without_a_proxy_says_how_to_get_one(source_cluster: Cluster) -> None:
    with pytest.raises(LocalClusterError, match="cluster source has no proxy: make it with proxied=True"):
        _ = source_cluster.proxy


@pytest.mark.usefixtures("jars")
def test_a_broker_that_cannot_start_says_why_and_where_its_log_is() -> None:
    cluster = Cluster("broken", settings={"log.retention.check.interval.ms": "never"})
    try:
        with pytest.raises(LocalClusterError, match=r"broken.*Invalid value never"):
            cluster.start()
    finally:
        cluster.close()


@pytest.mark.usefixtures("jars")
def test_a_broker_that_dies_while_starting_shows_the_end_of_its_log() -> None:
    cluster = Cluster("broken", jvm_options=("-Xmx16m",))
    try:
        with pytest.raises(LocalClusterError, match=r"(?s)broker broken/1 ended while starting; its log .*") as failure:
            cluster.start()
        log = Path(str(failure.value).split("its log ")[1].split(" ends with")[0])
        assert "OutOfMemoryError" in log.read_text()
    finally:
        cluster.close()


@pytest.mark.usefixtures("jars")
def test_a_source_file_runs_on_the_class_path_of_the_tools(tmp_path: Path) -> None:
    source = tmp_path / "Probe.java"
    source.write_text(
        "import org.apache.kafka.common.utils.AppInfoParser;\n"
        "public class Probe { public static void main(String[] words) throws Exception {\n"
        "  System.out.println(AppInfoParser.getVersion() + words[0] + new String(System.in.readAllBytes())); } }\n"
    )
    done = run_java(source, " says ", input="hello")
    assert done.stdout.strip() == "4.3.1 says hello", done.stderr


@pytest.mark.usefixtures("jars")
def test_a_java_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    source = tmp_path / "Sleeper.java"
    source.write_text(
        "public class Sleeper { public static void main(String[] a) throws Exception { Thread.sleep(600_000); } }"
    )
    with pytest.raises(LocalClusterError, match=r"Sleeper.java has not ended after 1 s and was killed"):
        run_java(source, timeout=1)


@pytest.mark.slow
@pytest.mark.usefixtures("jars")
def test_the_real_mirror_maker_copies_between_two_local_clusters(
    source_cluster: Cluster,
    target_cluster: Cluster,
    topic: str,
    tmp_path: Path,
) -> None:
    create_topic(source_cluster.bootstrap_servers, topic)
    produce(source_cluster.bootstrap_servers, topic, b"carried")
    properties = tmp_path / "mm2.properties"
    settings = {
        "clusters": "A, B",
        "A.bootstrap.servers": source_cluster.bootstrap_servers,
        "B.bootstrap.servers": target_cluster.bootstrap_servers,
        "A->B.enabled": "true",
        "B->A.enabled": "false",
        "topics": topic,
        "replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "emit.heartbeats.enabled": "false",
    }
    properties.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    log = tmp_path / "mm2.log"
    with start_mirror_maker(properties, log) as mirror_maker:
        deadline = time.monotonic() + 120
        while f"A.{topic}" not in topics(target_cluster.bootstrap_servers):
            assert mirror_maker.running(), log.read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert first_record(target_cluster.bootstrap_servers, f"A.{topic}") == b"carried"
    assert not mirror_maker.running()
