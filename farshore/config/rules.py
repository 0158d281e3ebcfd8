"""Rules that span several keys of one flow: contradictions are errors, likely mistakes are warnings."""

from __future__ import annotations

from collections.abc import Mapping

from farshore.config.entries import Connector, Entries, Findings
from farshore.config.keys import ANY_CONNECTOR
from farshore.config.keys.table import parse_list
from farshore.config.settings import SourceSettings, WorkerSettings
from farshore.model import Flow

SHOULD_AGREE = (
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "offset-syncs.topic.location",
    "source.cluster.bootstrap.servers",
    "target.cluster.bootstrap.servers",
)
"""Keys that the connectors of one flow can set each for itself, though they only work together if they agree."""


def check_flow(flow: Flow, worker: Entries, connectors: Mapping[Connector, Entries], findings: Findings) -> None:
    """The rules that can be told from the texts."""
    for entries in connectors.values():
        _check_two_clusters(flow, entries, findings)
    _check_agreement(flow, connectors, findings)
    if (source := connectors.get(Connector.SOURCE)) is not None:
        _check_offset_syncs(source, findings)
        _check_worker_is_at_target(flow, worker, source, findings)
    if (checkpoint := connectors.get(Connector.CHECKPOINT)) is not None:
        _check_group_sync(checkpoint, findings)


def check_exactly_once(
    source: SourceSettings,
    worker: WorkerSettings,
    entries: Entries,
    worker_entries: Entries,
    findings: Findings,
) -> None:
    """Exactly once means to copy what was committed, and nothing else."""
    isolation = source.source.consumer.tuning.isolation_level
    wanted = worker.exactly_once_source_support.lower() == "enabled"
    if wanted and isolation != "read_committed":
        findings.error(
            worker_entries["exactly.once.source.support"].origin,
            f"exactly.once.source.support is enabled, but the source is read with isolation.level={isolation}: "
            "set it to read_committed, or leave it out",
        )
    if source.exactly_once_support.lower() == "required" and not wanted:
        findings.error(
            entries["exactly.once.support"].origin,
            "exactly.once.support is required, but the worker's exactly.once.source.support is "
            f"{worker.exactly_once_source_support}: set it to enabled",
        )


def _check_two_clusters(flow: Flow, entries: Entries, findings: Findings) -> None:
    sides = [entries.get(f"{side}.cluster.bootstrap.servers") for side in ("source", "target")]
    if sides[0] is None or sides[1] is None:
        return
    shared = set(parse_list(sides[0].text)) & set(parse_list(sides[1].text))
    if shared:
        findings.error(
            sides[1].origin,
            f"{flow.source} and {flow.target} share the bootstrap server {min(shared)}: a cluster that is mirrored "
            "into itself would grow for ever",
        )


def _check_agreement(flow: Flow, connectors: Mapping[Connector, Entries], findings: Findings) -> None:
    source = connectors.get(Connector.SOURCE)
    checkpoint = connectors.get(Connector.CHECKPOINT)
    if source is None or checkpoint is None:
        return
    for key in SHOULD_AGREE:
        default = ANY_CONNECTOR[key].default if key in ANY_CONNECTOR else None
        texts = [entries[key].text.strip() if key in entries else default for entries in (source, checkpoint)]
        if texts[0] == texts[1]:
            continue
        place = source.get(key) or checkpoint[key]
        findings.warning(
            place.origin,
            f"{key} of {flow} is {texts[0]!r} on the source connector but {texts[1]!r} on the checkpoint connector: "
            "checkpoints may speak of topics that are not there",
        )


def _check_offset_syncs(source: Entries, findings: Findings) -> None:
    switch = source.get("emit.offset-syncs.enabled")
    if switch is None or switch.text.strip().lower() != "false":
        return
    for name, entry in source.items():
        if name.startswith(("offset-syncs.topic.", "offset-syncs-")):
            findings.error(
                entry.origin,
                f"{entry.key} contradicts emit.offset-syncs.enabled=false ({switch.origin}): remove one of the two",
            )


def _check_worker_is_at_target(flow: Flow, worker: Entries, source: Entries, findings: Findings) -> None:
    """Connect writes records through its worker, whatever the connector says of its target."""
    ours, theirs = worker.get("bootstrap.servers"), source.get("target.cluster.bootstrap.servers")
    if ours is None or theirs is None or set(parse_list(ours.text)) & set(parse_list(theirs.text)):
        return
    findings.warning(
        ours.origin,
        f"the worker's bootstrap.servers are not those of {flow.target} in {theirs.origin}: records are written where "
        "the worker is, so both must be the same cluster",
    )


def _check_group_sync(checkpoint: Entries, findings: Findings) -> None:
    sync, emit = checkpoint.get("sync.group.offsets.enabled"), checkpoint.get("emit.checkpoints.enabled")
    if sync and emit and sync.text.strip().lower() == "true" and emit.text.strip().lower() == "false":
        findings.warning(
            sync.origin, f"{sync.key} has no effect without checkpoints ({emit.origin}: {emit.key} is false)"
        )
