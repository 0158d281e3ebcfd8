"""Access-log lines like those of the SEC's EDGAR: made here, never the same day twice, and the same for the same seed.

101.81.133.jja,2026-11-16,02:31:07,0.0,1608552.0,0001047469-17-004337,-index.htm,200.0,80251.0,1.0,0.0,0.0,9.0,0.0,
ip             date       time     zone cik      accession            extention  code  size    idx norefer noagent
                                                                                               find crawler browser
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

CLIENTS = 5_000
COMPANIES = 800

_FILES = ("-index.htm", ".txt", "-xbrl.zip", ".xml", "-index-headers.htm", "/R2.htm")
_CODES = (200.0, 200.0, 200.0, 200.0, 200.0, 200.0, 301.0, 304.0, 404.0, 503.0)
_BROWSERS = ("", "", "", "win", "mac", "lin")


def log_records(seed: int, now: Callable[[], float] = time.time) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values without end: the client's address, and its line as CSV. `now` gives seconds since 1970."""
    chance = random.Random(seed)
    clients = [_client(chance) for _ in range(CLIENTS)]
    companies = [chance.randrange(1_000_000, 1_800_000) for _ in range(COMPANIES)]
    while True:
        client = clients[int(CLIENTS * chance.random() ** 2)]  # some ask much more often than others
        yield client.encode(), _line(client, chance.choice(companies), now(), chance).encode()


def _client(chance: random.Random) -> str:
    """An address as EDGAR publishes it: the last number is hidden behind three letters."""
    numbers = ".".join(str(chance.randrange(1, 255)) for _ in range(3))
    return f"{numbers}.{''.join(chance.choices('abcdefghij', k=3))}"


def _line(client: str, company: int, seconds: float, chance: random.Random) -> str:
    at = time.strftime("%Y-%m-%d,%H:%M:%S", time.gmtime(seconds))
    size = float(int(200 / (1.0 - chance.random() * 0.999)))
    roll = chance.random()
    accession = f"{int(roll * 1_600_000):010d}-17-{int(roll * 7_919_000) % 1_000_000:06d}"
    found = f"{int(roll * 10)}.0,{0.0 if roll < 0.9 else 1.0}"
    return (
        f"{client},{at},0.0,{company}.0,{accession},{chance.choice(_FILES)},{chance.choice(_CODES)},{size},"
        f"1.0,0.0,{0.0 if roll > 0.2 else 1.0},{found},{chance.choice(_BROWSERS)}"
    )
