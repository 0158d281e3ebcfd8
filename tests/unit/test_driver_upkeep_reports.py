"""How the passes of a flow stand, as the board tells it."""

from __future__ import annotations

import asyncio

from played_broker import PlayedBroker, in_a_loop

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import board
from farshore.dataplane.picture import read_picture
from farshore.driver.upkeep import UpkeepReports
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.model import Flow
from farshore.naming import board_topic


@in_a_loop
async def test_what_has_become_degraded_or_fine_is_told_before_the_next_report_is_due() -> None:
    flow, since = Flow("A", "B"), [None, 5.0, None]
    topic = board_topic(flow.source)
    async with PlayedBroker(topic).cluster() as target:

        def on_board(generation: int) -> board.Upkeep:
            return board.Upkeep(generation, (board.PassReport("copying", 0.0, since[0], "why", None, None),))

        running = asyncio.create_task(UpkeepReports(flow, InternalWriter(target), on_board).run(3))
        for _ in range(2):
            async with asyncio.timeout(board.UPKEEP_EVERY_SECONDS / 2):
                while (told := (await read_picture(target, topic, SYSTEM_CLOCK)).upkeep) is None or (
                    told.passes[0].degraded_since != since[0]
                ):
                    await asyncio.sleep(0.05)
            del since[0]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
