"""The settings of remote topics, kept in step with those of the source after the topics have been made.

MirrorMaker 2's rule, for every setting that somebody may set and see, that the source's brokers were not started with,
and that `config.properties.exclude` does not name:

| on the source  | use.defaults.from=target                      | use.defaults.from=source    |
|----------------|-----------------------------------------------|-----------------------------|
| has a value    | set on the remote topic                       | the same                    |
| at its default | taken off the remote topic: the target's holds | the source's default is set |

So the source wins over what is set on the target. Unlike there, only differences are sent, and each is said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from farshore.config.settings import FlowSettings, SourceSettings
from farshore.control.problems import Problem
from farshore.control.topic_configs import UNKNOWN_TOPIC, configs_at_creation, has_code
from farshore.control.topics import plan_topics
from farshore.errors import KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.admin import Admin
from farshore.kafka.facts import Configs, ConfigSource
from farshore.pauses import Pauses
from farshore.threads import in_thread

_log = logging.getLogger(__name__)

_TOPICS_A_REQUEST = 1_000
"""Brokers describe thirty settings a topic: so much is held at once."""
_STEPS_A_TOPIC = 10

Values = Mapping[str, str | None]
"""By setting; None: the brokers' default holds."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A setting of a remote topic that is to be other than it is. `own`: its old value was set on the topic itself."""

    config: str
    old: str | None
    new: str | None
    own: bool

    def __str__(self) -> str:
        old = self.old if self.own else f"{self.old} (default)"
        return f"{self.config} {old} → {'the default' if self.new is None else self.new}"


def wanted_configs(source: Configs, settings: SourceSettings) -> dict[str, str | None]:
    """What is to be set on the remote topic of a source topic with these settings; None: nothing, the default holds."""
    at_default = {
        name: None
        for name, entry in source.items()
        if entry.source is ConfigSource.DEFAULT
        and not (entry.read_only or entry.sensitive)
        and settings.use_defaults_from != "source"
        and settings.config_properties_exclude.selects(name)
    }
    return {**at_default, **configs_at_creation(source, settings)}


def config_changes(wanted: Values, target: Configs) -> tuple[ConfigChange, ...]:
    """The differences, as far as the target knows the settings at all. A value is there only if the topic itself has
    it: brokers' defaults may change."""
    changes = []
    for name, new in wanted.items():
        entry = target.get(name)
        if entry is not None:
            own = entry.source is ConfigSource.DYNAMIC_TOPIC
            if new != entry.value if own else new is not None:
                changes.append(ConfigChange(name, entry.value, new, own))
    return tuple(changes)


class TopicConfigsPass:
    """Runs in the driver, a pass of the control loop, on `sync.topic.configs.interval.seconds`.

    It looks at all remote topics that exist, a thousand at a time, and sends what has to change in as few requests as
    brokers take.
    """

    name = "topic configs"

    def __init__(self, flow: FlowSettings, source: Admin, target: Admin) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._in_step: dict[str, Values] = {}
        self._told: Mapping[str, tuple[ConfigChange, ...]] = {}
        self._told_unknown: set[str] = set()

    @property
    def every(self) -> float:
        settings = self._flow.source
        if settings is None or not settings.sync_topic_configs_enabled:
            return 0.0
        return settings.sync_topic_configs_interval.total_seconds()

    async def run(self) -> list[Problem]:
        """Every topic has its own fate. Raises KafkaError where a cluster does not answer at all."""
        if self._flow.source is None:
            return []
        there = await self._target.topics()
        theirs = await self._source.topics()
        plan = await in_thread(lambda: plan_topics(self._flow, theirs, there), f"{self._flow.flow} configs")
        remote = [(topic, name) for topic, name in plan.remote.items() if name in there]
        wanted: dict[str, Values] = {}
        made: dict[str, tuple[ConfigChange, ...]] = {}
        refused: dict[str, list[Problem]] = {}
        problems: list[Problem] = []
        pauses = Pauses()
        for start in range(0, len(remote), _TOPICS_A_REQUEST):
            portion = dict(remote[start : start + _TOPICS_A_REQUEST])
            found, unreadable = await self._look(portion, self._flow.source)
            problems += unreadable
            changes: dict[str, tuple[ConfigChange, ...]] = {}
            for name, (values, target) in found.items():
                await pauses.after(_STEPS_A_TOPIC)
                wanted[name] = values
                changes[name] = config_changes(values, target)
                self._tell_unknown(values, target)
            refused |= await self._apply({name: each for name, each in changes.items() if each}, made)
        self._told = made
        before = {name: values for name, values in self._in_step.items() if name in refused}
        self._in_step = before | {name: values for name, values in wanted.items() if name not in refused}
        return problems + [problem for each in refused.values() for problem in each]

    async def _look(
        self, remote: Mapping[str, str], settings: SourceSettings
    ) -> tuple[dict[str, tuple[Values, Configs]], list[Problem]]:
        """What is wanted and what is there, by remote topic. `remote` has their names by source topic."""
        upstream, downstream = await asyncio.gather(
            self._source.topic_configs(remote), self._target.topic_configs(remote.values())
        )
        found: dict[str, tuple[Values, Configs]] = {}
        problems: list[Problem] = []
        pauses = Pauses()
        for topic, name in remote.items():
            await pauses.after(_STEPS_A_TOPIC)
            source, target = upstream[topic], downstream[name]
            if isinstance(source, KafkaError):
                problems += _unreadable(topic, source)
            elif isinstance(target, KafkaError):
                problems += _unreadable(name, target)
            else:
                found[name] = (wanted_configs(source, settings), target)
        return found, problems

    async def _apply(
        self, changes: Mapping[str, tuple[ConfigChange, ...]], made: dict[str, tuple[ConfigChange, ...]]
    ) -> dict[str, list[Problem]]:
        """Change the topics, and say what was changed, which is added to `made`; why not, by the topics that were
        refused."""
        outcomes = await self._target.alter_topic_configs({name: _values(each) for name, each in changes.items()})
        failed = {name: error for name, error in outcomes.items() if error is not None}
        pauses = Pauses()
        for name, each in changes.items():
            if name in failed:
                continue
            made[name] = each
            # Where brokers store another text than they are given, the same change is due at every pass.
            if each != self._told.get(name):
                self._tell(name, each)
            await pauses.after(_STEPS_A_TOPIC)
        culprits = await _refused_alone(
            self._target, {name: changes[name] for name in failed if _is_final(failed[name])}
        )
        return {name: self._problems(name, changes[name], e, culprits.get(name)) for name, e in failed.items()}

    def _problems(
        self,
        name: str,
        changes: Sequence[ConfigChange],
        error: KafkaError,
        culprits: Mapping[ConfigChange, KafkaError] | None,
    ) -> list[Problem]:
        if has_code(error, UNKNOWN_TOPIC):
            return []  # deleted just now: of topics that are no more others speak
        if isinstance(error, PermissionDenied):
            advice = "allow ALTER_CONFIGS on the topic, or set sync.topic.configs.enabled=false"
            return [Problem(name, f"its settings cannot be kept in step: {error}: {advice}")]
        if not _is_final(error):
            return [Problem(name, f"its settings could not be changed just now: {error}", error.retriable)]
        source = self._flow.flow.source
        return [
            Problem(
                name,
                f"{change} is refused, and so nothing of its settings is changed: {why}: correct it on {source}, or "
                f"leave {change.config} out with config.properties.exclude",
            )
            for change, why in (culprits or dict.fromkeys(changes, error)).items()
        ]

    def _tell(self, name: str, changes: Sequence[ConfigChange]) -> None:
        flow, before = self._flow.flow, self._in_step.get(name)
        said = ", ".join(map(str, changes))
        if before is None:  # who has set the old value is not known; it may well have been us, before a restart
            hint = (
                f"; config.properties.exclude leaves a setting to {flow.target}" if any(e.own for e in changes) else ""
            )
            _log.info("%s: %s: %s, as on %s%s", flow, name, said, flow.source, hint)
            return
        put_back = [each.config for each in changes if each.config in before and before[each.config] == each.new]
        if put_back:
            _log.warning(
                "%s: %s: %s, as on %s: somebody has changed %s on %s; config.properties.exclude would leave it to %s",
                flow, name, said, flow.source, ", ".join(put_back), flow.target, flow.target,
            )  # fmt: skip
        else:
            _log.info("%s: %s: %s, as on %s", flow, name, said, flow.source)

    def _tell_unknown(self, wanted: Values, target: Configs) -> None:
        for config, value in wanted.items():
            if value is not None and config not in target and config not in self._told_unknown:
                self._told_unknown.add(config)
                flow = self._flow.flow
                _log.warning("%s: %s does not know %s, so it is not kept in step", flow, flow.target, config)


def _values(changes: Sequence[ConfigChange]) -> dict[str, str | None]:
    return {each.config: each.new for each in changes}


def _unreadable(topic: str, error: KafkaError) -> Iterator[Problem]:
    if has_code(error, UNKNOWN_TOPIC):
        return  # deleted, or made, just now
    advice = ": allow DESCRIBE_CONFIGS on the topic" if isinstance(error, PermissionDenied) else ""
    yield Problem(topic, f"its settings cannot be read: {error}{advice}", error.retriable)


def _is_final(error: KafkaError) -> bool:
    return isinstance(error, RequestRefused) and not error.retriable and not has_code(error, UNKNOWN_TOPIC)


async def _refused_alone(
    target: Admin, changes: Mapping[str, Sequence[ConfigChange]]
) -> dict[str, dict[ConfigChange, KafkaError]]:
    """Which of several changes the target would not take by themselves. Nothing is changed.

    A topic is not given the others: with a short retention, but without its `cleanup.policy=compact`, it would lose
    records.
    """
    several = {name: each for name, each in changes.items() if len(each) > 1}
    found: dict[str, dict[ConfigChange, KafkaError]] = {}
    for number in range(max(map(len, several.values()), default=0)):
        alone = {name: each[number] for name, each in several.items() if number < len(each)}
        values = {name: _values([change]) for name, change in alone.items()}
        for name, error in (await target.alter_topic_configs(values, validate_only=True)).items():
            if error is not None and _is_final(error):
                found.setdefault(name, {})[alone[name]] = error
    return found
