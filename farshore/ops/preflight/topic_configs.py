"""Which configuration a remote topic will have: MirrorMaker 2's rules of creation and of config sync, foreseen."""

from __future__ import annotations

from farshore.config.settings import SourceSettings
from farshore.kafka.facts import Configs, ConfigSource, ConfigValue

# Where a topic's setting takes its default from, if that is not a broker's setting of the same name.
_BROKER_NAMES = {
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "compression.type": "compression.type",
    "cleanup.policy": "log.cleanup.policy",
}


def planned(
    name: str, source: Configs, remote: Configs | None, defaults: Configs | None, settings: SourceSettings
) -> str | None:
    """The value that `name` will have on the remote topic once Farshore runs; None if that cannot be told.

    `remote` is None for a topic yet to be made, `defaults` are a target broker's settings, None if it hides them.
    """
    entry = source.get(name)
    synced = entry is not None and _is_synced(name, entry, settings)
    if remote is not None and not (synced and settings.sync_topic_configs_enabled):
        return _value(remote.get(name))
    if synced and entry is not None and _has_say(entry, settings):
        return entry.value
    return _default(name, remote, defaults)


def changes(
    source: Configs, remote: Configs, defaults: Configs | None, settings: SourceSettings
) -> dict[str, tuple[str, str]]:
    """What config sync will change on an existing remote topic: from what to what."""
    found = {}
    for name in source:
        before, after = _value(remote.get(name)), planned(name, source, remote, defaults, settings)
        if before is not None and after is not None and before != after:
            found[name] = (before, after)
    return found


def _is_synced(name: str, entry: ConfigValue, settings: SourceSettings) -> bool:
    fixed = entry.read_only or entry.sensitive or entry.source is ConfigSource.STATIC_BROKER
    return not fixed and settings.config_properties_exclude.selects(name)


def _has_say(entry: ConfigValue, settings: SourceSettings) -> bool:
    """Whether the source's value counts; else the target's own default does."""
    return entry.source is not ConfigSource.DEFAULT or settings.use_defaults_from == "source"


def _default(name: str, remote: Configs | None, defaults: Configs | None) -> str | None:
    entry = None if remote is None else remote.get(name)
    if entry is not None and entry.source is not ConfigSource.DYNAMIC_TOPIC:
        return entry.value
    return None if defaults is None else _value(defaults.get(_BROKER_NAMES.get(name, "")))


def _value(entry: ConfigValue | None) -> str | None:
    return None if entry is None else entry.value
