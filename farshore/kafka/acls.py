"""ACLs of topics, by their literal names: who may do what, as a cluster's authorizer has them."""

from __future__ import annotations

from collections.abc import Collection

from farshore.errors import KafkaError
from farshore.kafka.admin import Admin
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import TopicAcl

__all__ = ["TopicAcl", "create_topic_acls", "topic_acls"]


def topic_acls(cluster: Cluster) -> frozenset[TopicAcl] | None:
    """All that are there, of topics that exist or not; None if the cluster has no authorizer.

    Raises PermissionDenied without DESCRIBE on the cluster. Kinds of operations that we have no word for are left out.
    """
    return cluster.ask(Admin.topic_acls)


def create_topic_acls(cluster: Cluster, acls: Collection[TopicAcl]) -> dict[TopicAcl, KafkaError | None]:
    """What became of each: None, or why it was not created. One that is there already stays as it is."""
    return cluster.ask(lambda admin: admin.create_acls(acls)) if acls else {}
