"""A cluster: brokers that get requests and answer, perhaps later; and what happens to its topics and leaders.

    cluster = ModelCluster("A", host)
    cluster.create_topic("orders", 6)
    cluster.handle(1, Metadata(("orders",)), "slot 0", reply)

Every broker holds a replica of every partition. `handle` carries a request out when it is called; whatever delays or
loses it, or its answer, is the business of a simulated connection.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from farshore.kafka.raw_model import BrokerAddress
from farshore.kafka.raw_requests import Request
from farshore.model import TopicPartition
from simulation.kafka import codes
from simulation.kafka.answers import Answers
from simulation.kafka.checks import TopicSettings
from simulation.kafka.fetch_sessions import FetchSessions
from simulation.kafka.groups import Groups
from simulation.kafka.host import Host
from simulation.kafka.log import Log
from simulation.kafka.transactions import Coordinator, State, Transaction


class ModelCluster:
    def __init__(self, alias: str, host: Host, brokers: int = 3) -> None:
        self.alias = self.cluster_id = alias
        self.era = 0
        """Counts how often it was wiped."""
        self.host = host
        self.brokers = list(range(1, brokers + 1))
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[str, str] = {}
        self.settings: dict[str, TopicSettings] = {}
        self.shown: dict[TopicPartition, tuple[int | None, int]] = {}
        """Leader, None for none at the moment, and its epoch, by the metadata that all brokers tell."""
        chance = host.rng("fetch session ids")
        self.sessions = {broker: FetchSessions(chance) for broker in self.brokers}
        self.coordinator = Coordinator(self._write_markers)
        self.groups = Groups(host)
        self._partitions: dict[str, list[TopicPartition]] = {}
        self._answers = Answers(self)
        self._paused_until = dict.fromkeys(self.brokers, 0.0)
        self._shift = self._topics_made = 0
        self._loading_until = 0.0

    def handle(self, broker: int, request: Request[Any], client: str, reply: Callable[[Any], None]) -> None:
        """Carry the request out on this broker, when it is not paused; `reply` gets what `request.read` would give."""
        until = self._paused_until[broker]
        if until > self.host.now():
            self.host.call_at(until, self.handle, broker, request, client, reply)
        else:
            self._answers.give(broker, request, client, reply)

    def address(self, broker: int) -> BrokerAddress:
        return BrokerAddress(self.alias, broker)

    # -- topics

    def create_topic(self, topic: str, partitions: int, settings: TopicSettings | None = None) -> None:
        self._topics_made += 1
        self.topic_ids[topic] = f"{topic}#{self._topics_made}"
        self.settings[topic] = settings or TopicSettings()
        for number in range(partitions):
            self.add_partition(topic, number)

    def add_partition(self, topic: str, number: int) -> None:
        one = TopicPartition(topic, number)
        self._partitions.setdefault(topic, []).append(one)
        self.logs[one] = Log(topic, number, self.host.rng("leaders").choice(self.brokers))
        self._show(one)

    def delete_topic(self, topic: str) -> None:
        """With all that is in it; a topic of the same name, created later, is another one."""
        del self.topic_ids[topic], self.settings[topic]
        for one in self._partitions.pop(topic):
            del self.shown[one]
            self.logs.pop(one).tell_waiting()

    def wipe(self, cluster_id: str) -> None:
        """All that it has and knows is gone. Whoever wipes it loses connections, with all that is on its way."""
        for topic in list(self.topic_ids):
            self.delete_topic(topic)
        self.era += 1
        self.cluster_id = cluster_id
        self.coordinator, self.groups = Coordinator(self._write_markers), Groups(self.host)
        for sessions in self.sessions.values():
            sessions.forget()

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return list(self._partitions.get(topic, ()))

    # -- leaders

    def move_leader(
        self, one: TopicPartition, *, leader: int | None = None, keep: int | None = None, leaderless: float = 0.0
    ) -> None:
        """Another broker leads, or the one given. With `keep` the election is an unclean one: the new leader has no
        batch that reaches this offset. For `leaderless` seconds metadata tell of no leader, and then, after the host's
        lag, of the new one.
        """
        log = self.logs[one]
        if leader is None:
            others = [broker for broker in self.brokers if broker != log.leader]
            leader = self.host.rng("leaders").choice(others or self.brokers)
        if keep is not None:
            log.truncate(keep, leader)
        log.lead(leader)
        lag = self.host.metadata_lag(self)
        if leaderless:
            self.host.call_at(self.host.now() + lag, self._hide, one)
        if lag or leaderless:
            self.host.call_at(self.host.now() + lag + leaderless, self._show, one)
        else:
            self._show(one)

    def _show(self, one: TopicPartition) -> None:
        if one in self.logs:
            self.shown[one] = self.logs[one].leader, self.logs[one].leader_epoch

    def _hide(self, one: TopicPartition) -> None:
        if one in self.logs:
            self.shown[one] = None, self.shown[one][1]

    # -- brokers

    def pause(self, broker: int, seconds: float) -> None:
        """The broker carries out nothing for so long, and then all that has arrived, in order."""
        self._paused_until[broker] = max(self._paused_until[broker], self.host.now() + seconds)

    def restart(self, broker: int) -> None:
        """The broker forgets what is not in its logs. Whoever restarts it moves leaders, and loses connections."""
        self.sessions[broker].forget()
        for log in self.logs.values():
            log.stop(broker)

    # -- transactions and groups

    def coordinator_of(self, name: str) -> int:
        """Of a transactional id, or of a group."""
        place = zlib.crc32(name.encode()) + self._shift
        return self.brokers[place % len(self.brokers)]

    def move_coordinators(self, *, loading: float = 0.0) -> None:
        """Every coordinator is on another broker, which reads its state for so long."""
        self._shift += 1
        for transactional_id in self.coordinator.transactions:
            self.coordinator.reload(transactional_id)
        self.groups.reload(loading)
        self._loading_until = self.host.now() + loading

    @property
    def coordinators_loading(self) -> bool:
        return self.host.now() < self._loading_until

    def not_coordinator(self, broker: int, name: str) -> int:
        if self.coordinator_of(name) != broker:
            return codes.NOT_COORDINATOR
        return codes.COORDINATOR_LOAD_IN_PROGRESS if self.coordinators_loading else codes.NONE

    def expire_transactions(self) -> list[str]:
        """Abort those that are open longer than their timeout, as coordinators do every ten seconds; their ids."""
        expired = [one.transactional_id for one in self.coordinator.expire(self.host.now())]
        for each in expired:
            self.host.event(f"{self.alias}: the transaction of {each} expires")
        return expired

    def _write_markers(self, one: Transaction) -> None:
        for partition in list(one.partitions):
            delay = self.host.marker_delay(self, one.transactional_id)
            self.host.call_at(self.host.now() + delay, self._write_marker, one, partition, self.era)

    def _write_marker(self, one: Transaction, partition: TopicPartition, era: int) -> None:
        if era != self.era:
            return
        log = self.logs.get(partition)
        leaderless = log is not None and self.shown[partition][0] is None
        if log is not None and not (leaderless and self.host.drops_marker(self, partition)):
            committed, now = one.state is State.PREPARE_COMMIT, self.wall_ms()
            log.append_marker(one.producer_id, one.epoch, committed=committed, timestamp=now)
        self.coordinator.marked(one, partition)

    def wall_ms(self) -> int:
        return round(self.host.wall() * 1000)
