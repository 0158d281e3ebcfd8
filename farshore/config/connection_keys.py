"""The connection keys of one client, parsed by the table of keys."""

from __future__ import annotations

import re

from farshore.config.entries import Entries, Findings, Origin
from farshore.config.keys import CONNECTION
from farshore.config.keys.table import Value
from farshore.config.secret import Secret

# Kafka's own expression (Utils.HOST_PORT_PATTERN): the name of a listener may stand before the host.
_SERVER = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?(\[?)([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")


def server_address(element: str) -> str | None:
    """An element of `bootstrap.servers` as `host:port` or `[v6]:port`; None if it is no such thing."""
    match = _SERVER.fullmatch(element)
    if match is None or not match[2] or not 0 < int(match[3]) < 65536:
        return None
    host = f"[{match[2]}]" if ":" in match[2] else match[2]
    return f"{host}:{int(match[3])}"


class ConnectionKeys:
    """Looks up connection keys by name, with the table's defaults, and complains in the right place.

    A text that the table's own check refuses is an error, worded as everywhere else; its default stands in.
    `prefix` stands before every name in the entries; `origin` is the place of what is missing.
    """

    def __init__(self, entries: Entries, findings: Findings, origin: Origin, prefix: str = "") -> None:
        self._entries = entries
        self._findings = findings
        self._origin = origin
        self._prefix = prefix

    @property
    def offline(self) -> bool:
        """Whether secrets, stores and libraries need not be at hand."""
        return self._findings.offline

    def spelled(self, name: str) -> str:
        """The key as the user writes it."""
        return self._prefix + name

    def given(self, name: str) -> bool:
        return self.spelled(name) in self._entries

    def readable(self, name: str) -> bool:
        """Whether what is given, if anything is, is a value of the key."""
        try:
            if (entry := self._entries.get(self.spelled(name))) is not None:
                CONNECTION[name].parse(entry.text)
        except ValueError:
            return False
        return True

    def text(self, name: str) -> str | None:
        value = self._value(name)
        return None if value is None else str(value)

    def elements(self, name: str) -> tuple[str, ...]:
        value = self._value(name)
        return value if isinstance(value, tuple) else ()

    def number(self, name: str) -> int | None:
        value = self._value(name)
        return value if isinstance(value, int) else None

    def flag(self, name: str) -> bool:
        return self._value(name) is True

    def secret(self, name: str) -> Secret | None:
        text = self.text(name)
        return None if text is None else Secret(text)

    def origin(self, name: str) -> Origin:
        """The place of a key, or of what is missing."""
        return self._entries[self.spelled(name)].origin if self.given(name) else self._origin

    def error(self, name: str, message: str) -> None:
        self._findings.error(self.origin(name), message)

    def absent(self, name: str, message: str) -> None:
        self._findings.absent(self.origin(name), message)

    def warning(self, name: str, message: str) -> None:
        self._findings.warning(self.origin(name), message)

    def note(self, name: str, message: str) -> None:
        self._findings.note(self.origin(name), message)

    def among(self, entries: Entries, prefix: str = "") -> ConnectionKeys:
        """The same keys looked up among other entries, such as the options of a login module."""
        return ConnectionKeys(entries, self._findings, self._origin, prefix)

    def _value(self, name: str) -> Value:
        key = CONNECTION[name]
        default = None if key.required else key.default
        entry = self._entries.get(self.spelled(name))
        if entry is not None:
            try:
                return key.parse(entry.text)
            except ValueError as error:
                self.error(name, f"{entry.key} {error}")
        return default  # type: ignore[return-value]  # what remains of the default is a Value
