"""The clusters of a KafkaMirrorMaker2 resource, in both shapes that Strimzi has had for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from farshore.config import strimzi_fields as fields
from farshore.config.entries import DEFAULT_ORIGIN, Entries, Entry, Origin
from farshore.config.strimzi_fields import Section
from farshore.config.strimzi_secrets import Secrets
from farshore.config.strimzi_security import security_entries
from farshore.config.strimzi_worker import IDENTITY, worker_entries

_LEGAL_ALIAS = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster: how to reach it, and the `config` that the user gave for it."""

    alias: str
    origin: Origin
    connection: Entries
    config: Entries

    def entries(self, prefix: str) -> dict[str, Entry]:
        """What connectors are told of the cluster, under `source.cluster.` or `target.cluster.`.

        All of `config` goes there, with the same prefix, and wins over the connection.
        """
        own = {"alias": Entry("alias", self.alias, self.origin), **self.connection, **self.config}
        return {f"{prefix}{name}": entry for name, entry in own.items()}

    @property
    def bootstrap_servers(self) -> str:
        return self.connection["bootstrap.servers"].text


class Clusters:
    """All clusters of one resource, and the worker at the one that Connect runs on.

    A cluster with mistakes is reported when it is read. It is None from then on, which needs no more words.
    """

    def __init__(self, spec: Section, secrets: Secrets) -> None:
        self._secrets = secrets
        self._by_alias: dict[str, Cluster | None] = {}
        self._connect: Cluster | None = None
        self.worker: dict[str, Entry] = {}
        self._read_clusters(spec)
        if "target" in spec:
            self._read_target(spec)
        elif spec.v1:
            spec.error("target", "is missing: it says where to mirror to")
        else:
            self._find_connect_cluster(spec)

    def source_of(self, mirror: Section) -> Cluster | None:
        if (inline := mirror.section("source")) is not None:
            inline.expect(fields.CLUSTER)
            return self._cluster(inline)
        if mirror.v1:
            mirror.error("source", "is missing: it says where to mirror from")
            return None
        return self._named(mirror, "sourceCluster")

    def target_of(self, mirror: Section) -> Cluster | None:
        """The target of a mirror: the cluster that Connect runs on, but it may have another alias here."""
        if mirror.v1 or ("targetCluster" not in mirror and "source" in mirror):
            return self._connect
        target = self._named(mirror, "targetCluster")
        if target is None or self._connect is None:
            return None
        if target.bootstrap_servers != self._connect.bootstrap_servers:
            mirror.error(
                "targetCluster",
                f"is {target.alias}, but Connect runs on {self._connect.alias}: the target of every mirror "
                "must be the connectCluster. Flows into another cluster need a resource of their own",
            )
            return None
        return target

    def _named(self, mirror: Section, field: str) -> Cluster | None:
        alias = mirror.required(field)
        if alias is None:
            return None
        if self._connect is not None and alias.text == self._connect.alias:
            return self._connect
        if self._by_alias and alias.text not in self._by_alias:
            mirror.error(field, f"is {alias.text}, and no cluster in spec.clusters has this alias")
        return self._by_alias.get(alias.text)

    def _read_clusters(self, spec: Section) -> None:
        for section in spec.sections("clusters"):
            section.expect(fields.CLUSTER)
            cluster = self._cluster(section)
            alias = section.text("alias")
            if alias is not None and alias.text in self._by_alias:
                section.error("alias", f"{alias.text} is that of an earlier cluster already")
            elif alias is not None:
                self._by_alias[alias.text] = cluster

    def _read_target(self, spec: Section) -> None:
        section = spec.section("target")
        if section is None:
            return
        section.expect(fields.TARGET)
        self._connect = self._cluster(section)
        identity: dict[str, Entry] = {}
        for name, (field, _) in IDENTITY.items():
            if (text := section.required(field)) is not None:
                identity[name] = Entry(field, text.text, text.origin)
        if (own := self._connect) is not None:
            self.worker = worker_entries(own.config, own.connection, identity, spec.findings)

    def _find_connect_cluster(self, spec: Section) -> None:
        alias = spec.required("connectCluster")
        if "clusters" not in spec:
            spec.error("clusters", "is missing: it lists the clusters and how to reach them")
        elif alias is not None and alias.text not in self._by_alias:
            spec.error("connectCluster", f"is {alias.text}, and no cluster in spec.clusters has this alias")
        found = None if alias is None else self._by_alias.get(alias.text)
        if found is None:
            return
        defaults = {name: Entry(name, text, DEFAULT_ORIGIN) for name, (_, text) in IDENTITY.items()}
        identity = {name: found.config.get(name, default) for name, default in defaults.items()}
        rest = {name: entry for name, entry in found.config.items() if name not in IDENTITY}
        self._connect = replace(found, config=rest)
        self.worker = worker_entries(rest, found.connection, identity, spec.findings)

    def _cluster(self, section: Section) -> Cluster | None:
        alias = section.required("alias")
        servers = section.required("bootstrapServers")
        security = security_entries(section, self._secrets)
        if alias is None or servers is None:
            return None
        if not _LEGAL_ALIAS.fullmatch(alias.text):
            section.error("alias", f"{alias.text!r} must be letters, digits, dots, dashes, underscores, at most 100")
            return None
        bootstrap = Entry("bootstrapServers", servers.text.strip(), servers.origin)
        connection = {"bootstrap.servers": bootstrap, **security}
        return Cluster(alias.text, alias.origin, connection, section.entries("config"))
