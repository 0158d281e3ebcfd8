"""Batches drawn at random: sizes, codecs, sequences, and what may be wrong with them."""

from __future__ import annotations

import random
import time

from farshore.wire.batch import Batch, Codec
from farshore.wire.records import Encoded, Producer, encode_batches
from farshore.wire.records_v2 import body_of

_LARGEST = 1 << 20
_HOUR_MS = 3_600_000
_LAST_SEQUENCE = (1 << 31) - 1


def drawn_batch(rng: random.Random, producer: Producer, *, sound: bool = False) -> Batch:
    """Mostly a `sound` one; now and then with an old or a future record, without a key, or with a wrong CRC."""
    count, unsound = rng.choice((1, 1, 2, 3, 5)), 0.0 if sound else 0.02
    now = round(time.time() * 1000)
    size = rng.choice((10, 10, 100, 600, 3000))
    records = []
    for number in range(count):
        key = None if rng.random() < unsound else b"k%d" % rng.randrange(10)
        age = (
            rng.choice((-5 * _HOUR_MS, 2 * _HOUR_MS, 50 * _HOUR_MS)) if rng.random() < unsound else rng.randrange(1000)
        )
        records.append((number, now - age, body_of(key, rng.randbytes(rng.randrange(size)))))
    codec = rng.choice((Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD))
    (made,) = encode_batches(records, codec=codec, max_bytes=_LARGEST, target_batch_bytes=_LARGEST, producer=producer)
    assert isinstance(made, Encoded)
    return made.batch._replace(crc=made.batch.crc ^ 1) if rng.random() < unsound / 2 else made.batch


def drawn_sequence(rng: random.Random, following: int) -> int:
    """Mostly the one that follows."""
    draw = rng.random()
    if draw < 0.8:
        return following
    if draw < 0.9:
        return 0
    wrong = rng.choice((following + 1, following + 3, following - 1, -2, -1))
    return wrong & _LAST_SEQUENCE
