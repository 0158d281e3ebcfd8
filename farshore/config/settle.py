"""Flow configurations to typed settings. Runs once, before anything starts; every complaint is a finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farshore.config.entries import Connector, Entries, Entry, Findings, FlowConfig, Origin, with_prefix
from farshore.config.keys import CLIENT_KEYS, CONNECTION, CONNECTOR_KEYS, WORKER
from farshore.config.keys.connectors import BYTE_ARRAY_CONVERTER
from farshore.config.names import WrittenAs, with_declared_aliases, with_known_policy
from farshore.config.providers import Providers
from farshore.config.rules import check_exactly_once, check_flow
from farshore.config.security import Connection, read_connection
from farshore.config.settings import (
    AdminTuning,
    CheckpointSettings,
    Client,
    ConsumerTuning,
    FlowSettings,
    HeartbeatSettings,
    ProducerTuning,
    Side,
    SourceSettings,
    WorkerSettings,
)
from farshore.config.typed import Values, build, read_values, with_modern_names
from farshore.errors import PatternError
from farshore.naming import ReplicationPolicy, policy
from farshore.selection import Filter, hints

_TUNINGS: dict[str, type[Any]] = {
    "consumer": ConsumerTuning,
    "producer": ProducerTuning,
    "admin": AdminTuning,
}
_CLASSES: dict[Connector, type[Any]] = {
    Connector.SOURCE: SourceSettings,
    Connector.CHECKPOINT: CheckpointSettings,
    Connector.HEARTBEAT: HeartbeatSettings,
}
# Two of MirrorMaker 2's own keys begin like overrides of a client.
_NOT_OVERRIDES = frozenset({"consumer.poll.timeout.ms", "admin.timeout.ms"})


class Settler:
    """Settles the flows of one run. Stores that several clients share are opened once."""

    def __init__(self, findings: Findings, login: Entry | None = None) -> None:
        """`login` is the `sasl.jaas.config` of connections that have none."""
        self._findings = findings
        self._login = login
        self._connections: dict[frozenset[tuple[str, str]], Connection | None] = {}

    def settle(self, config: FlowConfig) -> FlowSettings | None:
        """The flow's settings, None if anything of it is in error."""
        before = self._findings.errors_said
        providers = Providers(config.worker, self._findings)
        worker_entries = providers.resolve(config.worker)
        connectors: dict[Connector, Entries] = {}
        written_as: dict[Connector, WrittenAs] = {}
        alone = set(config.connectors) == {Connector.HEARTBEAT}
        for kind, entries in config.connectors.items():
            known = with_known_policy(providers.resolve(entries), self._findings)
            connectors[kind], written_as[kind] = with_declared_aliases(config.flow, known, self._findings, alone=alone)
        worker = self._worker(config, worker_entries, connectors.get(Connector.SOURCE, {}))
        settled = {
            kind: self._connector(kind, entries, written_as[kind], paused=kind in config.paused)
            for kind, entries in connectors.items()
        }
        self._check_converters(worker_entries, connectors)
        check_flow(config.flow, worker_entries, connectors, self._findings)
        source = settled.get(Connector.SOURCE)
        if worker is not None and source is not None:
            check_exactly_once(source, worker, connectors[Connector.SOURCE], worker_entries, self._findings)
        if worker is None or None in settled.values() or self._findings.errors_said > before:
            return None
        return FlowSettings(
            config.flow,
            worker,
            source,
            settled.get(Connector.CHECKPOINT) if _makes_checkpoints(connectors, self._findings) else None,
            settled.get(Connector.HEARTBEAT),
            config.deployment,
        )

    def _connector(self, kind: Connector, entries: Entries, written_as: WrittenAs, *, paused: bool) -> Any:
        values = read_values(entries, CONNECTOR_KEYS[kind], self._findings)
        naming = self._policy(entries, values, written_as)
        sides = {side: self._side(entries, side) for side in ("source", "target")}
        given: dict[str, object] = {
            "kind": kind,
            "policy": naming,
            "paused": paused,
            "effective": values.effective,
        }
        modern = with_modern_names(entries, CONNECTOR_KEYS[kind], Findings())
        if kind is not Connector.HEARTBEAT:
            given["topics"] = self._filter(modern, values, "topics", "topics.exclude")
        if kind is Connector.SOURCE:
            given["config_properties_exclude"] = self._filter(modern, values, None, "config.properties.exclude")
        if kind is Connector.CHECKPOINT:
            given["groups"] = self._filter(modern, values, "groups", "groups.exclude")
        if None in sides.values() or None in given.values():
            return None
        return build(_CLASSES[kind], values, **given, **sides)

    def _worker(self, config: FlowConfig, entries: Entries, source: Entries) -> WorkerSettings | None:
        values = read_values(entries, WORKER, self._findings)
        producer = {k: e for k, e in entries.items() if k in CONNECTION}
        producer |= with_prefix(entries, "producer.")
        producer |= with_prefix(source, "producer.override.")
        named = [e["target.cluster.alias"] for e in config.connectors.values() if "target.cluster.alias" in e]
        origin = named[0].origin if named else _place(entries)
        connection = self._connection(entries, config.flow.target, origin)
        client = self._client(producer, "producer", config.flow.target, origin)
        if connection is None or client is None:
            return None
        return build(WorkerSettings, values, connection=connection, producer=client, effective=values.effective)

    def _side(self, entries: Entries, side: str) -> Side | None:
        alias_entry = entries.get(f"{side}.cluster.alias")
        alias = alias_entry.text.strip() if alias_entry else side
        origin = alias_entry.origin if alias_entry else _place(entries)
        clients = {role: self._client(_client_entries(entries, side, role), role, alias, origin) for role in _TUNINGS}
        return None if None in clients.values() else Side(alias, **clients)  # type: ignore[arg-type]

    def _client(self, entries: Entries, role: str, alias: str, origin: Origin) -> Client[Any] | None:
        values = read_values(entries, CONNECTION | CLIENT_KEYS[f"{role}."], self._findings)
        connection = self._connection(entries, alias, origin)
        if connection is None:
            return None
        return Client(connection, build(_TUNINGS[role], values), values.effective)

    def _connection(self, entries: Entries, alias: str, origin: Origin) -> Connection | None:
        own = {name: entry for name, entry in entries.items() if name in CONNECTION}
        if self._login is not None:
            own.setdefault("sasl.jaas.config", self._login)
        identity = frozenset({("", alias), *((name, entry.text) for name, entry in own.items())})
        if identity not in self._connections:
            self._connections[identity] = read_connection(own, cluster=alias, origin=origin, findings=self._findings)
        return self._connections[identity]

    def _policy(self, entries: Entries, values: Values, written_as: WrittenAs) -> ReplicationPolicy | None:
        separator = values.text("replication.policy.separator")
        if not all(c.isascii() and (c.isalnum() or c in "._-") for c in separator):
            self._findings.error(
                entries["replication.policy.separator"].origin,
                f"replication.policy.separator {separator!r} cannot be part of a topic name: use '.', '_' or '-'",
            )
            return None
        enabled = values.by_name["replication.policy.internal.topic.separator.enabled"] is True
        alias = values.text("source.cluster.alias")
        return policy(values.text("replication.policy.class"), separator, enabled, alias, written_as)

    def _filter(self, entries: Entries, values: Values, include: str | None, exclude: str) -> Filter | None:
        """Include and exclude are read one by one, so that a complaint has the right place."""
        before = self._findings.errors_said
        for name in (include, exclude):
            if name is None or name not in entries:
                continue
            try:
                Filter(values.texts(name))
            except PatternError as error:
                self._findings.error(entries[name].origin, f"{entries[name].key}: {error}")
                continue
            for hint in hints(values.texts(name), of_topics=name.startswith("topics")):
                self._findings.warning(entries[name].origin, f"{entries[name].key}: {hint}")
        if self._findings.errors_said > before:
            return None
        if include is None:
            return Filter.all_except(values.texts(exclude))
        return Filter(values.texts(include), values.texts(exclude))

    def _check_converters(self, worker: Entries, connectors: Mapping[Connector, Entries]) -> None:
        """The worker's converter applies where a connector has none of its own; dedicated mode's is ByteArray."""
        for kind, entries in connectors.items():
            for key in ("key.converter", "value.converter"):
                entry = worker.get(key)
                if key in entries or entry is None or entry.text.strip() == BYTE_ARRAY_CONVERTER:
                    continue
                self._findings.error(
                    entry.origin,
                    f"{kind} has no {key} of its own and would get the worker's {entry.text.strip()}; bytes are copied "
                    f"as they are, so set {key}={BYTE_ARRAY_CONVERTER} on the connector",
                )


def _makes_checkpoints(connectors: Mapping[Connector, Entries], findings: Findings) -> bool:
    """MirrorMaker 2 refuses to start a checkpoint connector without checkpoints or syncs; the rest goes on."""
    entries = connectors.get(Connector.CHECKPOINT)
    if entries is None:
        return False
    for key in ("emit.checkpoints.enabled", "emit.offset-syncs.enabled"):
        if key in entries and entries[key].text.strip().lower() == "false":
            findings.note(entries[key].origin, f"{key} is false, so consumer groups are not followed")
            return False
    return True


def _client_entries(entries: Entries, side: str, role: str) -> dict[str, Entry]:
    """What one client of a connector gets: its cluster's connection, then overrides from general to particular."""
    client = {k: e for k, e in with_prefix(entries, f"{side}.cluster.").items() if k in CONNECTION}
    general = {k: e for k, e in entries.items() if k not in _NOT_OVERRIDES and not k.startswith(f"{role}.override.")}
    client |= with_prefix(general, f"{role}.")
    client |= with_prefix(entries, f"{side}.{role}.")
    return client


def _place(entries: Entries) -> Origin:
    """The file that these entries are from, for what is missing in it."""
    return Origin(next((e.origin.file for e in entries.values() if e.origin.file != "default"), "configuration"))
