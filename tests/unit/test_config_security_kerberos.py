"""GSSAPI: whose ticket Java's login module would show, and that it is refused where Kerberos is not installed."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text, said

from farshore.config import sasl
from farshore.config.security import Kerberos

__all__ = ["read_text"]

GSSAPI = """A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = GSSAPI
A.sasl.kerberos.service.name = kafka
A.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required {};
"""


@pytest.fixture
def kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl, "kerberos_is_installed", lambda: True)


@pytest.mark.usefixtures("kerberos")
@pytest.mark.parametrize(
    ("options", "login"),
    [
        (
            'useKeyTab=true storeKey=true keyTab="mm2.properties" principal="mm@X"',
            Kerberos("kafka", "mm@X", "mm2.properties"),
        ),
        ('useTicketCache=true serviceName="kafka"', Kerberos("kafka")),
        ("useTicketCache=true renewTGT=true", Kerberos("kafka")),
        ('useTicketCache=true ticketCache="/tmp/t" principal="mm@X"', Kerberos("kafka", "mm@X", None, "/tmp/t")),
    ],
)
def test_the_login_module_says_whose_ticket_is_shown(read_text: ReadText, options: str, login: Kerberos) -> None:
    connection = flow_of(read_text(f"{ONE_FLOW}{GSSAPI.format(options)}")).side("A").admin.connection
    assert connection.security.sasl == login
    assert pickle.loads(pickle.dumps(connection)) == connection


@pytest.mark.usefixtures("kerberos")
def test_gssapi_is_what_is_meant_where_no_mechanism_is_named(read_text: ReadText) -> None:
    text = GSSAPI.format("useTicketCache=true").replace("A.sasl.mechanism = GSSAPI\n", "")
    assert flow_of(read_text(f"{ONE_FLOW}{text}")).side("A").admin.connection.security.sasl == Kerberos("kafka")


@pytest.mark.usefixtures("kerberos")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ('useKeyTab=true principal="mm@X"', "has useKeyTab=true, which needs the options keyTab and principal"),
        ('principal="mm@X"', "needs useKeyTab=true with keyTab and principal, or useTicketCache=true"),
        ('useTicketCache=true serviceName="other"', "serviceName is other, but sasl.kerberos.service.name is kafka"),
        ('useKeyTab=true principal="mm@X" keyTab="/nowhere"', "the keytab /nowhere is not there"),
    ],
)
def test_what_cannot_log_in_is_an_error(read_text: ReadText, options: str, complaint: str) -> None:
    [error] = said(read_text(f"{ONE_FLOW}{GSSAPI.format(options)}"))
    assert complaint in error


@pytest.mark.usefixtures("kerberos")
def test_without_a_service_name_kafka_cannot_be_asked_for(read_text: ReadText) -> None:
    text = GSSAPI.format("useTicketCache=true").replace("A.sasl.kerberos.service.name = kafka\n", "")
    [error] = said(read_text(f"{ONE_FLOW}{text}"))
    assert "sasl.kerberos.service.name is missing: the Kerberos name of the brokers, mostly kafka" in error


@pytest.mark.parametrize(("line", "place", "means"), [(True, 8, "GSSAPI"), (False, 7, "missing, which means GSSAPI")])
def test_without_kerberos_it_is_refused(
    read_text: ReadText, monkeypatch: pytest.MonkeyPatch, line: bool, place: int, means: str
) -> None:
    monkeypatch.setattr(sasl, "kerberos_is_installed", lambda: False)
    text = GSSAPI if line else GSSAPI.replace("A.sasl.mechanism = GSSAPI\n", "")
    assert said(read_text(f"{ONE_FLOW}{text.format('useTicketCache=true')}")) == [
        f"mm2.properties:{place}: error: sasl.mechanism is {means}, and Kerberos is not installed here: pip install "
        "'farshore[gssapi]', or name one that the brokers offer out of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, "
        "AWS_MSK_IAM"
    ]


def test_offline_kerberos_need_not_be_installed(read_text: ReadText, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl, "kerberos_is_installed", lambda: False)
    text = f"{ONE_FLOW}{GSSAPI.format('useTicketCache=true')}"
    reading = read_text(text, offline=True)
    assert said(reading) == [line.replace(": error: ", ": warning: ") for line in said(read_text(text))]
    assert flow_of(reading).side("A").admin.connection.security.sasl == Kerberos("kafka")
    wrong = GSSAPI.format("useKeyTab=true")
    assert read_text(f"{ONE_FLOW}{wrong}", offline=True).settings is None


@pytest.mark.usefixtures("kerberos")
def test_a_keytab_may_be_absent_on_a_laptop(read_text: ReadText, tmp_path: Path) -> None:
    options = f'useKeyTab=true principal="mm@X" keyTab="{tmp_path}/none"'
    [warning] = said(read_text(f"{ONE_FLOW}{GSSAPI.format(options)}", offline=True))
    assert ": warning: " in warning
