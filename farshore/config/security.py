"""How to reach a cluster: Java client properties to one typed, client-neutral model.

`ssl.*` is read in `farshore.config.tls`, `sasl.*` in `farshore.config.sasl`; this module joins the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from farshore.config.entries import Entries, Findings, Origin
from farshore.config.sasl import AccessToken, ClientCredentials, OAuth, Plain, Sasl, Scram, UnsecuredToken
from farshore.config.tls import Tls

__all__ = [
    "Connection", "Security", "Protocol", "Tls",
    "Sasl", "Plain", "Scram", "OAuth", "ClientCredentials", "AccessToken", "UnsecuredToken",
    "read_connection",
]  # fmt: skip


class Protocol(StrEnum):
    """The values of `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


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


def read_connection(
    entries: Entries, *, cluster: str, origin: Origin, findings: Findings
) -> Connection | None:
    """The connection that Java client properties describe, by bare names (`bootstrap.servers`, `ssl.…`).

    Every problem becomes a finding with the place of its entry, all in one run; `origin` is the place of
    what is missing. None if there was any error. Stores are opened here, so files must be readable.
    """
    raise NotImplementedError
