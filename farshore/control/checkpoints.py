"""Checkpoints: where every consumer group of the source stands, in offsets of the target.

Their topic on the target is what MirrorClient and failover read. MirrorMaker 2's rules: groups that the group filter
selects and that have committed for a topic the topic filter selects, whatever their state; partitions whose offset can
be translated; and only news. A checkpoint never goes back unless its group did, not even over a restart: the topic is
read at the start, and what is to be published is compared with it. Unlike there it does go back when the remote topic
was made anew or has lost records, as soon as it is certain where the group goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from farshore.config.settings import CheckpointSettings
from farshore.control.problems import Problem
from farshore.control.published import Offsets, OfGroups, Published, Translated, decoded
from farshore.control.topic_configs import UNKNOWN_TOPIC, has_code
from farshore.errors import KafkaError, MalformedRecord
from farshore.kafka.admin import Admin
from farshore.kafka.facts import Record
from farshore.kafka.flow_clients import Reader
from farshore.kafka.groups import committed_offsets, list_groups
from farshore.kafka.internal_topics.reader import read_topic
from farshore.kafka.internal_topics.writer import InternalRecord, InternalWriter
from farshore.model import Checkpoint, Flow, TopicPartition
from farshore.pauses import Pauses
from farshore.wire.internal import encode_checkpoint

_RECORDS_A_WRITE = 2_000
"""They are encoded in one step of the event loop."""


class Translation(Protocol):
    """Upstream offsets to downstream ones."""

    async def refresh(self) -> Sequence[Problem]:
        """Take note of what has been copied since."""

    async def translate(self, partition: TopicPartition, upstream_offset: int) -> Translated:
        """Where a group reads on whose next offset in `partition`, named as on the source, is `upstream_offset`."""


class Checkpoints:
    """A pass: reads where groups stand and publishes what is new, each `emit.checkpoints.interval.seconds`.

    Which groups there are is looked up each `refresh.groups.interval.seconds`, or once if that is not enabled. To be
    made anew whenever the flow is taken over, since others have published meanwhile. `reader` and
    `writer` are of the target, and the latter is this pass's alone.
    """

    name = "checkpoints"

    def __init__(
        self,
        settings: CheckpointSettings,
        source: Admin,
        target: Admin,
        reader: Reader,
        translation: Translation,
        writer: InternalWriter,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every = settings.emit_checkpoints_interval.total_seconds()
        refresh_every = settings.refresh_groups_interval.total_seconds()
        self._refresh_every = refresh_every if settings.refresh_groups_enabled and refresh_every > 0 else float("inf")
        self._refresh_at = 0.0
        self._settings = settings
        self._source = source
        self._target = target
        self._reader = reader
        self._translation = translation
        self._writer = writer
        self._clock = clock
        self._groups: frozenset[str] = frozenset()
        self._published = Published(Flow(settings.source.alias, settings.target.alias), settings.policy)
        self._loaded = self._again = False
        self._current: OfGroups = {}
        self._passes = 0
        self._passed = asyncio.Condition()

    async def run(self) -> Sequence[Problem]:
        problems = [*await self._load(), *await self._translation.refresh()]
        refreshing = self._clock() >= self._refresh_at
        untold = await self._look_for_groups() if refreshing else []
        problems += untold
        listed_at_ms = round(time.time() * 1000)
        offsets, unreadable = await self._offsets()
        problems += unreadable
        if refreshing:
            # Those with nothing that is copied need not be asked again until then.
            self._groups -= {group for group, each in offsets.items() if not each}
            if not any(each.passing for each in untold):  # else the next run looks for groups too
                self._refresh_at = self._clock() + self._refresh_every
        problems += await self._publish(offsets, listed_at_ms)
        current, pauses = {}, Pauses()
        for group, each in offsets.items():
            current[group] = self._published.current(group, each)
            await pauses.after(len(each))
        self._current = current
        async with self._passed:
            self._passes += 1
            self._passed.notify_all()
        return problems

    @property
    def groups(self) -> frozenset[str]:
        """The groups that are followed. From any thread."""
        return self._groups

    @property
    def current(self) -> OfGroups:
        """Where groups stand as of the last pass, each where it has committed on the source. From any thread."""
        return self._current

    def publish_again(self) -> None:
        """The topic was deleted and made again: the next pass writes all that was published."""
        self._again = True

    async def wait_for_pass(self, after: int, within: float) -> int:
        """The number of passes so far, as soon as it is above `after` or `within` seconds are over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within), self._passed:
                await self._passed.wait_for(lambda: self._passes > after)
        return self._passes

    async def _load(self) -> list[Problem]:
        """What was published before, by whomever. Raises what may pass by itself, before anything is published.

        A topic that may not be read does not keep us from publishing, as in MirrorMaker 2: offsets that are translated
        less well than before the start then go back, and groups read some records twice.
        """
        if self._loaded:
            return []
        topic = self._settings.checkpoints_topic
        try:
            records = await self._read(topic)
        except KafkaError as error:
            if error.retriable:
                raise
            said = f"checkpoints may go back, since those from before the start cannot be read: {error}"
            return [Problem(topic, said)]
        earlier, malformed = await decoded(records)
        self._published.load(earlier)
        self._loaded = True
        if malformed is None:
            return []
        return [Problem(topic, f"holds records that are no checkpoints, which are ignored: {malformed}")]

    async def _read(self, topic: str) -> list[Record]:
        if has_code((await self._target.describe_topics([topic]))[topic], UNKNOWN_TOPIC):
            return []
        cluster, patience = self._reader
        return await read_topic(cluster, topic, 1, patience=patience)  # all are in the first, however many there may be

    async def _look_for_groups(self) -> list[Problem]:
        listed = await list_groups(self._source)
        problems = []
        selected = frozenset(name for name in listed.found if self._settings.groups.selects(name))
        if listed.failures:
            selected |= self._groups  # they may be among those not told of
            passing = any(each.retriable for each in listed.failures)
            said = f"some brokers did not tell of theirs: {listed.failures[0]}"
            problems.append(Problem("groups", said, passing))
        self._groups = selected
        return problems

    async def _offsets(self) -> tuple[dict[str, Offsets], list[Problem]]:
        """What the groups have committed, on the topics that count; a group that has been deleted is left out."""
        selects: dict[str, bool] = {}
        found: dict[str, Offsets] = {}
        problems = []
        pauses = Pauses()
        for group, answer in (await committed_offsets(self._source, self._groups)).items():
            if not isinstance(answer, KafkaError):
                for topic in {at.topic for at in answer} - selects.keys():
                    selects[topic] = self._settings.topics.selects(topic)
                found[group] = {at: each for at, each in answer.items() if selects[at.topic]}
                await pauses.after(len(answer))
            elif not has_code(answer, "GROUP_ID_NOT_FOUND"):
                problems.append(Problem(group, str(answer), answer.retriable))
        return found, problems

    async def _publish(self, offsets: Mapping[str, Offsets], listed_at_ms: int) -> list[Problem]:
        """Written a few thousand at a time, so that what is there already counts if the rest fails."""
        problems: list[Problem] = []
        pauses, waiting = Pauses(), list[Checkpoint]()
        if self._again:
            await self._write(self._published.all, listed_at_ms)
            self._again = False
        for group, each in offsets.items():
            translated = {}
            for at, committed in each.items():
                translated[at] = await self._translation.translate(at, committed.offset)
                await pauses.after()
            waiting += self._published.news(group, each, translated)
            if len(waiting) >= _RECORDS_A_WRITE:
                problems += await self._write(waiting, listed_at_ms)
                waiting.clear()
        return problems + await self._write(waiting, listed_at_ms)

    async def _write(self, checkpoints: Sequence[Checkpoint], listed_at_ms: int) -> list[Problem]:
        topic, problems, pauses = self._settings.checkpoints_topic, [], Pauses()
        records, written = [], []
        for checkpoint in checkpoints:
            try:
                key, value = encode_checkpoint(checkpoint)
            except MalformedRecord as error:
                problems.append(Problem(checkpoint.group, f"no checkpoint can be written: {error}"))
            else:
                records.append(InternalRecord(topic, 0, key, value, timestamp_ms=listed_at_ms))
                written.append(checkpoint)
            await pauses.after()
        await self._writer.write(records)
        self._published.add(written)
        return problems
