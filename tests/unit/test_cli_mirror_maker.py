"""MirrorMaker 2's own command, as units and scripts call it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from configs import ONE_FLOW

from farshore.cli import connect_mirror_maker
from farshore.cli.mirror_maker import meaning_of

AGENT = "-javaagent:/opt/jmx/jmx_prometheus_javaagent-0.15.0.jar={}:/opt/jmx/kafka-connect.yaml"


def test_a_systemd_unit_works_with_another_path_and_is_told_what_its_options_mean() -> None:
    environment = {
        "KAFKA_LOG4J_OPTS": "-Dlog4j.configuration=file:/opt/kafka/etc/connect-log4j.properties",
        "KAFKA_HEAP_OPTS": "-Xms1G -Xmx8G",
        "KAFKA_OPTS": AGENT.format(8095),
    }
    meaning = meaning_of(["/etc/mm2.properties"], environment)
    assert meaning.arguments == ["run", "/etc/mm2.properties"]
    assert meaning.refusal is None
    assert [note.partition(":")[0] for note in meaning.notes] == [
        "KAFKA_HEAP_OPTS has no effect",
        "KAFKA_LOG4J_OPTS has no effect",
        "-javaagent is not loaded, since there is no JVM",
    ]
    assert meaning.notes[-1].endswith("for metrics add --metrics :8095, whose names are Farshore's own")


def test_an_agent_may_stand_among_heap_options_and_name_a_host() -> None:
    heap = f"-Xmx256m -Xms128M {AGENT.format('0.0.0.0:9404')}"
    assert "--metrics :9404" in meaning_of(["f"], {"KAFKA_HEAP_OPTS": heap}).notes[-1]
    assert "runs no Java code" in meaning_of(["f"], {"KAFKA_OPTS": "-javaagent:/opt/trace.jar"}).notes[-1]


def test_files_that_a_jvm_would_read_are_read() -> None:
    options = "-Djava.security.auth.login.config=/etc/jaas.conf -Djava.security.krb5.conf=/etc/krb.conf -Dfoo=bar"
    meaning = meaning_of(["f", "--clusters", "B"], {"KAFKA_OPTS": options})
    assert meaning.arguments == ["run", "f", "--clusters", "B", "--jaas", "/etc/jaas.conf"]
    assert meaning.variables == {"KRB5_CONFIG": "/etc/krb.conf"}
    assert meaning.notes == ["-Dfoo in KAFKA_OPTS has no effect: there is no JVM that it could be an option of"]


def test_an_option_is_told_with_the_variable_it_stands_in() -> None:
    notes = meaning_of(["f"], {"KAFKA_HEAP_OPTS": "-Dfoo=1", "KAFKA_OPTS": "-Dbar=2"}).notes
    assert notes[-2:] == [
        "-Dbar in KAFKA_OPTS has no effect: there is no JVM that it could be an option of",
        "-Dfoo in KAFKA_HEAP_OPTS has no effect: there is no JVM that it could be an option of",
    ]


def test_a_trust_store_of_the_jvm_is_told_with_the_key_to_set_and_without_its_password() -> None:
    options = "-Djavax.net.ssl.trustStore=/etc/t.jks -Djavax.net.ssl.trustStorePassword=hidden"
    notes = meaning_of(["f"], {"KAFKA_OPTS": options}).notes
    assert [note.partition(", for each")[0] for note in notes] == [
        "-Djavax.net.ssl.trustStore in KAFKA_OPTS has no effect: set ALIAS.ssl.truststore.location in FILE",
        "-Djavax.net.ssl.trustStorePassword in KAFKA_OPTS has no effect: set ALIAS.ssl.truststore.password in FILE",
    ]
    assert "hidden" not in "".join(notes)


@pytest.mark.parametrize("name", ["connect-mirror-maker.sh", "connect-mirror-maker"])
def test_help_is_no_mistake_and_the_command_speaks_under_the_name_it_was_called_by(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for arguments, code in ((["--help"], 0), (["f", "-h"], 0), ([], 2), (["-daemon", "f"], 2)):
        monkeypatch.setattr(sys, "argv", [f"/opt/bin/{name}", *arguments])
        with pytest.raises(SystemExit) as ended:
            connect_mirror_maker()
        assert ended.value.code == code
        out, err = capsys.readouterr()
        if code:
            assert err.startswith(f"{name}: ")
        else:
            assert out.startswith(f"usage: {name} FILE ")


def test_what_it_does_not_do_is_said() -> None:
    assert "-daemon is not taken" in (meaning_of(["-daemon", "f"], {}).refusal or "")
    assert "usage: connect-mirror-maker.sh FILE" in (meaning_of([], {}).refusal or "")


def test_the_command_is_installed_and_says_each_thing_once(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(ONE_FLOW.replace("A->B.enabled = true", "A->B.topics = [a-"))
    command = Path(sys.executable).parent / "connect-mirror-maker.sh"
    done = subprocess.run(
        [command, "./mm2.properties"],
        cwd=tmp_path,
        env={**os.environ, "KAFKA_HEAP_OPTS": "-Xmx1G"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.count("KAFKA_HEAP_OPTS has no effect") == 1
    assert "no flow is enabled" in done.stderr
