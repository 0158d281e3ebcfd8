"""One Spark after the other: at the end of Farshore none is left, at whatever moment that comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import SparkContext

from farshore.driver import spark_process
from farshore.driver.spark_process import SparkProcess
from farshore.errors import SparkUnavailable


class Java:
    all: list[Java]

    def __init__(self) -> None:
        self.killed = self.swept = False
        Java.all.append(self)

    def kill(self) -> None:
        self.killed = True

    def sweep(self, _: float) -> None:
        assert self.killed, "what still writes is not swept"
        self.swept = True


class Context:
    def __init__(self, java: Java) -> None:
        self.java = java


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The contexts that were left, and those that were closed."""
    left: list[Context] = []

    def leave_context(context: Context | None, java: Java) -> None:
        java.sweep(1.0)
        if context is not None:
            left.append(context)

    def open_context(_master: None, _slots: int, java: Java, **_: Any) -> Context:
        return Context(java)

    Java.all = []
    monkeypatch.setattr(spark_process, "Java", Java)
    monkeypatch.setattr(spark_process, "open_context", open_context)
    monkeypatch.setattr(spark_process, "leave_context", leave_context)
    monkeypatch.setattr(spark_process, "close_context", lambda context, _: left.append(context))
    return left


def test_each_spark_has_a_java_of_its_own_and_the_present_one_is_closed_and_killed(left: list[Context]) -> None:
    async def twice() -> tuple[Context, Context]:
        first = await spark.open()
        spark.end()
        return first, await spark.open()

    spark = SparkProcess(None, 2, {}, None)
    first, second = asyncio.run(twice())
    assert first.java is not second.java
    assert (first.java.killed, second.java.killed) == (True, False)
    assert left == [first]
    spark.close(1.0)
    spark.kill()
    assert left == [first, second]
    assert second.java.killed
    assert first.java.swept
    assert second.java.swept


def test_one_that_was_left_is_not_closed_once_more(left: list[Context]) -> None:
    spark = SparkProcess(None, 2, {}, None)
    asyncio.run(spark.open())
    spark.end()
    spark.close(1.0)
    assert len(left) == 1


@pytest.mark.parametrize("end", [SparkProcess.kill, lambda spark: spark.close(1.0)])
def test_none_is_started_after_the_end(left: list[Context], end: Callable[[SparkProcess], None]) -> None:
    spark = SparkProcess(None, 2, {}, None)
    end(spark)
    with pytest.raises(SparkUnavailable, match="Farshore ends"):
        asyncio.run(spark.open())
    assert left == []


def test_one_that_did_not_come_up_is_swept_too(left: list[Context], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_context(*_: Any, **__: Any) -> None:
        raise SparkUnavailable("no air")

    monkeypatch.setattr(spark_process, "open_context", no_context)
    spark = SparkProcess(None, 2, {}, None)
    with pytest.raises(SparkUnavailable, match="no air"):
        asyncio.run(spark.open())
    spark.end()
    assert Java.all[-1].swept
    assert left == []


@pytest.mark.usefixtures("left")
def test_a_context_whose_java_was_not_launched_here_is_forgotten_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, object())
    spark = SparkProcess(None, 2, {}, None)
    asyncio.run(spark.open())
    spark.end()
    assert SparkContext._active_spark_context is None, "or the next opening would find it"
