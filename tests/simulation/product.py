"""What worlds do to the product itself: code that fails where it never should, and a minute that is over sooner."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from farshore.dataplane import partition, sending
from simulation.chance import Chances, Rarely
from simulation.tally import Tally

REST_SECONDS = 5.0
"""After which the product takes it that brokers may have forgotten its producer; they do a second later here."""


class CodeFails(Exception):
    """As a fault of our own would."""


@contextlib.contextmanager
def altered(chances: Chances, tally: Tally) -> Iterator[None]:
    true: Any = vars(partition)["pack_anew"]
    rest = sending._REST_SECONDS
    fails = Rarely(chances.of("failing code"), 0.02)

    def pack_anew(*arguments: Any) -> Any:
        if fails.now() and chances.on("failing code"):
            tally.fault("failing code")
            raise CodeFails("a batch cannot be packed again")
        return true(*arguments)

    try:
        vars(partition)["pack_anew"], sending._REST_SECONDS = pack_anew, REST_SECONDS
        yield
    finally:
        vars(partition)["pack_anew"], sending._REST_SECONDS = true, rest
