"""Which clusters the aliases of a configuration are, as far as they have told, and which flows must not run for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from farshore.config.settings import Settings
from farshore.control.cycles import true_cycles
from farshore.errors import ConfigError
from farshore.model import Flow

Ask = Callable[[str], Awaitable[str | None]]
"""The id of the cluster with this alias; None where it has none. Raises KafkaError if it cannot be reached."""


class Identities:
    """Lets flows begin one by one. The one that would close a cycle is not among them.

    A flow waits for its own two clusters and for no others: those of a cycle are all known when its last flow asks.
    `refuse` is called for every flow of a cycle that is found, also for those that run by then.
    """

    def __init__(self, settings: Settings, refuse: Callable[[Flow, str], None]) -> None:
        self._settings = settings
        self._refuse = refuse
        self._ids: dict[str, str | None] = {}
        self._refused: dict[Flow, str] = {}

    async def admit(self, flow: Flow, ask: Ask) -> None:
        """Returns when the flow may begin. Raises KafkaError, or ConfigError if records would come back to where they
        were written, and be copied for ever."""
        source, target = await asyncio.gather(ask(flow.source), ask(flow.target))
        self._ids |= {flow.source: source, flow.target: target}
        for cycle in true_cycles(self._settings, self._ids):
            for each in cycle.flows:
                if each not in self._refused:
                    self._refused[each] = cycle.reason
                    self._refuse(each, cycle.reason)
        if flow in self._refused:
            raise ConfigError([self._refused[flow]])
