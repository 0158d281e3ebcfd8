"""The topics of a flow that is held: internal ones that vanish are made again, with what was on them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from types import TracebackType
from typing import Self

from farshore.clock import Clock
from farshore.control.internal_topics import TopicPurpose
from farshore.dataplane import board
from farshore.driver.parts import FlowWork, Held, Upkeep
from farshore.driver.replication import Replication
from farshore.driver.watching import TopicWatch
from farshore.kafka.raw import RawCluster
from farshore.words import counted

_log = logging.getLogger(__name__)


class FlowTopics:
    """`look` first, then let all `watches` run. `boards_lost` counts how often the board was deleted, `resized` says
    that the positions' topic has another number of partitions than slots were told."""

    def __init__(
        self,
        work: FlowWork,
        held: Held,
        replication: Callable[[], Replication | None],
        upkeep: Callable[[], Upkeep | None],
        clock: Clock,
    ) -> None:
        self._upkeep = upkeep
        self._work = work
        self._held = held
        self._replication = replication
        self._source: RawCluster | None = None
        self.boards_lost = 0
        self.resized: str | None = None
        watched = [alias for alias in work.internal_topics if alias == work.flow.target or work.copies is not None]
        self.watches = [self._watch(alias, clock) for alias in watched]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._source is not None:
            await self._source.close()

    async def look(self) -> None:
        """On the target: without a board the flow cannot be taken over."""
        for watch in self.watches:
            if watch.alias == self._work.flow.target:
                await watch.look()

    def _watch(self, alias: str, clock: Clock) -> TopicWatch:
        on_target = alias == self._work.flow.target
        if not on_target and self._work.copies is not None:
            self._source = self._work.copies.new_source()
        return TopicWatch(
            self._work.flow,
            self._held.target if self._source is None or on_target else self._source,
            self._work.internal_topics[alias],
            make_missing=partial(self._make_missing, alias),
            made_again=self._made_again,
            remote=self._remote if on_target else tuple,
            clock=clock,
        )

    def _remote(self) -> Collection[str]:
        replication = self._replication()
        return replication.remote_topics if replication is not None else ()

    async def _make_missing(self, alias: str) -> None:
        replication = self._replication()
        if alias == self._work.flow.target and replication is not None:
            replication.generation.positions_doubted = True  # theirs may be among them
        await self._work.make_missing(alias)

    def _made_again(self, topic: str, purpose: str, partitions: int, text: str) -> None:
        """Slots see for themselves what concerns them."""
        _log.warning("%s: %s", self._work.flow, text)
        replication, upkeep, is_board = self._replication(), self._upkeep(), topic == self._work.board_topic
        notice = self._held.picture.notice(board.NoticeKind.TOPIC_DELETED, topic, text)
        if upkeep is not None:
            upkeep.made_again(topic)
        if is_board:
            self.boards_lost += 1
        if purpose == TopicPurpose.POSITIONS and partitions != self._held.positions_partitions:
            self.resized = (
                f"{text}, with {counted(partitions, 'partition')} instead of {self._held.positions_partitions}"
            )
        if replication is not None:
            replication.generation.tell(notice)
            if is_board:
                replication.generation.write_again()
