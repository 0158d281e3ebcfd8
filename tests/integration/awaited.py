"""Asynchronous parts of the product for tests that wait: all of them run in one event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from farshore.kafka import background

T = TypeVar("T")


def awaited(work: Coroutine[Any, Any, T]) -> T:
    async def run() -> T:
        return await work

    return background.run(run)
