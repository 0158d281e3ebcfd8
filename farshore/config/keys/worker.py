"""Rows for the Connect worker: in a dedicated file `B.<key>`, else the worker's own properties file.

Farshore has no workers of that kind. What matters of them is where positions are stored, the group that is
the lock of a flow, and exactly-once; most other keys are about Connect's own machinery.
"""

from __future__ import annotations

from farshore.config.keys.clients import jvm_keys, network_keys
from farshore.config.keys.connectors import SIMPLE_HEADER_CONVERTER
from farshore.config.keys.table import Rows, Scope, Type, at_least, one_of, positive_or_broker_default

_BYTES = "what a connector ends up with must be ByteArrayConverter, which a dedicated file has by default"
_LOCK = "of the client that holds the flow's lock"
_NO_WORKERS = "there are no workers to share tasks: Spark places the slots"
_NO_PLUGINS = "Farshore loads no Connect plugins"
_NO_REST = "Farshore has no REST server of Connect's kind"
_NOT_CREATED = "Farshore does not create this topic"
_OBSOLETE = "obsolete: Kafka itself ignores it since 3.0"

_ROWS = Rows(Scope.WORKER)
_honoured, _unused = _ROWS.honoured, _ROWS.unused

STORAGE = (
    _honoured("group.id", Type.STRING, None, "Group of the workers; who is in it owns the flow.",
              "the default in a dedicated file is SOURCE-mm2; Farshore joins it as the flow's lock"),
    _honoured("offset.storage.topic", Type.STRING, None, "Topic that holds the positions.",
              "the default in a dedicated file is mm2-offsets.SOURCE.internal"),
    _honoured("offset.storage.partitions", Type.INT, 25, "Partitions of that topic, if it is created.",
              check=positive_or_broker_default),
    _honoured("offset.storage.replication.factor", Type.SHORT, 3, "Replicas of that topic, if it is created.",
              check=positive_or_broker_default),
    _honoured("config.storage.topic", Type.STRING, None,
              "Topic in which workers keep connectors' configurations.",
              "never written; its name is known so that it is shown and never mirrored"),
    _unused("config.storage.replication.factor", Type.SHORT, 3, "Replicas of that topic.", _NOT_CREATED,
            positive_or_broker_default, quiet=True),
    _honoured("status.storage.topic", Type.STRING, None, "Topic in which workers keep the status of tasks.",
              "never written; its name is known so that it is shown and never mirrored"),
    _unused("status.storage.partitions", Type.INT, 5, "Partitions of that topic.", _NOT_CREATED,
            positive_or_broker_default, quiet=True),
    _unused("status.storage.replication.factor", Type.SHORT, 3, "Replicas of that topic.", _NOT_CREATED,
            positive_or_broker_default, quiet=True),
    _unused("offset.flush.interval.ms", Type.LONG, 60000, "How often positions are written.",
            "Farshore writes positions about once a second, and always when it stops"),
    _unused("offset.flush.timeout.ms", Type.LONG, 5000, "How long writing positions may take.",
            "writing positions does not hold up the copying"),
    _honoured("exactly.once.source.support", Type.STRING, "disabled",
              "Whether records and positions are written in one transaction.",
              check=one_of("disabled", "preparing", "enabled", ignore_case=True)),
    _honoured("key.converter", Type.CLASS, None, "How Connect would encode keys.", _BYTES),
    _honoured("value.converter", Type.CLASS, None, "How Connect would encode values.", _BYTES),
    _honoured("header.converter", Type.CLASS, SIMPLE_HEADER_CONVERTER, "How Connect would encode headers.",
              _BYTES),
    _unused("key.converter.plugin.version", Type.STRING, None, "Version of the key converter.", _NO_PLUGINS),
    _unused("value.converter.plugin.version", Type.STRING, None, "Version of the value converter.",
            _NO_PLUGINS),
    _unused("header.converter.plugin.version", Type.STRING, None, "Version of the header converter.",
            _NO_PLUGINS),
)  # fmt: skip

GROUP = (
    _honoured("session.timeout.ms", Type.INT, 10000, "How long a silent member stays in the group.", _LOCK),
    _unused("heartbeat.interval.ms", Type.INT, 3000, "How often a member says that it is there.",
            "four times within session.timeout.ms"),
    _unused("rebalance.timeout.ms", Type.INT, 60000, "How long members may take to join again.", _NO_WORKERS),
    _unused("scheduled.rebalance.max.delay.ms", Type.INT, 300000,
            "How long the tasks of a lost worker wait for its return.", _NO_WORKERS, at_least(0)),
    _unused("worker.sync.timeout.ms", Type.INT, 3000, "How long a worker waits to catch up with the others.",
            _NO_WORKERS),
    _unused("worker.unsync.backoff.ms", Type.INT, 300000,
            "How long one that does not stays out of the group.", _NO_WORKERS),
    _unused("connect.protocol", Type.STRING, "sessioned", "How workers share out tasks.", _NO_WORKERS,
            one_of("eager", "compatible", "sessioned", ignore_case=True)),
    _unused("task.shutdown.graceful.timeout.ms", Type.LONG, 5000, "How long tasks may take to stop.",
            "a slot that stops finishes its open requests and writes its positions"),
    _unused("inter.worker.key.generation.algorithm", Type.STRING, "HmacSHA256",
            "How the key for requests between workers is made.", _NO_WORKERS),
    _unused("inter.worker.key.size", Type.INT, None, "Size of that key.", _NO_WORKERS),
    _unused("inter.worker.key.ttl.ms", Type.INT, 3600000, "Life of that key.", _NO_WORKERS, at_least(0)),
    _unused("inter.worker.signature.algorithm", Type.STRING, "HmacSHA256", "How such requests are signed.",
            _NO_WORKERS),
    _unused("inter.worker.verification.algorithms", Type.LIST, ("HmacSHA256",),
            "Which signatures are accepted.", _NO_WORKERS),
)  # fmt: skip

CLIENT = (
    _honoured("client.id", Type.STRING, "", "Name under which brokers know the member of the group.",
              "the default in a dedicated file is SOURCE->TARGET"),
    _unused("request.timeout.ms", Type.INT, 40000, "How long a request of the member may take.",
            "session.timeout.ms is what counts", at_least(0)),
    *network_keys(Scope.WORKER, receive_buffer_bytes=32768),
    *jvm_keys(Scope.WORKER, "INFO", "DEBUG"),
)  # fmt: skip

CONNECT = (
    _unused("plugin.path", Type.LIST, None, "Where Connect finds plugins.", _NO_PLUGINS),
    _unused("plugin.discovery", Type.STRING, "hybrid_warn", "How Connect finds plugins.", _NO_PLUGINS,
            one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load", ignore_case=True)),
    _unused("connector.client.config.override.policy", Type.STRING, "All",
            "Which client settings a connector may override.", "a connector may override all of them"),
    _unused("topic.creation.enable", Type.BOOLEAN, True, "Whether Connect creates topics for connectors.",
            "remote topics are created like their sources, as MirrorMaker 2 does"),
    _unused("topic.tracking.enable", Type.BOOLEAN, True, "Whether Connect notes which topics are written.",
            "`farshore status` shows them"),
    _unused("topic.tracking.allow.reset", Type.BOOLEAN, True, "Whether those notes may be reset.",
            "no such notes are kept"),
    _unused("internal.key.converter", Type.CLASS, "org.apache.kafka.connect.json.JsonConverter",
            "How keys in Connect's own topics are encoded.", _OBSOLETE, removed="3.0"),
    _unused("internal.value.converter", Type.CLASS, "org.apache.kafka.connect.json.JsonConverter",
            "How values in Connect's own topics are encoded.", _OBSOLETE, removed="3.0"),
)  # fmt: skip

REST = (
    _unused("listeners", Type.LIST, ("http://:8083",), "Where Connect's REST server listens.", _NO_REST),
    _unused("admin.listeners", Type.LIST, None, "Where its administrative part listens.", _NO_REST),
    _unused("rest.advertised.host.name", Type.STRING, None, "Its host name as other workers see it.",
            _NO_REST),
    _unused("rest.advertised.port", Type.INT, None, "Its port as other workers see it.", _NO_REST),
    _unused("rest.advertised.listener", Type.STRING, None, "Which listener other workers use.", _NO_REST),
    _unused("rest.extension.classes", Type.LIST, (), "Java classes that extend it.", _NO_REST),
    _unused("access.control.allow.origin", Type.STRING, "", "Its CORS origin.", _NO_REST),
    _unused("access.control.allow.methods", Type.STRING, "", "Its CORS methods.", _NO_REST),
    _unused("response.http.headers.config", Type.STRING, "", "Its extra response headers.", _NO_REST),
    _unused("ssl.client.auth", Type.STRING, "none", "Client certificates at its https listener.", _NO_REST,
            one_of("required", "requested", "none")),
    _unused("rest.host.name", Type.STRING, None, "Old form of `listeners`: its host.", _OBSOLETE,
            removed="3.0"),
    _unused("rest.port", Type.INT, 8083, "Old form of `listeners`: its port.", _OBSOLETE, removed="3.0"),
)  # fmt: skip

KEYS = STORAGE + GROUP + CLIENT + CONNECT + REST

PREFIXES = {
    "offset.storage.": "further settings of the positions' topic, used if Farshore creates it",
    "config.storage.": _NOT_CREATED,
    "status.storage.": _NOT_CREATED,
    "key.converter.": "settings of a converter; bytes are copied as they are",
    "value.converter.": "settings of a converter; bytes are copied as they are",
    "header.converter.": "settings of a converter; bytes are copied as they are",
    "internal.key.converter.": _OBSOLETE,
    "internal.value.converter.": _OBSOLETE,
    "listeners.https.": _NO_REST,
    "admin.listeners.https.": _NO_REST,
    "config.providers.": "settings of a config provider",
    "metrics.context.": "labels for metrics of the JVM; Farshore's metrics are its own",
}
"""Families of keys whose ends are free, each with a remark."""
