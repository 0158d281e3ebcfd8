"""What `farshore check` says of slots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from configs import CLUSTERS

from farshore.cli.program import app
from farshore.ops.preflight import Report

TWO_FLOWS = CLUSTERS + "A->B.enabled = true\nB->A.enabled = true\ntasks.max = 30\n"


def check(*arguments: str) -> None:
    typer.main.get_command(app)(["check", *arguments], standalone_mode=False)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)


def headlines(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith(("A->B", "B->A"))]


def test_the_number_of_slots_is_told_with_its_rule_here_and_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mm2.properties"
    config.write_text(TWO_FLOWS)
    check(str(config))
    rule = "(twice the cores, shared by all flows; with --master elsewhere up to 30: tasks.max)"
    assert headlines(capsys.readouterr().out) == [
        f"{flow}  up to 4 slots {rule}, at least once" for flow in ("A->B", "B->A")
    ]
    config.write_text(TWO_FLOWS.replace("30", "1"))
    check(str(config))
    assert headlines(capsys.readouterr().out)[0] == "A->B  up to 1 slot (tasks.max), at least once"


STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  connectCluster: B
  clusters:
    - {alias: A, bootstrapServers: "a:9092"}
    - {alias: B, bootstrapServers: "b:9092"}
    - {alias: C, bootstrapServers: "c:9092"}
  mirrors:
    - {sourceCluster: A, targetCluster: B, sourceConnector: {tasksMax: 30, state: paused}}
    - {sourceCluster: C, targetCluster: B, sourceConnector: {tasksMax: 30}}
"""


def test_a_paused_flow_takes_no_slots_from_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "mirror.yaml"
    config.write_text(STRIMZI)
    check(str(config), "--json")
    flows = json.loads(capsys.readouterr().out)["flows"]
    assert [(flow["flow"], flow["slots_at_most"], flow["slots_rule"]) for flow in flows] == [
        ("A->B", 0, "paused"),
        ("C->B", 8, "twice the cores, shared by all flows"),
    ]


def test_slots_are_told_beside_what_the_clusters_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farshore.cli.check.preflight", lambda _: Report((), (), ()))
    monkeypatch.setattr("farshore.cli.check._print_report", lambda _: None)
    config = tmp_path / "mm2.properties"
    config.write_text(TWO_FLOWS)
    check(str(config), "--connect")
    assert "A->B  up to 4 slots (twice the cores" in capsys.readouterr().out
