"""Flows begin when their own two clusters are known, and never all flows of a cycle."""

from __future__ import annotations

import asyncio

import pytest
from configs import ReadText, read_text, said
from played_broker import in_a_loop

from farshore.driver.identities import Identities
from farshore.errors import ConfigError, KafkaError, Unreachable
from farshore.model import Flow

__all__ = ["read_text"]

AB, CD = Flow("A", "B"), Flow("C", "D")


class Clusters:
    """`ids` by alias; what has none is silent, what is in `away` cannot be reached."""

    def __init__(self, read_text: ReadText, **ids: str) -> None:
        servers = (f"{alias}.bootstrap.servers = {alias.lower()}:9092" for alias in "ABCD")
        reading = read_text(
            "\n".join(("clusters = A, B, C, D", "A->B.enabled = true", "C->D.enabled = true", *servers))
        )
        assert reading.settings is not None, said(reading)
        self.ids = ids
        self.away: set[str] = set()
        self.refused: dict[Flow, str] = {}
        self.identities = Identities(reading.settings, self.refused.__setitem__)

    async def ask(self, alias: str) -> str:
        if alias in self.away:
            raise Unreachable(f"{alias}: no answer", cluster=alias)
        while alias not in self.ids:
            await asyncio.sleep(0.01)
        return self.ids[alias]

    def admission(self, flow: Flow) -> asyncio.Task[None]:
        return asyncio.create_task(self.identities.admit(flow, self.ask))


def test_a_silent_cluster_of_another_flow_does_not_matter(read_text: ReadText) -> None:
    @in_a_loop
    async def run() -> None:
        clusters = Clusters(read_text, A="ida", B="idb", C="idc")
        waiting = clusters.admission(CD)
        await asyncio.wait_for(clusters.admission(AB), 5)
        assert not waiting.done()
        clusters.ids["D"] = "idd"
        await asyncio.wait_for(waiting, 5)
        assert not clusters.refused

    run()


def test_a_cluster_that_cannot_be_reached_is_told_and_asked_again(read_text: ReadText) -> None:
    @in_a_loop
    async def run() -> None:
        clusters = Clusters(read_text, A="ida", B="idb")
        clusters.away.add("B")
        with pytest.raises(KafkaError, match="B: no answer"):
            await clusters.admission(AB)
        clusters.away.clear()
        await clusters.admission(AB)

    run()


def test_the_flow_that_would_close_a_cycle_never_begins_and_the_others_of_it_are_refused_too(
    read_text: ReadText,
) -> None:
    @in_a_loop
    async def run() -> None:
        clusters = Clusters(read_text, A="ida", B="idb", C="idb")
        waiting = clusters.admission(CD)
        await clusters.admission(AB)
        assert not clusters.refused
        clusters.ids["D"] = "ida"
        with pytest.raises(ConfigError, match="A and D are one cluster"):
            await asyncio.wait_for(waiting, 5)
        assert set(clusters.refused) == {AB, CD}
        with pytest.raises(ConfigError):
            await clusters.admission(AB)

    run()
