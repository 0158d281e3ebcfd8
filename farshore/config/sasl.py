"""SASL settings of a cluster, from Kafka's `sasl.*` keys."""

from __future__ import annotations

from dataclasses import dataclass

from farshore.config.secret import Secret

Extensions = tuple[tuple[str, str], ...]
"""SASL extensions sent along with a token, by name."""


@dataclass(frozen=True, slots=True)
class Plain:
    """User and password, as they are."""

    username: str
    password: Secret

    mechanism = "PLAIN"


@dataclass(frozen=True, slots=True)
class Scram:
    """User and password, never sent. `mechanism` is SCRAM-SHA-256 or SCRAM-SHA-512."""

    mechanism: str
    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """OAUTHBEARER with tokens fetched from `token_endpoint` by OAuth's client credentials grant.

    `endpoint_trusted_pem` are the authorities that vouch for the endpoint; None means the system's.
    """

    client_id: str
    client_secret: Secret
    token_endpoint: str
    scope: str | None = None
    audience: str | None = None
    extensions: Extensions = ()
    endpoint_trusted_pem: str | None = None

    mechanism = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """OAUTHBEARER with one token that the user obtained; when it expires, nobody renews it."""

    token: Secret
    extensions: Extensions = ()

    mechanism = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """OAUTHBEARER with unsigned tokens made on the spot: Kafka's own arrangement for development."""

    subject: str
    lifetime_seconds: int = 3600
    scope: str | None = None
    extensions: Extensions = ()

    mechanism = "OAUTHBEARER"


OAuth = ClientCredentials | AccessToken | UnsecuredToken
Sasl = Plain | Scram | OAuth
