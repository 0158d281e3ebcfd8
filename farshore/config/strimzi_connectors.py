"""The connectors of a mirror: which ones are deployed, with what, and in which state."""

from __future__ import annotations

from farshore.config import strimzi_fields as fields
from farshore.config.entries import Connector, Entry
from farshore.config.strimzi_clusters import Cluster
from farshore.config.strimzi_fields import Section
from farshore.model import Flow

FIELDS = {
    Connector.SOURCE: "sourceConnector",
    Connector.CHECKPOINT: "checkpointConnector",
    Connector.HEARTBEAT: "heartbeatConnector",
}

_STATES = ("running", "paused", "stopped")

_PATTERNS = {
    "topics": ("topicsPattern",),
    "topics.exclude": ("topicsExcludePattern", "topicsBlacklistPattern"),
    "groups": ("groupsPattern",),
    "groups.exclude": ("groupsExcludePattern", "groupsBlacklistPattern"),
}
"""Kafka's key, and the fields of a mirror that set it; the first one there wins."""

_SET_ELSEWHERE = {
    "name": "Strimzi names the connectors itself",
    "connector.class": "the field it stands in says which connector it is",
    "tasks.max": "use the connector's field tasksMax",
    "connector.plugin.version": "use the connector's field version",
}
"""Keys that Strimzi ignores in a connector's `config`."""


def mirrored_by(mirror: Section) -> dict[Connector, Section]:
    """The connectors to deploy. A mirror without any is an error."""
    deployed: dict[Connector, Section] = {}
    for connector, field in FIELDS.items():
        section = mirror.section(field)
        if section is None:
            continue
        section.expect((*fields.CONNECTOR, *fields.CONNECTOR_UNUSED), fields.CONNECTOR_BEFORE_V1)
        section.note_unused(fields.CONNECTOR_UNUSED, "")
        deployed[connector] = section
    if not any(field in mirror for field in FIELDS.values()):
        mirror.error("sourceConnector", "is missing, and the mirror has no other connector either")
    elif FIELDS[Connector.SOURCE] not in mirror:
        mirror.warning("sourceConnector", "is missing: as with Strimzi, no topic is copied")
    return deployed


def connector_entries(
    flow: Flow, connector: Connector, section: Section, mirror: Section, source: Cluster, target: Cluster
) -> dict[str, Entry]:
    """Later ones win: what is told of both clusters, the connector's `config`, the mirror's patterns."""
    entries = {
        **target.entries("target.cluster."),
        **source.entries("source.cluster."),
        **_config(section),
        **_patterns(mirror),
        "name": Entry("name", f"{flow}.{connector.value}", section.origin),
        "connector.class": Entry("connector.class", connector.class_name, section.origin),
    }
    if (tasks := section.entry("tasksMax")) is not None:
        entries["tasks.max"] = tasks
    return entries


def is_paused(section: Section) -> bool:
    """Whether the resource wants the connector paused or stopped. `state` wins over the older `pause`."""
    state, pause = section.text("state"), section.flag("pause")
    if state is None:
        return pause or False
    if pause is not None:
        section.warning("pause", "is ignored, as Strimzi does: state is set too")
    if state.text not in _STATES:
        section.error("state", f"must be one of {', '.join(_STATES)}, not {state.text}")
    return state.text != "running"


def _config(section: Section) -> dict[str, Entry]:
    config = section.entries("config")
    for name in [name for name in config if name.lower() in _SET_ELSEWHERE]:
        reason = _SET_ELSEWHERE[name.lower()]
        section.findings.warning(config.pop(name).origin, f"{name} is ignored, as Strimzi does: {reason}")
    return config


def _patterns(mirror: Section) -> dict[str, Entry]:
    """The same for all connectors of the mirror, as Strimzi does; each reads those that concern it."""
    patterns: dict[str, Entry] = {}
    for key, names in _PATTERNS.items():
        given = [name for name in names if name in mirror]
        for ignored in given[1:]:
            mirror.warning(ignored, f"is ignored, as Strimzi does: {given[0]} is set too")
        if given and (entry := mirror.entry(given[0])) is not None:
            patterns[key] = entry
    return patterns
