"""A slot whose remote topic is another one than it thinks, or not yet known to the broker that leads it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

import pytest
from source_and_target import batches_of
from test_dataplane_slot import World

from farshore.kafka.raw import Produced, ProducePartition
from farshore.model import TopicPartition

UNKNOWN_TOPIC_ID = 100


def test_a_broker_that_has_not_heard_of_the_topic_is_asked_again_and_nothing_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    ids: list[str | None] = []

    async def run() -> None:
        world = World(batches_of(3), transactional=False)
        target = world.target

        async def answer(part: ProducePartition) -> Produced:
            ids.append(part.topic_id)
            if len(ids) > 2:
                return await target.append(part)
            return Produced(part.topic, part.partition, UNKNOWN_TOPIC_ID, -1, -1, -1, (), None, 0)

        async def test() -> None:
            await world.until(lambda: world.slot.left({TopicPartition("t", 0): 3}) == {})
            assert target.appended == [0, 1, 2]
            assert world.slot.troubles == []

        target.answer = answer
        await world.take()
        await world.run(test)

    asyncio.run(run())
    assert set(ids) == {"A.t"}
    assert caplog.messages == []


def test_a_batch_goes_out_with_the_id_that_its_partition_was_placed_by() -> None:
    """Between the choice of a batch and its request metadata may come that name another topic."""
    ids: list[str | None] = []

    async def run() -> None:
        world = World(batches_of(1), transactional=False)
        target, sending = world.target, world.slot._sending
        start = sending._start

        def metadata_come(request: Coroutine[None, None, None]) -> None:
            (entry,) = world.slot._hand.entries.values()
            entry.remote_id = "another"
            start(request)

        async def answer(part: ProducePartition) -> Produced:
            ids.append(part.topic_id)
            return await target.append(part)

        async def test() -> None:
            await world.until(lambda: target.appended == [0])

        target.answer = answer
        sending._start = metadata_come  # type: ignore[method-assign]
        await world.take()
        await world.run(test)

    asyncio.run(run())
    assert ids == ["A.t"]
