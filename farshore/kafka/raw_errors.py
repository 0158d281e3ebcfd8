"""Kafka's error codes, sorted by what somebody who copies record batches has to do about them. Pure.

Names and numbers are those of `org.apache.kafka.common.protocol.Errors`. So are `retriable` and `refresh` (Java's
RetriableException and RefreshRetriableException), but for the codes of `DIFFERENT_FROM_JAVA`, where a copier that has
to go on knows better than a client that may give up.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Category(Enum):
    """What an error is about; the text says what to do."""

    NONE = "no error"
    LEADERSHIP = "the partition has moved, or its leader is changing: ask for metadata, send again"
    NETWORK = "an answer did not come in time, whether or not the request was carried out: send the same again"
    REPLICAS = "too few replicas are in sync: wait, send the same again; it may have been appended"
    FETCH_SESSION = "the broker does not know the fetch session as we do: ask for everything anew"
    THROTTLE = "a quota is used up: wait"
    COORDINATOR = "the coordinator is moving or loading: find it again, send again"
    TOPIC_GONE = "no such topic or partition: look before going on"
    OTHER_TOPIC = "the name is another topic's by now, or the broker has not heard of it: ask for metadata, look which"
    OFFSET_OUT_OF_RANGE = "the log does not hold the offset: retention has passed it, or the log is another one"
    CORRUPT = "the bytes arrived damaged: once more, then stop the partition"
    TOO_LARGE = "more bytes than topic or broker allow: split"
    REFUSED_BY_TOPIC = "the topic's settings forbid such records: nothing of the batch was appended"
    PERMISSION = "the principal lacks an ACL: somebody has to grant it"
    DUPLICATE = "already appended, with an offset nobody remembers: success"
    SEQUENCE = "sequences do not follow on: the outcome of an earlier request is open, go on with the next epoch"
    FENCED = "somebody newer has this producer id: stop writing"
    TRANSACTION = "the transaction is in no state for this"
    INCOMPATIBLE = "the broker does not know such a request: nothing to be done but another broker or another client"
    UNKNOWN = "the broker cannot say: its log may"


class ErrorInfo(NamedTuple):
    """`retriable`: the same request may succeed later. `refresh`: ask for metadata, or the coordinator, before."""

    code: int
    name: str
    category: Category
    retriable: bool
    refresh: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.category.value})"


_RETRY, _REFRESH, _GIVE_UP = (True, False), (True, True), (False, False)

_TABLE = {
    Category.NONE: {0: ("NONE", _GIVE_UP)},
    Category.LEADERSHIP: {
        5: ("LEADER_NOT_AVAILABLE", _REFRESH),
        6: ("NOT_LEADER_OR_FOLLOWER", _REFRESH),
        9: ("REPLICA_NOT_AVAILABLE", _REFRESH),
        56: ("KAFKA_STORAGE_ERROR", _REFRESH),  # the leader's disk: another replica will lead
        72: ("LISTENER_NOT_FOUND", _REFRESH),
        74: ("FENCED_LEADER_EPOCH", _REFRESH),  # our metadata are older than the broker's
        75: ("UNKNOWN_LEADER_EPOCH", _REFRESH),  # and here newer
        78: ("OFFSET_NOT_AVAILABLE", _RETRY),  # a new leader that does not know its high watermark yet
        80: ("PREFERRED_LEADER_NOT_AVAILABLE", _REFRESH),
    },
    Category.NETWORK: {
        7: ("REQUEST_TIMED_OUT", _RETRY),
        8: ("BROKER_NOT_AVAILABLE", _REFRESH),
        13: ("NETWORK_EXCEPTION", _REFRESH),
        129: ("REBOOTSTRAP_REQUIRED", _REFRESH),
    },
    Category.REPLICAS: {
        19: ("NOT_ENOUGH_REPLICAS", _RETRY),
        20: ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", _RETRY),
    },
    Category.FETCH_SESSION: {
        70: ("FETCH_SESSION_ID_NOT_FOUND", _RETRY),  # it has restarted, or needed the room
        71: ("INVALID_FETCH_SESSION_EPOCH", _RETRY),
        106: ("FETCH_SESSION_TOPIC_ID_ERROR", _RETRY),
    },
    Category.THROTTLE: {89: ("THROTTLING_QUOTA_EXCEEDED", _RETRY)},
    Category.COORDINATOR: {
        14: ("COORDINATOR_LOAD_IN_PROGRESS", _RETRY),
        15: ("COORDINATOR_NOT_AVAILABLE", _REFRESH),
        16: ("NOT_COORDINATOR", _REFRESH),
    },
    Category.TOPIC_GONE: {
        3: ("UNKNOWN_TOPIC_OR_PARTITION", _REFRESH),  # also just after creation, until all brokers have heard of it
        17: ("INVALID_TOPIC_EXCEPTION", _GIVE_UP),
    },
    # Nothing was read or appended. Brokers hear of topics at different times, so the next look may tell nothing new.
    Category.OTHER_TOPIC: {
        100: ("UNKNOWN_TOPIC_ID", _REFRESH),
        103: ("INCONSISTENT_TOPIC_ID", _REFRESH),
    },
    Category.OFFSET_OUT_OF_RANGE: {
        1: ("OFFSET_OUT_OF_RANGE", _GIVE_UP),
        109: ("OFFSET_MOVED_TO_TIERED_STORAGE", _GIVE_UP),
    },
    Category.CORRUPT: {2: ("CORRUPT_MESSAGE", _RETRY)},
    Category.TOO_LARGE: {
        4: ("INVALID_FETCH_SIZE", _GIVE_UP),
        10: ("MESSAGE_TOO_LARGE", _GIVE_UP),
        18: ("RECORD_LIST_TOO_LARGE", _GIVE_UP),
    },
    Category.REFUSED_BY_TOPIC: {
        32: ("INVALID_TIMESTAMP", _GIVE_UP),
        43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", _GIVE_UP),
        44: ("POLICY_VIOLATION", _GIVE_UP),
        76: ("UNSUPPORTED_COMPRESSION_TYPE", _GIVE_UP),
        87: ("INVALID_RECORD", _GIVE_UP),  # no key into a compacted topic
    },
    Category.PERMISSION: {
        29: ("TOPIC_AUTHORIZATION_FAILED", _GIVE_UP),
        30: ("GROUP_AUTHORIZATION_FAILED", _GIVE_UP),
        31: ("CLUSTER_AUTHORIZATION_FAILED", _GIVE_UP),
        53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _GIVE_UP),
        58: ("SASL_AUTHENTICATION_FAILED", _GIVE_UP),
    },
    # Old brokers only. Newer ones (tried: 4.3.1) answer one of a producer's last five batches of the partition, sent
    # again, with success and its first offset, and an earlier one with OUT_OF_ORDER_SEQUENCE_NUMBER.
    Category.DUPLICATE: {46: ("DUPLICATE_SEQUENCE_NUMBER", _GIVE_UP)},
    Category.SEQUENCE: {
        45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", _GIVE_UP),
        59: ("UNKNOWN_PRODUCER_ID", _GIVE_UP),
    },
    Category.FENCED: {
        47: ("INVALID_PRODUCER_EPOCH", _GIVE_UP),
        52: ("TRANSACTION_COORDINATOR_FENCED", _GIVE_UP),
        90: ("PRODUCER_FENCED", _GIVE_UP),
    },
    Category.TRANSACTION: {
        48: ("INVALID_TXN_STATE", _GIVE_UP),
        49: ("INVALID_PRODUCER_ID_MAPPING", _GIVE_UP),
        50: ("INVALID_TRANSACTION_TIMEOUT", _GIVE_UP),
        51: ("CONCURRENT_TRANSACTIONS", _RETRY),  # the markers of the last transaction are not out yet
        55: ("OPERATION_NOT_ATTEMPTED", _GIVE_UP),  # because of another partition of the same request
        105: ("TRANSACTIONAL_ID_NOT_FOUND", _GIVE_UP),
        120: ("TRANSACTION_ABORTABLE", _GIVE_UP),
    },
    Category.INCOMPATIBLE: {
        21: ("INVALID_REQUIRED_ACKS", _GIVE_UP),
        35: ("UNSUPPORTED_VERSION", _GIVE_UP),
        42: ("INVALID_REQUEST", _GIVE_UP),
    },
    Category.UNKNOWN: {-1: ("UNKNOWN_SERVER_ERROR", _RETRY)},
}

ERRORS: dict[int, ErrorInfo] = {
    code: ErrorInfo(code, name, category, *advice)
    for category, rows in _TABLE.items()
    for code, (name, advice) in rows.items()
}
"""Every code that metadata, fetch, produce, list offsets, leader epochs and coordinators can answer with."""

DIFFERENT_FROM_JAVA: dict[int, str] = {
    -1: "a mirror has nobody to hand the error to: idempotent appends can be repeated without harm, so repeat",
    8: "a broker that is not there is what a connection loss is: look for another leader",
    75: "Java asks for metadata where it validates offsets; we do it by this flag",
    129: "Java does it inside its client",
}

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NETWORK_EXCEPTION = 13
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
OPERATION_NOT_ATTEMPTED = 55
FETCH_SESSION_ID_NOT_FOUND = 70


def error_info(code: int) -> ErrorInfo:
    """What is known of `code`. One that is not in the table is taken for UNKNOWN, and so worth another try."""
    return ERRORS.get(code) or ErrorInfo(code, f"ERROR_{code}", Category.UNKNOWN, retriable=True, refresh=False)
