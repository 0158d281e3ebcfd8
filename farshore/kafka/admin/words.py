"""Kafka's numbers in Farshore's words: operations, permissions, where a setting comes from, and refusals."""

from __future__ import annotations

from typing import TypeVar

from farshore.errors import KafkaError, PermissionDenied, RequestRefused, Unreachable
from farshore.kafka.facts import Answers, ConfigSource, Operation, Operations
from farshore.kafka.raw_errors import ERRORS

T = TypeVar("T")

_NOT_TOLD = -(1 << 31)

ACL_OPERATIONS = {2: "ALL"} | {code: each.value for code, each in enumerate(Operation, start=3)}
"""By their codes. Those that came later, for delegation tokens and transactional ids, do not concern topics."""
ACL_PERMISSIONS = {2: "DENY", 3: "ALLOW"}

_SOURCES = {
    1: ConfigSource.DYNAMIC_TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}

NOT_CONTROLLER = 41
SECURITY_DISABLED = 54

CODES_OF_ADMINS: dict[int, tuple[str, bool]] = {
    22: ("ILLEGAL_GENERATION", False),
    23: ("INCONSISTENT_GROUP_PROTOCOL", False),
    24: ("INVALID_GROUP_ID", False),
    25: ("UNKNOWN_MEMBER_ID", False),
    27: ("REBALANCE_IN_PROGRESS", False),
    36: ("TOPIC_ALREADY_EXISTS", False),
    37: ("INVALID_PARTITIONS", False),
    38: ("INVALID_REPLICATION_FACTOR", False),
    39: ("INVALID_REPLICA_ASSIGNMENT", False),
    40: ("INVALID_CONFIG", False),
    NOT_CONTROLLER: ("NOT_CONTROLLER", True),
    SECURITY_DISABLED: ("SECURITY_DISABLED", False),
    60: ("REASSIGNMENT_IN_PROGRESS", False),
    67: ("INVALID_PRINCIPAL_TYPE", False),
    69: ("GROUP_ID_NOT_FOUND", False),
    73: ("TOPIC_DELETION_DISABLED", False),
    77: ("STALE_BROKER_EPOCH", False),
    91: ("RESOURCE_NOT_FOUND", False),
    113: ("STALE_MEMBER_EPOCH", False),
}
"""Names of codes that only administrators are answered with, and whether the same may succeed later."""


def operations(bits: int | None) -> Operations:
    """What we may do, of a number with one bit for each operation; nothing where the broker does not say."""
    if bits is None or bits == _NOT_TOLD:
        return frozenset()
    return frozenset(each for code, each in enumerate(Operation, start=3) if bits >> code & 1)


def config_source(code: int) -> ConfigSource:
    return _SOURCES.get(code, ConfigSource.OTHER)


def refusal(alias: str, what: str, code: int, said: str | None = None) -> KafkaError:
    """`code`, which cluster `alias` answered when it was asked to do `what`, with the broker's own text if it has one.

    A code that is in neither table is not tried again: the broker has answered, and will hardly change its mind.
    """
    info = ERRORS.get(code)
    if info is not None:
        name, retriable = info.name, info.retriable
    else:
        name, retriable = CODES_OF_ADMINS.get(code, (f"ERROR_{code}", False))
    if name.endswith("_AUTHORIZATION_FAILED"):
        return PermissionDenied(f"{alias}: {what}: not allowed ({name})", cluster=alias)
    text = f"{said.rstrip('.')} ({name})" if said else str(info or name)
    return RequestRefused(f"{alias}: {what}: {text}", cluster=alias, code=name, retriable=retriable)


def attempted(error: KafkaError, alias: str, what: str) -> KafkaError:
    """`error`, which happened while doing `what`, with these words in it."""
    message = f"{alias}: {what}: {str(error).removeprefix(f'{alias}: ')}"
    if isinstance(error, RequestRefused):
        return RequestRefused(message, cluster=alias, code=error.code, retriable=error.retriable)
    return type(error)(message, cluster=alias)


def unless_none_answers(answers: Answers[T]) -> Answers[T]:
    """The same; raises where no broker answered about any of them."""
    lost = [each for each in answers.values() if isinstance(each, Unreachable)]
    if lost and len(lost) == len(answers):
        raise lost[0]
    return answers
