"""Calls that block and cannot be cancelled: awaited from an event loop, or made side by side.

Each has a daemon thread of its own. The threads of asyncio's executor are joined when a program ends, so that one call
into a library that hangs would keep it from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

ResultT = TypeVar("ResultT")


async def in_thread(call: Callable[[], ResultT], name: str) -> ResultT:
    """What the call returns or raises. Cancelled, it leaves the thread to end by itself, and forgets its outcome.
    Neither the end of the event loop nor that of the process waits for it."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[ResultT] = loop.create_future()

    def returned(result: ResultT) -> None:
        if not outcome.done():
            outcome.set_result(result)

    def raised(error: BaseException) -> None:
        if not outcome.done():
            outcome.set_exception(error)

    def work() -> None:
        try:
            result = call()
        except BaseException as error:
            tell(raised, error)
        else:
            tell(returned, result)

    def tell(settle: Callable[..., None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed by now
            loop.call_soon_threadsafe(settle, what)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await outcome


def side_by_side(calls: Sequence[Callable[[], ResultT]], name: str) -> list[ResultT]:
    """What each of the calls returns, in their order, for a caller that waits. The first error is raised when all have
    ended. An interrupt, as by Ctrl-C, leaves them to end by themselves."""
    results: dict[int, ResultT] = {}
    errors: list[BaseException] = []

    def work(number: int, call: Callable[[], ResultT]) -> None:
        try:
            results[number] = call()
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=each, name=f"{name} {each[0]}", daemon=True) for each in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(calls))]
