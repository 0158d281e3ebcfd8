"""All flows in one process, while a cluster is silent: it takes connections and says nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from configs import ReadText, read_text, said

from farshore.driver import spark_keeper, spark_process, waits
from farshore.driver.figures import FlowState
from farshore.driver.flow import FlowDriver
from farshore.driver.service import Service
from farshore.errors import SparkUnavailable

__all__ = ["read_text"]

WAIT_SECONDS = 5.0


@pytest.fixture
def silent() -> Iterator[dict[str, str]]:
    """Four of them, with their addresses."""
    with contextlib.ExitStack() as stack:
        listeners = {alias: stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=50)) for alias in "ABCD"}
        yield {alias: f"127.0.0.1:{each.getsockname()[1]}" for alias, each in listeners.items()}


@pytest.fixture
def start(
    read_text: ReadText, silent: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Service]]:
    """Starts a flow from A to B and one from C to D, without Spark."""
    lines = [f"clusters = {', '.join(silent)}", "A->B.enabled = true", "C->D.enabled = true"]
    servers = [f"{alias}.bootstrap.servers = {address}" for alias, address in silent.items()]
    reading = read_text("\n".join([*lines, *servers, "emit.heartbeats.enabled = false"]))
    settings = reading.settings
    assert settings is not None, said(reading)
    never = threading.Event()
    monkeypatch.setattr(spark_process, "open_context", lambda *_, **__: never.wait(WAIT_SECONDS))
    started = []

    def start_it(**options: Any) -> Service:
        started.append(Service(settings, **options))
        started[0].start()
        return started[0]

    yield start_it
    never.set()
    for each in started:
        each.stop()


def wait_until(true: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def test_flows_are_seen_as_starting_while_no_cluster_has_answered(start: Callable[..., Service]) -> None:
    service = start()
    wait_until(lambda: len(service.status) == 2)
    assert [each.flow for each in service.status] == ["A->B", "C->D"]
    assert {each.state for each in service.figures} == {FlowState.STARTING}


def test_spark_that_cannot_be_had_at_the_start_ends_all_flows_and_says_why(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: Any, **__: Any) -> None:
        raise SparkUnavailable("Spark cannot be started on mars: no air")

    monkeypatch.setattr(spark_process, "open_context", no_spark)
    service = start()
    wait_until(lambda: service.done)
    assert str(service.error) == "Spark cannot be started on mars: no air"
    assert service.failed


def test_the_log_says_what_a_start_waits_for(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waits, "TOLD_AFTER_SECONDS", 0.1)
    caplog.set_level(logging.INFO)
    start()
    for flow in ("A->B", "C->D"):
        wait_until(lambda flow=flow: f"{flow}: this takes longer than" in caplog.text)  # type: ignore[misc]


@pytest.mark.parametrize("once", [False, True])
def test_a_stop_before_any_answer_tells_of_every_flow_and_fails_if_all_was_to_be_copied(
    start: Callable[..., Service], once: bool
) -> None:
    service = start(once=once)
    service.stop()
    assert [(each.flow, each.state, each.left) for each in service.status] == [
        ("A->B", "stopped", None),
        ("C->D", "stopped", None),
    ]
    assert service.failed is once


def test_a_stop_fails_where_a_cluster_had_not_answered_for_long(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farshore.driver.flow._PATIENT_SECONDS", 0.1)
    service = start()
    wait_until(lambda: len(service.status) == 2)
    time.sleep(0.3)
    service.stop()
    assert service.failed


def test_what_does_not_heed_a_stop_is_abandoned_and_that_is_a_failure(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deaf(_: FlowDriver) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)

    joined = []
    join = threading.Thread.join

    def noted(self: threading.Thread, timeout: float | None = None) -> None:
        if self.name == "driver loop":
            joined.append(timeout)
        join(self, timeout)

    monkeypatch.setattr(FlowDriver, "run", deaf)
    monkeypatch.setattr(threading.Thread, "join", noted)
    service = start()
    wait_until(lambda: len(service.status) == 2)
    service.stop(within=3.0)
    assert service.failed
    assert joined
    assert all(timeout is not None and timeout < 3.0 for timeout in joined), "one deadline for all of it"


def test_a_stop_that_takes_long_is_not_taken_for_an_end_of_spark(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def deaf(_: FlowDriver) -> None:
        await asyncio.Event().wait()

    def open_context(*_: Any, **__: Any) -> str:
        opened.append("Spark")
        return "a context"

    def close_context(*_: Any) -> None:
        closed.set()
        time.sleep(0.3)  # in which the keeper would look several times

    opened: list[str] = []
    closed = threading.Event()
    monkeypatch.setattr(FlowDriver, "run", deaf)
    monkeypatch.setattr(spark_keeper, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(spark_process, "open_context", open_context)
    monkeypatch.setattr(spark_process, "close_context", close_context)
    monkeypatch.setattr(spark_process, "cores_of", lambda _: None if closed.is_set() else 2)
    monkeypatch.setattr(spark_process, "warm_up", lambda *_: None)
    service = start()
    wait_until(lambda: bool(opened))
    service.stop(within=3.0)
    assert closed.is_set()
    assert opened == ["Spark"]
    assert "Spark" not in caplog.text


def test_spark_that_does_not_come_back_ends_all_flows_and_says_why(
    start: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_context(*_: Any, **__: Any) -> str:
        opened.append("Spark")
        if len(opened) > 1:
            raise SparkUnavailable("no air")
        return "a context"

    looks = iter([2, 2])
    opened: list[str] = []
    monkeypatch.setattr(spark_keeper, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(spark_process, "open_context", open_context)
    monkeypatch.setattr(spark_process, "cores_of", lambda _: next(looks, None))
    monkeypatch.setattr(spark_process, "warm_up", lambda *_: None)
    service = start(once=True)
    wait_until(lambda: service.done)
    assert str(service.error) == "Spark has ended, and has not come back within 0 s: no air"
    assert service.failed
