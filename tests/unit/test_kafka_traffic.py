"""The demo's writer over a played broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from played_broker import SERVERS, PlayedBroker

from farshore.kafka import traffic
from farshore.kafka.traffic import SteadyWriter

WITHIN_SECONDS = 30.0


def records() -> Iterator[tuple[bytes, bytes]]:
    return ((b"key-%d" % (number % 7), b"%d" % number) for number in count())


def test_records_are_written_at_their_rate_and_every_one_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = PlayedBroker("t")

    def cluster(*_: Any, **__: Any) -> Any:
        return broker.cluster()

    monkeypatch.setattr(traffic, "RawCluster", cluster)
    writer = SteadyWriter(SERVERS, topic="t", partitions=1, rate=1000, records=records(), client_id="me")
    writer.start()
    give_up = time.monotonic() + WITHIN_SECONDS
    while writer.written < 300:
        assert time.monotonic() < give_up
        time.sleep(0.01)
    writer.stop()
    values = broker.logs["t", 0].values()
    assert values == [b"%d" % number for number in range(writer.written)]
    assert (writer.failed, writer.bytes) == (0, sum(len(value or b"") for value in values))
