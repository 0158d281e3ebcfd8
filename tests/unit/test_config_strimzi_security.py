"""`tls` and `authentication` of a cluster, to the properties that the operator makes of them."""

import pytest
from strimzi import V1, Result, secret, texts, with_source

from farshore.config.entries import Connector

HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def source_of(extra: str, *more: str) -> dict[str, str]:
    """What connectors are told of the source cluster, if it has these fields too."""
    entries = texts(Result(with_source(extra), *more).flow.connectors[Connector.SOURCE], "source.cluster.")
    return {name: text for name, text in entries.items() if name not in ("alias", "bootstrap.servers")}


def test_a_cluster_without_both_is_plaintext() -> None:
    assert source_of("config: {}") == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize("tls", ["tls: {}", "tls: {trustedCertificates: []}"])
def test_tls_without_certificates_means_the_authorities_of_the_system(tls: str) -> None:
    assert source_of(tls) == {"security.protocol": "SSL"}


def test_trusted_certificates_are_joined_in_the_order_of_the_list() -> None:
    tls = """
        tls:
          trustedCertificates:
            - {secretName: one, certificate: ca.crt}
            - {secretName: two, pattern: "*.{crt,pem}"}
    """
    two = secret("two", **{"b.pem": "TWO B", "a.crt": "TWO A\n\n", "ca.password": "x", "a.crt.old": "x"})
    assert source_of(tls, secret("one", **{"ca.crt": "ONE\n"}), two) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "ONE\nTWO A\nTWO B\n",
    }


def test_a_client_certificate_is_a_pem_keystore() -> None:
    extra = """
        tls: {}
        authentication:
          type: tls
          certificateAndKey: {secretName: me, certificate: user.crt, key: user.key}
    """
    assert source_of(extra, secret("me", **{"user.crt": "CHAIN\n", "user.key": "KEY\n"})) == {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN\n",
        "ssl.keystore.key": "KEY\n",
    }


def test_a_client_certificate_without_tls_is_a_warning() -> None:
    extra = """
        authentication:
          type: tls
          certificateAndKey: {secretName: me, certificate: user.crt, key: user.key}
    """
    result = Result(with_source(extra), secret("me", **{"user.crt": "CHAIN", "user.key": "KEY"}))
    source = result.flow.connectors[Connector.SOURCE]
    assert source["source.cluster.security.protocol"].text == "PLAINTEXT"
    assert result.warnings == [
        "mm2.yaml:12: warning: spec.clusters[0].authentication.type is tls, but the cluster has no tls: no "
        "certificate will be shown"
    ]


@pytest.mark.parametrize(
    ("kind", "mechanism", "module"),
    [
        ("plain", "PLAIN", "plain.PlainLoginModule"),
        ("scram-sha-256", "SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("tls", [True, False])
def test_a_user_with_a_password_logs_in_by_sasl(kind: str, mechanism: str, module: str, tls: bool) -> None:
    extra = f"""
        {"tls: {}" if tls else ""}
        authentication:
          type: {kind}
          username: me
          passwordSecret: {{secretName: pass, password: word}}
    """
    assert source_of(extra, secret("pass", word="12'34\n")) == {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'org.apache.kafka.common.security.{module} required username="me" password="12\'34";',
    }


def test_a_password_is_quoted_for_jaas_and_never_shown() -> None:
    extra = """
        authentication:
          type: plain
          username: me
          passwordSecret: {secretName: pass, password: word}
    """
    document = "kind: Secret\nmetadata: {name: pass}\nstringData:\n  word: 'a\"b\\c;${x:y}'\n"
    result = Result(with_source(extra), document)
    login = result.flow.connectors[Connector.SOURCE]["source.cluster.sasl.jaas.config"]
    assert login.text.endswith(r'password="a\"b\\c;${x:y}";')
    assert login.secret
    assert "b\\" not in repr(result.flows)


def test_oauth_becomes_options_of_strimzis_login_module() -> None:
    extra = """
        tls: {}
        authentication:
          type: oauth
          clientId: me
          clientSecret: {secretName: o, key: client}
          tokenEndpointUri: https://login/token
          scope: any
          audience: kafka
          connectTimeoutSeconds: 60
          readTimeoutSeconds: 0
          accessTokenIsJwt: false
          includeAcceptHeader: true
          disableTlsHostnameVerification: true
          saslExtensions: {cluster: c1}
          tlsTrustedCertificates: [{secretName: o, certificate: ca}]
    """
    entries = source_of(extra, secret("o", client="s3cret", ca="LINE 1\nLINE 2\n"))
    assert entries == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.jaas.config": f'{OAUTH_MODULE} oauth.client.id="me" oauth.token.endpoint.uri="https://login/token" '
        'oauth.scope="any" oauth.audience="kafka" oauth.connect.timeout.seconds="60" '
        'oauth.access.token.is.jwt="false" oauth.ssl.endpoint.identification.algorithm="" '
        'oauth.sasl.extension.cluster="c1" oauth.client.secret="s3cret" oauth.ssl.truststore.type="PEM" '
        'oauth.ssl.truststore.certificates="LINE 1\\nLINE 2\\n";',
    }


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ("accessToken: {secretName: o, key: k}", 'oauth.access.token="v"'),
        ("accessTokenLocation: /token", 'oauth.access.token.location="/token"'),
        (
            "clientId: me, tokenEndpointUri: u, refreshToken: {secretName: o, key: k}",
            'oauth.client.id="me" oauth.token.endpoint.uri="u" oauth.refresh.token="v"',
        ),
        (
            "clientId: me, tokenEndpointUri: u, username: n, passwordSecret: {secretName: o, password: k}",
            'oauth.client.id="me" oauth.password.grant.username="n" oauth.token.endpoint.uri="u" '
            'oauth.password.grant.password="v"',
        ),
        (
            "clientId: me, tokenEndpointUri: u, clientAssertion: {secretName: o, key: k}, clientAssertionType: t",
            'oauth.client.id="me" oauth.token.endpoint.uri="u" oauth.client.assertion.type="t" '
            'oauth.client.assertion="v"',
        ),
        (
            "clientId: me, tokenEndpointUri: u, clientAssertionLocation: /a",
            'oauth.client.id="me" oauth.token.endpoint.uri="u" oauth.client.assertion.location="/a"',
        ),
    ],
)
def test_oauth_has_many_ways_to_a_token(fields: str, options: str) -> None:
    entries = source_of(f"authentication: {{type: oauth, {fields}}}", secret("o", k="v\n"))
    assert entries["sasl.jaas.config"] == f"{OAUTH_MODULE} {options};"


def test_oauth_without_any_way_to_a_token_is_an_error() -> None:
    (error,) = Result(with_source("authentication: {type: oauth, clientId: me}")).errors
    assert error.startswith("mm2.yaml:11: error: spec.clusters[0].authentication.type oauth needs one of these: ")


def test_custom_authentication_passes_its_sasl_and_keystore_properties_on() -> None:
    custom = """
    authentication:
      type: custom
      sasl: true
      config:
        sasl.mechanism: OAUTHBEARER
        sasl.jaas.config: login;
        ssl.truststore.location: /x
    tls: {}
"""
    result = Result(V1.read_text().replace("    alias: cluster-b\n", f"    alias: cluster-b{custom}"))
    keys = ("security.", "sasl.", "ssl.")
    security = {name: e.text for name, e in result.flow.worker.items() if name.startswith(keys)}
    assert security == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "login;",
    }
    assert result.warnings == [
        "mm2.yaml:16: warning: ssl.truststore.location is ignored, as Strimzi does: put it into the cluster's own "
        "config"
    ]


def test_custom_authentication_without_sasl_leaves_the_protocol_alone() -> None:
    assert source_of("authentication: {type: custom, config: {ssl.keystore.location: /k}}\ntls: {}") == {
        "security.protocol": "SSL",
        "ssl.keystore.location": "/k",
    }


def test_config_of_the_cluster_wins_over_its_connection() -> None:
    extra = "config: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: x}"
    assert source_of(extra) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "x",
    }
