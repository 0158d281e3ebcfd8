"""Times of log lines: in UTC, with zone. Lines of brokers, slots and the driver are read side by side."""

from __future__ import annotations

import logging
import time

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class UtcFormatter(logging.Formatter):
    """`line` is in logging's own format."""

    converter = staticmethod(time.gmtime)

    def __init__(self, line: str) -> None:
        super().__init__(line, _TIME)
