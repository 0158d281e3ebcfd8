"""The table of keys as Markdown, for docs/configuration.md."""

from __future__ import annotations

from collections.abc import Iterator

from farshore.config.keys import TABLE
from farshore.config.keys.table import Key, Scope, Status, Type

_WHERE = {
    Scope.PROCESS: "At the top level of a MirrorMaker 2 file.",
    Scope.CONNECTOR: "`KEY` for all flows or `A->B.KEY` for one; in Connect and Strimzi in each connector's config.",
    Scope.SOURCE: "`KEY` for all flows or `A->B.KEY` for one; in Connect and Strimzi in the source connector's config.",
    Scope.CHECKPOINT: "The same, in the checkpoint connector's config.",
    Scope.HEARTBEAT: "The same, in the heartbeat connector's config.",
    Scope.WORKER: "`B.KEY` with the target's alias; in Connect in the worker's properties; in Strimzi in its config.",
    Scope.CONNECTION: "`A.KEY` for a cluster, `KEY` for all; in Connect `source.cluster.KEY` and `target.cluster.KEY`.",
    Scope.CONSUMER: "`A.consumer.KEY`; in Connect `source.consumer.KEY`.",
    Scope.PRODUCER: "`B.producer.KEY`; in Connect `producer.override.KEY`, or the worker's `producer.KEY`.",
    Scope.ADMIN: "`A.admin.KEY`; in Connect `source.admin.KEY` and `target.admin.KEY`.",
}


def markdown() -> str:
    """A chapter for each scope, a table for what is honoured, lists for what has no effect or is refused."""
    return "\n".join(line for scope in Scope for line in _chapter(scope))


def _chapter(scope: Scope) -> Iterator[str]:
    keys = [key for key in TABLE if key.scope is scope]
    yield from (f"### Keys of {scope}", "", _WHERE[scope], "")
    yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    for key in keys:
        if key.status is Status.HONOURED:
            yield f"| `{key.name}` | {key.type} | {_default(key)} | {_cell(_meaning(key))} |"
    for status, title in ((Status.NO_EFFECT, "Accepted, without effect"), (Status.REFUSED, "Refused")):
        rows = [key for key in keys if key.status is status]
        if rows:
            yield from ("", f"{title}:", "")
            yield from (f"- `{key.name}`: {_cell(key.remark)}{_accepted(key)}." for key in rows)
    yield ""


def _meaning(key: Key) -> str:
    parts = [key.meaning]
    if key.remark:
        parts.append(f"{key.remark[0].upper()}{key.remark[1:]}.")
    if key.since not in ("", "2.4"):
        parts.append(f"Since Kafka {key.since}.")
    if key.removed:
        parts.append(f"Removed in Kafka {key.removed}, still read here.")
    return " ".join(parts)


def _accepted(key: Key) -> str:
    values = [f"`{value}`" for value in (key.default, *key.accepts) if value]
    return f" (accepted: {', '.join(values)})" if values and key.type is Type.CLASS else ""


def _default(key: Key) -> str:
    if key.required:
        return "required"
    match key.default:
        case None:
            return ""
        case bool():
            return str(key.default).lower()
        case tuple():
            return ", ".join(f"`{_cell(element)}`" for element in key.default) or "empty"
        case "":
            return "empty"
    return f"`{key.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").removesuffix(".") + "." if text.endswith(".") else text.replace("|", "\\|")
