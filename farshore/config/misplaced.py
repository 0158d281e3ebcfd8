"""Keys of a dedicated file that reach nothing: unknown ones, and known ones in the wrong place.

MirrorMaker 2 drops both without a word. Each gets a finding that says where the key would have to stand, or which key
is nearest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from farshore.config.entries import Entries, Entry, Findings
from farshore.config.keys import ANY_CONNECTOR, CLIENT_KEYS, CONNECTION, INHERITED, PROCESS, WORKER, nearest
from farshore.config.keys.worker import PREFIXES as WORKER_FAMILIES

REACHES_WORKER = ("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter",
                  "header.converter", "task", "worker")  # fmt: skip
"""Families of worker keys that MirrorMaker 2 takes from the top level."""

CONNECTOR_FAMILIES = ("config.providers.", "replication.policy.", "transforms.", "predicates.", "topic.creation.",
                      "key.converter.", "value.converter.", "header.converter.", "metrics.context.")  # fmt: skip
"""Prefixes under which connectors have keys of no fixed name."""

_CLUSTER_WORDS = ("source.cluster.", "target.cluster.")
_CLIENT_WORDS = tuple(
    f"{where}{client}" for where in ("source.", "target.", "") for client in ("consumer.", "producer.", "admin.")
)
_NEVER_READ = frozenset({
    "heartbeats.topic.retention.ms", "checkpoints.topic.retention.ms", "offset.syncs.topic.retention.ms",
    "offset-syncs.topic.retention.ms", "readahead.queue.capacity",
})  # fmt: skip
"""Keys in KIP-382, which proposed MirrorMaker 2, and copied from there ever since."""

_OVERRIDE_WORDS = ("producer.override.", "consumer.override.", "admin.override.")


def report_misplaced_keys(raw: Entries, aliases: Sequence[str], findings: Findings) -> None:
    """One finding for each entry that nothing will read."""
    by_length = sorted(aliases, key=len, reverse=True)
    pairs = [(s, t) for s in by_length for t in by_length]
    for key, entry in raw.items():
        if key in INHERITED:
            continue  # even if an alias is `source`, and the key source.cluster.alias
        if pair := next(((s, t) for s, t in pairs if key.startswith(f"{s}->{t}.")), None):
            _judge_flow_key(entry, key[len("->".join(pair)) + 1 :], pair, findings)
        elif "->" in key:
            _report_undeclared_pair(entry, aliases, findings)
        elif alias := next((a for a in by_length if key.startswith(f"{a}.")), None):
            _judge_cluster_key(entry, key[len(alias) + 1 :], alias, findings)
        else:
            _judge_top_level_key(entry, aliases, findings)


def report_unknown_connector_keys(entries: Entries, findings: Findings) -> None:
    """The same for the configuration of one connector in Connect."""
    for name, entry in entries.items():
        _judge_connector_key(entry, name, findings)


def report_unknown_worker_keys(entries: Entries, findings: Findings) -> None:
    """The same for the configuration of a Connect worker."""
    for name, entry in entries.items():
        if name in CONNECTION or name in WORKER or name.startswith(tuple(WORKER_FAMILIES)):
            continue
        if (word := _word(name, tuple(CLIENT_KEYS))) is not None:
            _judge_client_key(entry, name[len(word) :], word, findings)
        else:
            _report_unknown(entry, name, (*CONNECTION, *WORKER), findings)


def _judge_flow_key(entry: Entry, name: str, pair: tuple[str, str], findings: Findings) -> None:
    source, target = pair
    if source == target:
        findings.warning(entry.origin, f"{entry.key} has no effect: a cluster is not replicated into itself")
    elif name in WORKER and name not in ANY_CONNECTOR and name not in CONNECTION:
        findings.warning(
            entry.origin, f"MirrorMaker 2 ignores {entry.key}: it is the worker's, so write {target}.{name}"
        )
    elif meant := _for_client(name, f"{source}.consumer.", f"{target}.producer."):
        _report_unknown(entry, name, ANY_CONNECTOR, findings, meant=meant)
    else:
        _judge_connector_key(entry, name, findings)


def _judge_connector_key(entry: Entry, name: str, findings: Findings) -> None:
    if name in ANY_CONNECTOR or name in CONNECTION or name.startswith(CONNECTOR_FAMILIES):
        return
    if (rest := _after(name, _CLUSTER_WORDS)) is not None:
        side, producer = name.partition(".")[0], "producer.override."
        _report_unknown(
            entry, rest, ("alias", *CONNECTION), findings, meant=_for_client(rest, f"{side}.consumer.", producer)
        )
    elif (word := _word(name, (*_OVERRIDE_WORDS, *_CLIENT_WORDS))) is not None:
        _judge_client_key(entry, name[len(word) :], _client_of(word), findings)
    elif (rest := _after(name, ("source.", "target."))) in CONNECTION:
        _report_unknown(entry, name, ANY_CONNECTOR, findings, meant=f"{name[: -len(rest)]}cluster.{rest}")
    elif name in PROCESS or name in WORKER:
        whose = "the worker" if name in WORKER else "MirrorMaker 2's dedicated mode"
        findings.warning(entry.origin, f"{entry.key} has no effect on a connector: it is a key of {whose}")
    elif "->" in name:
        key = next((key for key in _suffixes(name) if key in ANY_CONNECTOR), None)
        _report_unknown(entry, name, ANY_CONNECTOR, findings, meant=key)
    else:
        _report_unknown(
            entry, name, ANY_CONNECTOR, findings, meant=_for_client(name, "source.consumer.", "producer.override.")
        )


def _judge_cluster_key(entry: Entry, name: str, alias: str, findings: Findings) -> None:
    if name in CONNECTION or name in WORKER or name.startswith(tuple(WORKER_FAMILIES)):
        return
    if name in ANY_CONNECTOR:
        # Two of MirrorMaker 2's own keys look like overrides of a client, and are taken for that here.
        findings.warning(
            entry.origin,
            f"MirrorMaker 2 ignores {entry.key}: {name} belongs to flows, so write {name}, or SOURCE->TARGET.{name} "
            f"with {alias} as source or target",
        )
    elif (word := _word(name, tuple(CLIENT_KEYS))) is not None:
        _judge_client_key(entry, name[len(word) :], word, findings)
    else:
        meant = _for_client(name, f"{alias}.consumer.", f"{alias}.producer.")
        _report_unknown(entry, name, (*CONNECTION, *WORKER), findings, meant=meant)


def _judge_top_level_key(entry: Entry, aliases: Sequence[str], findings: Findings) -> None:
    name, example = entry.key, f"{aliases[0]}->{aliases[1]}"
    if name in PROCESS or name in INHERITED or name in CONNECTION:
        return
    if name.startswith(("config.providers.", "replication.policy.", "listeners.https.")):
        return
    if name.startswith(REACHES_WORKER) and (name in WORKER or name.startswith(tuple(WORKER_FAMILIES))):
        return
    if name in WORKER:
        findings.warning(
            entry.origin,
            f"MirrorMaker 2 ignores {name} at the top level: write it for the target, such as {aliases[1]}.{name}",
        )
    elif name in ANY_CONNECTOR or name.startswith(CONNECTOR_FAMILIES):
        findings.warning(
            entry.origin,
            f"MirrorMaker 2 ignores {name} at the top level: write it for a flow, such as {example}.{name}",
        )
    elif (word := _word(name, tuple(CLIENT_KEYS))) is not None:
        findings.warning(
            entry.origin,
            f"MirrorMaker 2 ignores {name} at the top level: write it for a cluster, such as {aliases[0]}.{name}",
        )
        _judge_client_key(entry, name[len(word) :], word, findings)
    elif entry.text.startswith("->"):
        findings.error(
            entry.origin,
            f"white space inside the name of a flow: write {name}{entry.text.split('.')[0].replace(' ', '')}",
        )
    elif (alias := _undeclared_alias(name)) is not None:
        _report_undeclared(entry, [alias], findings)
    else:
        meant = _for_client(name, f"{aliases[0]}.consumer.", f"{aliases[1]}.producer.")
        _report_unknown(entry, name, (*PROCESS, *INHERITED, *CONNECTION), findings, meant=meant)


def _judge_client_key(entry: Entry, name: str, client: str, findings: Findings) -> None:
    known = CLIENT_KEYS[client]
    if name not in known and name not in CONNECTION:
        _report_unknown(entry, name, (*known, *CONNECTION), findings)


def _report_undeclared_pair(entry: Entry, aliases: Sequence[str], findings: Findings) -> None:
    source, _, rest = entry.key.partition("->")
    target = next((alias for alias in aliases if rest.startswith(f"{alias}.")), None)
    if target is None:
        target = next((rest[: -len(f".{n}")] for n in _suffixes(rest) if n in ANY_CONNECTOR), rest.partition(".")[0])
    missing = [alias for alias in (source, target) if alias not in aliases]
    if missing:
        _report_undeclared(entry, missing, findings)
    else:
        findings.error(entry.origin, f"{entry.key}: after {source}->{target} a dot and a key must follow")


def _report_undeclared(entry: Entry, aliases: Sequence[str], findings: Findings) -> None:
    who = f"aliases {aliases[0]} and {aliases[1]} are" if len(aliases) == 2 else f"alias {aliases[0]} is"
    findings.warning(entry.origin, f"MirrorMaker 2 ignores {entry.key}: {who} not declared in `clusters`")


def _undeclared_alias(key: str) -> str | None:
    """The part before a key that only clusters have, as in `C.bootstrap.servers`."""
    for name in _suffixes(key):
        if name in CONNECTION or ((word := _word(name, tuple(CLIENT_KEYS))) and name[len(word) :] in CLIENT_KEYS[word]):
            return key[: -len(name) - 1]
    return None


def _report_unknown(
    entry: Entry, name: str, known: Iterable[str], findings: Findings, *, meant: str | None = None
) -> None:
    """`meant` is the whole key that the user may have meant; without it, the nearest one in `known` is named."""
    known = tuple(known)
    if name in known:
        return
    if name in _NEVER_READ:
        findings.warning(entry.origin, f"no version of MirrorMaker 2 reads {entry.key}, though it was proposed once")
        return
    if meant is None and (guess := nearest(name, known)):
        meant = f"{entry.key[: len(entry.key) - len(name)]}{guess}"
    findings.warning(entry.origin, f"unknown key {entry.key}{f'; did you mean {meant}?' if meant else ''}")


def _for_client(name: str, consumer: str, producer: str) -> str | None:
    """The place of a key that only clients have, if this is one."""
    if name in ANY_CONNECTOR or name in CONNECTION or name in WORKER:
        return None
    places = {"consumer.": consumer, "producer.": producer}
    return next((f"{place}{name}" for client, place in places.items() if name in CLIENT_KEYS[client]), None)


def _suffixes(key: str) -> Iterator[str]:
    """Every tail of a dotted key, the longest first."""
    return (key[match.end() :] for match in re.finditer(r"\.", key))


def _word(name: str, words: tuple[str, ...]) -> str | None:
    return next((word for word in words if name.startswith(word)), None)


def _after(name: str, words: tuple[str, ...]) -> str | None:
    word = _word(name, words)
    return None if word is None else name[len(word) :]


def _client_of(word: str) -> str:
    return next(client for client in CLIENT_KEYS if client in word)
