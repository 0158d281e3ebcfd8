"""SASL settings of a cluster, from Kafka's `sasl.*` keys."""

from __future__ import annotations

from dataclasses import dataclass

from farshore.config.connection_keys import ConnectionKeys
from farshore.config.jaas import JaasError, LoginModule, parse_jaas
from farshore.config.kerberos import MODULE as KERBEROS_MODULE
from farshore.config.kerberos import Kerberos, kerberos_is_installed, read_kerberos
from farshore.config.keys.connection import AWS_LOGIN_HANDLER
from farshore.config.msk_iam import MODULE as MSK_IAM_MODULE
from farshore.config.msk_iam import read_msk_iam
from farshore.config.oauth import JAAS, OAuth, read_oauth
from farshore.config.secret import Secret


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


Sasl = Plain | Scram | OAuth | Kerberos

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "AWS_MSK_IAM": MSK_IAM_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
_PASSWORD_MODULES = frozenset({_MODULES["PLAIN"], _MODULES["SCRAM-SHA-256"]})
"""They hand over user and password, whatever the mechanism makes of them."""


def read_sasl(keys: ConnectionKeys) -> Sasl | None:
    """How to log in; None after an error."""
    mechanism = _read_mechanism(keys)
    if mechanism is None:
        return None
    module = _read_module(keys, mechanism)
    if module is None:
        return None
    match mechanism:
        case "AWS_MSK_IAM":
            return read_msk_iam(keys, module.options)
        case "OAUTHBEARER" if keys.text("sasl.login.callback.handler.class") == AWS_LOGIN_HANDLER:
            return read_msk_iam(keys, module.options)
        case "OAUTHBEARER":
            return read_oauth(keys, module.options)
        case "GSSAPI":
            return read_kerberos(keys, module.options)
    return _read_login(keys, mechanism, module)


def left_open(keys: ConnectionKeys) -> Sasl:
    """Stands for a login whose secrets are not at hand: it can be shown, not used."""
    return Scram(keys.text("sasl.mechanism") or "GSSAPI", "", Secret(""))


def _read_mechanism(keys: ConnectionKeys) -> str | None:
    mechanism = keys.text("sasl.mechanism")
    if not keys.readable("sasl.mechanism"):
        return None  # the table of keys has said so, and the default is not what was meant
    if mechanism == "GSSAPI" and not kerberos_is_installed():
        given = keys.given("sasl.mechanism")
        others = ", ".join(name for name in _MODULES if name != "GSSAPI")
        keys.absent(
            "sasl.mechanism" if given else "security.protocol",
            f"sasl.mechanism is {'GSSAPI' if given else 'missing, which means GSSAPI'}, and Kerberos is not installed "
            f"here: pip install 'farshore[gssapi]', or name one that the brokers offer out of {others}",
        )
        if not keys.offline:
            return None  # the login module may be another's, if this mechanism was not meant
    return mechanism


def _read_module(keys: ConnectionKeys, mechanism: str) -> LoginModule | None:
    text = keys.text(JAAS)
    if text is None:
        keys.error(
            "sasl.mechanism",
            f"{JAAS} is missing: {mechanism} needs it; a JAAS file that a JVM is given is read with --jaas FILE",
        )
        return None
    try:
        module = parse_jaas(text)
    except JaasError as error:
        keys.error(JAAS, f"{JAAS} {error}")
        return None
    own = _MODULES[mechanism]
    if module.name == own:
        return module
    told = f"{JAAS}: the login module of {mechanism} is {own}, not {module.name}"
    if not {own, module.name} <= _PASSWORD_MODULES:
        keys.error(JAAS, told)
        return None
    keys.warning(JAAS, f"{told}; it is taken, since both only hand over user and password")
    return module


def _read_login(keys: ConnectionKeys, mechanism: str, module: LoginModule) -> Plain | Scram | None:
    missing = [name for name in ("username", "password") if not module.options.get(name)]
    for name in missing:
        keys.error(JAAS, f"{JAAS} has no option {name}, or an empty one")
    if module.options.get("tokenauth", "").lower() == "true" and mechanism != "PLAIN":
        keys.error(JAAS, f"{JAAS}: the option tokenauth is refused: delegation tokens are not supported")
        return None
    if missing:
        return None
    username, password = module.options["username"], Secret(module.options["password"])
    return Plain(username, password) if mechanism == "PLAIN" else Scram(mechanism, username, password)
