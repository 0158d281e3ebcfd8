"""How a local cluster's client listener is secured: the brokers' side and the clients' side of it."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Literal

from farshore.config.security import Protocol
from farshore.local.broker_settings import CLIENTS
from farshore.local.certificates import Authority, StoreKind

ADMIN = "admin"
"""The user that every cluster has and that may do everything."""

Mechanism = Literal["PLAIN", "SCRAM-SHA-512"]
_LOGIN_MODULE: dict[Mechanism, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SCRAM_ITERATIONS = 4096


Security = Protocol
"""Protocol of the client listener. The SASL ones take PLAIN and SCRAM-SHA-512 alike. With SSL both sides show
certificates, and the user is the client certificate's common name."""


def broker_side(
    security: Security, users: Mapping[str, str], authority: Authority | None, authorizer: bool
) -> dict[str, str]:
    """Broker settings for the client listener; `authority` must be there if it is encrypted."""
    settings: dict[str, str] = {}
    if authority is not None:
        settings |= authority.trust_store("pem").properties("truststore")
        settings |= authority.key_store("broker", "pem").properties("keystore")
    if security is Security.SSL:
        settings["ssl.client.auth"] = "required"
        settings["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
    if security.logs_in:
        listener = f"listener.name.{CLIENTS.lower()}"
        known = {f"user_{name}": password for name, password in users.items()}
        settings["sasl.enabled.mechanisms"] = ",".join(_LOGIN_MODULE)
        settings[f"{listener}.plain.sasl.jaas.config"] = _jaas("PLAIN", known)
        settings[f"{listener}.scram-sha-512.sasl.jaas.config"] = _jaas("SCRAM-SHA-512", {})
    if authorizer:
        settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        # The brokers speak to each other without a name, on listeners of their own.
        settings["super.users"] = f"User:{ADMIN};User:ANONYMOUS"
    return settings


def client_side(
    security: Security,
    user: str,
    password: str,
    mechanism: Mechanism,
    authority: Authority | None,
    store: StoreKind,
) -> dict[str, str]:
    """Java client settings, all but the address, to be let in as `user`."""
    settings = {"security.protocol": security.value}
    if authority is not None:
        settings |= authority.trust_store(store).properties("truststore")
        if security is Security.SSL:
            key_store = authority.key_store(user, store)
            settings |= key_store.properties("keystore")
            if key_store.password is not None:
                settings["ssl.key.password"] = key_store.password
    if security.logs_in:
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = _jaas(mechanism, {"username": user, "password": password})
    return settings


def scram_credential(user: str, password: str) -> str:
    """The argument of `StorageTool format --add-scram`: salted here, so no command line shows the
    password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _SCRAM_ITERATIONS)
    fields = {
        "name": user,
        "iterations": str(_SCRAM_ITERATIONS),
        "salt": f'"{base64.b64encode(salt).decode()}"',
        "saltedpassword": f'"{base64.b64encode(salted).decode()}"',
    }
    return f"SCRAM-SHA-512=[{','.join(f'{key}={value}' for key, value in fields.items())}]"


def _jaas(mechanism: Mechanism, options: Mapping[str, str]) -> str:
    quoted = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in options.items()}
    return " ".join([_LOGIN_MODULE[mechanism], "required", *(f'{k}="{v}"' for k, v in quoted.items())]) + ";"
