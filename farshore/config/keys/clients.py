"""Rows for Kafka clients, besides connecting and logging in: what follows `consumer.`, `producer.`, `admin.`.

Records are copied by Farshore's own client, which reads and appends whole batches; `consumer.` and
`producer.` are its two ends. Administrative work and small internal records go through the same connections.
"""

from __future__ import annotations

from farshore.config.keys.table import Key, Rows, Scope, Type, Value, at_least, between, one_of

BYTE_ARRAY_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
BYTE_ARRAY_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FOREVER_MS = 2**31 - 1

_NO_JAVA_CODE = "Farshore runs no Java code of the user's"
_NO_GROUP = "Farshore's readers are in no consumer group"
_NO_SHARING = "Farshore's readers are in no share group"
_NO_JVM = "a matter of the JVM; Farshore's metrics are its own"
_BUFFERS = "left to the operating system, which sizes them by itself"
_BYTES = "bytes are copied as they are"
_SAME_PARTITION = "a record keeps the number of its partition, as in MirrorMaker 2"
_ASKED_AGAIN = "the bootstrap servers are asked again whenever no known broker answers"
_OWN_PAUSES = "Farshore's clients have pauses of their own, from a tenth of a second to a few seconds"
_OWN_CONNECTIONS = "connections are kept while they are used, and are given ten seconds at most to come about"
_OWN_KNOWLEDGE = "leaders are looked for when they change, topics every refresh.topics.interval.seconds"
_ONE_REQUEST = "every request has its request.timeout.ms, and is made again as long as it takes"


def network_keys(
    scope: Scope,
    *,
    max_idle_ms: int = 540000,
    receive_buffer_bytes: int = 65536,
) -> tuple[Key, ...]:
    """What every Kafka client has, and the worker too, and what Farshore's clients do their own way."""
    unused = Rows(scope).unused
    return (
        unused("retry.backoff.ms", Type.LONG, 100,
               "First pause before a request is sent again.", _OWN_PAUSES, at_least(0)),
        unused("retry.backoff.max.ms", Type.LONG, 1000,
               "Longest pause before a request is sent again.", _OWN_PAUSES, at_least(0)),
        unused("reconnect.backoff.ms", Type.LONG, 50,
               "First pause before connecting again.", _OWN_PAUSES, at_least(0)),
        unused("reconnect.backoff.max.ms", Type.LONG, 1000,
               "Longest pause before connecting again.", _OWN_PAUSES, at_least(0)),
        unused("socket.connection.setup.timeout.ms", Type.LONG, 10000,
               "How long connecting may take.", _OWN_CONNECTIONS, at_least(0)),
        unused("socket.connection.setup.timeout.max.ms", Type.LONG, 30000,
               "How long it may take after failures.", "every attempt gets the same time", at_least(0)),
        unused("connections.max.idle.ms", Type.LONG, max_idle_ms,
               "After how long an idle connection is closed.", _OWN_CONNECTIONS),
        unused("metadata.max.age.ms", Type.LONG, 300000,
               "How old knowledge of the cluster may become.", _OWN_KNOWLEDGE, at_least(0)),
        unused("metadata.recovery.strategy", Type.STRING, "rebootstrap",
               "What to do when no known broker answers.", _ASKED_AGAIN,
               one_of("rebootstrap", "none", ignore_case=True)),
        unused("metadata.recovery.rebootstrap.trigger.ms", Type.LONG, 300000,
               "After how long of that to do it.", _ASKED_AGAIN, at_least(0)),
        unused("client.dns.lookup", Type.STRING, "use_all_dns_ips",
               "Which addresses of a name are tried.", "all addresses of a name are tried",
               one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        unused("send.buffer.bytes", Type.INT, 131072, "Size of sockets' send buffers.", _BUFFERS,
               at_least(-1)),
        unused("receive.buffer.bytes", Type.INT, receive_buffer_bytes,
               "Size of sockets' receive buffers.", _BUFFERS, at_least(-1)),
    )  # fmt: skip


def jvm_keys(scope: Scope, *levels: str) -> tuple[Key, ...]:
    """What every Kafka client written in Java has for its metrics, and the worker too."""
    unused = Rows(scope).unused
    reporter = ("org.apache.kafka.common.metrics.JmxReporter",)
    return (
        unused("metric.reporters", Type.LIST, reporter, "Java classes that report metrics.", _NO_JVM),
        unused("metrics.num.samples", Type.INT, 2, "Samples kept for a metric.", _NO_JVM, at_least(1)),
        unused("metrics.sample.window.ms", Type.LONG, 30000, "How long a sample takes.", _NO_JVM,
               at_least(0)),
        unused("metrics.recording.level", Type.STRING, "INFO", "How fine metrics are.", _NO_JVM,
               one_of(*levels)),
        unused("auto.include.jmx.reporter", Type.BOOLEAN, True, "Whether JMX is on.", _NO_JVM, removed="4.0"),
        unused("config.providers", Type.LIST, (), "Names of config providers.",
               "references are resolved once, by the providers of the file as a whole", quiet=True),
    )  # fmt: skip


def _common(scope: Scope, *, pushes: bool, max_idle_ms: int, receive_buffer_bytes: int) -> tuple[Key, ...]:
    rows = Rows(scope)
    return (
        rows.honoured("client.id", Type.STRING, "", "Name under which the brokers know the client.",
                      "the flow and what the client is for are added to it, as in MirrorMaker 2"),
        rows.honoured("request.timeout.ms", Type.INT, 30000, "How long a request may take.", check=at_least(0)),
        *network_keys(scope, max_idle_ms=max_idle_ms, receive_buffer_bytes=receive_buffer_bytes),
        *jvm_keys(scope, "INFO", "DEBUG", "TRACE"),
        rows.unused("enable.metrics.push", Type.BOOLEAN, pushes, "Whether brokers may ask for metrics.",
                    "Farshore's clients send none to the brokers"),
        rows.refused("security.providers", Type.STRING, None, "Java classes that add security providers.",
                     _NO_JAVA_CODE),
    )  # fmt: skip


def _reset(value: Value) -> str | None:
    if str(value).startswith("by_duration:"):
        return "must be earliest, latest or none: Farshore does not start at a point in time"
    return one_of("earliest", "latest", "none")(value)


def _gzip_level(value: Value) -> str | None:
    return None if value == -1 else between(1, 9)(value)


_consumer = Rows(Scope.CONSUMER)

CONSUMER = (
    *_common(Scope.CONSUMER, pushes=True, max_idle_ms=540000, receive_buffer_bytes=65536),
    _consumer.honoured("isolation.level", Type.STRING, "read_committed",
        "Whether records of open and aborted transactions are copied too (read_uncommitted).",
        "MirrorMaker 2's default is read_uncommitted, which copies aborted records as if they were valid",
        one_of("read_committed", "read_uncommitted")),
    _consumer.honoured("auto.offset.reset", Type.STRING, "earliest",
        "Where copying starts in a partition without a position: earliest, latest, or none to stop there.",
        "earliest is MirrorMaker 2's default; by_duration is refused", _reset),
    _consumer.honoured("fetch.min.bytes", Type.INT, 1, "A broker waits until it has so much to send.",
        check=at_least(0)),
    _consumer.honoured("fetch.max.wait.ms", Type.INT, 500, "How long it waits for that at most.",
        check=at_least(0)),
    _consumer.honoured("fetch.max.bytes", Type.INT, 52428800, "At most so much comes in one answer.",
        check=at_least(0)),
    _consumer.honoured("max.partition.fetch.bytes", Type.INT, 1048576,
        "At most so much of one partition comes in one answer; a larger batch comes alone.",
        check=at_least(0)),
    _consumer.honoured("client.rack", Type.STRING, "",
        "Where the reader stands, so that it may read from a replica nearby."),
    _consumer.unused("default.api.timeout.ms", Type.INT, 60000,
        "How long looking up offsets and partitions may take.", _ONE_REQUEST, at_least(0)),
    _consumer.unused("check.crcs", Type.BOOLEAN, True, "Whether batches are checked for corruption.",
        "checksums are always looked at"),
    _consumer.unused("max.poll.records", Type.INT, 500, "At most so many records a poll.",
        "whole batches are copied; fetch.max.bytes bounds them", at_least(1)),
    _consumer.unused("allow.auto.create.topics", Type.BOOLEAN, True, "Whether reading may create a topic.",
        "it never does"),
    _consumer.unused("exclude.internal.topics", Type.BOOLEAN, True,
        "Whether a subscription by pattern leaves out internal topics.", "`topics.exclude` decides"),
    _consumer.unused("enable.auto.commit", Type.BOOLEAN, True, "Whether a group's offsets are committed.",
        _NO_GROUP),
    _consumer.unused("auto.commit.interval.ms", Type.INT, 5000, "How often.", _NO_GROUP, at_least(0)),
    _consumer.unused("group.id", Type.STRING, None, "Consumer group of the reader.", _NO_GROUP),
    _consumer.unused("group.instance.id", Type.STRING, None, "Name of a static member.", _NO_GROUP),
    _consumer.unused("group.protocol", Type.STRING, "classic", "How the group is run.", _NO_GROUP,
        one_of("classic", "consumer", ignore_case=True)),
    _consumer.unused("group.remote.assignor", Type.STRING, None, "Who assigns partitions.", _NO_GROUP),
    _consumer.unused("partition.assignment.strategy", Type.LIST,
        ("org.apache.kafka.clients.consumer.RangeAssignor",
         "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
        "How partitions are assigned.", _NO_GROUP),
    _consumer.unused("session.timeout.ms", Type.INT, 45000, "How long a silent member stays.", _NO_GROUP),
    _consumer.unused("heartbeat.interval.ms", Type.INT, 3000, "How often a member is heard of.", _NO_GROUP),
    _consumer.unused("max.poll.interval.ms", Type.INT, 300000, "Longest time between two polls.", _NO_GROUP,
        at_least(1)),
    _consumer.unused("internal.throw.on.fetch.stable.offset.unsupported", Type.BOOLEAN, False,
        "Used by Kafka Streams.", _NO_GROUP),
    _consumer.unused("share.acknowledgement.mode", Type.STRING, "implicit", "How records are acknowledged.",
        _NO_SHARING, one_of("implicit", "explicit")),
    _consumer.unused("share.acquire.mode", Type.STRING, "BATCH_OPTIMIZED", "How records are acquired.",
        _NO_SHARING, one_of("batch_optimized", "record_limit", ignore_case=True)),
    _consumer.refused("key.deserializer", Type.CLASS, BYTE_ARRAY_DESERIALIZER, "How keys are decoded.",
        _BYTES),
    _consumer.refused("value.deserializer", Type.CLASS, BYTE_ARRAY_DESERIALIZER, "How values are decoded.",
        _BYTES),
    _consumer.refused("interceptor.classes", Type.LIST, (), "Java classes that see what is read.",
        _NO_JAVA_CODE),
)  # fmt: skip

_producer = Rows(Scope.PRODUCER)

PRODUCER = (
    *_common(Scope.PRODUCER, pushes=True, max_idle_ms=540000, receive_buffer_bytes=32768),
    _producer.honoured("compression.type", Type.STRING, None,
        "Codec that batches are to have on the target; another one means decoding and packing anew.",
        "unset: a batch keeps the codec it has; MirrorMaker 2 would store it uncompressed", one_of(*CODECS)),
    _producer.honoured("compression.gzip.level", Type.INT, -1,
        "Effort of gzip, where a batch is packed anew.", check=_gzip_level),
    _producer.honoured("compression.lz4.level", Type.INT, 9, "Effort of lz4, where a batch is packed anew.",
        check=between(1, 17)),
    _producer.honoured("compression.zstd.level", Type.INT, 3, "Effort of zstd, where a batch is packed anew.",
        check=between(-131072, 22)),
    _producer.honoured("batch.size", Type.INT, 16384, "Small batches that wait together are merged up to this size.",
        "64 KB at least and 1 MB at most; far from the target, while the window of requests is full, 512 KB at least",
        at_least(0)),
    _producer.unused("linger.ms", Type.LONG, 5, "How long a small batch waits for others.",
        "none waits for others; those that wait anyway are merged", at_least(0)),
    _producer.unused("max.request.size", Type.INT, 1048576, "How large a batch may be.",
        "max.message.bytes of the target's topic alone says that", at_least(0)),
    _producer.unused("delivery.timeout.ms", Type.INT, FOREVER_MS,
        "After how long without an acknowledgement a batch is given up.",
        "none is ever given up: it is sent until it is acknowledged", at_least(0)),
    _producer.honoured("transaction.timeout.ms", Type.INT, 60000,
        "After how long the brokers abort a transaction, with exactly-once.",
        "half a minute more than transaction.boundary.interval.ms at least, so that a commit has time"),
    _producer.unused("acks", Type.STRING, "all", "How many replicas must have a batch.", "always all",
        one_of("all", "-1", "0", "1")),
    _producer.unused("enable.idempotence", Type.BOOLEAN, True, "Whether brokers drop what is sent twice.",
        "Farshore's producers are always idempotent"),
    _producer.unused("max.in.flight.requests.per.connection", Type.INT, 5, "Requests sent without an answer.",
        "up to five a partition, always in order", at_least(1)),
    _producer.unused("retries", Type.INT, 2**31 - 1, "How often a request is sent again.",
        "as often as it takes", at_least(0)),
    _producer.unused("buffer.memory", Type.LONG, 33554432, "Memory for batches that wait.",
        "a slot's memory is bounded from fetch to acknowledgement, by one budget", at_least(0)),
    _producer.unused("max.block.ms", Type.LONG, 60000, "How long sending may wait for memory and metadata.",
        "what cannot be sent is not fetched", at_least(0)),
    _producer.unused("metadata.max.idle.ms", Type.LONG, 300000, "How long unused topics are remembered.",
        "the plan says which topics are used", at_least(5000)),
    _producer.unused("partitioner.class", Type.CLASS, None, "Java class that chooses partitions.",
        _SAME_PARTITION),
    _producer.unused("partitioner.ignore.keys", Type.BOOLEAN, False, "Whether it looks at keys.",
        _SAME_PARTITION),
    _producer.unused("partitioner.adaptive.partitioning.enable", Type.BOOLEAN, True,
        "Whether it favours fast brokers.", _SAME_PARTITION),
    _producer.unused("partitioner.availability.timeout.ms", Type.LONG, 0, "When it leaves out a slow broker.",
        _SAME_PARTITION, at_least(0)),
    _producer.refused("transactional.id", Type.STRING, None, "Name of the producer in transactions.",
        "Farshore sets it, as Connect does, when exactly.once.source.support asks for it"),
    _producer.refused("transaction.two.phase.commit.enable", Type.BOOLEAN, False,
        "Whether someone else decides about transactions.", "Farshore ends its transactions itself"),
    _producer.refused("key.serializer", Type.CLASS, BYTE_ARRAY_SERIALIZER, "How keys are encoded.", _BYTES),
    _producer.refused("value.serializer", Type.CLASS, BYTE_ARRAY_SERIALIZER, "How values are encoded.",
        _BYTES),
    _producer.refused("interceptor.classes", Type.LIST, (), "Java classes that see what is sent.",
        _NO_JAVA_CODE),
)  # fmt: skip

_admin = Rows(Scope.ADMIN)

ADMIN = (
    *_common(Scope.ADMIN, pushes=False, max_idle_ms=300000, receive_buffer_bytes=65536),
    _admin.unused("default.api.timeout.ms", Type.INT, 60000,
        "How long an operation may take with all its retries.", _ONE_REQUEST, at_least(0)),
    _admin.unused("retries", Type.INT, 2**31 - 1, "How often a request is sent again.",
        "questions are asked again for seconds, changes with the next pass", at_least(0)),
    _admin.refused("bootstrap.controllers", Type.LIST, (), "KRaft controllers to ask instead of brokers.",
        "Farshore talks to brokers"),
)  # fmt: skip

KEYS = CONSUMER + PRODUCER + ADMIN
