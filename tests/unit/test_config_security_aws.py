"""AWS_MSK_IAM: what the options of AWS's login module mean, and the token that is signed. AWS itself is never asked."""

from __future__ import annotations

import base64
import importlib.util
import logging
import time
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.stub import Stubber
from configs import ONE_FLOW, ReadText, flow_of, read_text, said

from farshore.config.security import MskIam
from farshore.errors import TokenRefused
from farshore.kafka.msk_iam import sign_token
from farshore.kafka.tokens import fetch_token

__all__ = ["read_text"]

BROKERS = (
    "b-1.orders.x1y2z3.c4.kafka.eu-west-1.amazonaws.com:9098,b-2.orders.x1y2z3.c4.kafka.eu-west-1.amazonaws.com:9098"
)
IAM = """A.security.protocol = SASL_SSL
A.sasl.mechanism = AWS_MSK_IAM
A.sasl.jaas.config = software.amazon.msk.auth.iam.IAMLoginModule required {};
A.sasl.client.callback.handler.class = software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""
BEARER = """A.security.protocol = SASL_SSL
A.sasl.mechanism = OAUTHBEARER
A.sasl.jaas.config = org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};
A.sasl.login.callback.handler.class = software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
A.sasl.client.callback.handler.class = software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
"""


def at(brokers: str, login: str) -> str:
    return ONE_FLOW.replace("a:9092", brokers) + login


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a user, in the environment; nothing else is looked at, least of all the network."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize("login", [IAM, BEARER])
def test_the_region_is_that_of_the_brokers(read_text: ReadText, login: str) -> None:
    reading = read_text(at(BROKERS, login.format("")))
    assert said(reading) == []
    sasl = flow_of(reading).side("A").admin.connection.security.sasl
    assert sasl == MskIam("eu-west-1")
    assert sasl.mechanism == "OAUTHBEARER"


def test_options_of_the_login_module_say_whose_credentials_sign(read_text: ReadText) -> None:
    options = (
        'awsProfileName="mirror" awsRoleArn="arn:aws:iam::123456789012:role/mm" awsRoleSessionName="mm2" '
        'awsRoleExternalId="x-1" awsStsRegion="us-east-1" awsDebugCreds="true"'
    )
    reading = read_text(at("boot-a1b2.c1.kafka-serverless.eu-north-1.amazonaws.com:9098", IAM.format(options)))
    assert flow_of(reading).side("A").admin.connection.security.sasl == MskIam(
        "eu-north-1", "mirror", "arn:aws:iam::123456789012:role/mm", "mm2", "x-1", "us-east-1"
    )


def test_behind_a_name_of_ones_own_the_region_has_to_be_said(read_text: ReadText) -> None:
    [error] = said(read_text(at("kafka.example:9098", IAM.format(""))))
    assert error.endswith('from an option: add awsStsRegion="REGION" to it')
    reading = read_text(at("kafka.example:9098", IAM.format('awsStsRegion="eu-west-3"')))
    assert flow_of(reading).side("A").admin.connection.security.sasl == MskIam("eu-west-3", sts_region="eu-west-3")


def test_keys_in_the_configuration_are_refused_without_showing_them(read_text: ReadText) -> None:
    told = said(read_text(at(BROKERS, IAM.format('awsRoleAccessKeyId="AKIA" awsRoleSecretAccessKey="hidden"'))))
    assert len(told) == 2
    assert all("is refused: credentials come from a profile" in line for line in told)
    assert "hidden" not in "".join(told)


def test_without_the_signer_it_is_said_how_to_get_it(read_text: ReadText, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("aws_") else found(name))
    [error] = said(read_text(at(BROKERS, IAM.format(""))))
    assert error == (
        "mm2.properties:8: error: AWS_MSK_IAM needs AWS's signer, here and wherever slots run: pip install 'farshore[aws]'"
    )


@pytest.mark.usefixtures("credentials")
def test_a_token_is_a_signed_url_for_the_region_that_says_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = fetch_token(MskIam("eu-west-1"))
    text = token.value.reveal()
    url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.hostname) == ("https", "kafka.eu-west-1.amazonaws.com")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].split("/")[0] == "AKIDEXAMPLE"
    assert query["X-Amz-Credential"].split("/")[2:] == ["eu-west-1", "kafka-cluster", "aws4_request"]
    assert query["X-Amz-Expires"] == "900"
    signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    assert token.expires_at == signed + 900
    assert abs(signed - time.time()) < 60
    assert query["X-Amz-Signature"] not in caplog.text
    assert "the-secret-key" not in caplog.text


@pytest.mark.usefixtures("credentials")
def test_a_role_is_assumed_with_its_session_and_external_id(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    sts = boto3.Session().client("sts", region_name="us-east-1")
    role = {"RoleArn": "arn:aws:iam::123456789012:role/mm", "RoleSessionName": "mm2", "ExternalId": "x-1"}
    lent = {
        "AccessKeyId": "ASIALENTLENTLENT",
        "SecretAccessKey": "s",
        "SessionToken": "t",
        "Expiration": datetime.now(UTC),
    }
    asked: list[tuple[object, ...]] = []

    def client(_session: object, service: str, *, region_name: str, **_: object) -> object:
        asked.append((service, region_name))
        return sts

    monkeypatch.setattr(boto3.Session, "client", client)
    with Stubber(sts) as stubber:
        stubber.add_response("assume_role", {"Credentials": lent}, role)
        login = MskIam("eu-west-1", None, role["RoleArn"], "mm2", "x-1", "us-east-1")
        token = sign_token(login)[0].reveal()
    assert asked == [("sts", "us-east-1")]
    decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert "ASIALENTLENTLENT" in decoded
    assert "X-Amz-Security-Token=t" in decoded


@pytest.mark.usefixtures("credentials")
def test_without_credentials_it_is_said_where_they_were_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    with pytest.raises(TokenRefused, match="no AWS credentials were found: set awsProfileName"):
        sign_token(MskIam("eu-west-1"))
    with pytest.raises(TokenRefused, match=r"with the profile mirror: The config profile .mirror. could not be found"):
        sign_token(MskIam("eu-west-1", "mirror"))


@pytest.mark.parametrize("brokers", ["<your-brokers>", "#_brokers_#", "${BROKERS}"])
def test_brokers_that_are_not_filled_in_are_what_is_told_and_not_the_region(read_text: ReadText, brokers: str) -> None:
    errors = [line for line in said(read_text(at(brokers, IAM.format("")))) if ": error: " in line]
    assert len(errors) == 1
    assert "must be host:port or [address]:port" in errors[0]


def test_offline_a_region_may_be_in_brokers_that_are_not_at_hand(read_text: ReadText) -> None:
    provider = (
        "config.providers = file\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    reading = read_text(at("${file:/nowhere:brokers}", IAM.format("")) + provider, offline=True)
    assert reading.settings is not None, said(reading)
