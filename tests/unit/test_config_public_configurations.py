"""Acceptance: what is said of public configurations. What MirrorMaker 2 takes is taken, except a loop."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from farshore.config import read
from farshore.config.entries import Severity

TABLE: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "public_configurations.yaml").read_text())
ABSENT = re.compile(
    r"cannot be read: No such file|keytab .* is not there|is needed here: put|is not installed here"
    r"|needs AWS's signer|no worker properties were given"
)
"""What a laptop has not, whatever the configuration is like."""


@pytest.mark.parametrize("public", [pytest.param(entry, id=entry["origin"]) for entry in TABLE])
def test_a_public_configuration_is_taken_or_refused_for_a_reason(
    public: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in public["files"].items():
        Path(name).write_text(text)
    reading = read([Path(name) for name in public["files"]], offline=True)
    told = {severity: [f.message for f in reading.findings if f.severity is severity] for severity in Severity}
    errors = told[Severity.ERROR]
    warnings = [message for message in told[Severity.WARNING] if not ABSENT.search(message)]
    assert _all_begin(errors, public.get("refused", [])), errors
    assert _all_begin(warnings, public.get("warned", [])), warnings
    assert (reading.settings is None) is ("refused" in public)


def test_every_kind_of_file_is_there_and_every_refusal_has_a_reason() -> None:
    assert len(TABLE) >= 50
    assert len({entry["origin"] for entry in TABLE}) == len(TABLE)
    assert all(("refused" in entry) is ("because" in entry) for entry in TABLE)
    everything = "\n".join(text for entry in TABLE for text in entry["files"].values())
    for kind in (
        "clusters = ", '"connector.class"', "kafka.strimzi.io/v1alpha1\n", "kafka.strimzi.io/v1beta2\n",
        "kafka.strimzi.io/v1\n", "eventstreams.ibm.com/v1beta2\n", "eventstreams.ibm.com/v1\n", "AWS_MSK_IAM",
        "servicebus.windows.net", "confluent.cloud", "aiven.", "instaclustr.",
    ):  # fmt: skip
        assert kind in everything, kind


def _all_begin(messages: list[str], expected: list[str]) -> bool:
    return len(messages) == len(expected) and all(
        message.startswith(start) for message, start in zip(messages, expected, strict=True)
    )
