"""What the driver keeps in order on both clusters, beside the copying: topics, and the topics Farshore itself needs.

Each is one idempotent pass: what is wanted, how that differs from what is there, the change. A pass that fails for one
topic goes on with the others and says so; it raises `farshore.errors.KafkaError` only where a cluster does not answer
at all. Nothing is ever deleted.
"""

from .internal_topics import (
    InternalTopic,
    InternalTopicProblem,
    InternalTopics,
    TopicPurpose,
    ensure_internal_topics,
    wanted_internal_topics,
)
from .topic_configs import RemoteTopic
from .topics import TopicFailure, TopicPlan, TopicSync, plan_topics, sync_topics

__all__ = [
    "InternalTopic",
    "InternalTopicProblem",
    "InternalTopics",
    "RemoteTopic",
    "TopicFailure",
    "TopicPlan",
    "TopicPurpose",
    "TopicSync",
    "ensure_internal_topics",
    "wanted_internal_topics",
    "plan_topics",
    "sync_topics",
]
