"""The clients of one flow in the driver's event loop: one for each way in which its connectors reach a cluster."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from farshore.config.settings import AdminTuning, Client, Side
from farshore.kafka.admin import Admin
from farshore.kafka.raw import RawCluster


class Reader(NamedTuple):
    """A client that reads internal topics. `patience`: when nothing has come for so many seconds, it is given up."""

    cluster: RawCluster
    patience: float


class FlowClients:
    """Connectors of a flow mostly reach a cluster in the same way, and then share connections. Flows do not: what one
    of them waits for does not hold up another."""

    def __init__(self) -> None:
        self._admins: list[tuple[str, Client[AdminTuning], Admin]] = []
        self._readers: list[tuple[Side, Reader]] = []

    def admin(self, side: Side) -> Admin:
        for alias, client, admin in self._admins:
            if (alias, client) == (side.alias, side.admin):
                return admin
        admin = Admin(side.alias, side.admin)
        self._admins.append((side.alias, side.admin, admin))
        return admin

    def reader(self, side: Side) -> Reader:
        for known, reader in self._readers:
            if (known.alias, known.consumer) == (side.alias, side.consumer):
                return reader
        patience = side.consumer.tuning.request_timeout.total_seconds()
        cluster = RawCluster(side.consumer.connection, alias=side.alias, client_id="farshore", request_timeout=patience)
        self._readers.append((side, Reader(cluster, patience)))
        return self._readers[-1][1]

    async def close(self) -> None:
        """Takes a second at most."""
        admins = [admin for _, _, admin in self._admins]
        await asyncio.gather(
            *(admin.close() for admin in admins), *(reader.cluster.close() for _, reader in self._readers)
        )
