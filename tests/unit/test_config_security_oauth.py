"""OAUTHBEARER: options to the source of tokens, and tokens from that source."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest

from farshore.config.entries import Entry, Findings, Origin, Severity
from farshore.config.secret import Secret
from farshore.config.security import (
    AccessToken,
    ClientCredentials,
    Connection,
    OAuth,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
    read_connection,
)
from farshore.errors import TokenRefused
from farshore.kafka.raw_connection import Login
from farshore.kafka.tokens import fetch_token
from farshore.local.certificates import Authority

MARKER = "marker-geheim"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"
ISSUER = "https://issuer.example/token"


def read(options: str, **dotted: str) -> tuple[Connection | None, list[str]]:
    properties = {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} required {options};",
        **dotted,
    }
    entries = {key: Entry(key, text, Origin("f", n)) for n, (key, text) in enumerate(properties.items(), 1)}
    findings = Findings()
    connection = read_connection(entries, cluster="A", origin=Origin("f"), findings=findings)
    said = [str(finding) for finding in findings.of(*Severity)]
    assert MARKER not in f"{connection!r} {said}"
    return connection, said


def reads(options: str, **dotted: str) -> OAuth:
    connection, said = read(options, **dotted)
    assert connection is not None, said
    assert isinstance(connection.security.sasl, OAuth)
    return connection.security.sasl


class TestOptions:
    def test_kafkas_options(self) -> None:
        oauth = reads(
            f'clientId="c" clientSecret="{MARKER}" scope="s" extension_logicalCluster="lkc-1"',
            **{URL: ISSUER, "sasl.login.connect.timeout.ms": "7", "sasl.oauthbearer.header.urlencode": "true"},
        )
        endpoint = TokenEndpoint(ISSUER, connect_timeout_ms=7)
        assert oauth == ClientCredentials(
            endpoint, "c", Secret(MARKER), "s", None, (("logicalCluster", "lkc-1"),), True
        )

    def test_kafkas_keys(self) -> None:
        oauth = reads(
            "",
            **{
                URL: ISSUER,
                "sasl.oauthbearer.client.credentials.client.id": "c",
                "sasl.oauthbearer.client.credentials.client.secret": MARKER,
                "sasl.oauthbearer.scope": "s",
            },
        )
        assert oauth == ClientCredentials(TokenEndpoint(ISSUER), "c", Secret(MARKER), "s")

    def test_a_file_of_kafkas(self) -> None:
        assert reads("", **{URL: "file:///run/a%20token"}) == TokenFile("/run/a token")

    def test_strimzis_options(self, tmp_path: Path) -> None:
        store = Authority(tmp_path, password=f"{MARKER}-store").trust_store("pkcs12")
        oauth = reads(
            f'oauth.client.id="c" oauth.client.secret="{MARKER}" oauth.token.endpoint.uri="{ISSUER}" '
            f'oauth.scope="s" oauth.audience="a" oauth.ssl.truststore.location="{store.location}" '
            f'oauth.ssl.truststore.password="{store.password}" oauth.ssl.truststore.type="PKCS12" '
            'oauth.ssl.endpoint.identification.algorithm="" oauth.sasl.extension.x="y"'
        )
        assert isinstance(oauth, ClientCredentials)
        assert (oauth.scope, oauth.audience, oauth.extensions) == ("s", "a", (("x", "y"),))
        assert oauth.endpoint.trusted_pem is not None
        assert "BEGIN CERTIFICATE" in oauth.endpoint.trusted_pem
        assert not oauth.endpoint.verify_hostname

    def test_strimzis_tokens(self) -> None:
        # A refresh token beside an access token is ignored, by Strimzi too.
        options = f'oauth.access.token="{MARKER}" oauth.refresh.token="{MARKER}"'
        assert reads(options) == AccessToken(Secret(MARKER))
        assert reads('oauth.access.token.location="/run/token"') == TokenFile("/run/token")

    def test_unsecured(self) -> None:
        connection, said = read(
            'unsecuredLoginStringClaim_sub="me" unsecuredLoginListClaim_scope="|a|b" '
            'unsecuredLoginNumberClaim_n="1.5" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_t="1"'
        )
        assert connection is not None
        assert connection.security.sasl == UnsecuredToken(
            (("sub", "me"), ("scope", ("a", "b")), ("n", 1.5)), "me", 60, (("t", "1"),)
        )
        assert any("for development only" in one for one in said)

    @pytest.mark.parametrize(
        ("options", "dotted", "expected"),
        [
            ("", {}, f"{URL} is missing"),
            ("", {URL: ISSUER}, "client.id is missing"),
            ("clientId=c", {URL: ISSUER}, "client.secret is missing"),
            (f'clientId=c clientSecret="{MARKER}"', {URL: "issuer/token"}, "must be an http or https URL"),
            (f'clientId=c clientSecret="{MARKER}"', {URL: "https://a:b"}, "must be an http or https URL"),
            (f'clientId=c clientSecret="{MARKER}" extension_auth="x"', {URL: ISSUER}, "extension_auth"),
            (f'clientId=c clientSecret="{MARKER}" ssl.truststore.location="/none"', {URL: ISSUER}, "/none cannot be"),
            (f'oauth.refresh.token="{MARKER}"', {}, "refresh tokens are not supported"),
            (f'oauth.password.grant.username=u oauth.password.grant.password="{MARKER}"', {}, "password grant"),
            (f'oauth.client.assertion="{MARKER}"', {}, "client assertions are not supported"),
            ('oauth.client.credentials.grant.type="x"', {}, "can only be client_credentials"),
            (f'oauth.client.secret="{MARKER}"', {}, "has no option oauth.client.id"),
            ("unsecuredLoginLifetimeSeconds=x", {}, "unsecuredLoginStringClaim_sub"),
            ('unsecuredLoginStringClaim_sub=u unsecuredLoginLifetimeSeconds="0"', {}, "positive whole number"),
            ('unsecuredLoginStringClaim_sub=u unsecuredLoginNumberClaim_x="y"', {}, "must be a number"),
        ],
    )
    def test_refusals(self, options: str, dotted: dict[str, str], expected: str) -> None:
        connection, said = read(options, **dotted)
        assert connection is None
        assert any(expected in one for one in said), said

    def test_http_is_warned_of(self) -> None:
        _, said = read(f'clientId=c clientSecret="{MARKER}"', **{URL: "http://issuer/token"})
        assert any("warning" in one and "readable by all" in one for one in said)


def jwt(**claims: object) -> str:
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + ".x"


class Issuer(BaseHTTPRequestHandler):
    """Answers what `answers` says, in turn, the last for ever, and keeps what it was asked."""

    answers: ClassVar[list[tuple[int, object]]] = []
    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append({"headers": dict(self.headers), "form": parse_qs(body), "path": self.path})
        status, content = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[str]:
    Issuer.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Issuer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/realm/token?x=1"
        server.shutdown()
        thread.join()


def credentials(url: str, **more: Any) -> ClientCredentials:
    return ClientCredentials(TokenEndpoint(url, retry_for_ms=300), "c d", Secret(f"{MARKER}:%"), **more)


class TestTokens:
    def test_asked_for_as_kafka_does(self, issuer: str) -> None:
        value = jwt(exp=int(time.time()) + 90, sub="me")
        Issuer.answers = [(200, {"access_token": value, "expires_in": 5})]
        token = fetch_token(credentials(issuer, scope="a b", audience="x"))
        assert token.value.reveal() == value
        assert token.principal == "me"
        assert 80 < token.expires_at - time.time() < 91
        (request,) = Issuer.asked
        assert request["path"] == "/realm/token?x=1"
        assert request["form"] == {"grant_type": ["client_credentials"], "scope": ["a b"], "audience": ["x"]}
        basic = request["headers"]["Authorization"].removeprefix("Basic ")
        assert base64.b64decode(basic).decode() == f"c d:{MARKER}:%"
        assert value not in repr(token)

    def test_url_encoded_credentials(self, issuer: str) -> None:
        Issuer.answers = [(200, {"access_token": "opaque", "expires_in": 60})]
        token = fetch_token(credentials(issuer, url_encoded=True))
        assert 50 < token.expires_at - time.time() < 61
        basic = Issuer.asked[0]["headers"]["Authorization"].removeprefix("Basic ")
        assert base64.b64decode(basic).decode() == f"c+d:{MARKER}%3A%25"

    def test_passing_trouble_is_tried_again(self, issuer: str) -> None:
        Issuer.answers = [(503, b"busy"), (200, {"access_token": "t"})]
        assert fetch_token(credentials(issuer)).value.reveal() == "t"

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ((401, {"error": "invalid_client", "error_description": "no such"}), "status 401 invalid_client no such"),
            ((404, b"<html>"), "status 404"),
            ((500, b""), "does not answer: status 500"),
            ((200, b"no json"), "without an access_token"),
            ((200, {"token": MARKER}), "without an access_token"),
            ((200, [MARKER]), "without an access_token"),
        ],
    )
    def test_refusals(self, issuer: str, answer: tuple[int, object], expected: str) -> None:
        Issuer.answers = [answer]
        with pytest.raises(TokenRefused, match=expected) as caught:
            fetch_token(credentials(issuer))
        assert MARKER not in str(caught.value)

    def test_nobody_there(self) -> None:
        with pytest.raises(TokenRefused, match="does not answer"):
            fetch_token(credentials("http://127.0.0.1:1/"))

    def test_files_are_read_anew(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        for value in ("one", "two"):
            file.write_text(f"{value}\n")
            assert fetch_token(TokenFile(str(file))).value.reveal() == value
        with pytest.raises(TokenRefused, match="No such file"):
            fetch_token(TokenFile(str(tmp_path / "none")))

    @pytest.mark.parametrize("value", ["a", "a.b", "a.!!.c", "a.bnVsbA.c", ""])
    def test_a_token_need_not_be_a_jwt(self, value: str) -> None:
        token = fetch_token(AccessToken(Secret(value)))
        assert token.expires_at > time.time() + 60

    def test_unsecured_ones_are_made(self) -> None:
        token = fetch_token(UnsecuredToken((("sub", "me"), ("scope", ("a", "b"))), "me", 60))
        middle = token.value.reveal().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=="))
        assert (claims["sub"], claims["scope"]) == ("me", ["a", "b"])
        assert claims["exp"] - claims["iat"] == pytest.approx(60)


def test_all_connections_share_a_token(issuer: str) -> None:
    value = jwt(exp=int(time.time()) + 90, sub="me")
    Issuer.answers = [(200, {"access_token": value})]
    connection, _ = read(f'clientId=c clientSecret="{MARKER}"', **{URL: issuer})
    assert connection is not None
    provider = Login(connection, client_id="me").options["sasl_oauth_token_provider"]

    async def both() -> list[str]:
        return [await provider.token(), await provider.token()]

    assert asyncio.run(both()) == [value, value]
    assert len(Issuer.asked) == 1
