"""In which order the records that go with the copying are written."""

from __future__ import annotations

import pytest
from played_broker import PlayedBroker, in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.assignment import Gap
from farshore.dataplane.bookkeeping import Bookkeeper, Books
from farshore.dataplane.progress import Notes
from farshore.errors import RequestRefused
from farshore.kafka.raw_batches import Produce
from farshore.model import Flow, Lineage, TopicPartition

ORDERS = TopicPartition("orders", 0)
BOOKS = Books("MirrorSourceConnector", "positions", 1, "ledger", None, False, "board")
NOTES = Notes(positions=((ORDERS, 49, Lineage(1)),), gaps=(Gap(ORDERS, 10, 50, "gone"),))
INVALID_RECORD = 87


def written(broker: PlayedBroker) -> list[str]:
    """The topics that records were sent to, in order."""
    return [each.topic for request in broker.requests if isinstance(request, Produce) for each in request.partitions]


@in_a_loop
async def test_a_gap_is_written_before_the_position_that_passes_it() -> None:
    broker = PlayedBroker("positions", "ledger", "board")
    async with broker.cluster() as cluster:
        keeper = Bookkeeper(BOOKS, Flow("A", "B"), cluster, cluster, SYSTEM_CLOCK)
        await keeper.write(NOTES)
        assert written(broker) == ["board", "positions"]
        broker.produce_faults.append(INVALID_RECORD)
        with pytest.raises(RequestRefused, match="INVALID_RECORD"):
            await keeper.write(NOTES)
        assert broker.logs["positions", 0].end == 1, "no position without its gap"
