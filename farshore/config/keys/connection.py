"""Rows for reaching a cluster and logging in: the names that MirrorMaker 2 takes for a cluster as a whole.

Behind an alias (`A.bootstrap.servers`) they reach every client of that cluster; any other key of a client
needs `consumer.`, `producer.` or `admin.` before it. What keys mean together is judged by those who connect.
"""

from __future__ import annotations

from farshore.config.keys.table import (
    REQUIRED,
    Key,
    Rows,
    Scope,
    Type,
    Value,
    between,
    one_of,
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
STORE_TYPES = ("PEM", "PKCS12", "JKS")
TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")

_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer."
KAFKA_LOGIN_HANDLERS = (
    f"{_OAUTHBEARER}OAuthBearerLoginCallbackHandler",
    f"{_OAUTHBEARER}secured.OAuthBearerLoginCallbackHandler",
)
_AWS = "software.amazon.msk.auth.iam."
AWS_CLIENT_HANDLER = f"{_AWS}IAMClientCallbackHandler"
AWS_LOGIN_HANDLER = f"{_AWS}IAMOAuthBearerLoginCallbackHandler"
STRIMZI_LOGIN_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"

_NO_JAVA_CODE = "Farshore runs no Java code of the user's"
_OPENSSL = "TLS is done by OpenSSL, not by a JVM"
_TICKETS = "the Kerberos library of this machine gets a ticket when one is needed"
_RENEWED = "a token is renewed after four fifths of its life"


_ROWS = Rows(Scope.CONNECTION)
_honoured, _unused, _refused = _ROWS.honoured, _ROWS.unused, _ROWS.refused


def _kerberos(tail: str, type_: Type, default: Value, meaning: str) -> Key:
    return _unused(f"sasl.kerberos.{tail}", type_, default, meaning, _TICKETS)


def _not_judged(tail: str, type_: Type, default: Value, meaning: str) -> Key:
    remark = "the token is passed on as it is; the brokers judge it"
    return _unused(f"sasl.oauthbearer.{tail}", type_, default, meaning, remark)


def _assertion(tail: str, type_: Type, default: Value, meaning: str) -> Key:
    remark = "a token is asked for with a client id and secret, not with a signed assertion"
    return _refused(f"sasl.oauthbearer.assertion.{tail}", type_, default, meaning, remark)


def _not_empty(value: Value) -> str | None:
    return None if value else "must not be empty"


def _https_or_empty(value: Value) -> str | None:
    fine = isinstance(value, str) and value.lower() in ("", "https")
    return None if fine else f"must be https, or empty for no check of host names, not {value!r}"


def _tls_versions(value: Value) -> str | None:
    assert isinstance(value, tuple)
    strange = [version for version in value if version not in TLS_VERSIONS]
    return f"must list versions such as TLSv1.2 and TLSv1.3, not {strange[0]!r}" if strange else None


BASICS = (
    Key("bootstrap.servers", Type.LIST, REQUIRED, Scope.CONNECTION,
        "Brokers to ask first, as host:port.", check=_not_empty),
    _honoured("security.protocol", Type.STRING, "PLAINTEXT",
              "Whether connections are encrypted (SSL) and need a login (SASL).",
              "with a SASL protocol sasl.mechanism is mostly needed too, since Kafka's default for it is GSSAPI",
              check=one_of(*PROTOCOLS, ignore_case=True)),
)  # fmt: skip

TLS = (
    _honoured("ssl.truststore.type", Type.STRING, "JKS", "Format of the trust store.",
              "a JKS store may be PKCS12 and the other way round", one_of(*STORE_TYPES, ignore_case=True)),
    _honoured("ssl.truststore.location", Type.STRING, None, "File with the certificates to trust.",
              "unset: the certificate authorities of this machine"),
    _honoured("ssl.truststore.password", Type.PASSWORD, None, "Password of the trust store file."),
    _honoured("ssl.truststore.certificates", Type.PASSWORD, None,
              "The certificates to trust, as PEM text in the configuration itself."),
    _honoured("ssl.keystore.type", Type.STRING, "JKS", "Format of the key store.",
              "a JKS store may be PKCS12 and the other way round", one_of(*STORE_TYPES, ignore_case=True)),
    _honoured("ssl.keystore.location", Type.STRING, None,
              "File with the client's private key and certificate chain."),
    _honoured("ssl.keystore.password", Type.PASSWORD, None, "Password of the key store file."),
    _honoured("ssl.keystore.key", Type.PASSWORD, None,
              "The client's private key, as PEM text in the configuration itself."),
    _honoured("ssl.keystore.certificate.chain", Type.PASSWORD, None,
              "The client's certificate chain, as PEM text in the configuration itself."),
    _honoured("ssl.key.password", Type.PASSWORD, None, "Password of the private key."),
    _honoured("ssl.endpoint.identification.algorithm", Type.STRING, "https",
              "Whether the broker's certificate must name its host; empty switches that off.",
              check=_https_or_empty),
    _honoured("ssl.enabled.protocols", Type.LIST, ("TLSv1.2", "TLSv1.3"), "TLS versions that may be used.",
              "none before TLSv1.2 is used; the lock of a flow takes the best both sides know",
              check=_tls_versions),
    _honoured("ssl.cipher.suites", Type.LIST, (), "Cipher suites that may be used; empty for all usual ones.",
              "which suite of TLS 1.3 is used cannot be chosen"),
    _unused("ssl.protocol", Type.STRING, "TLSv1.3", "Name of Java's TLS context.",
            "ssl.enabled.protocols decides, as it does in Java"),
    _unused("ssl.keymanager.algorithm", Type.STRING, "SunX509", "Java's way to read key stores.", _OPENSSL),
    _unused("ssl.trustmanager.algorithm", Type.STRING, "PKIX", "Java's way to check certificates.", _OPENSSL),
    _unused("ssl.secure.random.implementation", Type.STRING, None, "Java's random numbers.", _OPENSSL),
    _refused("ssl.provider", Type.STRING, None, "Name of a Java security provider.", _OPENSSL),
    _refused("ssl.engine.factory.class", Type.CLASS, None, "Java class that does TLS.", _NO_JAVA_CODE),
)  # fmt: skip

LOGIN = (
    _honoured("sasl.mechanism", Type.STRING, "GSSAPI", f"How to log in: {', '.join(MECHANISMS)}.",
              "GSSAPI needs `pip install 'farshore[gssapi]'`, AWS_MSK_IAM `pip install 'farshore[aws]'`",
              check=one_of(*MECHANISMS)),
    _honoured("sasl.jaas.config", Type.PASSWORD, None,
              "Login module of the mechanism with its options, such as username and password.",
              "its options are read; no Java module is run"),
    _refused("sasl.client.callback.handler.class", Type.CLASS, None, "Java class that answers a mechanism.",
             f"{_NO_JAVA_CODE}; what AWS's handlers do is built in", AWS_CLIENT_HANDLER, AWS_LOGIN_HANDLER),
    _refused("sasl.login.callback.handler.class", Type.CLASS, None, "Java class that fetches credentials.",
             f"{_NO_JAVA_CODE}; what Kafka's, Strimzi's and AWS's OAuth handlers do is built in",
             *KAFKA_LOGIN_HANDLERS, STRIMZI_LOGIN_HANDLER, AWS_LOGIN_HANDLER),
    _refused("sasl.login.class", Type.CLASS, None, "Java class that logs in.", _NO_JAVA_CODE),
    _honoured("sasl.login.connect.timeout.ms", Type.INT, None, "How long connecting for a token may take."),
    _honoured("sasl.login.read.timeout.ms", Type.INT, None, "How long to wait for a token."),
    _honoured("sasl.login.retry.backoff.ms", Type.LONG, 100, "First pause before asking again."),
    _honoured("sasl.login.retry.backoff.max.ms", Type.LONG, 10000, "For how long to ask again."),
    _unused("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8,
            "Share of a token's life after which it is renewed.", _RENEWED, check=between(0.5, 1.0)),
    _unused("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05,
            "Random addition to that share.", _RENEWED, check=between(0.0, 0.25)),
    _unused("sasl.login.refresh.min.period.seconds", Type.SHORT, 60,
            "Shortest time between two renewals.", _RENEWED, check=between(0, 900)),
    _unused("sasl.login.refresh.buffer.seconds", Type.SHORT, 300,
            "Time before its end by which a token is to be renewed.", _RENEWED, check=between(0, 3600)),
    _honoured("sasl.kerberos.service.name", Type.STRING, None, "Kerberos name of the brokers, mostly kafka."),
    _kerberos("kinit.cmd", Type.STRING, "/usr/bin/kinit", "Path of kinit."),
    _kerberos("ticket.renew.window.factor", Type.DOUBLE, 0.8, "How much of a ticket's life may pass."),
    _kerberos("ticket.renew.jitter", Type.DOUBLE, 0.05, "Random addition to that share."),
    _kerberos("min.time.before.relogin", Type.LONG, 60000, "Shortest time between two Kerberos logins."),
)  # fmt: skip

OAUTH = (
    _honoured("sasl.oauthbearer.token.endpoint.url", Type.STRING, None,
              "Where tokens are asked for; a file: URL names a file that holds the token."),
    _honoured("sasl.oauthbearer.client.credentials.client.id", Type.STRING, None,
              "Client id for the token request."),
    _honoured("sasl.oauthbearer.client.credentials.client.secret", Type.PASSWORD, None,
              "Client secret for the token request."),
    _honoured("sasl.oauthbearer.scope", Type.STRING, None, "Scope to ask for in the token request."),
    _honoured("sasl.oauthbearer.header.urlencode", Type.BOOLEAN, False,
              "Whether client id and secret are URL-encoded before they are sent."),
    _refused("sasl.oauthbearer.jwt.retriever.class", Type.CLASS, f"{_OAUTHBEARER}DefaultJwtRetriever",
             "Java class that gets tokens.", f"{_NO_JAVA_CODE}; tokens come from an endpoint or a file",
             f"{_OAUTHBEARER}ClientCredentialsJwtRetriever", f"{_OAUTHBEARER}FileJwtRetriever"),
    _refused("sasl.oauthbearer.jwt.validator.class", Type.CLASS, f"{_OAUTHBEARER}DefaultJwtValidator",
             "Java class that checks tokens before they are sent.", _NO_JAVA_CODE,
             f"{_OAUTHBEARER}ClientJwtValidator"),
    _not_judged("scope.claim.name", Type.STRING, "scope", "Claim of a token that holds its scope."),
    _not_judged("sub.claim.name", Type.STRING, "sub", "Claim of a token that names its owner."),
    _not_judged("expected.audience", Type.LIST, (), "Audiences a token may be for."),
    _not_judged("expected.issuer", Type.STRING, None, "Who must have issued a token."),
    _not_judged("clock.skew.seconds", Type.INT, 30, "How far clocks may differ."),
    _not_judged("jwks.endpoint.url", Type.STRING, None, "Where keys for checking tokens are found."),
    _not_judged("jwks.endpoint.refresh.ms", Type.LONG, 3600000, "How often they are fetched."),
    _not_judged("jwks.endpoint.retry.backoff.ms", Type.LONG, 100, "First pause before another try."),
    _not_judged("jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10000, "Longest pause before another try."),
    _assertion("algorithm", Type.STRING, "RS256", "How an assertion is signed."),
    _assertion("claim.aud", Type.STRING, None, "Audience of an assertion."),
    _assertion("claim.exp.seconds", Type.INT, 300, "Life of an assertion."),
    _assertion("claim.iss", Type.STRING, None, "Issuer of an assertion."),
    _assertion("claim.jti.include", Type.BOOLEAN, False, "Whether an assertion has an id."),
    _assertion("claim.nbf.seconds", Type.INT, 60, "How long before now an assertion begins to be valid."),
    _assertion("claim.sub", Type.STRING, None, "Subject of an assertion."),
    _assertion("file", Type.STRING, None, "File with a ready assertion."),
    _assertion("private.key.file", Type.STRING, None, "File with the private key that signs assertions."),
    _assertion("private.key.passphrase", Type.PASSWORD, None, "Password of that key."),
    _assertion("template.file", Type.STRING, None, "File with further claims of assertions."),
)  # fmt: skip

KEYS = BASICS + TLS + LOGIN + OAUTH
