"""From settings to what slots are told. Pure, but that slots log as this process does."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from farshore.config.settings import FlowSettings, ProducerTuning, SourceSettings
from farshore.control.topic_configs import RemoteTopic
from farshore.dataplane.assignment import Copied, Limits
from farshore.dataplane.bookkeeping import Books
from farshore.dataplane.cargo import Target
from farshore.dataplane.task import ExactlyOnce, Order
from farshore.kafka.raw import At, IsolationLevel
from farshore.model import TopicPartition
from farshore.wire.batch import Codec
from farshore.wire.compression import LEVELS

_INTERVAL_SECONDS = 0.5
_COMMIT_SECONDS = 30.0
_LARGEST_MERGED = 1 << 20


def exactly_once_of(flow: FlowSettings) -> ExactlyOnce | None:
    """`preparing` is for workers of Connect that are yet to be enabled, one after the other: like them, we wait."""
    assert flow.source is not None
    if flow.worker.exactly_once_source_support.lower() != "enabled":
        return None
    asked, timeout = flow.source.transaction_boundary_interval, flow.worker.producer.tuning.transaction_timeout
    interval = _INTERVAL_SECONDS if asked is None else asked.total_seconds()
    # A commit may take as long as it takes to learn of every batch: brokers must not have aborted by then.
    return ExactlyOnce(flow.worker.group_id, interval, max(timeout.total_seconds(), interval + _COMMIT_SECONDS))


def order_of(
    settings: FlowSettings,
    source: SourceSettings,
    number: int,
    positions_partitions: int,
    exactly_once: ExactlyOnce | None,
    *,
    once: bool,
) -> Order:
    """What every slot is told, but for its number; its plan is on the board."""
    consumer, producer = source.source.consumer.tuning, settings.worker.producer.tuning
    return Order(
        flow=settings.flow,
        generation=number,
        source=source.source.consumer,
        target=settings.worker.producer,
        limits=Limits(
            fetch_max_bytes=min(consumer.fetch_max_bytes, Limits().budget_bytes // 4),
            partition_fetch_bytes=consumer.max_partition_fetch_bytes,
            fetch_min_bytes=consumer.fetch_min_bytes,
            fetch_max_wait=consumer.fetch_max_wait.total_seconds(),
            isolation_level=IsolationLevel[consumer.isolation_level.upper()],
            rack=consumer.client_rack,
            reset={"earliest": At.EARLIEST, "latest": At.LATEST}.get(consumer.auto_offset_reset),
            produce_timeout=producer.request_timeout.total_seconds(),
            levels=_levels(producer),
        ),
        books=Books.of(settings, positions_partitions),
        offset_lag_max=source.offset_lag_max,
        exactly_once=exactly_once,
        once=once,
        log_level=logging.getLogger("farshore").getEffectiveLevel(),
    )


def copied_of(
    partition: TopicPartition,
    remotes: Mapping[TopicPartition, TopicPartition],
    topics: Mapping[str, RemoteTopic],
    producer: ProducerTuning,
) -> Copied:
    remote = remotes[partition]
    topic = topics[remote.topic]
    takes = Target(
        max_message_bytes=topic.max_message_bytes or Target().max_message_bytes,
        log_append_time=topic.message_timestamp_type == "LogAppendTime",
        codec=None if producer.compression_type is None else Codec[producer.compression_type.upper()],
        merge_below=min(max(producer.batch_size, Target().merge_below), _LARGEST_MERGED),
    )
    return Copied(partition, remote, takes)


def _levels(producer: ProducerTuning) -> dict[Codec, int]:
    """Those that are asked for; -1 is gzip's word for its own default."""
    levels = {
        Codec.GZIP: producer.compression_gzip_level,
        Codec.LZ4: producer.compression_lz4_level,
        Codec.ZSTD: producer.compression_zstd_level,
    }
    return {codec: level for codec, level in levels.items() if level in LEVELS[codec]}
