"""Connections to the settings of Kafka client libraries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from farshore.config.security import Connection, Kerberos, OAuth, Plain, Sasl, Scram, Tls
from farshore.errors import FarshoreError
from farshore.kafka.tokens import fetch_token

_log = logging.getLogger(__name__)

_Token = tuple[str, float, str, dict[str, str]]


def librdkafka_config(connection: Connection) -> dict[str, Any]:
    """Settings of a confluent-kafka client that reach and log in to the cluster. Never print them.

    librdkafka cannot be kept from a TLS version: it takes the best that both sides know, 1.2 at least.
    """
    security = connection.security
    config: dict[str, Any] = {
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        "security.protocol": security.protocol.value,
    }
    if security.tls is not None:
        config |= _tls(security.tls)
    if security.sasl is not None:
        config |= _sasl(security.sasl)
    return config


def _tls(tls: Tls) -> dict[str, Any]:
    config: dict[str, Any] = {
        "enable.ssl.certificate.verification": True,
        "ssl.endpoint.identification.algorithm": "https" if tls.verify_hostname else "none",
    }
    if tls.trusted_pem is not None:
        config["ssl.ca.pem"] = tls.trusted_pem
    else:
        config["ssl.ca.location"] = "probe"
    if tls.certificate_pem is not None and tls.key_pem is not None:
        config["ssl.certificate.pem"] = tls.certificate_pem
        config["ssl.key.pem"] = tls.key_pem.reveal()
    # The setting is for TLS 1.2 only; OpenSSL calls the suites of TLS 1.3 TLS_… and takes them elsewhere.
    suites = [suite for suite in tls.cipher_suites if not suite.startswith("TLS_")]
    if suites:
        config["ssl.cipher.suites"] = ":".join(suites)
    return config


def _sasl(sasl: Sasl) -> dict[str, Any]:
    config: dict[str, Any] = {"sasl.mechanism": sasl.mechanism}
    match sasl:
        case Plain() | Scram():
            return config | {"sasl.username": sasl.username, "sasl.password": sasl.password.reveal()}
        case Kerberos():
            return config | {"sasl.kerberos.service.name": sasl.service}
        case _:
            return config | {"oauth_cb": _token_callback(sasl)}


def _token_callback(oauth: OAuth) -> Callable[[str | None], _Token]:
    """librdkafka calls it in the background when a token is due, and ten seconds after it has raised."""

    def fetch(_: str | None) -> _Token:
        try:
            token = fetch_token(oauth)
        except FarshoreError as error:
            # The library only says that there is no token, not why.
            _log.error("no token for OAUTHBEARER: %s", error)
            raise
        return token.value.reveal(), token.expires_at, token.principal, dict(oauth.extensions)

    return fetch
