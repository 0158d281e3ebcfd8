"""Changing a cluster: topics, partitions and settings of topics, through an administrative client.

The counterpart of `farshore.kafka.cluster`, which only looks, and on the same terms: many things are asked for in one
call, each has an answer of its own, every call has a time limit, and only what makes the whole call senseless is
raised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException as ClientException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not for mypy
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions as ClientNewPartitions
from confluent_kafka.cimpl import NewTopic as ClientNewTopic

from farshore.errors import KafkaError
from farshore.kafka.cluster import Cluster
from farshore.kafka.facts import NewTopic

Outcomes = dict[str, KafkaError | None]
"""What became of each topic: None, or why what was asked for did not come to be."""

_MOST_RECORDS_A_REQUEST = 5_000
"""Controllers refuse a request as a whole that takes more than 10,000 records of their metadata log."""

_BROKERS_SHARE_OF_THE_TIME = 0.8
"""The brokers get to answer "not yet" before we stop listening."""


def create_topics(cluster: Cluster, topics: Collection[NewTopic]) -> Outcomes:
    """Make topics that are not there. One that is, is refused as TOPIC_ALREADY_EXISTS and stays as it is.

    A topic that was made may take a moment until every broker knows it.
    """
    by_name = {each.name: each for each in topics}

    def request(names: list[str]) -> dict[str, Future[Any]]:
        wanted = [
            ClientNewTopic(
                name,
                num_partitions=by_name[name].partitions,
                replication_factor=by_name[name].replication_factor,
                config=dict(by_name[name].configs),
            )
            for name in names
        ]
        return cluster._admin.create_topics(wanted, **_time_limits(cluster))

    sizes = {name: 1 + each.partitions + len(each.configs) for name, each in by_name.items()}
    return _in_portions(cluster, sizes, request, "create topics")


def create_partitions(cluster: Cluster, totals: Mapping[str, int]) -> Outcomes:
    """Let topics grow to as many partitions. One that has as many or more is refused as INVALID_PARTITIONS."""

    def request(names: list[str]) -> dict[str, Future[Any]]:
        wanted = [ClientNewPartitions(name, totals[name]) for name in names]
        return cluster._admin.create_partitions(wanted, **_time_limits(cluster))

    return _in_portions(cluster, totals, request, "create partitions")


def alter_topic_configs(
    cluster: Cluster, values: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
) -> Outcomes:
    """Set these settings of topics; None lets the brokers' default hold again. All others stay as they are.

    A topic gets all that is wanted for it, or nothing. `validate_only` changes nothing and tells what would become.
    """

    def request(names: list[str]) -> dict[str, Future[Any]]:
        wanted = [
            ConfigResource(ResourceType.TOPIC, name, incremental_configs=_entries(values[name])) for name in names
        ]
        futures = cluster._admin.incremental_alter_configs(
            wanted, validate_only=validate_only, request_timeout=cluster.timeout
        )
        return {resource.name: future for resource, future in futures.items()}

    sizes = {name: len(each) for name, each in values.items()}
    return _in_portions(cluster, sizes, request, "alter the configuration of topics")


def _entries(values: Mapping[str, str | None]) -> list[ConfigEntry]:
    kinds = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
    return [ConfigEntry(key, value, incremental_operation=kinds[value is None]) for key, value in values.items()]


def _time_limits(cluster: Cluster) -> dict[str, float]:
    return {"operation_timeout": cluster.timeout * _BROKERS_SHARE_OF_THE_TIME, "request_timeout": cluster.timeout}


def _in_portions(
    cluster: Cluster, sizes: Mapping[str, int], request: Callable[[list[str]], dict[str, Future[Any]]], what: str
) -> Outcomes:
    outcomes: Outcomes = {}
    for names in _portions(sizes):
        try:
            futures = request(names)
        except ClientException as error:  # the library itself finds fault with what is asked
            outcomes |= dict.fromkeys(names, cluster._translated(error, what))
        else:
            outcomes |= cluster._answers(futures, what)
    return outcomes


def _portions(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """All names in order, a request's worth at a time."""
    portion: list[str] = []
    room = _MOST_RECORDS_A_REQUEST
    for name, size in sizes.items():
        if portion and size > room:
            yield portion
            portion, room = [], _MOST_RECORDS_A_REQUEST
        portion.append(name)
        room -= size
    if portion:
        yield portion
