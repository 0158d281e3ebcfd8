"""Everything that was written, compared with everything that was copied, by the rules of each kind of topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos import logs
from chaos.comparing import Comparison, Piece, Rules, Unit, compare, compare_keyed, compare_pieces, identity, units_of
from chaos.scene import Scene
from chaos.topics import Kind, topic_name
from chaos.writers import is_genuine
from farshore.clock import SYSTEM_CLOCK
from farshore.dataplane.board import Gap
from farshore.dataplane.picture import read_picture
from farshore.errors import FarshoreError
from farshore.kafka.raw import RawCluster
from farshore.model import TopicPartition
from farshore.naming import board_topic
from farshore.wire.records import records_of

_LOOK_SECONDS = 2.0
_LOSES = (Kind.REBORN, Kind.EXPIRES, Kind.FORGETS, Kind.MISLAID)
_IN_FLIGHT = 500
"""Records in five batches, at most, of topics into which so little is written."""


@dataclass
class Verdict:
    """`by_kind` counts compared records."""

    compared: int = 0
    repeated: int = 0
    explained: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def add(self, where: str, kind: Kind, found: Comparison) -> None:
        self.compared += found.compared
        self.repeated += found.repeated
        self.explained += found.explained
        self.by_kind[kind] = self.by_kind.get(kind, 0) + found.compared
        if found.alike:
            self.notes.append(
                f"{where}: {found.alike:,} records of the source are equal to earlier ones; only their number is judged"
            )
        self.differences += [f"{where}: {each}" for each in found.differences]


def wait_until_copied(scene: Scene, within: float) -> list[str]:
    """Until the last committed record of each partition is the last on the other side too; those of which it is not."""
    return asyncio.run(_wait_until_copied(scene, within))


def compare_all(scene: Scene, tell: Callable[[str], None]) -> Verdict:
    return asyncio.run(_compare_all(scene, tell))


async def _wait_until_copied(scene: Scene, within: float) -> list[str]:
    left = [(side, kind) for side in scene.clusters for kind in Kind]
    give_up_at = time.monotonic() + within
    said: list[str] = []
    while left and time.monotonic() < give_up_at:
        said = []
        for side, kind in list(left):
            try:
                behind = await _behind(scene, side, kind)
            except (logs.Unreadable, FarshoreError) as error:
                behind = [f"{side} {kind}, of which it cannot be told: {error}"]
            said += behind
            if not behind:
                left.remove((side, kind))
        if left:
            await asyncio.sleep(_LOOK_SECONDS)
    return said if left else []


async def _behind(scene: Scene, side: str, kind: Kind) -> list[str]:
    found = []
    source = scene.clusters[side]
    topic = topic_name(kind, source)
    async with logs.client(source) as here, logs.client(scene.other(side)) as there:
        for partition in await logs.partitions(here, topic):
            wanted = units_of(await logs.newest(here, partition))[-1:]
            try:
                got = units_of(await logs.newest(there, _remote(side, partition)))[-1:]
            except logs.Missing:
                got = []
            if wanted and [unit.identity for unit in wanted] != [unit.identity for unit in got]:
                found.append(f"{side} {partition}")
    return found


async def _compare_all(scene: Scene, tell: Callable[[str], None]) -> Verdict:
    verdict = Verdict()
    for side, source in scene.clusters.items():
        async with logs.client(source) as here, logs.client(scene.other(side)) as there:
            gaps = (await read_picture(there, board_topic(side), SYSTEM_CLOCK)).gaps
            for kind in Kind:
                for partition in await _partitions(here, topic_name(kind, source), verdict):
                    told = gaps[partition].newest if partition in gaps else ()
                    began = time.monotonic()
                    try:
                        found = await _compare(scene, side, kind, partition, here, there, told)
                    except (logs.Unreadable, FarshoreError) as error:
                        found = Comparison(differences=[f"it cannot be judged: {type(error).__name__}: {error}"])
                    verdict.add(f"{side} {partition}", kind, found)
                    if time.monotonic() - began > 5:
                        tell(f"{partition}: {found.compared:,} records compared in {time.monotonic() - began:.0f} s")
    return verdict


async def _partitions(here: RawCluster, topic: str, verdict: Verdict) -> list[TopicPartition]:
    try:
        return await logs.partitions(here, topic)
    except logs.Unreadable as error:
        verdict.differences.append(f"{topic} cannot be judged: {error}")
        return []


async def _compare(
    scene: Scene, side: str, kind: Kind, partition: TopicPartition, here: RawCluster, there: RawCluster,
    told: tuple[Gap, ...],
) -> Comparison:  # fmt: skip
    once = scene.delivers_once(side)
    remote = _remote(side, partition)
    try:
        copied = await logs.read(there, remote)
    except logs.Missing as error:
        return Comparison(differences=[f"it was never copied: {error}"])
    lives = scene.ledger.lives(scene.clusters[side], partition)
    kept_to = lives[-1][-1].offset + 1 if lives[-1] else 0
    today = await logs.read(here, partition, since=kept_to)
    if kind is Kind.KEYED:
        found = compare_keyed(today, copied, exactly_once=once)
    elif kind in _LOSES:
        written = [*lives[:-1], lives[-1] + units_of(today)]
        rules = _rules(kind, once, partition, written, copied, told)
        units = [unit for life in written for unit in life]
        if kind is Kind.FORGETS:  # its writer may have sent a record again
            units = list({unit.identity: unit for unit in units}.values())
        found = compare(units, units_of(copied), rules)
    else:
        found = compare_pieces(today, copied, Rules(exactly_once=once))
    if told and kind not in _LOSES:
        found.differences.append(f"nothing was taken away, but gaps are told of: {[gap.reason for gap in told]}")
    return found


def _rules(
    kind: Kind, once: bool, partition: TopicPartition, written: list[list[Unit]], copied: list[Piece],
    told: tuple[Gap, ...],
) -> Rules:  # fmt: skip
    if kind is Kind.REBORN:
        # What was not copied when it was deleted is the end of each earlier life.
        there = {unit.identity for unit in units_of(copied)}
        ends: set[bytes] = set()
        for life in written[:-1]:
            newest = max((place for place, unit in enumerate(life) if unit.identity in there), default=-1)
            ends.update(unit.identity for unit in life[newest + 1 :])
        return Rules(once, may_miss=frozenset(ends))
    if kind is Kind.EXPIRES:
        missing = {unit.identity for unit in written[0] for gap in told if gap.begin <= unit.offset < gap.end}
        return Rules(once, told_missing=frozenset(missing))
    if kind is Kind.MISLAID:
        # What the copy lost is copied again, with some that it has not lost. A slot that appends behind the loss and
        # dies before it has noted a position leaves what was in flight missing, and the loss is told all the same.
        if once or not any("it lost records" in gap.reason for gap in told):
            return Rules(once)
        there = {unit.identity for unit in units_of(copied)}
        missing = {unit.identity for unit in written[0] if unit.identity not in there}
        return Rules(False, ordered=False, may_miss=frozenset(missing if len(missing) <= _IN_FLIGHT else ()))
    # What the source lost is not there to be compared with; that it was written so, its values tell. A record may have
    # been lost, sent again and so be there twice.
    genuine = {
        identity(timestamp, body)
        for piece in copied
        for _, timestamp, body in records_of(piece.batch, from_offset=piece.first)
        if is_genuine(body, partition.topic, partition.partition)
    }
    return Rules(False, may_exceed=frozenset(genuine))


def _remote(side: str, partition: TopicPartition) -> TopicPartition:
    return TopicPartition(f"{side}.{partition.topic}", partition.partition)
