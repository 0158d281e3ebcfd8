"""Tokens for OAUTHBEARER, fetched here so that every Kafka client gets them in the same way."""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_plus, urlencode, urlsplit

from farshore.config.secret import Secret
from farshore.config.security import (
    AccessToken,
    ClientCredentials,
    MskIam,
    OAuth,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
)
from farshore.errors import TokenRefused
from farshore.kafka.msk_iam import sign_token

_UNKNOWN_LIFETIME_SECONDS = 300
_LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class Token:
    """A token as sent to brokers, with the time in seconds since 1970 when it ends, and whose it is."""

    value: Secret
    expires_at: float
    principal: str


def fetch_token(oauth: OAuth) -> Token:
    """A token good for now. Takes as long as the endpoint needs, within its limits; raises TokenRefused."""
    match oauth:
        case UnsecuredToken():
            return _make_unsecured(oauth)
        case AccessToken():
            return _token(oauth.token.reveal(), None)
        case TokenFile():
            return _token(_read(oauth.path), None)
        case ClientCredentials():
            return _request(oauth)
        case MskIam():
            return Token(*sign_token(oauth), "")


def _make_unsecured(oauth: UnsecuredToken) -> Token:
    now = time.time()
    expires_at = now + oauth.lifetime_seconds
    claims = {**dict(oauth.claims), "iat": now, "exp": expires_at}
    value = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
    return Token(Secret(value), expires_at, oauth.principal)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TokenRefused(f"the token file {path} cannot be read: {reason}") from None


def _request(oauth: ClientCredentials) -> Token:
    endpoint = oauth.endpoint
    give_up_at = time.monotonic() + endpoint.retry_for_ms / 1000
    pause = endpoint.retry_backoff_ms / 1000
    while True:
        try:
            return _request_once(oauth)
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() + pause > give_up_at:
                raise TokenRefused(f"the token endpoint {endpoint.url} does not answer: {error}") from None
        time.sleep(pause)
        pause *= 2


def _request_once(oauth: ClientCredentials) -> Token:
    body = {"grant_type": "client_credentials", "scope": oauth.scope, "audience": oauth.audience}
    status, answer = _post(oauth.endpoint, urlencode({k: v for k, v in body.items() if v}), _basic(oauth))
    try:
        content = json.loads(answer)
    except ValueError:
        content = None
    fields = content if isinstance(content, dict) else {}
    if status >= 500:
        raise http.client.HTTPException(f"status {status}")
    if status not in (200, 201):
        # By RFC 6749 these two hold no secret.
        said = " ".join(str(fields[name]) for name in ("error", "error_description") if name in fields)
        raise TokenRefused(f"the token endpoint {oauth.endpoint.url} refuses: status {status} {said}".rstrip())
    value = fields.get("access_token")
    if not isinstance(value, str) or not value:
        raise TokenRefused(f"the token endpoint {oauth.endpoint.url} answers without an access_token")
    lifetime = fields.get("expires_in")
    return _token(value, time.time() + lifetime if isinstance(lifetime, int | float) else None)


def _basic(oauth: ClientCredentials) -> str:
    parts = [oauth.client_id, oauth.client_secret.reveal()]
    if oauth.url_encoded:
        parts = [quote_plus(part) for part in parts]
    return "Basic " + base64.b64encode(":".join(parts).encode()).decode()


def _post(endpoint: TokenEndpoint, body: str, authorization: str) -> tuple[int, bytes]:
    url = urlsplit(endpoint.url)
    host, connect_timeout = url.hostname or "", endpoint.connect_timeout_ms / 1000
    connection = (
        http.client.HTTPSConnection(host, url.port, timeout=connect_timeout, context=_tls(endpoint))
        if url.scheme == "https"
        else http.client.HTTPConnection(host, url.port, timeout=connect_timeout)
    )
    headers = {
        "Authorization": authorization,
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    try:
        connection.connect()
        connection.sock.settimeout(endpoint.read_timeout_ms / 1000)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST_ANSWER)
    finally:
        connection.close()


def _tls(endpoint: TokenEndpoint) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=endpoint.trusted_pem)
    context.check_hostname = endpoint.verify_hostname
    return context


def _token(value: str, expires_at: float | None) -> Token:
    """The token with what its own claims say; one that is no JWT is asked for again after a while."""
    claims = _claims(value)
    stated = claims.get("exp")
    if isinstance(stated, int | float):
        expires_at = float(stated)
    subject = claims.get("sub")
    return Token(
        Secret(value),
        expires_at or time.time() + _UNKNOWN_LIFETIME_SECONDS,
        subject if isinstance(subject, str) else "",
    )


def _claims(value: str) -> dict[str, object]:
    try:
        middle = value.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (IndexError, binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _encoded(content: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
