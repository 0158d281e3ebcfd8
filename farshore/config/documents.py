"""Files to bytes, and what kind of configuration each is."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from farshore.config.entries import Findings, Origin

MAX_BYTES = 4 * 1024 * 1024
"""No configuration is larger. Many Kubernetes secrets in one file are still far below."""


class Format(Enum):
    PROPERTIES = auto()
    JSON = auto()
    YAML = auto()


@dataclass(frozen=True, slots=True)
class Document:
    """One file that was read; `file` is its name as the user gave it."""

    file: str
    data: bytes
    format: Format


def read_document(path: Path, findings: Findings) -> Document | None:
    """The file, or an error finding that says why it cannot be a configuration."""
    origin = Origin(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            findings.error(origin, "is a directory: name the configuration files in it")
            return None
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        findings.error(origin, f"cannot be read: {error.strerror}")
        return None
    if complaint := _complaint(data):
        findings.error(origin, complaint)
        return None
    return Document(str(path), data, _format(path, data))


def _complaint(data: bytes) -> str | None:
    if not data.strip():
        return "is empty"
    if len(data) > MAX_BYTES:
        return f"is larger than {MAX_BYTES // 1024 // 1024} MB, so it is no configuration"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16: save it as UTF-8 (JSON, YAML) or ISO-8859-1 (properties)"
    if b"\0" in data:
        return "is binary: a .properties, .json or .yaml file is expected"
    return None


def _format(path: Path, data: bytes) -> Format:
    """By what stands in the file; where that leaves it open, by its name."""
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return Format.JSON
    if re.search(rb"^(---(\s|$)|apiVersion:|kind:)", text, re.MULTILINE):
        return Format.YAML
    return {".json": Format.JSON, ".yaml": Format.YAML, ".yml": Format.YAML}.get(path.suffix.lower(), Format.PROPERTIES)
