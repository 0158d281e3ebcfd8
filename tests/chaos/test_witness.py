"""What an independent client reads is judged by what each kind of topic allows."""

from __future__ import annotations

import pytest

from chaos.topics import Kind
from chaos.witness import Seen, judge, seen

RECORDS = [seen(n, 1000 + n, b"k", b"value %d" % n, [("trace", b"%d" % n)]) for n in range(20)]
EARLIER = [seen(n, 500 + n, None, b"earlier %d" % n, ()) for n in range(3)]


def differs(
    target: list[Seen],
    kind: Kind = Kind.LONE,
    *,
    once: bool = True,
    sampled: bool = False,
    source: list[Seen] = RECORDS,
) -> bool:
    return bool(judge(kind, source, target, once=once, sampled=sampled).differences)


@pytest.mark.parametrize(
    "other",
    [
        seen(7, 1008, b"k", b"value 7", [("trace", b"7")]),
        seen(7, 1007, None, b"value 7", [("trace", b"7")]),
        seen(7, 1007, b"", b"value 7", [("trace", b"7")]),
        seen(7, 1007, b"k", b"value 8", [("trace", b"7")]),
        seen(7, 1007, b"k", None, [("trace", b"7")]),
        seen(7, 1007, b"k", b"value 7", [("trace", None)]),
        seen(7, 1007, b"k", b"value 7", [("trac", b"e7")]),
        seen(7, 1007, b"k", b"value 7", ()),
        seen(7, 1007, b"kv", b"alue 7", [("trace", b"7")]),
    ],
)
def test_whatever_differs_in_a_record_is_seen(other: Seen) -> None:
    assert not differs(RECORDS)
    assert differs([*RECORDS[:7], other, *RECORDS[8:]])


def test_deliveries_are_told_apart() -> None:
    assert differs(RECORDS[:9] + RECORDS[10:], once=False)
    assert differs(RECORDS[:9] + RECORDS[5:])
    assert not differs(RECORDS[:9] + RECORDS[5:], once=False)
    assert differs([*EARLIER, *RECORDS], once=False)


def test_a_sample_may_be_found_between_other_records() -> None:
    assert not differs([*EARLIER, *RECORDS], sampled=True)
    assert differs([*RECORDS[:5], *EARLIER, *RECORDS[5:]], sampled=True)
    assert not differs([*RECORDS[:5], *EARLIER, *RECORDS[5:]], once=False, sampled=True)
    assert differs(RECORDS[1:], once=False, sampled=True)
    assert differs([], sampled=True)


@pytest.mark.parametrize("kind", [Kind.REBORN, Kind.EXPIRES, Kind.FORGETS])
def test_what_the_source_has_lost_may_be_there_and_nothing_may_be_missing(kind: Kind) -> None:
    assert not differs([*EARLIER, *RECORDS], kind)
    assert differs([*EARLIER, *RECORDS[1:]], kind)


def test_a_copy_that_lost_its_end_may_miss_some_at_least_once_and_holds_nothing_else() -> None:
    assert not differs(RECORDS[:5] + RECORDS[7:], Kind.MISLAID, once=False)
    assert differs(RECORDS[:5] + RECORDS[7:], Kind.MISLAID)
    assert differs([*RECORDS, *EARLIER], Kind.MISLAID, once=False)


def test_the_newest_record_of_each_key_counts() -> None:
    source = [seen(n, n, key, value, ()) for n, (key, value) in enumerate([(b"a", b"1"), (b"b", b"2"), (b"c", None)])]
    newer = seen(3, 3, b"a", b"3", ())
    assert not differs(source[:2], Kind.KEYED, source=source)
    assert not differs([newer], Kind.KEYED, source=[source[0], newer])
    assert differs([source[0]], Kind.KEYED, source=[source[0], newer])
    assert differs(source[:1], Kind.KEYED, source=source)
