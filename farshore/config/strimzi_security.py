"""A cluster's `tls` and `authentication` to the client properties that the Strimzi operator makes of them.

Certificates and keys become PEM texts in the properties themselves, as in Strimzi 1.1 and later. Earlier
versions put them into PKCS12 stores; for the connection it makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farshore.config.entries import DEFAULT_ORIGIN, Entry
from farshore.config.jaas import LoginModule, jaas_text
from farshore.config.keys.connection import STRIMZI_LOGIN_HANDLER
from farshore.config.strimzi_fields import Section
from farshore.config.strimzi_oauth import oauth_options
from farshore.config.strimzi_references import secret_of, trusted_certificates
from farshore.config.strimzi_secrets import Secrets

_SECURITY = "org.apache.kafka.common.security."
_CUSTOM_PREFIXES = ("ssl.keystore.", "sasl.")


def security_entries(cluster: Section, secrets: Secrets) -> dict[str, Entry]:
    """`security.protocol` and all that goes with it, without a prefix."""
    tls = cluster.section("tls")
    authentication = cluster.section("authentication")
    entries = {} if tls is None else _trust(tls, secrets)
    if authentication is not None and (scheme := _scheme(authentication)) is not None:
        entries |= scheme(authentication, secrets)
        if tls is None and scheme is _client_certificate:
            authentication.warning("type", "is tls, but the cluster has no tls: no certificate will be shown")
    sasl = "sasl.mechanism" in entries or (authentication is not None and _is_custom_sasl(authentication))
    protocol = f"{'SASL_' if sasl else ''}{'SSL' if tls is not None else 'PLAINTEXT'}"
    stated = [name for name in ("authentication", "tls") if name in cluster] or ["security.protocol"]
    origin = cluster.where(stated[0]) if stated[0] in cluster else DEFAULT_ORIGIN
    return {"security.protocol": Entry(stated[0], protocol, origin), **entries}


def jaas(module: str, options: Iterable[tuple[str, str]]) -> str:
    return jaas_text(LoginModule(f"{_SECURITY}{module}", dict(options)))


Scheme = Callable[[Section, Secrets], dict[str, Entry]]
"""Translates an `authentication`. What cannot be had is left out, with an error."""


def _trust(tls: Section, secrets: Secrets) -> dict[str, Entry]:
    """Nothing if no certificate is named: the authorities that the system trusts will do."""
    tls.expect(("trustedCertificates",))
    texts = trusted_certificates(tls.sections("trustedCertificates"), secrets)
    return _pem("truststore", {"certificates": texts}, tls, "trustedCertificates") if texts else {}


def _pem(store: str, texts: dict[str, str], section: Section, field: str) -> dict[str, Entry]:
    origin = section.where(field)
    kept = {f"ssl.{store}.{name}": Entry(field, text, origin, secret=True) for name, text in texts.items()}
    return {f"ssl.{store}.type": Entry(field, "PEM", origin), **kept}


def _scheme(authentication: Section) -> Scheme | None:
    allowed = {name: scheme for name, scheme in _SCHEMES.items() if not (authentication.v1 and name == "oauth")}
    kind = authentication.required("type")
    if kind is not None and kind.text not in allowed:
        authentication.error("type", f"must be one of {', '.join(allowed)}, not {kind.text}")
    return None if kind is None else allowed.get(kind.text)


def _is_custom_sasl(authentication: Section) -> bool:
    kind = authentication.text("type")
    return kind is not None and kind.text == "custom" and authentication.flag("sasl") is True


def _client_certificate(authentication: Section, secrets: Secrets) -> dict[str, Entry]:
    authentication.expect(("type", "certificateAndKey"))
    source = authentication.section("certificateAndKey")
    if source is None:
        authentication.error("certificateAndKey", "is missing")
        return {}
    source.expect(("secretName", "certificate", "key"))
    name, certificate, key = (source.required(field) for field in ("secretName", "certificate", "key"))
    if name is None or certificate is None or key is None:
        return {}
    chain = secrets.value(name.text, certificate.text, source.origin)
    private = secrets.value(name.text, key.text, source.origin)
    if chain is None or private is None:
        return {}
    return _pem("keystore", {"certificate.chain": chain, "key": private}, authentication, "certificateAndKey")


def _password(mechanism: str, module: str) -> Scheme:
    def scheme(authentication: Section, secrets: Secrets) -> dict[str, Entry]:
        authentication.expect(("type", "username", "passwordSecret"))
        username = authentication.required("username")
        source = authentication.section("passwordSecret")
        if source is None:
            authentication.error("passwordSecret", "is missing")
        password = None if source is None else secret_of(source, "password", secrets)
        if username is None or password is None:
            return {}
        login = jaas(module, (("username", username.text), ("password", password)))
        return _login(mechanism, login, authentication)

    return scheme


def _login(mechanism: str, login: str, authentication: Section) -> dict[str, Entry]:
    return {
        "sasl.mechanism": Entry("authentication", mechanism, authentication.origin),
        "sasl.jaas.config": Entry("authentication", login, authentication.origin, secret=True),
    }


def _oauth(authentication: Section, secrets: Secrets) -> dict[str, Entry]:
    options = oauth_options(authentication, secrets)
    if options is None:
        return {}
    login = jaas("oauthbearer.OAuthBearerLoginModule", options)
    handler = Entry("authentication", STRIMZI_LOGIN_HANDLER, authentication.origin)
    return {**_login("OAUTHBEARER", login, authentication), "sasl.login.callback.handler.class": handler}


def _custom(authentication: Section, _: Secrets) -> dict[str, Entry]:
    authentication.expect(("type", "sasl", "config"))
    kept: dict[str, Entry] = {}
    for key, entry in authentication.entries("config").items():
        if key.lower().startswith(_CUSTOM_PREFIXES):
            kept[key] = entry
        else:
            authentication.findings.warning(
                entry.origin, f"{key} is ignored, as Strimzi does: put it into the cluster's own config"
            )
    return kept


_SCHEMES: dict[str, Scheme] = {
    "tls": _client_certificate,
    "plain": _password("PLAIN", "plain.PlainLoginModule"),
    "scram-sha-256": _password("SCRAM-SHA-256", "scram.ScramLoginModule"),
    "scram-sha-512": _password("SCRAM-SHA-512", "scram.ScramLoginModule"),
    "custom": _custom,
    "oauth": _oauth,
}
