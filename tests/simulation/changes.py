"""What logs go through, by the world's flavour: compaction, retention, unclean elections, topics made again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from farshore.dataplane import board
from farshore.wire.records_v2 import fields_of
from simulation.setting import Flavour
from simulation.source import REMOTE, TOPIC

if TYPE_CHECKING:
    from simulation.kafka.log import Log
    from simulation.world import World


_INTERNAL = (
    (("B", "positions"),),
    (("B", "board"), ("B", "ledger"), ("A", "syncs")),
)
"""In one world never both the positions and what else tells the same. Without ledger and syncs somebody has to say where
to go on; and a driver that starts without the board counts generations from those that positions name."""


class Changes:
    """`run` until the world ends; each change is a fault of the kind that its flavour names."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chances.of("changes")
        self._internal = self._chance.choice(_INTERNAL) if world.setting.flavour is Flavour.INTERNAL_DELETED else ()

    async def run(self) -> None:
        flavour = self._world.setting.flavour
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / self._world.setting.changes_every))
            if self._world.chances.on(flavour):
                await self._change(flavour)

    async def _change(self, flavour: Flavour) -> None:
        world, number = self._world, self._chance.randrange(self._world.setting.partitions)
        log = world.log("A", TOPIC, number)
        match flavour:
            case Flavour.COMPACTED if log is not None:
                log.compact(self._chance, log.end - self._chance.choice((0, 5, 50)))
            case Flavour.RETENTION if log is not None:
                log.retain(max(log.start, log.end - self._chance.choice((0, 3, 30))))
                world.trace.event(f"{TOPIC}-{number} begins at {log.start} now")
            case Flavour.UNCLEAN if log is not None:
                self._elect_unclean(log, "A")
                if self._chance.random() < 0.7:
                    world.source.append(number, self._chance.choice((5, 20)))
            case Flavour.REMOTE_TRUNCATED:
                remote = world.log("B", REMOTE, number)
                if remote is not None:
                    self._elect_unclean(remote, "B")
                    world.source.append(number, 1)
            case Flavour.BOARD_TRUNCATED:
                told = world.log("B", world.board_topic, 0)
                if told is not None and world.setting.board_begins_later:
                    told.retain(max(told.start, told.end - self._chance.choice((1, 3, 10))))
                elif told is not None:
                    self._elect_unclean(told, "B", at_least=self._claimed(told))
            case Flavour.INTERNAL_DELETED if self._chance.random() < 0.5:
                if not self._delete_internal():
                    return
            case Flavour.TARGET_WIPED if self._chance.random() < 0.2:
                self._wipe_target()
            case Flavour.POSITIONS_LOST if self._chance.random() < 0.3:
                self._lose_positions()
            case Flavour.SOURCE_RECREATED if self._chance.random() < 0.4:
                await self._recreate("A", TOPIC)
            case Flavour.REMOTE_RECREATED if self._chance.random() < 0.4:
                await self._recreate("B", REMOTE)
            case _:
                return
        world.tally.fault(flavour)

    def _delete_internal(self) -> bool:
        """Whether there was the one that was chosen; the driver makes it again."""
        world = self._world
        alias, topic = self._chance.choice(self._internal)
        if topic not in world.clusters[alias].topic_ids:
            return False
        world.clusters[alias].delete_topic(topic)
        world.trace.event(f"{alias}: {topic} is deleted")
        return True

    def _wipe_target(self) -> None:
        world, cluster, seconds = self._world, self._world.clusters["B"], self._chance.choice((0.5, 3, 12))
        cluster.wipe(f"B#{cluster.era + 1}" if self._chance.random() < 0.5 else cluster.cluster_id)
        world.leases.wiped()
        world.holders.removed()
        for broker in cluster.brokers:
            world.network.down["B", broker] = world.line.now + seconds
        world.network.lose(lambda each: each.cluster is cluster, "the broker has ended")
        world.trace.event(f"B is wiped, and away for {seconds} s; its id is {cluster.cluster_id}")

    def _lose_positions(self) -> None:
        """At times together with the board, or with all else that tells where copies are: then an operator may have to
        say where to go on."""
        world = self._world
        for driver in list(world.drivers):
            driver.kill()
            world.drivers.remove(driver)
            world.line.after(self._chance.choice((0.5, 12)), world.add_driver)
        for process in list(world.living_slots):
            process.kill()
        lost = [("B", "positions")]
        if self._chance.random() < 0.3:
            lost.append(("B", "board"))
            world.leases.wiped()
        if self._chance.random() < 0.3:
            lost += [("B", "ledger"), ("A", "syncs")]
        for alias, topic in lost:
            if topic in world.clusters[alias].topic_ids:
                world.clusters[alias].delete_topic(topic)
        world.trace.event(f"all is killed, and {', '.join(topic for _, topic in lost)} deleted")

    def _claimed(self, log: Log) -> int:
        """Where the board must not end before: without any lease of the generation at work its number would be given to
        another one, and two would have the same."""
        newest = max((process.generation for process in self._world.slots), default=0)
        for entry in log.entries:
            for at, _, body in self._world.contents.records(entry.batch):
                key, value, *_ = fields_of(body)
                lease = board.decode(key, value) if key == b"lease" else None
                if isinstance(lease, board.Lease) and lease.generation == newest:
                    return at + 1
        return log.start

    def _elect_unclean(self, log: Log, alias: str, at_least: int = 0) -> None:
        """Another leader, or the same after a crash, without the newest records; connections to it are lost."""
        world, chance = self._world, self._chance
        reached = log.end - chance.choice((1, 3, 10))
        # A replica has batches whole or not at all: its log ends where one begins.
        keep = next((entry.base for entry in log.entries if entry.last >= reached), log.end)
        keep, same = max(log.start, at_least, keep), chance.random() < 0.5
        if log.topic == REMOTE:
            world.truncations.lost(log, keep)
        world.elect(alias, log, same=same, keep=keep)
        world.trace.event(
            f"{log.topic}-{log.partition} is truncated to {log.end}, epoch {log.leader_epoch}, led by {log.leader}"
        )
        world.network.lose(
            lambda each: each.cluster.alias == alias and each.broker == log.leader, "the broker restarts"
        )

    async def _recreate(self, alias: str, topic: str) -> None:
        world, cluster = self._world, self._world.clusters[alias]
        world.trace.event(f"{alias}: {topic} is deleted")
        if alias == "B":
            ends = {one.partition: cluster.logs[one].end for one in cluster.partitions_of(topic)}
            world.deleted_empty |= {number for number, end in ends.items() if end == 0}
        cluster.delete_topic(topic)
        await asyncio.sleep(self._chance.choice((0.01, 0.5, 3)))
        cluster.create_topic(topic, world.setting.partitions)
        world.trace.event(f"{alias}: {topic} is made again")
        if alias == "A":
            for number in range(world.setting.partitions):
                world.source.append(number, self._chance.choice((1, 20)))
