"""Changing a cluster: topics, partitions and settings of topics.

The counterpart of `farshore.kafka.cluster`, which only looks, and on the same terms: many things are asked for in one
call, each has an answer of its own, every call has a time limit, and only what makes the whole call senseless is
raised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from farshore.kafka.admin import Outcomes
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import NewTopic

__all__ = ["Outcomes", "alter_topic_configs", "create_partitions", "create_topics"]


def create_topics(cluster: Cluster, topics: Collection[NewTopic]) -> Outcomes:
    """Make topics that are not there. One that is, is refused as TOPIC_ALREADY_EXISTS and stays as it is.

    A topic that was made may take a moment until every broker knows it.
    """
    return cluster.ask(lambda admin: admin.create_topics(topics)) if topics else {}


def create_partitions(cluster: Cluster, totals: Mapping[str, int]) -> Outcomes:
    """Let topics grow to as many partitions. One that has as many or more is refused as INVALID_PARTITIONS."""
    return cluster.ask(lambda admin: admin.create_partitions(totals)) if totals else {}


def alter_topic_configs(
    cluster: Cluster, values: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
) -> Outcomes:
    """Set these settings of topics; None lets the brokers' default hold again. All others stay as they are.

    A topic gets all that is wanted for it, or nothing. `validate_only` changes nothing and tells what would become.
    """
    if not values:
        return {}
    return cluster.ask(lambda admin: admin.alter_topic_configs(values, validate_only=validate_only))
