"""One run over topics of every kind: each record arrives as it was, or as the target's topic has it."""

from __future__ import annotations

import time
import uuid
from typing import NamedTuple

import pytest
from batches import batches_of, body, log_start
from compaction import TOMBSTONES, wait_for_compaction
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.admin import AdminClient
from content_cases import (
    ALL_DELETED,
    BOTH_STAMP,
    CASES,
    CODECS,
    COMPACTED,
    LARGE,
    LARGE_BATCH,
    LARGE_BATCH_PACKED,
    LARGE_RECORD,
    NO_TEXT,
    NO_TEXT_HEADERS,
    ONE_A_BATCH,
    SOURCE_STAMPS,
    STRADDLING,
    TARGET_STAMPS,
    WEEK,
    WEEKS_APART,
)
from records import Record, create_topic, read_topics
from test_run_support import Mirror

from farshore.local import Cluster
from farshore.wire.batch import Batch, Codec
from farshore.wire.records import records_of

STAMPED_BY_SOURCE = [SOURCE_STAMPS, "time set by the source, packed"]
STAMPED_BY_TARGET = [TARGET_STAMPS, BOTH_STAMP]
AS_THEY_WERE = [case for case in CASES if case not in (*STAMPED_BY_SOURCE, *STAMPED_BY_TARGET, NO_TEXT)]


class Written(NamedTuple):
    """The topics of all cases, on the source. By case: what its consumers are to see, and what they see."""

    prefix: str
    began: int
    expected: dict[str, list[Record]]
    found: dict[str, list[Record]]

    def topic(self, case: str) -> str:
        return f"{self.prefix}-{list(CASES).index(case)}"


class Contents(NamedTuple):
    """And what consumers of the target see after one run."""

    source: Written
    mirror: Mirror
    said: str
    copied: dict[str, list[Record]]
    codec: Codec | None

    def source_batches(self, case: str, partition: int = 0) -> list[Batch]:
        return batches_of(self.mirror.source.bootstrap_servers, self.source.topic(case), partition)

    def target_batches(self, case: str, partition: int = 0) -> list[Batch]:
        return batches_of(self.mirror.target.bootstrap_servers, self.mirror.remote(self.source.topic(case)), partition)


def read(servers: str, topics: dict[str, str]) -> dict[str, list[Record]]:
    """By case; but for the one that clients cannot read."""
    found = read_topics(servers, [topic for case, topic in topics.items() if case != NO_TEXT], within=60)
    return {case: found[topic] for case, topic in topics.items() if case != NO_TEXT}


@pytest.fixture(scope="module")
def source(source_cluster: Cluster) -> Written:
    servers = source_cluster.bootstrap_servers
    written = Written(f"contents-{uuid.uuid4().hex[:8]}", int(time.time() * 1000), {}, {})
    topics = {case: written.topic(case) for case in CASES}
    for name, case in CASES.items():
        # Else records that are old by their timestamps would soon be deleted.
        create_topic(servers, topics[name], case.partitions, **case.settings)
        written.expected[name] = case.write(servers, topics[name])
    wait_for_compaction(servers, topics[COMPACTED], written.expected[COMPACTED])
    written.found.update(read(servers, topics))
    return written


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(None, id="as they are"),
        pytest.param(Codec.GZIP, id="all packed anew, in small fetches", marks=pytest.mark.slow),
    ],
)
def contents(
    request: pytest.FixtureRequest,
    source: Written,
    source_cluster: Cluster,
    target_cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Contents:
    """All copied by one run."""
    codec: Codec | None = request.param
    settings = {} if codec is None else {"B.producer.compression.type": codec.name.lower()}
    home = tmp_path_factory.mktemp("contents")
    mirror = Mirror(home, source_cluster, target_cluster, f"{source.prefix}-.*", **settings)
    if codec is not None:
        with mirror.properties.open("a") as file:
            file.write(f"{mirror.alias}.consumer.max.partition.fetch.bytes = 3000\n")
    for name, case in CASES.items():
        if case.remote is not None:
            remote = mirror.remote(source.topic(name))
            create_topic(target_cluster.bootstrap_servers, remote, case.partitions, **case.remote)
    with mirror.running("--once") as program:
        assert program.ended(200) == 0, program.said
    copied = read(target_cluster.bootstrap_servers, {case: mirror.remote(source.topic(case)) for case in CASES})
    return Contents(source, mirror, program.said, copied, codec)


def differing(some: list[Record], others: list[Record]) -> str:
    """Where two lists first differ, in a few words: records may be megabytes."""
    first = next((n for n, pair in enumerate(zip(some, others, strict=False)) if pair[0] != pair[1]), None)
    if first is None:
        return f"{len(some)} records, {len(others)} expected"
    return f"record {first}: {some[first]!r:.300} instead of {others[first]!r:.300}"


def equal(some: list[Record], others: list[Record]) -> bool:
    """Without pytest's explanations, which take minutes where records are large."""
    return some == others


def untimed(records: list[Record]) -> list[Record]:
    return [record._replace(timestamp=(0, 0)) for record in records]


@pytest.mark.parametrize("case", AS_THEY_WERE)
def test_every_record_arrives_as_it_was(contents: Contents, case: str) -> None:
    written, copied = contents.source.found[case], contents.copied[case]
    assert equal(written, contents.source.expected[case]), differing(written, contents.source.expected[case])
    assert equal(copied, written), differing(copied, written)


@pytest.mark.parametrize("case", STAMPED_BY_SOURCE)
def test_where_the_source_sets_the_time_it_is_the_copys_own_time(contents: Contents, case: str) -> None:
    """What its consumers see there, they see here; not the producers' times, which the source hides."""
    written, copied = contents.source.found[case], contents.copied[case]
    assert equal(untimed(written), untimed(contents.source.expected[case]))
    assert {record.timestamp[0] for record in written} == {TIMESTAMP_LOG_APPEND_TIME}
    assert min(record.timestamp[1] for record in written) >= contents.source.began
    as_create_time = [record._replace(timestamp=(TIMESTAMP_CREATE_TIME, record.timestamp[1])) for record in written]
    assert equal(copied, as_create_time), differing(copied, as_create_time)


@pytest.mark.parametrize("case", STAMPED_BY_TARGET)
def test_where_the_target_sets_the_time_everything_else_is_as_it_was(contents: Contents, case: str) -> None:
    written, copied = contents.source.found[case], contents.copied[case]
    assert equal(untimed(written), untimed(contents.source.expected[case]))
    assert equal(untimed(copied), untimed(written)), differing(untimed(copied), untimed(written))
    assert {record.timestamp[0] for record in copied} == {TIMESTAMP_LOG_APPEND_TIME}
    last_written = max(
        [
            contents.source.began,
            *(time for kind, time in (each.timestamp for each in written) if kind == TIMESTAMP_LOG_APPEND_TIME),
        ]
    )
    assert min(record.timestamp[1] for record in copied) >= last_written


def test_header_keys_that_are_no_text_arrive_as_they_were(contents: Contents) -> None:
    """Byte by byte, since clients' readers stumble over them."""
    for batches in (contents.source_batches(NO_TEXT), contents.target_batches(NO_TEXT)):
        found = [content for batch in batches for _, _, content in records_of(batch)]
        assert found == [body(b"key", b"%d" % n, NO_TEXT_HEADERS[:n]) for n in range(6)]


def test_the_run_counts_every_record_and_leaves_none(contents: Contents) -> None:
    records = sum(map(len, contents.copied.values())) + 6
    assert f"{contents.mirror.alias}->B: {records} records, 0 left" in contents.said


def test_remote_topics_have_as_many_partitions_also_where_these_are_empty(contents: Contents) -> None:
    target = AdminClient({"bootstrap.servers": contents.mirror.target.bootstrap_servers})
    topics = target.list_topics(timeout=20).topics
    found = {case: len(topics[contents.mirror.remote(contents.source.topic(case))].partitions) for case in CASES}
    assert found == {name: case.partitions for name, case in CASES.items()}


@pytest.mark.parametrize("codec", CODECS)
def test_the_codec_stays_unless_another_is_asked_for(contents: Contents, codec: str) -> None:
    case, own = f"codec {codec}", Codec[codec.upper()]
    for partition in range(CASES[case].partitions):
        assert {batch.codec for batch in contents.source_batches(case, partition)} == {own}
        assert {batch.codec for batch in contents.target_batches(case, partition)} == {contents.codec or own}


@pytest.mark.parametrize("partition", range(2))
def test_compaction_had_left_holes_empty_batches_and_tombstones_that_will_go(
    contents: Contents, partition: int
) -> None:
    """And nothing of this is copied: a delete horizon would take the target's tombstones too early."""
    source = [batch for batch in contents.source_batches(COMPACTED, partition) if not batch.is_control]
    assert any(batch.has_holes and batch.record_count for batch in source)
    assert any(batch.record_count == 0 for batch in source)
    assert any(batch.has_delete_horizon and not batch.has_holes for batch in source)
    target = contents.target_batches(COMPACTED, partition)
    assert not any(batch.has_holes or batch.has_delete_horizon or batch.is_transactional for batch in target)
    copied = [record for record in contents.copied[COMPACTED] if record.partition == partition]
    assert sum(record.value is None for record in copied) == TOMBSTONES


def test_the_other_cases_are_what_they_are_called(contents: Contents) -> None:
    source = contents.mirror.source.bootstrap_servers
    assert log_start(source, contents.source.topic(STRADDLING)) == 40
    assert contents.source_batches(STRADDLING)[0].base_offset == 0
    assert log_start(source, contents.source.topic(ALL_DELETED)) == 100
    assert {batch.record_count for batch in contents.source_batches(ONE_A_BATCH)} == {1}
    (apart,) = contents.source_batches(WEEKS_APART)
    assert apart.max_timestamp - apart.base_timestamp == 6 * WEEK
    assert max(batch.size for batch in contents.source_batches(LARGE_RECORD)) > LARGE
    for partition in range(2):
        assert max(batch.size for batch in contents.source_batches(LARGE_BATCH, partition)) > 0.95 * LARGE
    assert any(batch.record_count == 2000 for batch in contents.source_batches(LARGE_BATCH_PACKED))
