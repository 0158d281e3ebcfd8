"""Fields of a Kubernetes resource: reading them by name, and telling of those that nobody reads.

A Section never stops at a mistake: it reports it with the line and goes on as if the field were absent.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from farshore.config.entries import Entry, Findings, Origin
from farshore.config.yamltext import YamlList, YamlMap, YamlNode, YamlText

RESOURCE = ("apiVersion", "kind", "metadata", "spec", "status")

MIRRORED = ("target", "mirrors")
MIRRORED_BEFORE_V1 = ("clusters", "connectCluster")
DEPLOYED = (
    "version",
    "replicas",
    "image",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "jvmOptions",
    "jmxOptions",
    "logging",
    "clientRackInitImage",
    "rack",
    "metrics",
    "metricsConfig",
    "tracing",
    "template",
    "externalConfiguration",
    "affinity",
    "tolerations",
)
"""Fields of `spec` about pods and the JVM in them."""

CLUSTER = ("alias", "bootstrapServers", "tls", "authentication", "config")
TARGET = (*CLUSTER, "groupId", "configStorageTopic", "statusStorageTopic", "offsetStorageTopic")
TRUSTED_CERTIFICATE = ("secretName", "certificate", "pattern")

MIRROR = (
    "source",
    "sourceConnector",
    "checkpointConnector",
    "topicsPattern",
    "topicsExcludePattern",
    "groupsPattern",
    "groupsExcludePattern",
)
MIRROR_BEFORE_V1 = (
    "sourceCluster",
    "targetCluster",
    "heartbeatConnector",
    "topicsBlacklistPattern",
    "groupsBlacklistPattern",
)

CONNECTOR = ("tasksMax", "config", "state")
CONNECTOR_BEFORE_V1 = ("pause",)
CONNECTOR_UNUSED = ("version", "autoRestart", "listOffsets", "alterOffsets")


class Section:
    """A mapping of the resource and its path, such as `spec.mirrors[0].source`.

    `v1` says by which version of Strimzi's API it is read; sections in it inherit that.
    """

    def __init__(self, node: YamlMap, path: str, findings: Findings, *, v1: bool = False) -> None:
        self.node = node
        self.origin = node.origin
        self.path = path
        self.findings = findings
        self.v1 = v1
        self._fields = dict(node.fields)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def where(self, name: str) -> Origin:
        """The line of a field, or of the whole section if it has no such field."""
        return self._fields[name].origin if name in self._fields else self.origin

    def error(self, name: str, message: str) -> None:
        """Reports a mistake in a field, or that the field is missing."""
        self.findings.error(self.where(name), f"{self._path_of(name)} {message}")

    def warning(self, name: str, message: str) -> None:
        self.findings.warning(self.where(name), f"{self._path_of(name)} {message}")

    def text(self, name: str) -> YamlText | None:
        node = self._fields.get(name)
        if node is None or isinstance(node, YamlText):
            return node
        self.error(name, "must be a single value")
        return None

    def required(self, name: str) -> YamlText | None:
        """The text of a field that must be there and not be empty."""
        text = self.text(name)
        if name not in self._fields or (text is not None and not text.text.strip()):
            self.error(name, "is missing")
            return None
        return text

    def flag(self, name: str) -> bool | None:
        text = self.text(name)
        if text is None:
            return None
        if text.text not in ("true", "false"):
            self.error(name, "must be true or false")
        return text.text == "true"

    def section(self, name: str) -> Section | None:
        node = self._fields.get(name)
        return None if node is None else self._as_section(node, self._path_of(name))

    def sections(self, name: str) -> list[Section]:
        """The mappings in a list."""
        node = self._fields.get(name)
        if node is None:
            return []
        if not isinstance(node, YamlList):
            self.error(name, "must be a list")
            return []
        found = [self._as_section(item, f"{self._path_of(name)}[{index}]") for index, item in enumerate(node.items)]
        return [section for section in found if section is not None]

    def entry(self, name: str) -> Entry | None:
        """A field as an entry, for the mapping to give it Kafka's name."""
        text = self.text(name)
        return None if text is None else Entry(name, text.text, text.origin)

    def entries(self, name: str) -> dict[str, Entry]:
        """Kafka's keys and texts in a field such as `config`."""
        section = self.section(name)
        if section is None:
            return {}
        every = ((key, section.entry(key)) for key in section._fields)
        return {key: entry for key, entry in every if entry is not None}

    def expect(self, known: Collection[str], before_v1: Collection[str] = ()) -> None:
        """Warns of other fields and forgets them. Those of `before_v1` are known as well, unless this is v1."""
        allowed = (*known, *(() if self.v1 else before_v1))
        for name in [name for name in self._fields if name not in allowed]:
            if name in before_v1:
                self.warning(name, "is no longer a field in v1: ignored, as Strimzi does")
            else:
                near = get_close_matches(name, allowed, n=1)
                self.warning(name, f"is not a field: ignored{f'; did you mean {near[0]}?' if near else ''}")
            del self._fields[name]

    def note_unused(self, names: Collection[str], advice: str) -> None:
        """One note about all of these fields that are there."""
        if present := [name for name in self._fields if name in names]:
            self.findings.note(self.where(present[0]), f"{self.path}: no use for {', '.join(present)}{advice}")

    def _path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _as_section(self, node: YamlNode, path: str) -> Section | None:
        if isinstance(node, YamlMap):
            return Section(node, path, self.findings, v1=self.v1)
        self.findings.error(node.origin, f"{path} must be a mapping")
        return None
