"""How to reach a cluster: Java client properties to one typed, client-neutral model.

`ssl.*` is read in `tls` (with `stores`, `jks`, `pem`), `sasl.*` in `sasl` (with `jaas`, `oauth`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from farshore.config.connection_keys import ConnectionKeys, server_address
from farshore.config.entries import Entries, Findings, Origin, Severity
from farshore.config.kerberos import Kerberos
from farshore.config.oauth import (
    AccessToken,
    ClientCredentials,
    MskIam,
    OAuth,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
)
from farshore.config.sasl import Plain, Sasl, Scram, left_open, read_sasl
from farshore.config.tls import Tls, read_tls

__all__ = [
    "Connection", "Security", "Protocol", "Tls",
    "Sasl", "Plain", "Scram", "OAuth", "ClientCredentials", "TokenEndpoint", "AccessToken", "TokenFile",
    "UnsecuredToken", "MskIam", "Kerberos",
    "read_connection",
]  # fmt: skip


class Protocol(StrEnum):
    """The values of `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def logs_in(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Security:
    """`tls` is there if and only if the protocol has SSL in its name, `sasl` if and only if it has SASL."""

    protocol: Protocol = Protocol.PLAINTEXT
    tls: Tls | None = None
    sasl: Sasl | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster's address and how to speak to it. `bootstrap_servers` are `host:port` or `[v6]:port`.

    Hashable, picklable, and safe to print: secrets show as `***`.
    """

    bootstrap_servers: tuple[str, ...]
    security: Security = Security()


def read_connection(entries: Entries, *, cluster: str, origin: Origin, findings: Findings) -> Connection | None:
    """The connection that Java client properties describe, by bare names (`bootstrap.servers`, `ssl.…`).

    Every problem becomes a finding with the place of its entry, all in one run; `origin` is the place of
    what is missing. None if there was any error. Stores are opened here, so files must be readable, unless the findings
    are `offline`: what hangs on secrets that are not there is then left open.
    """
    absent = {name: entry for name, entry in entries.items() if entry.unresolved}
    if absent and not findings.offline:
        return None
    found = Findings(offline=findings.offline)
    keys = ConnectionKeys({name: entry for name, entry in entries.items() if name not in absent}, found, origin)
    servers = (absent["bootstrap.servers"].text,) if "bootstrap.servers" in absent else _read_servers(keys, cluster)
    protocol = Protocol((keys.text("security.protocol") or "PLAINTEXT").upper())
    tls = None
    if protocol.encrypted:
        tls = Tls() if any(name.startswith("ssl.") for name in absent) else read_tls(keys)
    sasl = None
    if protocol.logs_in:
        sasl = left_open(keys) if any(name.startswith("sasl.") for name in absent) else read_sasl(keys)
    _pass_on(found, findings)
    return None if found.errors else Connection(servers, Security(protocol, tls, sasl))


def _read_servers(keys: ConnectionKeys, cluster: str) -> tuple[str, ...]:
    name = "bootstrap.servers"
    given = keys.elements(name)
    elements = [element for element in given if element]
    # An empty text has been complained of already, by the table of keys.
    if not elements and (given or not keys.given(name)):
        keys.error(name, f"cluster {cluster} has no {name}")
    servers = []
    for element in elements:
        server = server_address(element)
        if server is None:
            keys.error(name, f"{name} of cluster {cluster}: {element!r} must be host:port or [address]:port")
        else:
            servers.append(server)
    return tuple(dict.fromkeys(servers))


def _pass_on(found: Findings, findings: Findings) -> None:
    tell = {Severity.ERROR: findings.error, Severity.WARNING: findings.warning, Severity.NOTE: findings.note}
    for finding in found.of(*Severity):
        tell[finding.severity](finding.origin, finding.message)
