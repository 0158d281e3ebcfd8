"""Watching the topics of a flow on one cluster: internal ones that vanish are made again, and a wipe is noticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from farshore.clock import Clock
from farshore.driver.vanishing import Found, KnownTopics
from farshore.errors import KafkaError
from farshore.kafka.raw import RawCluster
from farshore.model import Flow

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_SOON_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_REMOTE_TOPICS_ASKED = 50


class ClusterWiped(Exception):
    """Nothing that the flow knew of the cluster with this alias is true any more."""

    def __init__(self, alias: str, why: str) -> None:
        super().__init__(f"{alias} was wiped: {why}")
        self.alias = alias


class TopicWatch:
    """`look` once, then `run` in a task. `internal` are names with purposes; `make_missing` makes those that are not
    there. `made_again` is told of each that was deleted and is there again, whatever made it: its name, its purpose,
    its number of partitions, and a text for people.

    Of `remote` topics some are looked at too: by internal topics alone a cluster that was wiped could not be told from
    one where somebody has tidied up.
    """

    def __init__(
        self,
        flow: Flow,
        cluster: RawCluster,
        internal: Mapping[str, str],
        *,
        make_missing: Callable[[], Awaitable[None]],
        made_again: Callable[[str, str, int, str], None],
        remote: Callable[[], Collection[str]] = tuple,
        clock: Clock,
    ) -> None:
        self.alias = cluster.alias
        self._flow = flow
        self._cluster = cluster
        self._internal = internal
        self._make_missing = make_missing
        self._made_again = made_again
        self._remote = remote
        self._known = KnownTopics(internal)
        self._clock = clock
        self._told: frozenset[str] = frozenset()
        self._pause, self._make_at = _SOON_SECONDS, 0.0

    async def run(self) -> None:
        """Until cancelled. Raises ClusterWiped."""
        while True:
            waiting = await self.look()
            await asyncio.sleep(_SOON_SECONDS if waiting else _LOOK_SECONDS)

    async def look(self) -> bool:
        """Whether to look again soon: something is missing, or is believed only when it is seen twice."""
        alias = self._cluster.alias
        remote = sorted(self._remote())[:_REMOTE_TOPICS_ASKED]
        try:
            found = Found.of(await self._cluster.metadata([*self._internal, *remote]))
        except KafkaError:
            return False  # whoever cannot be asked has not lost anything; others tell that it is away
        vanished = self._known.look(found)
        if vanished.wiped is not None:
            raise ClusterWiped(alias, vanished.wiped)
        for name in vanished.missing:
            if name not in self._told and self._known.has_seen(name):
                said = f"{name} on {alias} ({self._internal[name]}) was deleted: it is made again"
                _log.warning("%s: %s", self._flow, said)
        self._told = frozenset(vanished.missing)
        for name in vanished.made_again:
            topic, purpose = found.topics[name], self._internal[name]
            assert topic is not None
            self._made_again(
                name, purpose, topic.partitions, f"{name} on {alias} ({purpose}) was deleted and made again"
            )
        await self._make(bool(vanished.missing))
        return self._known.suspicious or (bool(vanished.missing) and self._pause < _LONGEST_PAUSE_SECONDS)

    async def _make(self, missing: bool) -> None:
        """At first at once, then less and less often: somebody may have to grant a permission first."""
        now = self._clock.monotonic()
        if not missing:
            self._pause, self._make_at = _SOON_SECONDS, 0.0
        elif now >= self._make_at:
            self._make_at = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            try:
                await self._make_missing()
            except KafkaError as error:
                _log.warning("%s: %s", self._flow, error)
