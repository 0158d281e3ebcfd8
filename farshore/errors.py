"""Every exception Farshore raises on purpose.

    FarshoreError
    ├── ConfigError             the configuration cannot be used; carries every finding, each with its place
    ├── PatternError            a Java regular expression that cannot be given its exact meaning here
    ├── WireError               bytes that are not what they should be
    │   ├── MalformedRecord     an internal record (heartbeat, checkpoint, offset sync, position)
    │   ├── MalformedBatch      a record batch whose header contradicts itself or its buffer
    │   └── CorruptBatch        a record batch whose CRC-32C is wrong
    ├── StoreError              a key store, trust store or PEM file cannot be read or opened
    │   └── StoreAbsent         it is not there
    ├── TokenRefused            no OAuth token, or Kerberos ticket, was to be had
    ├── KafkaError              a cluster said no, or nothing; names the cluster
    │   ├── Unreachable         no broker answered in time                               (retriable)
    │   │   └── NotSent         the permission to send had ended: the cluster knows nothing of it
    │   ├── AuthenticationFailed  the brokers refused the credentials or the certificate
    │   ├── PermissionDenied    an operation the principal may not do
    │   ├── Fenced              somebody newer has our transactional id, or we held a transaction for too long
    │   └── RequestRefused      any other refusal, with Kafka's own code                 (see retriable)
    ├── SparkUnavailable        Spark does not start, here or on the cluster it was told
    ├── CommandRefused          a command cannot be carried out as things stand
    │   └── BadArgument         it was asked about something that is not there
    └── LocalClusterError       a cluster on this machine did not start, stop or answer
        └── JavaMissing         no Java, or one too old

A message says what happened, where, and what to do about it. Foreign exceptions are translated where they arise:
those of Kafka clients in `farshore.kafka`, those of files in `farshore.config`. No message ever holds a secret.
"""

from __future__ import annotations

from collections.abc import Sequence


class FarshoreError(Exception):
    """Base of all. `str()` of one is fit to be shown to a user as it is."""

    retriable: bool = False


class ConfigError(FarshoreError):
    """The configuration cannot be used. `problems` holds one line for each reason, all found in one run."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class SparkUnavailable(FarshoreError):
    """Spark does not start, or its cluster does not take us."""


class PatternError(FarshoreError):
    """A regular expression that Java would refuse, or whose meaning in Java cannot be kept here."""


class WireError(FarshoreError):
    """Bytes that are not what they should be."""


class MalformedRecord(WireError):
    """An internal record that does not follow MirrorMaker 2's layout."""


class MalformedBatch(WireError):
    """A record batch whose header contradicts itself or the buffer it came in."""


class CorruptBatch(WireError):
    """A record batch whose stored CRC-32C is not that of its bytes."""


class StoreError(FarshoreError):
    """A key store, trust store or PEM file that cannot be read or opened."""


class StoreAbsent(StoreError):
    """The file is not there."""


class TokenRefused(FarshoreError):
    """No OAuth token, or Kerberos ticket, was to be had; names where it was looked for."""


class KafkaError(FarshoreError):
    """A cluster said no, or nothing."""

    def __init__(self, message: str, *, cluster: str) -> None:
        self.cluster = cluster
        super().__init__(message)


class Unreachable(KafkaError):
    """No broker of the cluster answered in time."""

    retriable = True


class NotSent(Unreachable):
    """The permission to send the request had ended when its turn came, so nothing of it was written."""


class AuthenticationFailed(KafkaError):
    """The brokers refused the credentials, or one side refused the other's certificate."""


class PermissionDenied(KafkaError):
    """The principal may not do the operation."""


class Fenced(KafkaError):
    """Our epoch of the transactional id is over: a newer holder was let in, or the coordinator has aborted our
    transaction because it outlived its timeout. Nothing more can be written under it.
    """


class RequestRefused(KafkaError):
    """Any other refusal; `code` is Kafka's own name for it."""

    def __init__(self, message: str, *, cluster: str, code: str, retriable: bool) -> None:
        super().__init__(message, cluster=cluster)
        self.code = code
        self.retriable = retriable


class CommandRefused(FarshoreError):
    """A command cannot be carried out as things stand; nothing was changed."""


class BadArgument(CommandRefused):
    """A command was given something that makes no sense here: no such flow, topic or partition."""


class LocalClusterError(FarshoreError):
    """A cluster on this machine did not start, stop or answer."""


class JavaMissing(LocalClusterError):
    """No Java on this machine, or one too old."""
