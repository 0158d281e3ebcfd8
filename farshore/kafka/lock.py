"""Who may write a flow: membership of MirrorMaker 2's own group on the target, as a consumer of the flow's board.

Kafka keeps the members of a group of one kind. While MirrorMaker 2 is in its group we are refused, and while we are in
it MirrorMaker 2 stops with the same error; of several Farshores one is given the board's only partition, and the others
wait as standbys. Nothing is ever committed in the group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException

from farshore.config.settings import FlowSettings
from farshore.errors import AuthenticationFailed, KafkaError, PermissionDenied, RequestRefused
from farshore.kafka.clients import librdkafka_config
from farshore.kafka.failures import Complaints
from farshore.naming import board_topic

_POLL_SECONDS = 0.5
_REFUSED_FOR_GOOD_SECONDS = 1.0
_CONNECT = "INCONSISTENT_GROUP_PROTOCOL"
_NOT_ALLOWED = {
    "GROUP_AUTHORIZATION_FAILED": "group {group}",
    "TOPIC_AUTHORIZATION_FAILED": "topic {board}",
}


class FlowLock:
    """Joins on `start`, in a thread of its own; `held` and `refusal` tell how it stands. `release` leaves the group.

    `on_lost` is called, once each time, when the flow was held and is not any more.
    """

    def __init__(self, settings: FlowSettings, *, on_lost: Callable[[], None]) -> None:
        worker = settings.worker
        session_timeout_ms = int(worker.session_timeout.total_seconds() * 1000)
        self._cluster = settings.flow.target
        self._group = worker.group_id
        self._board_topic = board_topic(settings.flow.source)
        self._on_lost = on_lost
        self._config: dict[str, Any] = {
            **librdkafka_config(worker.connection),
            "group.id": worker.group_id,
            "client.id": worker.client_id or "farshore",
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": max(500, session_timeout_ms // 4),
            # Whoever holds the board keeps it when a standby joins. Any other strategy takes it away for a moment, and
            # may give it to the newcomer: a standby would stop the copying.
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "allow.auto.create.topics": False,
            "log_level": 0,
            "error_cb": self._hear,
        }
        self._complaints = Complaints()
        self._has_joined = False
        self._held = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.refusal: KafkaError | None = None

    @property
    def held(self) -> bool:
        return self._held.is_set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._keep_polling, name=f"lock {self._group}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether it is held, within that time."""
        return self._held.wait(seconds)

    def release(self) -> None:
        """Leave the group, so that the next one need not wait for the session to end."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10)

    def _keep_polling(self) -> None:
        consumer = Consumer(self._config)
        try:
            consumer.subscribe([self._board_topic], on_assign=self._assigned, on_revoke=self._lost, on_lost=self._lost)
            while not self._ended.is_set():
                try:
                    message = consumer.poll(_POLL_SECONDS)
                except KafkaException as error:
                    self._refused(error.args[0])
                    continue
                if message is not None and message.error() is not None:
                    self._refused(message.error())
        finally:
            consumer.close()

    def _assigned(self, _consumer: Any, partitions: list[Any]) -> None:
        self.refusal, self._has_joined = None, True
        if partitions:
            self._held.set()

    def _lost(self, _consumer: Any, _partitions: list[Any]) -> None:
        if self._held.is_set():
            self._held.clear()
            if not self._ended.is_set():
                self._on_lost()

    def _hear(self, error: Any) -> None:
        """Once we are in the group, what goes wrong with a login passes by itself."""
        self._complaints.hear(error)
        if not self._has_joined and self._complaints.refused_for > _REFUSED_FOR_GOOD_SECONDS:
            self.refusal = AuthenticationFailed(f"{self._cluster}: {self._complaints.login}", cluster=self._cluster)

    def _refused(self, error: Any) -> None:
        if error.name() == _CONNECT:
            message = (
                f"{self._cluster}: MirrorMaker 2 or a Connect cluster is running in the group {self._group}: stop it, "
                "and this Farshore takes over"
            )
            self.refusal = RequestRefused(message, cluster=self._cluster, code=_CONNECT, retriable=True)
        elif error.name() in _NOT_ALLOWED:
            wanted = f"READ on the {_NOT_ALLOWED[error.name()]}".format(group=self._group, board=self._board_topic)
            message = f"{self._cluster}: the flow cannot be held: grant our principal {wanted} ({error.name()})"
            self.refusal = PermissionDenied(message, cluster=self._cluster)
