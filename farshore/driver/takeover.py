"""Taking a flow over from an earlier driver, whose slots may still be at work."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import NamedTuple

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import board_records
from farshore.dataplane.picture import Picture, read_picture
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.model import Flow

_log = logging.getLogger(__name__)

_MARGIN_SECONDS = 1.0
"""Clocks go at different rates, by less than this in the time that a lease lasts."""


class Taken(NamedTuple):
    """A flow that was taken over: what its board says, the generation that is ours, and our name in its leases."""

    picture: Picture
    generation: int
    holder: str


async def take_over(
    target: RawCluster, writer: InternalWriter, board_topic: str, clock: Clock, flow: Flow, *, claim: bool = True
) -> Taken:
    """Claim the next generation. No slot of an earlier one writes any more when this returns.

    The claim comes first and the wait second. A slot that reads the board sees the claim and ends. One that does not
    read it goes by a lease from before the claim, which has lapsed after the wait. A lease that an earlier driver had
    sent, and that arrives late, lies behind the claim, where no slot is misled by it. Raises KafkaError.

    Without a `claim`, for a driver that copies nothing, there is only the wait.
    """
    holder = f"{random.getrandbits(64):016x}"
    number = 0
    while True:
        last = await read_picture(target, board_topic, clock)
        # A driver that copies nothing gives no lease, and may have been asked to end all the same.
        # A claim of ours that the board has lost was heard all the same: we never go back.
        number = 1 + max(number, last.lease.generation if last.lease else 0, last.end.generation if last.end else 0)
        if claim:
            await writer.write(board_records(board_topic, [board.Lease(number, holder=holder)]))
        if last.lease is not None and not last.lease.over:
            _log.info("%s: waiting for the slots of an earlier driver to end", flow)
            await asyncio.sleep(board.LEASE_LASTS_SECONDS + _MARGIN_SECONDS)
        picture = await read_picture(target, board_topic, clock)
        lease = picture.lease
        if not claim or (lease is not None and (lease.generation, lease.holder) == (number, holder)):
            return Taken(picture, number, holder)
        _log.warning("%s: another driver has claimed the flow at the same time", flow)
