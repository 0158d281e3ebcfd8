"""Taking a flow over from an earlier driver, whose slots may still be at work."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from farshore.clock import Clock
from farshore.dataplane import board
from farshore.dataplane.bookkeeping import board_records
from farshore.dataplane.picture import LeaseRecord, Picture, read_picture
from farshore.kafka.internal_topics.writer import InternalWriter
from farshore.kafka.raw import RawCluster
from farshore.model import Flow

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
_MARGIN_SECONDS = 1.0
"""Clocks go at different rates, by less than this in the time that a lease lasts."""


class Taken(NamedTuple):
    """A flow that was taken over: what its board says, the generation that is ours, and our name in its leases."""

    picture: Picture
    generation: int
    holder: str


async def take_over(
    target: RawCluster,
    writer: InternalWriter,
    board_topic: str,
    clock: Clock,
    flow: Flow,
    *,
    heard: Picture | None = None,
    claim: bool = True,
    unheard: Callable[[], Awaitable[int]] | None = None,
    surely_over: bool = False,
) -> Taken:
    """Claim the next generation. No slot of an earlier one writes any more when this returns.

    The claim comes first and the wait second. A slot that reads the board sees the claim and ends. One that does not
    read it goes by a lease from before the claim, which has lapsed after the wait. A lease that an earlier driver had
    sent, and that arrives late, lies behind the claim, where no slot is misled by it. Raises KafkaError.

    The wait counts from when the last lease before the claim was `heard`, if whoever has listened to the board knows
    that, else from the claim: a standby has often waited long enough when it comes to hold the flow.

    Without a `claim`, for a driver that copies nothing, there is only the wait.

    A board that was deleted tells of no lease. `unheard` gives the last generation that is known all the same, 0 if
    there was none, and `surely_over` says that none of its slots can be alive.
    """
    holder = f"{random.getrandbits(64):016x}"
    number = 0
    while True:
        last = await read_picture(target, board_topic, clock)
        # A driver that copies nothing gives no lease, and may have been asked to end all the same.
        # A claim of ours that the board has lost was heard all the same: we never go back.
        # What the board has lost we may have heard before.
        leased = _newer(last.lease, heard.lease if heard else None)
        known = leased.generation if leased else 0
        lost = max(_told(last), await unheard() if leased is None and unheard is not None else 0)
        number = 1 + max(number, lost, known, last.end.generation if last.end else 0)
        if claim:
            await writer.write(board_records(board_topic, [board.Lease(number, holder=holder)]))
        claimed_at = clock.monotonic()
        picture = await read_picture(target, board_topic, clock)
        if (leased is not None and not leased.over) or (lost > known and not surely_over):
            _log.info("%s: waiting for the slots of an earlier driver to end", flow)
            await _until_lapsed(_newest_but(picture, (number, holder)), heard, claimed_at, clock)
            picture = await read_picture(target, board_topic, clock)
        lease = picture.lease
        if not claim or (lease is not None and (lease.generation, lease.holder) == (number, holder)):
            return Taken(picture, number, holder)
        _log.warning("%s: another driver has claimed the flow at the same time", flow)


def _told(picture: Picture) -> int:
    """The last generation of which plans or reports are left: an unclean election takes leases first."""
    planned, reported = picture.plans.values(), picture.reports.values()
    return max([0, *(plan.generation for plan in planned), *(report.generation for report in reported)])


def _newer(read: board.Lease | None, heard: board.Lease | None) -> board.Lease | None:
    if read is None or heard is None:
        return read or heard
    return heard if heard.generation > read.generation else read


def _newest_but(picture: Picture, ours: tuple[int, str]) -> tuple[tuple[int, str], LeaseRecord] | None:
    others = [each for each in picture.lease_records.items() if each[0] != ours]
    return max(others, key=lambda each: each[1].offset, default=None)


async def _until_lapsed(
    newest: tuple[tuple[int, str], LeaseRecord] | None, heard: Picture | None, claimed_at: float, clock: Clock
) -> None:
    """No lease of an earlier driver lasts any more. What was heard was on the board by then, so that a slot that reads
    nothing counts from no later; and if we listened ever since, there was none after it that the board lost again."""
    lapsed_at = claimed_at + board.LEASE_LASTS_SECONDS + _MARGIN_SECONDS
    while (left := lapsed_at - clock.monotonic()) > 0:
        if newest is not None and heard is not None:
            record = heard.lease_records.get(newest[0])
            if record is not None and record.is_same(newest[1]) and heard.has_listened_since(record.heard_at):
                lapsed_at = min(lapsed_at, record.heard_at + board.LEASE_LASTS_SECONDS + _MARGIN_SECONDS)
        await asyncio.sleep(min(left, _LOOK_SECONDS))
