"""The layouts of requests about clusters, topics, settings and ACLs. All are compared with Kafka's own classes by
tests/integration/test_java_parity_admin.py."""

from __future__ import annotations

from farshore.kafka.admin.codec import BOOLEAN, INT8, INT16, INT32, STRING, UUID, Array, Field, Struct
from farshore.kafka.admin.requests import Api

_THROTTLE = Field("throttle_time_ms", INT32)
_ERROR = (Field("error_code", INT16), Field("error_message", STRING))

METADATA = Api(
    "Metadata", 3, lowest=4, highest=12, flexible_from=9,
    request=Struct(
        Field("topics", Array(Field("topic_id", UUID, since=10), Field("name", STRING))),
        Field("allow_auto_topic_creation", BOOLEAN),
        Field("include_cluster_authorized_operations", BOOLEAN, since=8, until=10),
        Field("include_topic_authorized_operations", BOOLEAN, since=8),
    ),
    response=Struct(
        _THROTTLE,
        Field("brokers", Array(
            Field("node_id", INT32), Field("host", STRING), Field("port", INT32), Field("rack", STRING),
        )),
        Field("cluster_id", STRING),
        Field("controller_id", INT32),
        Field("topics", Array(
            Field("error_code", INT16),
            Field("name", STRING),
            Field("topic_id", UUID, since=10),
            Field("is_internal", BOOLEAN),
            Field("partitions", Array(
                Field("error_code", INT16),
                Field("partition_index", INT32),
                Field("leader_id", INT32),
                Field("leader_epoch", INT32, since=7),
                Field("replica_nodes", Array(INT32)),
                Field("isr_nodes", Array(INT32)),
                Field("offline_replicas", Array(INT32), since=5),
            )),
            Field("topic_authorized_operations", INT32, since=8),
        )),
        Field("cluster_authorized_operations", INT32, since=8, until=10),
    ),
)  # fmt: skip
"""From v8 on, Kafka 2.3, it tells what we may do on topics; from v10 on DescribeCluster tells it of the cluster."""

DESCRIBE_CLUSTER = Api(
    "DescribeCluster", 60, lowest=0, highest=1, flexible_from=0,
    request=Struct(
        Field("include_cluster_authorized_operations", BOOLEAN),
        Field("endpoint_type", INT8, since=1),
    ),
    response=Struct(
        _THROTTLE,
        *_ERROR,
        Field("endpoint_type", INT8, since=1),
        Field("cluster_id", STRING),
        Field("controller_id", INT32),
        Field("brokers", Array(
            Field("broker_id", INT32), Field("host", STRING), Field("port", INT32), Field("rack", STRING),
        )),
        Field("cluster_authorized_operations", INT32),
    ),
)  # fmt: skip

DESCRIBE_CONFIGS = Api(
    "DescribeConfigs", 32, lowest=1, highest=4, flexible_from=4,
    request=Struct(
        Field("resources", Array(
            Field("resource_type", INT8), Field("resource_name", STRING), Field("configuration_keys", Array(STRING)),
        )),
        Field("include_synonyms", BOOLEAN),
        Field("include_documentation", BOOLEAN, since=3),
    ),
    response=Struct(
        _THROTTLE,
        Field("results", Array(
            *_ERROR,
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("configs", Array(
                Field("name", STRING),
                Field("value", STRING),
                Field("read_only", BOOLEAN),
                Field("config_source", INT8),
                Field("is_sensitive", BOOLEAN),
                Field("synonyms", Array(Field("name", STRING), Field("value", STRING), Field("source", INT8))),
                Field("config_type", INT8, since=3),
                Field("documentation", STRING, since=3),
            )),
        )),
    ),
)  # fmt: skip

ALTER_CONFIGS = Api(
    "IncrementalAlterConfigs", 44, lowest=0, highest=1, flexible_from=1,
    request=Struct(
        Field("resources", Array(
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("configs", Array(
                Field("name", STRING), Field("config_operation", INT8), Field("value", STRING),
            )),
        )),
        Field("validate_only", BOOLEAN),
    ),
    response=Struct(
        _THROTTLE,
        Field("responses", Array(*_ERROR, Field("resource_type", INT8), Field("resource_name", STRING))),
    ),
)  # fmt: skip

# Later versions of the next two (KIP-599) refuse a request above its quota. To these the brokers answer late, and well.
# From v5 on topics that were made are answered with all their settings, which take longer to read than to ask for.
CREATE_TOPICS = Api(
    "CreateTopics", 19, lowest=2, highest=4, flexible_from=5,
    request=Struct(
        Field("topics", Array(
            Field("name", STRING),
            Field("num_partitions", INT32),
            Field("replication_factor", INT16),
            Field("assignments", Array(Field("partition_index", INT32), Field("broker_ids", Array(INT32)))),
            Field("configs", Array(Field("name", STRING), Field("value", STRING))),
        )),
        Field("timeout_ms", INT32),
        Field("validate_only", BOOLEAN),
    ),
    response=Struct(
        _THROTTLE,
        Field("topics", Array(Field("name", STRING), *_ERROR)),
    ),
)  # fmt: skip

CREATE_PARTITIONS = Api(
    "CreatePartitions", 37, lowest=0, highest=2, flexible_from=2,
    request=Struct(
        Field("topics", Array(
            Field("name", STRING),
            Field("count", INT32),
            Field("assignments", Array(Field("broker_ids", Array(INT32)))),
        )),
        Field("timeout_ms", INT32),
        Field("validate_only", BOOLEAN),
    ),
    response=Struct(_THROTTLE, Field("results", Array(Field("name", STRING), *_ERROR))),
)  # fmt: skip

_ACL = (
    Field("principal", STRING), Field("host", STRING), Field("operation", INT8), Field("permission_type", INT8),
)  # fmt: skip

DESCRIBE_ACLS = Api(
    "DescribeAcls", 29, lowest=1, highest=3, flexible_from=2,
    request=Struct(
        Field("resource_type_filter", INT8),
        Field("resource_name_filter", STRING),
        Field("pattern_type_filter", INT8),
        Field("principal_filter", STRING),
        Field("host_filter", STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
    response=Struct(
        _THROTTLE,
        *_ERROR,
        Field("resources", Array(
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("pattern_type", INT8),
            Field("acls", Array(*_ACL)),
        )),
    ),
)  # fmt: skip

CREATE_ACLS = Api(
    "CreateAcls", 30, lowest=1, highest=3, flexible_from=2,
    request=Struct(
        Field("creations", Array(
            Field("resource_type", INT8), Field("resource_name", STRING), Field("resource_pattern_type", INT8), *_ACL,
        )),
    ),
    response=Struct(_THROTTLE, Field("results", Array(*_ERROR))),
)  # fmt: skip
