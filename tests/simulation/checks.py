"""What has to be true of every world: of its contents, positions, gaps and memory.

Nothing may be missing but what `truncations` excuses: where the target itself has lost records that it had acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farshore.dataplane.picture import Picture
from farshore.errors import MalformedRecord
from farshore.kafka.facts import Record
from farshore.wire.positions import decode_position
from farshore.wire.records_v2 import fields_of
from simulation.setting import Flavour
from simulation.source import CROWD_BATCH_BYTES, REMOTE, TOPIC

if TYPE_CHECKING:
    from simulation.world import World

Gap = tuple[int, int]

_REMOTE_LOSES = (Flavour.REMOTE_RECREATED, Flavour.REMOTE_TRUNCATED)
_FORGETS = (Flavour.COMPACTED, Flavour.RETENTION)
_MAY_DOUBLE = (Flavour.REMOTE_TRUNCATED,)
"""What the target has lost is copied again, and with it some that it has not lost."""
_OFFSETS_MEAN_SOMETHING_ELSE = (Flavour.UNCLEAN, Flavour.SOURCE_RECREATED, Flavour.TARGET_WIPED, *_REMOTE_LOSES)
_LOSES = (Flavour.RETENTION, *_OFFSETS_MEAN_SOMETHING_ELSE)


class Checks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._setting = world.setting
        self._fail = world.trace.fail

    # -- contents

    def is_behind(self) -> bool:
        """Whether anything on the source is neither on the target nor in a gap."""
        gaps, begun = self.gaps(), self._begun()
        return any(self._missing(number, gaps) or self._untold(number, gaps, begun) for number in self._numbers)

    def contents(self) -> None:
        """At the end: all is there, in order, and exactly once where that is promised."""
        gaps = self.gaps()
        for number in self._numbers:
            self._compare(number, gaps)
        if self._setting.flavour not in _LOSES and any(gaps.values()):
            self._fail("GAP WITHOUT LOSS", f"nothing was lost, but gaps are told of: {gaps}")

    @property
    def _numbers(self) -> range:
        return range(self._setting.partitions)

    def _source(self, number: int) -> list[tuple[int, bytes]] | None:
        log = self._world.log("A", TOPIC, number)
        return None if log is None else [(at, body) for at, _, body in self._world.contents.committed(log)]

    def _target(self, number: int) -> list[tuple[int, bytes]] | None:
        log = self._world.log("B", REMOTE, number)
        return None if log is None else [(at, body) for at, _, body in self._world.contents.committed(log)]

    def _missing(self, number: int, gaps: dict[int, list[Gap]]) -> list[int]:
        source, target = self._source(number), self._target(number)
        if source is None or target is None:
            return [0]  # a topic is being made again
        there = {body for _, body in target}
        missing = {body: at for at, body in source if body not in there and not _within(at, gaps.get(number))}
        return [] if self._world.truncations.may_stay_missing(number, set(missing)) else list(missing.values())

    def _compare(self, number: int, gaps: dict[int, list[Gap]]) -> None:
        source, target = self._source(number) or [], self._target(number) or []
        said = f"{TOPIC}-{number}: {len(source)} records on the source, {len(target)} on the target"
        if missing := self._missing(number, gaps):
            kind = "STUCK" if self._world.never_caught_up else "LOST"
            self._fail(
                kind, f"{said}, {len(missing)} missing, at {missing[0]} to {missing[-1]}; gaps {gaps.get(number)}"
            )
        written, got = self._world.source.written[number], [body for _, body in target]
        if unknown := [at for at, body in target if body not in written.order]:
            self._fail("UNKNOWN", f"{said}, {len(unknown)} of them from nowhere, at {unknown[0]}")
            return
        if aborted := [at for at, body in target if body in written.aborted]:
            self._fail("ABORTED COPIED", f"{said}, {len(aborted)} of them aborted on the source, at {aborted[0]}")
        first = list(dict.fromkeys(got))
        # Appends in transactions name the topic. That it is another one they notice by their offset, which is less than
        # it should be, but not where the log before was empty: then metadata tell of it, and all is copied once more.
        unnoticed = self._setting.flavour in _MAY_DOUBLE or number in self._world.deleted_empty
        if self._setting.exactly_once and len(first) < len(got) and not unnoticed:
            self._tell_doubled(number, said, target)
        if self._setting.flavour in _FORGETS and not self._setting.exactly_once:
            # A late request of an earlier attempt may bring what the source no longer has by then.
            kept = {body for _, body in source}
            first = [body for body in first if body in kept]
        places = [written.order[body] for body in first]
        excused = self._world.leases.excused and not self._setting.exactly_once
        if places != sorted(places) and self._setting.flavour not in _MAY_DOUBLE and not excused:
            self._fail("REORDERED", said)
        if self._setting.flavour is Flavour.RETENTION:
            self._check_gaps(number, gaps, set(got))

    def _begun(self) -> dict[int, int]:
        """Where copying of each partition began, as the first positions say."""
        if self._setting.flavour is not Flavour.RETENTION:
            return {}
        return {number: 1 + min(found) for number, found in self._positions().items()}

    def _tell_doubled(self, number: int, said: str, target: list[tuple[int, bytes]]) -> None:
        seen: dict[bytes, list[int]] = {}
        for at, body in target:
            seen.setdefault(body, []).append(at)
        twice = sorted(at for places in seen.values() if len(places) > 1 for at in places)
        log = self._world.log("B", REMOTE, number)
        entries = log.entries if log is not None else []
        clients = dict.fromkeys(
            entry.client for entry in entries if any(entry.base <= at <= entry.last for at in twice)
        )
        self._fail("DOUBLED", f"{said}, {len(twice)} of them twice, at {twice[:6]} to {twice[-3:]}, by {list(clients)}")

    # -- gaps

    def gaps(self) -> dict[int, list[Gap]]:
        """What the board tells was never copied."""
        picture = Picture(self._world.nature.clock)
        for at, stamp, body in self._world.committed("B", self._world.board_topic):
            key, value, *_ = fields_of(body)
            if key is not None and key.startswith(b"gap"):
                picture.hear("board", Record(0, at, key, value, (), stamp))
        found: dict[int, list[Gap]] = {}
        for partition, gaps in picture.gaps.items():
            found.setdefault(partition.partition, []).extend((gap.begin, gap.end) for gap in gaps.newest)
        for partition, single in picture.single_gaps.items():
            found.setdefault(partition.partition, []).extend((gap.begin, gap.end) for gap in single.values())
        return found

    def _untold(self, number: int, gaps: dict[int, list[Gap]], begun: dict[int, int]) -> list[int]:
        """Offsets that were never copied and that no gap tells of; what was lost before the first copy, and before the
        first position, does not count."""
        if self._setting.flavour is not Flavour.RETENTION:
            return []
        got = {body for _, body in self._target(number) or ()}
        order = list(self._world.source.written[number].order)
        copied = next((at for at, body in enumerate(order) if body in got), len(order))
        first = min(copied, begun.get(number, copied))
        return [
            at for at, body in enumerate(order) if at >= first and body not in got and not _within(at, gaps.get(number))
        ]

    def _check_gaps(self, number: int, gaps: dict[int, list[Gap]], got: set[bytes]) -> None:
        if untold := self._untold(number, gaps, self._begun()):
            said = f"offsets {untold[0]} to {untold[-1]} were never copied, and no gap tells of them"
            self._fail("GAP UNTOLD", f"{TOPIC}-{number}: {said}: {gaps.get(number)}")
        order = self._world.source.written[number].order
        # At least once, what was copied just before a crash is known to nobody.
        over = [at for body, at in order.items() if body in got and _within(at, gaps.get(number))]
        if over and self._setting.exactly_once:
            said = f"offsets {over[0]} to {over[-1]} were copied, and a gap says that they were not"
            self._fail("GAP TOO LARGE", f"{TOPIC}-{number}: {said}: {gaps.get(number)}")

    # -- positions

    def positions(self) -> None:
        """No position is ahead of what is copied."""
        if self._setting.flavour in _OFFSETS_MEAN_SOMETHING_ELSE:
            return
        for number, (*_, last) in self._positions().items():
            log = self._world.log("B", REMOTE, number)
            there = {body for _, _, body in self._world.contents.appended(log)} if log is not None else set()
            ahead = [at for at, body in self._source(number) or () if at <= last and body not in there]
            if ahead:
                self._fail(
                    "POSITION AHEAD", f"{TOPIC}-{number}: the position is {last}, but {ahead[:5]} are not copied"
                )

    def _positions(self) -> dict[int, list[int]]:
        """Of each partition all that were committed, in order: the offset of the last record copied."""
        found: dict[int, list[int]] = {}
        books = self._world.books
        for number in range(books.positions_partitions):
            log = self._world.log("B", books.positions_topic, number)
            for _, _, body in self._world.contents.committed(log) if log is not None else ():
                key, value, *_ = fields_of(body)
                try:
                    position = decode_position(key, value)
                except MalformedRecord:
                    continue
                if position is not None and position.connector == books.connector and position.offset is not None:
                    found.setdefault(position.partition.partition, []).append(position.offset)
        return found

    def aborted_positions(self) -> None:
        """At the end: readers that do not ask for committed records only, such as Connect before 3.3, see the same."""
        books = self._world.books
        for number in range(books.positions_partitions):
            log = self._world.log("B", books.positions_topic, number)
            newest: dict[bytes, tuple[bool, bytes | None, int]] = {}
            for entry in log.entries if log is not None else ():
                for at, _, body in () if entry.batch.is_control else self._world.contents.records(entry.batch):
                    key, value, *_ = fields_of(body)
                    if key is not None:
                        newest[key] = entry.part is not None and entry.part.committed is False, value, at
            for key, (aborted, value, at) in newest.items():
                if aborted:
                    said = f"positions-{number}: the newest record of {key!r}, {value!r} at {at}, was aborted"
                    self._fail("ABORTED POSITION LEFT", said)

    # -- memory

    def memory(self) -> None:
        """What a slot holds stays within its budget and one batch from each source broker."""
        budget = self._setting.budget_bytes
        batch = CROWD_BATCH_BYTES if self._setting.crowd else 4000
        slack = len(self._world.clusters["A"].brokers) * max(batch, self._setting.fetch_bytes)
        for process in self._world.living_slots:
            slot = process.task.slot if process.task is not None else None
            if slot is None:
                continue
            held = slot.held_bytes
            self._world.tally.most_held = max(self._world.tally.most_held, held / budget)
            if held > budget + slack or held < 0:
                self._fail("MEMORY", f"{process.name} holds {held} bytes, its budget is {budget}")


def _within(at: int, gaps: list[Gap] | None) -> bool:
    return gaps is not None and any(begin <= at < end for begin, end in gaps)
