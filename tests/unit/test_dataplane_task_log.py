"""Slots log as much as the driver that started them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import pytest
from configs import ONE_FLOW, ReadText, flow_of, read_text

from farshore.dataplane import task
from farshore.dataplane.task import Order, SlotTask, copy_slot
from farshore.driver.slot_orders import order_of

__all__ = ["read_text"]


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Without handlers, as in a Python worker of Spark; put right afterwards."""
    logger = logging.getLogger()
    quiet = logging.getLogger("aiokafka")
    before, level, level_of_quiet = logger.handlers[:], logger.level, quiet.level
    logger.handlers.clear()
    yield logger
    logger.handlers[:] = before
    logger.setLevel(level)
    quiet.setLevel(level_of_quiet)


@pytest.mark.parametrize(
    ("asked", "logged"),
    [(logging.DEBUG, ["DEBUG", "INFO", "ERROR"]), (logging.INFO, ["INFO", "ERROR"]), (logging.ERROR, ["ERROR"])],
)
def test_what_is_below_the_log_level_of_the_driver_is_not_logged_by_its_slots(
    asked: int,
    logged: list[str],
    root: logging.Logger,
    read_text: ReadText,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def say_something(_: SlotTask) -> None:
        for level in (logging.DEBUG, logging.INFO, logging.ERROR):
            logging.getLogger(task.__name__).log(level, "something")

    monkeypatch.setattr(SlotTask, "run", say_something)
    flow = flow_of(read_text(ONE_FLOW))
    assert flow.source is not None
    root.setLevel(asked)
    order = order_of(flow, flow.source, 1, 25, None, once=False)
    root.setLevel(logging.WARNING)  # as in another process
    received: Order = pickle.loads(pickle.dumps(order))
    assert copy_slot(received).error is None
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert [words[2] for words in lines if words[-1] == "something"] == logged
