"""The alerts that the documentation shows are those that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from farshore.api.metrics import SERIES

ROOT = Path(__file__).parent.parent.parent
RULES = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()


def test_the_documented_alerts_are_those_of_the_file() -> None:
    assert f"```yaml\n{RULES}```" in (ROOT / "docs" / "operations.md").read_text()


def test_alerts_are_about_series_that_there_are() -> None:
    names = {each.name for each in SERIES}
    for rule in yaml.safe_load(RULES)["groups"][0]["rules"]:
        asked = set(re.findall(r"farshore_\w+", rule["expr"]))
        assert asked
        assert asked <= names, rule["alert"]
