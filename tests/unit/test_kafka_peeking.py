"""Looking at stretches of a log."""

from __future__ import annotations

from typing import Any

import pytest
from played_broker import PlayedBroker, in_a_loop

from farshore.errors import MalformedBatch, RequestRefused
from farshore.kafka import peeking
from farshore.kafka.peeking import read_stretch
from farshore.model import TopicPartition


def test_a_batch_that_cannot_be_read_is_told_with_its_partition_and_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """As any other refusal: whatever looks at a partition goes on with the others."""

    async def corrupt(*_: Any) -> None:
        raise MalformedBatch("its CRC is wrong")

    monkeypatch.setattr(peeking, "take_records", corrupt)

    @in_a_loop
    async def run() -> None:
        broker = PlayedBroker("t")
        broker.append("t", b"0", b"1")
        async with broker.cluster() as cluster:
            with pytest.raises(RequestRefused, match="A: read t-0 from offset 0 on: its CRC is wrong") as refused:
                await read_stretch(cluster, TopicPartition("t", 0), 0, 2, patience=5.0)
        assert refused.value.code == "CORRUPT_MESSAGE"

    run()
