"""`authentication` of type `oauth`, as options of Strimzi's OAuth library under their names there."""

from __future__ import annotations

from farshore.config.strimzi_fields import Section
from farshore.config.strimzi_references import secret_of, trusted_certificates
from farshore.config.strimzi_secrets import Secrets

_TEXTS = {
    "clientId": "oauth.client.id",
    "username": "oauth.password.grant.username",
    "tokenEndpointUri": "oauth.token.endpoint.uri",
    "scope": "oauth.scope",
    "audience": "oauth.audience",
    "accessTokenLocation": "oauth.access.token.location",
    "clientAssertionLocation": "oauth.client.assertion.location",
    "clientAssertionType": "oauth.client.assertion.type",
}

_POSITIVE_NUMBERS = {
    "maxTokenExpirySeconds": "oauth.max.token.expiry.seconds",
    "connectTimeoutSeconds": "oauth.connect.timeout.seconds",
    "readTimeoutSeconds": "oauth.read.timeout.seconds",
    "httpRetries": "oauth.http.retries",
    "httpRetryPauseMs": "oauth.http.retry.pause.millis",
}
"""Zero means that the field is not set."""

_FLAGS = {
    "accessTokenIsJwt": ("oauth.access.token.is.jwt", True),
    "enableMetrics": ("oauth.enable.metrics", False),
    "includeAcceptHeader": ("oauth.include.accept.header", True),
}
"""With the default, at which the option is left out."""

_SECRETS = {
    "clientSecret": "oauth.client.secret",
    "accessToken": "oauth.access.token",
    "refreshToken": "oauth.refresh.token",
    "passwordSecret": "oauth.password.grant.password",
    "clientAssertion": "oauth.client.assertion",
}

_FIELDS = (
    "type",
    *_TEXTS,
    *_POSITIVE_NUMBERS,
    *_FLAGS,
    *_SECRETS,
    "disableTlsHostnameVerification",
    "saslExtensions",
    "tlsTrustedCertificates",
)

_PROOFS = (
    ("accessToken",),
    ("accessTokenLocation",),
    ("tokenEndpointUri", "clientId", "clientSecret"),
    ("tokenEndpointUri", "clientId", "refreshToken"),
    ("tokenEndpointUri", "clientId", "clientAssertion"),
    ("tokenEndpointUri", "clientId", "clientAssertionLocation"),
    ("tokenEndpointUri", "clientId", "username", "passwordSecret"),
)
"""The ways to come by a token. Strimzi wants at least one of them complete."""


def oauth_options(authentication: Section, secrets: Secrets) -> list[tuple[str, str]] | None:
    """The options by name, or None after an error. Whoever reads them refuses what Farshore cannot honour."""
    authentication.expect(_FIELDS)
    if not any(all(field in authentication for field in proof) for proof in _PROOFS):
        ways = "; ".join(" and ".join(proof) for proof in _PROOFS)
        authentication.error("type", f"oauth needs one of these: {ways}")
        return None
    options = _settings(authentication)
    found: dict[str, str | None] = {}
    for field, option in _SECRETS.items():
        if (source := authentication.section(field)) is not None:
            key_field = "password" if field == "passwordSecret" else "key"
            found[option] = secret_of(source, key_field, secrets)
    if sources := authentication.sections("tlsTrustedCertificates"):
        found["oauth.ssl.truststore.type"] = "PEM"
        found["oauth.ssl.truststore.certificates"] = trusted_certificates(sources, secrets) or None
    usable = {option: text for option, text in found.items() if text is not None}
    return [*options, *usable.items()] if len(usable) == len(found) else None


def _settings(authentication: Section) -> list[tuple[str, str]]:
    options: list[tuple[str, str]] = []
    for field, option in {**_TEXTS, **_POSITIVE_NUMBERS}.items():
        text = authentication.text(field)
        if text is not None and not (field in _POSITIVE_NUMBERS and text.text == "0"):
            options.append((option, text.text))
    for field, (option, default) in _FLAGS.items():
        flag = authentication.flag(field)
        if flag is not None and flag is not default:
            options.append((option, str(flag).lower()))
    if authentication.flag("disableTlsHostnameVerification"):
        options.append(("oauth.ssl.endpoint.identification.algorithm", ""))
    extensions = authentication.entries("saslExtensions").values()
    return [*options, *((f"oauth.sasl.extension.{each.key}", each.text) for each in extensions)]
