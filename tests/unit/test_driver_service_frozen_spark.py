"""Spark's Java is there but does not answer, as when it is frozen."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest
from configs import ONE_FLOW, ReadText, read_text

from farshore.driver import service as service_module
from farshore.driver.cores import Cores
from farshore.driver.service import Service

__all__ = ["read_text"]

WAIT_SECONDS = 5.0


class Noted(Cores):
    def __init__(self) -> None:
        super().__init__()
        self.noted: list[int] = []

    def note(self, cores: int, now: float) -> None:
        super().note(cores, now)
        self.noted.append(cores)


class Spark:
    """Its answers to one look after the other. "none" means that none comes while the test runs."""

    def __init__(self, *answers: int | str | None) -> None:
        self.thawed = threading.Event()
        self._answers = iter(answers)

    def cores(self, _: object) -> int | None:
        answer = next(self._answers)
        if isinstance(answer, str):
            self.thawed.wait(2 * WAIT_SECONDS)
            return None
        return answer


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    """Silent at two looks between others, and ended at last."""
    one = Spark(2, "none", "none", 3, None)
    monkeypatch.setattr(service_module, "_LOOK_AT_SPARK_SECONDS", 0.01)
    monkeypatch.setattr(service_module, "_SPARK_ANSWERS_WITHIN_SECONDS", 0.1)
    monkeypatch.setattr(service_module, "cores_of", one.cores)
    monkeypatch.setattr(service_module, "warm_up", lambda *_: None)
    yield one
    one.thawed.set()


def test_a_look_at_spark_without_an_answer_is_told_and_made_again_and_is_not_its_end(
    spark: Spark, read_text: ReadText, caplog: pytest.LogCaptureFixture
) -> None:
    settings = read_text(ONE_FLOW).settings
    assert settings is not None
    service, cores = Service(settings), Noted()

    async def watch() -> None:
        async def opened() -> object:
            return object()

        async with asyncio.timeout(WAIT_SECONDS):
            await service._watch(asyncio.create_task(opened()), cores)

    with caplog.at_level(logging.WARNING):
        asyncio.run(watch())
    assert cores.noted == [2, 3], "silence changes nothing"
    assert not spark.thawed.is_set()
    assert "has ended the application" in str(service.error)
    assert sum("Spark has not answered" in each.getMessage() for each in caplog.records) == 2
