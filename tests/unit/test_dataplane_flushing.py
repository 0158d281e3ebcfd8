"""Positions are noted every second, whatever becomes of the offset syncs."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane import board
from farshore.dataplane.board import Lease
from farshore.dataplane.cargo import Path, Sent
from farshore.dataplane.flushing import Flushing, Rates, Reporting
from farshore.dataplane.lease import SlotLease
from farshore.dataplane.progress import Notes, Progress
from farshore.errors import Unreachable
from farshore.model import Lineage, TopicPartition
from farshore.wire.batch import OldBatch

PARTITION = TopicPartition("orders", 0)


class Keeper:
    """Writes positions at once. Syncs take `seconds`, and then fail if they are to."""

    def __init__(self, seconds: float, fails: bool) -> None:
        self._seconds = seconds
        self._fails = fails
        self.positions: list[int] = []
        self.syncs: list[int] = []

    async def write(self, notes: Notes) -> None:
        self.positions += [last for _, last, _ in notes.positions]

    async def write_syncs(self, notes: Notes, _within: float) -> None:
        await asyncio.sleep(self._seconds)
        if self._fails:
            raise Unreachable("A: 1 internal records were not acknowledged within 20 s", cluster="A")
        self.syncs += [sync.upstream_offset for sync, _ in notes.syncs]


class Books(Flushing):
    async def report(self, state: str) -> None:
        """Nobody listens."""


def copied(progress: Progress, offset: int) -> None:
    sent = Sent(b"", b"", offset, offset, 1, 0, (OldBatch(0, b"", offset, 0, 1),), 0, Path.AS_IS, base_offset=offset)
    progress.moved(PARTITION, [sent], offset + 1)


def flush_for(seconds: float, keeper: Any, *, release: bool = False) -> None:
    async def run() -> None:
        progress = Progress(1, offset_lag_max=0)
        progress.began(PARTITION, 0, Lineage(1), noted=True)
        lease = SlotLease(0, 1, 0, SYSTEM_CLOCK)
        slot: Any = None
        reporting = Reporting(board.Plan(0, 1, 1), Rates(SYSTEM_CLOCK))
        books = Books(slot, progress, keeper, lease, reporting, SYSTEM_CLOCK)
        flushing = asyncio.create_task(books.run())
        began, offset = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            lease.hear(Lease(1), time.monotonic())
            copied(progress, offset)
            offset += 1
            await asyncio.sleep(0.05)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        if release:
            await books.flush("released", letting_go=True)
            assert keeper.positions[-1] == offset - 1
            assert keeper.syncs[-1] == offset - 1

    asyncio.run(run())


def test_syncs_that_cannot_be_written_do_not_keep_positions_from_being_noted() -> None:
    keeper = Keeper(3.0, fails=True)
    flush_for(2.8, keeper)
    assert len(keeper.positions) >= 2
    assert keeper.syncs == []


def test_whoever_lets_go_has_written_the_last_positions_and_syncs() -> None:
    flush_for(0.5, Keeper(0.2, fails=False), release=True)
