"""Topics of the books that are deleted while a slot copies: what it has in memory is written again, once they are back.

The driver makes them again. Nothing is copied twice for it: positions are those of what was copied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from farshore.dataplane.bookkeeping import Books
from farshore.errors import KafkaError
from farshore.kafka.raw import RawCluster
from farshore.kafka.raw_errors import NONE, UNKNOWN_TOPIC_OR_PARTITION

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_SOON_SECONDS = 0.5


def is_another(known: str | None, found: str | None, *, was_gone: bool) -> bool:
    """Whether a topic is another one than before, by its id. With equal ids a broker was behind that did not have it;
    a broker that is too old tells none."""
    return known != found if None not in (known, found) else was_gone


class Rewriting:
    """For one attempt of a slot. `run` in a task; `made_again` is told of topics that are others than before."""

    def __init__(
        self, books: Books, source: RawCluster, target: RawCluster, made_again: Callable[[Collection[str]], None]
    ) -> None:
        self._made_again = made_again
        on_target, on_source = [books.positions_topic], list[str]()
        if books.syncs_topic is not None:
            on_target.append(books.ledger_topic)
            (on_source if books.syncs_on_source else on_target).append(books.syncs_topic)
        self._asked = [(target, on_target), *([(source, on_source)] if on_source else [])]
        self._ids: dict[str, str | None] = {}
        self._gone: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_SOON_SECONDS if self._gone else _LOOK_SECONDS)

    async def look(self) -> None:
        for cluster, topics in self._asked:
            try:
                found = (await cluster.metadata(topics)).topics
            except KafkaError:
                continue  # whoever cannot be asked has not lost anything
            others = []
            for name in topics:
                error, topic_id = found[name].error, found[name].topic_id
                if error == UNKNOWN_TOPIC_OR_PARTITION and name in self._ids:
                    self._gone.add(name)
                elif error == NONE:
                    known = self._ids.get(name)
                    if is_another(known, topic_id, was_gone=name in self._gone):
                        others.append(name)
                    self._gone.discard(name)
                    self._ids[name] = topic_id
            if others:
                _log.info("%s: made again: %s; what is in memory is written there", cluster.alias, ", ".join(others))
                self._made_again(others)
