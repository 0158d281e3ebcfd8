"""GSSAPI against a real KDC and a real broker. Needs Debian's krb5-kdc, krb5-admin-server and libkrb5-dev, and
`.venv/bin/pip install gssapi`; where they are not there it says so."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from farshore.config.entries import Entry, Findings, Origin
from farshore.config.security import read_connection
from farshore.config.settings import AdminTuning, Client
from farshore.errors import AuthenticationFailed, KafkaError
from farshore.kafka.cluster import Cluster
from farshore.local import Cluster as LocalCluster
from farshore.local import Security, started
from farshore.local.java import Java
from farshore.local.javatools import FAST_START
from farshore.local.ports import free_port

REALM = "FARSHORE.TEST"
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
WITHIN_SECONDS = 30.0
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_missing = [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]
pytestmark = [
    pytest.mark.skipif(
        bool(_missing),
        reason=f"no KDC here, {', '.join(_missing)} is missing: apt-get install krb5-kdc krb5-admin-server krb5-user",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("gssapi") is None,
        reason="Kerberos is not installed here: apt-get install libkrb5-dev, then pip install 'farshore[gssapi]'",
    ),
]


@dataclass(frozen=True)
class Realm:
    """A realm with the broker and two users, each with a keytab."""

    directory: Path
    environment: dict[str, str]

    def keytab(self, name: str) -> Path:
        return self.directory / f"{name}.keytab"

    def run(self, *command: str, within: float = WITHIN_SECONDS) -> None:
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=within
        )
        assert done.returncode == 0, done.stderr + done.stdout


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    directory = tmp_path_factory.mktemp("realm")
    port = free_port()
    # Names are taken as they are: without these two lines 127.0.0.1 would become whatever this machine is called.
    (directory / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
        f" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (directory / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
        f"  acl_file = {directory}/kadm5.acl\n  max_life = 1h\n }}\n"
    )
    made = Realm(
        directory,
        {
            "KRB5_CONFIG": str(directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
            "PATH": PATH,
        },
    )
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master", within=120)
    for principal, keytab in (("kafka/127.0.0.1", "broker"), ("mirror", "mirror"), ("other", "other")):
        made.run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        made.run("kadmin.local", "-q", f"ktadd -k {made.keytab(keytab)} {principal}@{REALM}")
    log = (directory / "kdc.log").open("w")
    kdc = subprocess.Popen(
        ["krb5kdc", "-n", "-r", REALM], env={**os.environ, **made.environment}, stdout=log, stderr=log
    )
    before = {name: os.environ.get(name) for name in ("KRB5_CONFIG", "KRB5CCNAME")}
    os.environ.update({name: made.environment[name] for name in before})
    try:
        _wait_for_tickets(made)
        yield made
    finally:
        for name, text in before.items():
            os.environ.pop(name) if text is None else os.environ.__setitem__(name, text)
        kdc.terminate()
        kdc.wait(WITHIN_SECONDS)
        log.close()


def _wait_for_tickets(realm: Realm) -> None:
    """Until the KDC answers; `mirror` then has a ticket in the cache."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        try:
            return realm.run("kinit", "-k", "-t", str(realm.keytab("mirror")), f"mirror@{REALM}")
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.fixture(scope="module")
def brokers(realm: Realm, java: Java) -> Iterator[LocalCluster]:  # noqa: ARG001
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{realm.keytab("broker")}" principal="kafka/127.0.0.1@{REALM}";'
    )
    cluster = LocalCluster(
        "kerberos",
        security=Security.SASL_PLAINTEXT,
        settings={
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.clients.gssapi.sasl.jaas.config": login,
        },
        jvm_options=(*FAST_START, f"-Djava.security.krb5.conf={realm.directory}/krb5.conf"),
    )
    with started(cluster):
        yield cluster


def asked(brokers: LocalCluster, options: str) -> int:
    """How many brokers a cluster has that is logged in to with these options of the login module."""
    properties = {
        "bootstrap.servers": brokers.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {options};",
    }
    findings = Findings()
    entries = {key: Entry(key, text, Origin("test")) for key, text in properties.items()}
    connection = read_connection(entries, cluster="A", origin=Origin("test"), findings=findings)
    assert connection is not None, findings.errors
    with Cluster("A", Client(connection, AdminTuning(timedelta(seconds=20), ""), ())) as cluster:
        return len(cluster.describe().brokers)


def test_a_keytab_lets_in(realm: Realm, brokers: LocalCluster) -> None:
    for user in ("mirror", "other"):
        options = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(user)}" principal="{user}@{REALM}"'
        assert asked(brokers, options) == 1


def test_a_ticket_in_the_cache_lets_in(realm: Realm, brokers: LocalCluster) -> None:
    assert asked(brokers, "useTicketCache=true") == 1
    assert asked(brokers, f'useTicketCache=true ticketCache="{realm.directory}/tickets"') == 1


def test_without_a_key_of_the_user_it_is_said_what_kerberos_says(realm: Realm, brokers: LocalCluster) -> None:
    options = f'useKeyTab=true keyTab="{realm.keytab("other")}" principal="stranger@{REALM}"'
    with pytest.raises(KafkaError) as refused:
        asked(brokers, options)
    assert isinstance(refused.value, AuthenticationFailed)
    assert "Kerberos has no ticket for kafka@127.0.0.1" in str(refused.value)
