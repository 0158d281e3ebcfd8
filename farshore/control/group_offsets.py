"""Group offsets: where groups of the source stand, written into the groups of the same name on the target.

So that consumers which fail over just start. `decide` says what is written into a group. It takes more care than
MirrorMaker 2, which may turn back a group that was live a moment ago, and never follows one that was rewound:

| offset on the target      | checkpoint                | the checkpoint's offset is then                        |
|---------------------------|---------------------------|--------------------------------------------------------|
| of a group with members   | any                       | not written, and the brokers would refuse it           |
| none                      | any                       | written                                                |
| any                       | further on                | written                                                |
| any                       | the same                  | written again every few hours, since offsets expire    |
| the one written from here | before it                 | written: the group was rewound on the source           |
| another one               | before it                 | not written: the group has moved on the target         |
| any                       | beyond the end of the log | not written: a consumer would begin just anywhere      |
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Protocol

from farshore.config.settings import CheckpointSettings
from farshore.control.problems import Problem
from farshore.control.published import OfGroups
from farshore.errors import KafkaError
from farshore.kafka.admin import Admin
from farshore.kafka.groups import Committed, committed_offsets, list_groups, refused_as_live, with_states, write_offsets
from farshore.model import Checkpoint, TopicPartition
from farshore.pauses import Pauses

REFRESH_AFTER_SECONDS = 6 * 3600.0
"""Brokers keep the offsets of an idle group for seven days by default, those before Kafka 2.0 for one."""

_GROUPS_AT_A_TIME = 500
"""Between reading and writing a group somebody else may write it: the sooner, the less likely."""

_WAIT_FOR_CHECKPOINTS_SECONDS = 5.0


class Skip(StrEnum):
    """Why an offset that should be on the target was not written there."""

    LIVE = "the group is live on the target"
    MOVED = "the group has moved on the target"
    BEYOND_END = "beyond the end of the remote partition"
    UNKNOWN = "not known how things stand on the target"
    REFUSED = "refused by the target"


class Written(NamedTuple):
    """What was last written into a group from here, and when."""

    offset: int
    at: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about the offsets of a group that do not stand as they should."""

    write: Mapping[TopicPartition, Committed] = field(default_factory=dict)
    skip: Mapping[TopicPartition, Skip] = field(default_factory=dict)

    def within(self, ends: Mapping[TopicPartition, int]) -> Decision:
        """Without what would be beyond the ends of the logs, or where these are not known."""
        skip = dict(self.skip)
        for at, each in self.write.items():
            if at not in ends:
                skip[at] = Skip.UNKNOWN
            elif each.offset > ends[at]:
                skip[at] = Skip.BEYOND_END
        return Decision({at: each for at, each in self.write.items() if at not in skip}, skip)


def decide(
    wanted: Mapping[TopicPartition, Checkpoint],
    there: Mapping[TopicPartition, Committed],
    written: Mapping[TopicPartition, Written],
    now: float,
) -> Decision:
    """What to write into a group without members: `wanted` by the source, now `there`, last `written` from here."""
    write: dict[TopicPartition, Committed] = {}
    skip: dict[TopicPartition, Skip] = {}
    for at, checkpoint in wanted.items():
        offset = checkpoint.downstream_offset
        found, ours = there.get(at), written.get(at)
        if found is not None and found.offset > offset and (ours is None or ours.offset != found.offset):
            skip[at] = Skip.MOVED
        elif found is None or found.offset != offset or ours is None or now - ours.at >= REFRESH_AFTER_SECONDS:
            write[at] = Committed(offset, checkpoint.metadata)
    return Decision(write, skip)


class Followed(Protocol):
    """Where the groups of the source stand: `farshore.control.checkpoints.Checkpoints`."""

    @property
    def current(self) -> OfGroups: ...

    async def wait_for_pass(self, after: int, within: float) -> int: ...


class GroupOffsets:
    """A pass: brings the groups of the target to where those of the source stand.

    Each `sync.group.offsets.interval.seconds`. It waits a moment for the pass of the checkpoints that may have begun
    with it, so as not to be an interval behind.
    """

    name = "group offsets"

    def __init__(self, settings: CheckpointSettings, target: Admin, followed: Followed) -> None:
        enabled = settings.sync_group_offsets_enabled
        self.every = settings.sync_group_offsets_interval.total_seconds() if enabled else 0.0
        self._target = target
        self._followed = followed
        self._passes_seen = 0
        self._written: dict[str, dict[TopicPartition, Written]] = {}
        self._skipped: Mapping[str, Mapping[Skip, int]] = {}

    async def run(self) -> Sequence[Problem]:
        self._passes_seen = await self._followed.wait_for_pass(self._passes_seen, _WAIT_FOR_CHECKPOINTS_SECONDS)
        wanted = {group: each for group, each in self._followed.current.items() if each}
        self._written = {group: each for group, each in self._written.items() if group in wanted}
        skips = _Skips()
        if wanted:
            ends: dict[TopicPartition, int | KafkaError] = {}
            for groups in _portions(await self._idle(wanted, skips)):
                await self._sync({group: wanted[group] for group in groups}, ends, skips)
        self._skipped = skips.by_group
        return skips.problems

    @property
    def skipped(self) -> Mapping[Skip, int]:
        """How many offsets the last pass left alone, by reason. From any thread."""
        total: Counter[Skip] = Counter()
        for each in self._skipped.values():
            total.update(each)
        return total

    @property
    def skipped_by_group(self) -> Mapping[str, Mapping[Skip, int]]:
        """The same, for each group with any. From any thread."""
        return self._skipped

    async def _idle(self, wanted: OfGroups, skips: _Skips) -> list[str]:
        """The groups that may be written: nobody is in them, or they do not exist yet."""
        listed = await list_groups(self._target)
        known = await with_states(self._target, (each for name, each in listed.found.items() if name in wanted))
        idle = []
        for group, offsets in wanted.items():
            if group in known and not known[group].idle:
                skips.add(group, offsets, Skip.LIVE)
            elif group not in known and listed.failures:
                skips.add(group, offsets, Skip.UNKNOWN, listed.failures[0])
            else:
                idle.append(group)
        return idle

    async def _sync(self, wanted: OfGroups, ends: dict[TopicPartition, int | KafkaError], skips: _Skips) -> None:
        """`ends` are those known already, and are added to: an older one is only more careful."""
        now = time.monotonic()
        decisions: dict[str, Decision] = {}
        pauses = Pauses()
        for group, there in (await committed_offsets(self._target, wanted)).items():
            await pauses.after(len(wanted[group]))
            if isinstance(there, KafkaError):
                skips.add(group, wanted[group], Skip.UNKNOWN, there)
            else:
                decisions[group] = decide(wanted[group], there, self._written.get(group, {}), now)
        ends |= await self._target.end_offsets({at for each in decisions.values() for at in each.write} - ends.keys())
        known = {at: end for at, end in ends.items() if isinstance(end, int)}
        writes = {}
        for group, decision in decisions.items():
            await pauses.after(len(decision.write) + len(decision.skip))
            decision = decision.within(known)
            for at, reason in decision.skip.items():
                end = ends.get(at) if reason is Skip.UNKNOWN else None
                skips.add(group, [at], reason, end if isinstance(end, KafkaError) else None)
            if decision.write:
                writes[group] = decision.write
        await self._write(writes, now, skips)

    async def _write(
        self, offsets: Mapping[str, Mapping[TopicPartition, Committed]], now: float, skips: _Skips
    ) -> None:
        for group, answer in (await write_offsets(self._target, offsets)).items():
            refused = dict.fromkeys(offsets[group], answer) if isinstance(answer, KafkaError) else answer
            for at, error in refused.items():
                if refused_as_live(error):  # somebody has joined since we looked
                    skips.add(group, [at], Skip.LIVE)
                else:
                    skips.add(group, [at], Skip.REFUSED, error)
            written = {at: Written(each.offset, now) for at, each in offsets[group].items() if at not in refused}
            self._written.setdefault(group, {}).update(written)


class _Skips:
    """What a pass left alone. Groups that are live or have moved are as they should be; all else is a problem."""

    def __init__(self) -> None:
        self.by_group: dict[str, Counter[Skip]] = {}
        self._problems: dict[Problem, None] = {}

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems)

    def add(
        self, group: str, partitions: Collection[TopicPartition], reason: Skip, error: KafkaError | None = None
    ) -> None:
        self.by_group.setdefault(group, Counter())[reason] += len(partitions)
        if error is not None:
            self._problems[Problem(group, f"offsets are not written: {error}", error.retriable)] = None
        elif reason is Skip.BEYOND_END:
            said = "offsets are not written that are beyond the ends of remote partitions: have these lost records?"
            self._problems[Problem(group, said)] = None


def _portions(groups: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(groups)
    while portion := list(islice(rest, _GROUPS_AT_A_TIME)):
        yield portion
