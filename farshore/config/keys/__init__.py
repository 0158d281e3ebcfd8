"""The one table of keys, and how to look things up in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from farshore.config.entries import Connector
from farshore.config.keys import clients, connection, connectors, worker
from farshore.config.keys.table import Key, Scope

TABLE: tuple[Key, ...] = connectors.KEYS + worker.KEYS + connection.KEYS + clients.KEYS

_BY_SCOPE: dict[Scope, dict[str, Key]] = {scope: {} for scope in Scope}
for _key in TABLE:
    _BY_SCOPE[_key.scope][_key.name] = _key


def keys_of(*scopes: Scope) -> dict[str, Key]:
    """The rows of these scopes by name; where a name stands in several, the first scope's."""
    found: dict[str, Key] = {}
    for scope in reversed(scopes):
        found |= _BY_SCOPE[scope]
    return found


CONNECTION = keys_of(Scope.CONNECTION)
WORKER = keys_of(Scope.WORKER)
PROCESS = keys_of(Scope.PROCESS)
ANY_CONNECTOR = keys_of(Scope.CONNECTOR, Scope.SOURCE, Scope.CHECKPOINT, Scope.HEARTBEAT)
INHERITED = {name: key for name, key in ANY_CONNECTOR.items() if name not in connectors.NOT_INHERITED}

CONNECTOR_KEYS: dict[Connector, dict[str, Key]] = {
    Connector.SOURCE: keys_of(Scope.CONNECTOR, Scope.SOURCE),
    Connector.CHECKPOINT: keys_of(Scope.CONNECTOR, Scope.CHECKPOINT)
    | {name: _BY_SCOPE[Scope.SOURCE][name] for name in connectors.SHARED_WITH_CHECKPOINT},
    Connector.HEARTBEAT: keys_of(Scope.CONNECTOR, Scope.HEARTBEAT),
}
"""What each connector reads."""

CLIENT_KEYS: dict[str, dict[str, Key]] = {
    "consumer.": keys_of(Scope.CONSUMER),
    "producer.": keys_of(Scope.PRODUCER),
    "admin.": keys_of(Scope.ADMIN),
}
"""What each kind of client reads besides connection keys, by its prefix."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known key most like `name`, if any is like it at all: what the user may have meant."""
    names = list(known)
    words = sorted(name.split("."))
    if turned := [other for other in names if sorted(other.split(".")) == words]:
        return turned[0]
    if almost := difflib.get_close_matches(name, names, n=1, cutoff=0.9):
        return almost[0]
    longer = [other for other in names if other.startswith(f"{name}.")]
    if longer:
        return min(longer, key=lambda other: (not other.endswith(".enabled"), len(other)))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return close[0] if close else None
