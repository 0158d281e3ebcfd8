"""What a target refuses, in words that say which setting to change. Pure."""

from __future__ import annotations

from farshore.dataplane.cargo import Sent, Unfit
from farshore.errors import WireError
from farshore.kafka.raw import Produced
from farshore.kafka.raw_errors import Category, ErrorInfo
from farshore.model import TopicPartition
from farshore.wire.records import records_of

_ADVICE = {
    "INVALID_TIMESTAMP": "raise message.timestamp.before.max.ms or message.timestamp.after.max.ms of the remote topic",
    "UNSUPPORTED_COMPRESSION_TYPE": "the target does not know its codec: set compression.type of the target's producer",
    "POLICY_VIOLATION": "a policy of the target's brokers forbids it: ask whoever runs them",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "the remote topic is kept in an old format: raise its message.format.version",
    "TOPIC_AUTHORIZATION_FAILED": "grant our principal WRITE on the remote topic",
    "CLUSTER_AUTHORIZATION_FAILED": "grant our principal IDEMPOTENT_WRITE on the target cluster",
}
_NO_KEY = "it has no key, and the remote topic is compacted: remove compact from cleanup.policy of the remote topic"


def too_large(unfit: Unfit, remote: TopicPartition) -> str:
    return (
        f"offset {unfit.offset}: a record that takes {unfit.size} bytes does not fit into {remote}: raise "
        f"max.message.bytes of {remote.topic}, or go past it with `farshore skip`"
    )


def unfit_record(sent: Sent, answer: Produced, info: ErrorInfo) -> Unfit:
    """The record because of which nothing of `sent` was appended: the first that the broker complains of."""
    offset, size, said = sent.first_offset, sent.size, answer.message or ""
    if answer.record_errors:
        index, message = answer.record_errors[0]
        said = message or said
        records = [r for batch in sent.sources for r in records_of(batch, from_offset=sent.first_offset)]
        if index < len(records):
            offset, size = records[index][0], len(records[index][2])
    advice = _NO_KEY if info.name == "INVALID_RECORD" and "key" in said else _ADVICE.get(info.name)
    return Unfit(offset, size, "; ".join(part for part in (f"{info.name}: {said}".rstrip(": "), advice) if part))


def corrupt(offset: int, error: WireError) -> str:
    return f"offset {offset}: the source's log is corrupt: {error}; go past it with `farshore skip`"


def refused(unfit: Unfit, remote: TopicPartition) -> str:
    return (
        f"offset {unfit.offset}: {remote} does not take a record of {unfit.size} bytes: {unfit.reason}; or go past it "
        "with `farshore skip`"
    )


def failed(sent: Sent, remote: TopicPartition, answer: Produced, info: ErrorInfo) -> str:
    """What kept a whole batch from being appended."""
    advice = f"; {_ADVICE[info.name]}" if info.category is Category.PERMISSION and info.name in _ADVICE else ""
    said = f" {answer.message}" if answer.message else ""
    return f"offset {sent.first_offset}: {sent.size} bytes to {remote}: {info}{said}{advice}"
