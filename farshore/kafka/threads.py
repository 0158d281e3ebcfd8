"""Waiting in a thread for what cannot be awaited."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns or raises, done in a thread of its own.

    Unlike those of asyncio's executor the thread holds up neither the end of the event loop nor that of the process,
    however long `work` takes. If the wait is cancelled, what becomes of it is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[], None]) -> None:
        if not done.done():
            settle()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:
            failure = error
            _tell(loop, lambda: deliver(lambda: done.set_exception(failure)))
        else:
            _tell(loop, lambda: deliver(lambda: done.set_result(found)))

    threading.Thread(target=run, name="farshore waits", daemon=True).start()
    return await done


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call)
