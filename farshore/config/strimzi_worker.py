"""The Connect worker that the Strimzi operator would start at the target cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable

from farshore.config.entries import DEFAULT_ORIGIN, Entries, Entry, Findings, with_prefix
from farshore.config.keys.connectors import BYTE_ARRAY_CONVERTER
from farshore.config.keys.table import parse_list

IDENTITY = {
    "group.id": ("groupId", "mirrormaker2-cluster"),
    "config.storage.topic": ("configStorageTopic", "mirrormaker2-cluster-configs"),
    "status.storage.topic": ("statusStorageTopic", "mirrormaker2-cluster-status"),
    "offset.storage.topic": ("offsetStorageTopic", "mirrormaker2-cluster-offsets"),
}
"""What tells one worker from another: the field of `spec.target`, which has no default, and the default of
resources with `spec.clusters`, where the key may stand in the cluster's `config`."""

_KEPT_FROM_WORKER = (
    "ssl.",
    "sasl.",
    "security.",
    "listeners",
    "plugin.path",
    "rest.",
    "bootstrap.servers",
    "consumer.interceptor.classes",
    "producer.interceptor.classes",
)
_LET_THROUGH = (
    "ssl.endpoint.identification.algorithm",
    "ssl.cipher.suites",
    "ssl.protocol",
    "ssl.enabled.protocols",
)

_KAFKA_PROVIDER = "org.apache.kafka.common.config.provider."
_BUILT_IN_PROVIDERS = {
    "file": {"class": f"{_KAFKA_PROVIDER}FileConfigProvider"},
    "strimzienv": {"class": f"{_KAFKA_PROVIDER}EnvVarConfigProvider"},
    "strimzifile": {"class": f"{_KAFKA_PROVIDER}FileConfigProvider"},
    "strimzidir": {"class": f"{_KAFKA_PROVIDER}DirectoryConfigProvider", "param.allowed.paths": "/opt/kafka"},
}
"""Config providers that workers of Strimzi's have without being told; `file` was the only one until 0.45."""

_KUBERNETES_PROVIDER = "io.strimzi.kafka.KubernetesSecretConfigProvider"
_PROVIDER_NAME = re.compile(r"\$\{([^}:]+):")


def worker_entries(config: Entries, connection: Entries, identity: Entries, findings: Findings) -> dict[str, Entry]:
    """Later ones win: Strimzi's defaults, the cluster's `config`, its connection, the group and topics."""
    converters = (f"{what}.converter" for what in ("key", "value", "header"))
    entries = {name: Entry(name, BYTE_ARRAY_CONVERTER, DEFAULT_ORIGIN) for name in converters}
    for name, entry in config.items():
        if name in identity:
            findings.warning(entry.origin, f"{name} is ignored, as Strimzi does: spec.target has a field for it")
        elif name.lower().startswith(_KEPT_FROM_WORKER) and name not in _LET_THROUGH:
            findings.warning(entry.origin, f"{name} reaches the connectors only: Strimzi keeps it from the worker")
        else:
            entries[name] = entry
    return {**entries, **connection, **identity}


def kubernetes_providers(worker: Entries) -> set[str]:
    """The names under which references to Kubernetes Secrets are made.

    `strimzisecrets` is Strimzi's own; `secrets` is the name in all of its examples. Both count undeclared.
    """
    others = {name for name in _declared(worker) if not _is_kubernetes(name, worker)}
    return {*_declared(worker), "strimzisecrets", "secrets"} - others


def with_plain_providers(worker: Entries, connectors: Iterable[Entries]) -> dict[str, Entry]:
    """The worker as anyone else would write it, so that whatever references remain can be resolved like his.

    Without providers for Kubernetes, whose references the reader resolves itself; with those of Strimzi's own
    that are referred to.
    """
    texts = (entry.text for entries in (worker, *connectors) for entry in entries.values() if not entry.secret)
    used = {name for text in texts for name in _PROVIDER_NAME.findall(text)}
    kept = [name for name in _declared(worker) if not _is_kubernetes(name, worker)]
    added = [name for name in _BUILT_IN_PROVIDERS if name in used and name not in kept]
    plain = {name: entry for name, entry in worker.items() if not name.startswith("config.providers")}
    for provider in kept:
        plain |= with_prefix(worker, f"config.providers.{provider}.", keep=True)
    for provider in added:
        for setting, text in _BUILT_IN_PROVIDERS[provider].items():
            name = f"config.providers.{provider}.{setting}"
            plain[name] = Entry(name, text, DEFAULT_ORIGIN)
    if kept or added:
        origin = worker["config.providers"].origin if kept else DEFAULT_ORIGIN
        plain["config.providers"] = Entry("config.providers", ",".join([*kept, *added]), origin)
    return plain


def _declared(worker: Entries) -> tuple[str, ...]:
    listed = worker.get("config.providers")
    return parse_list(listed.text) if listed is not None else ()


def _is_kubernetes(provider: str, worker: Entries) -> bool:
    entry = worker.get(f"config.providers.{provider}.class")
    return entry is not None and entry.text.strip() == _KUBERNETES_PROVIDER
