"""OAUTHBEARER: where tokens come from, by Kafka's own options and by Strimzi's.

Which Java callback handler is configured does not matter: the options tell the three arrangements apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from farshore.config.connection_keys import ConnectionKeys
from farshore.config.entries import Entry
from farshore.config.secret import Secret
from farshore.config.tls import read_trusted, reads_host_check

Extensions = tuple[tuple[str, str], ...]
"""SASL extensions sent along with a token, by name."""

Claim = str | float | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """A server that hands out tokens, and how long to try it.

    `trusted_pem` are the authorities that vouch for it; None means the system's. Failures that may pass are
    tried again until `retry_for_ms` are over.
    """

    url: str
    trusted_pem: str | None = None
    verify_hostname: bool = True
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_for_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """OAUTHBEARER with tokens fetched by OAuth's client credentials grant.

    `url_encoded` says whether client id and secret are URL-encoded before they go into the Basic header.
    """

    endpoint: TokenEndpoint
    client_id: str
    client_secret: Secret
    scope: str | None = None
    audience: str | None = None
    extensions: Extensions = ()
    url_encoded: bool = False

    mechanism = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """OAUTHBEARER with one token that the user obtained; when it expires, nobody renews it."""

    token: Secret
    extensions: Extensions = ()

    mechanism = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class TokenFile:
    """OAUTHBEARER with the token that a file holds; the file is read again when a token is due."""

    path: str
    extensions: Extensions = ()

    mechanism = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """OAUTHBEARER with unsigned tokens made on the spot: Kafka's own arrangement for development."""

    claims: tuple[tuple[str, Claim], ...]
    principal: str
    lifetime_seconds: int = 3600
    extensions: Extensions = ()

    mechanism = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class MskIam:
    """OAUTHBEARER with tokens signed by AWS credentials: what Amazon MSK calls AWS_MSK_IAM.

    Credentials are those of the profile, or of the machine; with a role they are used to assume it.
    """

    region: str
    profile: str | None = None
    role_arn: str | None = None
    role_session: str | None = None
    role_external_id: str | None = None
    sts_region: str | None = None

    extensions: Extensions = ()

    mechanism = "OAUTHBEARER"


OAuth = ClientCredentials | AccessToken | TokenFile | UnsecuredToken | MskIam

JAAS = "sasl.jaas.config"
_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_STRIMZI_REFUSED = {
    "oauth.refresh.token": "refresh tokens are not supported",
    "oauth.refresh.token.location": "refresh tokens are not supported",
    "oauth.password.grant.username": "OAuth's password grant is not supported",
    "oauth.client.assertion": "client assertions are not supported",
    "oauth.client.assertion.location": "client assertions are not supported",
}


def read_oauth(keys: ConnectionKeys, options: Mapping[str, str]) -> OAuth | None:
    """Where tokens come from, by the login module's options and the keys beside it; None after an error."""
    if any(name.startswith("oauth.") for name in options):
        return _read_strimzi(keys, options)
    if any(name.startswith("unsecuredLogin") for name in options):
        return _read_unsecured(keys, options)
    return _read_kafka(keys, options)


def _read_kafka(keys: ConnectionKeys, options: Mapping[str, str]) -> OAuth | None:
    extensions = _extensions(keys, options, "extension_")
    url = keys.text(_URL)
    if url is None:
        keys.error(_URL, f"{_URL} is missing: OAUTHBEARER must know where to get tokens")
        return None
    if url.lower().startswith("file:"):
        return TokenFile(unquote(urlsplit(url).path), extensions)
    client_id = keys.text(_CLIENT_ID) or options.get("clientId")
    client_secret = keys.text(_CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not client_secret:
        absent = _CLIENT_SECRET if client_id else _CLIENT_ID
        keys.error(absent, f"{absent} is missing: OAUTHBEARER asks for tokens with a client id and secret")
        return None
    endpoint = _endpoint(keys, _URL, url, keys.among(_as_entries(keys, options)))
    if endpoint is None:
        return None
    scope = keys.text("sasl.oauthbearer.scope") or options.get("scope")
    encoded = keys.flag("sasl.oauthbearer.header.urlencode")
    return ClientCredentials(
        endpoint, client_id, Secret(client_secret), scope, extensions=extensions, url_encoded=encoded
    )


def _read_strimzi(keys: ConnectionKeys, options: Mapping[str, str]) -> OAuth | None:
    extensions = _extensions(keys, options, "oauth.sasl.extension.")
    if location := options.get("oauth.access.token.location"):
        return TokenFile(location, extensions)
    if token := options.get("oauth.access.token"):
        return AccessToken(Secret(token), extensions)
    refused = [name for name in _STRIMZI_REFUSED if name in options]
    for name in refused:
        keys.error(JAAS, f"{JAAS}: the option {name} is refused: {_STRIMZI_REFUSED[name]}; use oauth.client.secret")
    if options.get("oauth.client.credentials.grant.type", "client_credentials") != "client_credentials":
        refused.append("oauth.client.credentials.grant.type")
        keys.error(JAAS, f"{JAAS}: oauth.client.credentials.grant.type can only be client_credentials")
    needed = ("oauth.token.endpoint.uri", "oauth.client.id", "oauth.client.secret")
    missing = [name for name in needed if not options.get(name)] if not refused else []
    for name in missing:
        keys.error(JAAS, f"{JAAS} has no option {name}")
    if refused or missing:
        return None
    uri, client_id, client_secret = (options[name] for name in needed)
    endpoint = _endpoint(keys, JAAS, uri, keys.among(_as_entries(keys, options), "oauth."))
    if endpoint is None:
        return None
    scope, audience = options.get("oauth.scope"), options.get("oauth.audience")
    return ClientCredentials(endpoint, client_id, Secret(client_secret), scope, audience, extensions)


def _read_unsecured(keys: ConnectionKeys, options: Mapping[str, str]) -> OAuth | None:
    claims = dict(_claims(keys, options))
    principal = claims.get(options.get("unsecuredLoginPrincipalClaimName", "").strip() or "sub")
    lifetime = options.get("unsecuredLoginLifetimeSeconds", "3600")
    if not isinstance(principal, str) or not principal:
        keys.error(JAAS, f"{JAAS} has no option unsecuredLoginStringClaim_sub to name the user")
        return None
    if not lifetime.isdecimal() or int(lifetime) < 1:
        keys.error(JAAS, f"{JAAS}: unsecuredLoginLifetimeSeconds must be a positive whole number")
        return None
    keys.warning(JAAS, f"{JAAS} makes unsigned tokens, by which anybody can be anybody: for development only")
    extensions = _extensions(keys, options, "unsecuredLoginExtension_")
    return UnsecuredToken(tuple(claims.items()), principal, int(lifetime), extensions)


def _claims(keys: ConnectionKeys, options: Mapping[str, str]) -> Iterator[tuple[str, Claim]]:
    for option, value in options.items():
        kind, _, claim = option.partition("Claim_")
        if kind == "unsecuredLoginString":
            yield claim, value
        elif kind == "unsecuredLoginList" and value:
            yield claim, tuple(value[1:].split(value[0]))
        elif kind == "unsecuredLoginNumber":
            try:
                yield claim, float(value)
            except ValueError:
                keys.error(JAAS, f"{JAAS}: the option {option} must be a number")


def _extensions(keys: ConnectionKeys, options: Mapping[str, str], prefix: str) -> Extensions:
    chosen = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in chosen.items():
        if not re.fullmatch("[A-Za-z]+", name) or name == "auth":
            keys.error(JAAS, f"{JAAS}: {prefix}{name}: an extension's name has letters only, and is not 'auth'")
        elif not re.fullmatch(r"[\x21-\x7e \t\r\n]+", value):
            keys.error(JAAS, f"{JAAS}: {prefix}{name} must be printable ASCII and not empty")
    return tuple(chosen.items())


def _endpoint(keys: ConnectionKeys, named_in: str, url: str, tls: ConnectionKeys) -> TokenEndpoint | None:
    """The endpoint with the limits of the `sasl.login.*` keys; `tls` holds the options of its trust store."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        keys.error(named_in, f"{named_in}: the token endpoint must be an http or https URL")
        return None
    if parts.scheme == "http":
        keys.warning(named_in, f"{named_in}: the token endpoint is http, so the client secret travels readable by all")
    trusted = read_trusted(tls)
    defaults = TokenEndpoint(url)
    return TokenEndpoint(
        url,
        trusted.pem if trusted else None,
        reads_host_check(tls),
        keys.number("sasl.login.connect.timeout.ms") or defaults.connect_timeout_ms,
        keys.number("sasl.login.read.timeout.ms") or defaults.read_timeout_ms,
        keys.number("sasl.login.retry.backoff.ms") or defaults.retry_backoff_ms,
        keys.number("sasl.login.retry.backoff.max.ms") or defaults.retry_for_ms,
    )


def _as_entries(keys: ConnectionKeys, options: Mapping[str, str]) -> dict[str, Entry]:
    return {name: Entry(name, value, keys.origin(JAAS), secret=True) for name, value in options.items()}
