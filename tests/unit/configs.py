"""Small configurations for tests, and what is found in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farshore.config import FlowSettings, Reading, read
from farshore.model import Flow

CLUSTERS = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
"""
ONE_FLOW = f"{CLUSTERS}A->B.enabled = true\nemit.heartbeats.enabled = false\n"

ReadText = Callable[..., Reading]


@pytest.fixture
def read_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReadText:
    """Reads a text as the file mm2.properties, or as another name."""
    monkeypatch.chdir(tmp_path)

    def read_it(text: str | bytes, name: str = "mm2.properties", **options: object) -> Reading:
        data = text if isinstance(text, bytes) else text.encode()
        Path(name).write_bytes(data)
        return read([Path(name)], **options)  # type: ignore[arg-type]

    return read_it


def said(reading: Reading) -> list[str]:
    """Every finding as the user sees it."""
    return [str(finding) for finding in reading.findings]


def flow_of(reading: Reading, name: str = "A->B") -> FlowSettings:
    """The flow of that name in a configuration that has no errors."""
    assert reading.settings is not None, said(reading)
    return next(flow for flow in reading.settings.flows if flow.flow == Flow(*name.split("->")))
