"""One Spark after the other: at the end of Farshore none is left, at whatever moment that comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from farshore.driver import spark_process
from farshore.driver.spark_process import SparkProcess
from farshore.errors import SparkUnavailable


class Java:
    all: list[Java]

    def __init__(self) -> None:
        self.killed = False
        Java.all.append(self)

    def kill(self) -> None:
        self.killed = True


class Context:
    def __init__(self, java: Java) -> None:
        self.java = java


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The contexts that were left, and those that were closed."""
    left: list[Context] = []

    def open_context(_master: None, _slots: int, java: Java, **_: Any) -> Context:
        return Context(java)

    Java.all = []
    monkeypatch.setattr(spark_process, "Java", Java)
    monkeypatch.setattr(spark_process, "open_context", open_context)
    monkeypatch.setattr(spark_process, "leave_context", left.append)
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


def test_one_that_was_left_is_not_closed_once_more(left: list[Context]) -> None:
    spark = SparkProcess(None, 2, {}, None)
    asyncio.run(spark.open())
    spark.end()
    spark.close(1.0)
    assert len(left) == 1


def test_none_is_started_after_the_end(left: list[Context]) -> None:
    spark = SparkProcess(None, 2, {}, None)
    spark.kill()
    with pytest.raises(SparkUnavailable, match="Farshore ends"):
        asyncio.run(spark.open())
    assert left == []
