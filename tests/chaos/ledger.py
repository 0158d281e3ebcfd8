"""What logs of the source held before something took it away: read just before, so that it can be compared later."""

from __future__ import annotations

import asyncio
import threading

from chaos import logs
from chaos.comparing import Unit, units_of
from farshore.local import Cluster
from farshore.model import TopicPartition


class Ledger:
    """By cluster and partition, in order. A topic that was created again has had several lives."""

    def __init__(self) -> None:
        self._lives: dict[tuple[str, TopicPartition], list[list[Unit]]] = {}
        self._turn = threading.Lock()

    def keep(self, cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
        """All that is committed now and not kept yet; by partition, the offset behind it."""
        with self._turn:
            return asyncio.run(self._keep(cluster, topic))

    def end_life(self, cluster: Cluster, topic: str) -> None:
        """From here on offsets begin again at 0."""
        for (name, partition), lives in self._lives.items():
            if name == cluster.name and partition.topic == topic:
                lives.append([])

    def lives(self, cluster: Cluster, partition: TopicPartition) -> list[list[Unit]]:
        """The last one goes on in the log of today."""
        return self._lives.get((cluster.name, partition), [[]])

    async def _keep(self, cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
        ends = {}
        async with logs.client(cluster) as client:
            for partition in await logs.partitions(client, topic):
                life = self._lives.setdefault((cluster.name, partition), [[]])[-1]
                since = life[-1].offset + 1 if life else 0
                _, end = await logs.bounds(client, partition)
                life += [unit for unit in units_of(await logs.read(client, partition, since)) if unit.offset < end]
                ends[partition] = end
        return ends
