"""What the user has set reaches the slots."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text

import farshore
from farshore.config import FlowSettings, settings
from farshore.config.keys import TABLE
from farshore.config.keys.table import Scope, Status
from farshore.control.topic_configs import RemoteTopic
from farshore.dataplane.cargo import Target
from farshore.dataplane.task import Order
from farshore.driver.slot_orders import copied_of, exactly_once_of, order_of
from farshore.model import TopicPartition
from farshore.wire.batch import Codec

__all__ = ["read_text"]

EXACTLY_ONCE = "B.exactly.once.source.support = enabled\n"


def order(flow: FlowSettings) -> Order:
    assert flow.source is not None
    return order_of(flow, flow.source, 1, 25, exactly_once_of(flow), once=False)


def takes(flow: FlowSettings) -> Target:
    here, there = TopicPartition("t", 0), TopicPartition("A.t", 0)
    remote = RemoteTopic("A.t", 1)
    return copied_of(here, {here: there}, {"A.t": remote}, flow.worker.producer.tuning).takes


def test_levels_of_codecs_are_those_asked_for(read_text: ReadText) -> None:
    flow = flow_of(
        read_text(
            f"{ONE_FLOW}B.producer.compression.gzip.level = 7\nB.producer.compression.lz4.level = 17\n"
            "B.producer.compression.zstd.level = -5\n"
        )
    )
    assert order(flow).limits.levels == {Codec.GZIP: 7, Codec.LZ4: 17, Codec.ZSTD: -5}


def test_without_levels_they_are_kafkas(read_text: ReadText) -> None:
    assert order(flow_of(read_text(ONE_FLOW))).limits.levels == {Codec.LZ4: 9, Codec.ZSTD: 3}


@pytest.mark.parametrize(("asked", "merged"), [(0, 65_536), (200_000, 200_000), (50_000_000, 1 << 20)])
def test_small_batches_are_merged_up_to_the_batch_size_within_reason(
    read_text: ReadText,
    asked: int,
    merged: int,
) -> None:
    assert takes(flow_of(read_text(f"{ONE_FLOW}B.producer.batch.size = {asked}\n"))).merge_below == merged


def test_requests_may_take_as_long_and_clients_are_called_as_is_said(read_text: ReadText) -> None:
    made = order(
        flow_of(
            read_text(
                f"{ONE_FLOW}A.consumer.request.timeout.ms = 45000\nB.producer.request.timeout.ms = 50000\n"
                "A.consumer.client.id = reader\nB.producer.client.id = writer\n"
            )
        )
    )
    read, written = made.source.tuning, made.target.tuning
    assert (read.client_id, read.request_timeout.total_seconds()) == ("reader", 45.0)
    assert (written.client_id, written.request_timeout.total_seconds()) == ("writer", 50.0)
    assert made.limits.produce_timeout == 50.0


@pytest.mark.parametrize(("asked", "given"), [("", 60.0), ("300000", 300.0), ("1000", 30.5)])
def test_transactions_last_as_long_as_is_said_but_long_enough_to_be_committed(
    read_text: ReadText,
    asked: str,
    given: float,
) -> None:
    said = f"B.producer.transaction.timeout.ms = {asked}\n" if asked else ""
    exactly_once = order(flow_of(read_text(f"{ONE_FLOW}{EXACTLY_ONCE}{said}"))).exactly_once
    assert exactly_once is not None
    assert (exactly_once.interval, exactly_once.timeout) == (0.5, given)


SCOPES = {
    settings.SourceSettings: (Scope.CONNECTOR, Scope.SOURCE),
    settings.CheckpointSettings: (Scope.CONNECTOR, Scope.CHECKPOINT),
    settings.HeartbeatSettings: (Scope.CONNECTOR, Scope.HEARTBEAT),
    settings.WorkerSettings: (Scope.WORKER,),
    settings.ConsumerTuning: (Scope.CONSUMER,),
    settings.ProducerTuning: (Scope.PRODUCER,),
    settings.AdminTuning: (Scope.ADMIN,),
}


def test_every_key_that_is_said_to_be_honoured_is_read_by_somebody() -> None:
    home = Path(farshore.__file__).parent
    sources = [path.read_text() for path in home.rglob("*.py") if path.parent.name != "keys"]
    read = {
        (scope, field.metadata["key"])
        for holder, scopes in SCOPES.items()
        for field in fields(holder)
        if "key" in field.metadata and any(re.search(rf"\.{field.name}\b", text) for text in sources)
        for scope in scopes
    }
    unread = [
        f"{key.scope.name}: {key.name}"
        for key in TABLE
        if key.status is Status.HONOURED and key.scope is not Scope.CONNECTION and not key.legacy_of
        if (key.scope, key.name) not in read
        # Policies, filters and files are made of texts, before there are settings.
        and not any(f'"{key.name}"' in text for text in sources if f'setting("{key.name}")' not in text)
    ]
    assert not unread
