"""Config providers: texts such as `${file:/run/secrets/kafka:password}` replaced by what they point to.

The providers are Kafka's own: environment, file and directory, under whatever name the file declares for each. What
a provider gave is a secret from then on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from farshore.config.entries import Entries, Entry, Findings, by_key
from farshore.config.keys.table import parse_list
from farshore.config.properties import read_properties

_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""As in Kafka's ConfigTransformer: `${provider:key}` or `${provider:path:key}`."""

_SHELL_VARIABLE = re.compile(r"\$\{[^}:]*\}")
_TEMPLATE = re.compile(r"\{\{.*?\}\}")
FILLED_IN_BY_OTHERS = "as templates of Helm and Ansible have: give the file that is made from the template"

_PACKAGE = "org.apache.kafka.common.config.provider."

Lookup = Callable[[str, str], str]
"""Path and key to text. Raises LookupError with the end of a sentence that begins with the reference."""


class _Absent(LookupError):
    """What is referred to is not there, though the reference makes sense."""


class Providers:
    """The providers that a worker's or a dedicated file's entries declare."""

    def __init__(self, declaring: Entries, findings: Findings) -> None:
        self._findings = findings
        self._lookups: dict[str, Lookup | None] = {}
        if "config.providers" not in declaring:
            return
        entry = declaring["config.providers"]
        for name in parse_list(entry.text):
            self._lookups[name] = self._lookup(name, entry, declaring)

    def resolve(self, entries: Entries) -> dict[str, Entry]:
        """All entries, with references replaced. What cannot be resolved is told, and marked."""
        return {key: self._resolved(entry) for key, entry in entries.items()}

    def _lookup(self, name: str, declared: Entry, declaring: Entries) -> Lookup | None:
        settings = f"config.providers.{name}"
        class_entry = declaring.get(f"{settings}.class")
        if class_entry is None:
            self._findings.error(declared.origin, f"config provider {name} is listed, but {settings}.class is missing")
            return None
        allowed_paths = declaring.get(f"{settings}.param.allowed.paths")
        allowed_names = declaring.get(f"{settings}.param.allowlist.pattern")
        match class_entry.text.strip().removeprefix(_PACKAGE):
            case "EnvVarConfigProvider":
                return _environment(allowed_names.text.strip() if allowed_names else None)
            case "FileConfigProvider":
                return _guarded(_key_of_file, allowed_paths)
            case "DirectoryConfigProvider":
                return _guarded(_file_of_directory, allowed_paths)
        self._findings.error(
            class_entry.origin,
            f"config provider {name} is {class_entry.text.strip()}, a Java class that cannot be run here: use Kafka's "
            "EnvVarConfigProvider, FileConfigProvider or DirectoryConfigProvider",
        )
        return None

    def _resolved(self, entry: Entry) -> Entry:
        # What is secret already has been resolved; what looks like a reference in it is part of a password.
        if entry.secret or entry.unresolved:
            return entry
        self._warn_of_placeholder(entry)
        if "${" not in entry.text:
            return entry
        try:
            text = _REFERENCE.sub(self._replacement, entry.text)
        except LookupError as error:
            if error.args[0]:
                tell = self._findings.absent if isinstance(error, _Absent) else self._findings.error
                tell(entry.origin, f"{entry.key}: {error.args[0]}")
            return replace(entry, unresolved=True)
        return entry if text == entry.text else replace(entry, text=text, secret=True)

    def _warn_of_placeholder(self, entry: Entry) -> None:
        """Kafka takes these as they stand. The text is not shown: it may be part of a password."""
        if _SHELL_VARIABLE.search(entry.text):
            self._findings.warning(
                entry.origin,
                f"{entry.key} has ${{…}} without the name of a provider, which nothing fills in: write what it stands "
                "for, or ${env:NAME} with a config provider",
            )
        elif _TEMPLATE.search(entry.text):
            self._findings.warning(entry.origin, f"{entry.key} has {{{{…}}}}, {FILLED_IN_BY_OTHERS}")

    def _replacement(self, match: re.Match[str]) -> str:
        name, path, key = match[1], match[3] or "", match[4]
        if name not in self._lookups:
            raise LookupError(
                f"{match[0]} needs a config provider {name}: declare it with config.providers={name} and "
                f"config.providers.{name}.class={_PACKAGE}…"
            )
        lookup = self._lookups[name]
        if lookup is None:
            raise LookupError("")  # its declaration was reported already
        try:
            return lookup(path, key)
        except LookupError as error:
            raise type(error)(f"{match[0]} {error.args[0]}") from None


def _environment(allowed: str | None) -> Lookup:
    def lookup(path: str, key: str) -> str:
        if path:
            raise LookupError("has a path, which the environment has not: write ${provider:NAME}")
        if allowed is not None and not re.fullmatch(allowed, key):
            raise LookupError(f"is not allowed by allowlist.pattern {allowed}")
        if key not in os.environ:
            raise _Absent(f"cannot be resolved: the environment has no variable {key}")
        return os.environ[key]

    return lookup


def _guarded(lookup: Lookup, allowed: Entry | None) -> Lookup:
    """With `allowed.paths` set, files elsewhere are not read, wherever `..` leads."""
    if allowed is None or not allowed.text.strip():
        return lookup
    roots = [Path(root).resolve() for root in parse_list(allowed.text)]

    def guarded(path: str, key: str) -> str:
        if not any(Path(path).resolve().is_relative_to(root) for root in roots):
            raise LookupError(f"is not below allowed.paths {allowed.text.strip()}")
        return lookup(path, key)

    return guarded


def _key_of_file(path: str, key: str) -> str:
    data = _content(Path(path))
    entries = by_key(read_properties(data, path, Findings()))
    if key not in entries:
        raise _Absent(f"cannot be resolved: {path} has no key {key}")
    return entries[key].text


def _file_of_directory(path: str, key: str) -> str:
    if Path(key).name != key:
        raise LookupError("names no file of that directory")
    try:
        return _content(Path(path) / key).decode()
    except UnicodeDecodeError:
        raise LookupError("cannot be resolved: the file is not UTF-8 text") from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _Absent(f"cannot be resolved: {path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise LookupError(f"cannot be resolved: {path} cannot be read: {error.strerror}") from None
