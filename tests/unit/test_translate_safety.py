"""The offset map against a world that knows the truth: no translation is unsafe, and none is called exact that is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from translate_world import Operation, Reader, World, check_exact, check_safe, late_reader, operation_of, run_history

from farshore.translate import Basis

ALWAYS = ("copy", "copy", "batch", "flush", "flush", "flush all", "refresh")
HALVES = ("flush without sync", "flush without position", "read syncs", "read ledger")

ALONE: dict[str, tuple[str, ...]] = {
    "crashes": ("restart", "restart"),
    "resets": ("reset", "reset"),
    "MirrorMaker 2": ("mirror maker", "mirror maker"),
    "crashes and MirrorMaker 2": ("restart", "mirror maker"),
    "crashes and resets": ("restart", "reset"),
    "resets and MirrorMaker 2": ("reset", "mirror maker"),
    "crashes and halves": ("restart", *HALVES),
    "truncations": ("truncate", "truncate"),
    "truncations and crashes": ("truncate", "restart"),
    "truncations and halves": ("truncate", *HALVES),
    "truncations and MirrorMaker 2": ("truncate", "mirror maker"),
    "all": ("restart", "reset", "truncate", "mirror maker", *HALVES),
}
SHARED: dict[str, tuple[str, ...]] = {
    "resets": ("foreign", "reset"),
    "resets and MirrorMaker 2": ("foreign", "reset", "mirror maker"),
    "truncations": ("foreign", "truncate"),
    "all": ("foreign", "reset", "truncate", "mirror maker", "flush without sync", "read syncs", "read ledger"),
}
WORLDS = [
    *(pytest.param(True, each, id=f"alone: {name}") for name, each in ALONE.items()),
    *(pytest.param(False, each, id=f"shared: {name}") for name, each in SHARED.items()),
]

holes = st.frozensets(st.integers(0, 60), max_size=12)
numbers = st.lists(st.integers(0, 2**20), max_size=20)


def check(sole_writer: bool, holes: frozenset[int], history: Sequence[Operation], limit: int = 1000) -> None:
    world = World(holes)
    reader = Reader(world, sole_writer=sole_writer, limit=limit)
    world.copy(2)
    world.flush(open_too=True)
    run_history(world, reader, history)
    world.flush()
    reader.refresh()
    check_safe(world, reader)
    if not any(operation[0] == "truncate" for operation in history):
        check_exact(world, reader)
    check_safe(world, late_reader(world, sole_writer=sole_writer), late=True)


def check_drawn(sole_writer: bool, allowed: tuple[str, ...], holes: frozenset[int], numbers: list[int]) -> None:
    history = [operation_of(number, (*ALWAYS, *allowed)) for number in numbers]
    note(f"{history}")
    check(sole_writer, holes, history)


@pytest.mark.parametrize(("sole_writer", "allowed"), WORLDS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, numbers=numbers)
def test_translations_are_safe_and_exact_where_they_say_so(
    sole_writer: bool, allowed: tuple[str, ...], holes: frozenset[int], numbers: list[int]
) -> None:
    check_drawn(sole_writer, allowed, holes, numbers)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("sole_writer", "allowed"), WORLDS)
@settings(max_examples=6_250, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, numbers=numbers)
def test_a_hundred_thousand_histories_show_nothing_else(
    sole_writer: bool, allowed: tuple[str, ...], holes: frozenset[int], numbers: list[int]
) -> None:
    check_drawn(sole_writer, allowed, holes, numbers)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, numbers=numbers, limit=st.integers(4, 12))
def test_old_runs_are_thinned_out_and_translations_stay_safe(
    holes: frozenset[int], numbers: list[int], limit: int
) -> None:
    history = [operation_of(number, (*ALWAYS, "reset")) for number in numbers]
    note(f"{history}")
    more: list[Operation] = [("copy", 7), ("flush",)]
    check(True, holes, [*history, *more * 10], limit)


@pytest.mark.parametrize(
    ("sole_writer", "allowed"),
    [(True, ("restart",)), (True, ("reset",)), (False, ("foreign", "reset"))],
    ids=["crashes", "resets", "resets where others write too"],
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, numbers=numbers)
def test_translations_are_exact_where_runs_cover_the_offset(
    sole_writer: bool, allowed: tuple[str, ...], holes: frozenset[int], numbers: list[int]
) -> None:
    """After crashes once all is copied again. While that goes on, the answer is right where gaps are those of others."""
    history = [operation_of(number, ("copy", "copy", "flush", "flush all", "refresh", *allowed)) for number in numbers]
    note(f"{history}")
    world = World(holes)
    reader = Reader(world, sole_writer=sole_writer)
    run_history(world, reader, [("copy", 2), ("flush all",), *history, ("flush",)])
    if "restart" in allowed:
        run_history(world, reader, [("copy", 200), ("flush",)])
    reader.refresh()
    right = world.right(world.position)
    for upstream in {each for each in world.log if each is not None}:
        found = reader.map.translate(upstream)
        if found.basis is not Basis.COPYING_AGAIN:
            assert found.exact, (upstream, found, world.log)
        if found.exact or not sole_writer:
            assert found.offset == right[upstream], (upstream, found, world.log)


NO_HOLES: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("sole_writer", "holes", "history"),
    [
        pytest.param(
            False,
            NO_HOLES,
            [("copy", 3), ("truncate", 5, 0), ("refresh",), ("copy", 2), ("truncate", 6, None), ("copy", 1)],
            id="an older copy is the newest again after a truncation",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("copy", 1), ("copy", 1), ("copy", 1), ("truncate", 5, 0), ("copy", 1), ("refresh",), ("copy", 1),
             ("truncate", 6, None), ("copy", 1)],
            id="the same where nobody else writes",
        ),
        pytest.param(
            True,
            frozenset({0, 1}),
            [("copy", 1), ("copy", 1), ("restart",), ("copy", 1), ("flush",), ("refresh",)],
            id="a crash before anything was noted",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("truncate", 1, 0), ("copy", 3), ("truncate", 1, 1), ("copy", 1)],
            id="a truncation that only the last sync shows",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("copy", 1), ("truncate", 0, None), ("copy", 2), ("restart",), ("copy", 1)],
            id="a crash between a truncation and its first note",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("mirror maker", 1, 1), ("copy", 1), ("truncate", 2, 3), ("mirror maker", 3, 2)],
            id="a run of the ledger from before a truncation, between syncs from after it",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("truncate", 2, 0), ("copy", 1), ("truncate", 1, 1), ("mirror maker", 5, 2)],
            id="the same with a copy that counts for an older one",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("mirror maker", 12, 3), ("truncate", 13, None), ("reset", 6), ("copy", 3), ("copy", 3)],
            id="what MirrorMaker 2 copied before a sync that a truncation took",
        ),
        pytest.param(
            True,
            frozenset({9}),
            [("batch", 3), ("restart",), ("batch", 3), ("truncate", 6, None), ("copy", 7)],
            id="a truncation takes what was copied again after a crash",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("truncate", 0, 0), ("mirror maker", 1, 1), ("read syncs",)],
            id="a ledger that could not be read at first is not newer for that",
        ),
        pytest.param(
            True, NO_HOLES, [("reset", 0), ("mirror maker", 3, 2)], id="a newer copy between two of MirrorMaker 2's syncs"
        ),
        pytest.param(
            True,
            frozenset({2}),
            [("copy", 2), ("restart",), ("mirror maker", 2, 1)],
            id="MirrorMaker 2 copies again what a crash left",
        ),
        pytest.param(
            True, NO_HOLES, [("batch", 1), ("flush without sync",), ("restart",)], id="a ledger that is ahead of the syncs"
        ),
        pytest.param(
            True,
            frozenset({0, 1, 3}),
            [("batch", 3), ("reset", 2), ("copy", 1)],
            id="the first record of a batch with holes is copied again, and a group is older than all",
        ),
        pytest.param(
            True,
            frozenset({0, 1}),
            [("reset", 3), ("copy", 1), ("reset", 0), ("mirror maker", 5, 2)],
            id="a newer copy of the first record between two of MirrorMaker 2's syncs, and a group is older than all",
        ),
        pytest.param(
            False,
            frozenset({0, 1}),
            [("mirror maker", 1, 1), ("reset", 2), ("mirror maker", 2, 1)],
            id="MirrorMaker 2 alone copies a record again and keeps its older sync",
        ),
        pytest.param(
            True,
            frozenset({0, 1}),
            [("mirror maker", 2, 1), ("reset", 2), ("mirror maker", 1, 1)],
            id="MirrorMaker 2 alone is set back and has not caught up",
        ),
        pytest.param(
            True,
            frozenset({0, 1}),
            [("mirror maker", 1, 1), ("batch", 2), ("restart",), ("mirror maker", 1, 1)],
            id="MirrorMaker 2 goes on after a crash of which only its syncs tell",
        ),
        pytest.param(
            False,
            frozenset({11}),
            [("copy", 11), ("truncate", 2, 10), ("copy", 3), ("foreign", 8), ("copy", 1)],
            id="others fill the log up after a truncation that only the ledger shows",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("batch", 6), ("copy", 8), ("truncate", 10, 14), ("copy", 4), ("restart",), ("copy", 1)],
            id="a truncation that only a sync shows which goes back, with records that a crash left",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("mirror maker", 4, 1), ("copy", 5), ("truncate", 0, None), ("copy", 5), ("restart",), ("reset", 5), ("batch", 5)],
            id="the same, and the copying goes on further back than before",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("truncate", 0, None), ("copy", 1), ("restart",), ("copy", 1), ("truncate", 1, None), ("batch", 1), ("reset", 0)],
            id="a second truncation takes what was copied again after a crash behind the first",
        ),
        pytest.param(
            True,
            frozenset({18}),
            [("copy", 4), ("truncate", 0, 1), ("copy", 2), ("restart",), ("batch", 5), ("truncate", 1, None), ("batch", 7), ("copy", 7)],
            id="the same after a reset",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("truncate", 0, 0), ("copy", 1), ("truncate", 1, 2), ("batch", 7), ("restart",), ("batch", 6)],
            id="a run of the ledger of which only the beginning is there still",
        ),
        pytest.param(
            True,
            NO_HOLES,
            [("copy", 5), ("truncate", 7, 2), ("copy", 4), ("reset", 7), ("copy", 1), ("restart",), ("mirror maker", 1, 1)],
            id="a gap as long as what was skipped",
        ),
        pytest.param(
            False,
            frozenset({0}),
            [("reset", 1), ("foreign", 1), ("batch", 1), ("truncate", 1, 0), ("mirror maker", 4, 2), ("copy", 1), ("flush without sync",)],
            id="a run of the ledger from before a truncation that the syncs show",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("mirror maker", 2, 1), ("batch", 1), ("truncate", 0, 3), ("foreign", 2), ("mirror maker", 4, 3), ("copy", 1), ("reset", 0)],
            id="the same, and it is all that is known of the record",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("foreign", 1), ("truncate", 3, 5), ("batch", 2), ("foreign", 2), ("batch", 1), ("truncate", 2, 4), ("mirror maker", 7, 2)],
            id="a sync of MirrorMaker 2 agrees with a run from before a truncation",
        ),
        pytest.param(
            False,
            frozenset({1}),
            [("mirror maker", 3, 2), ("batch", 2), ("truncate", 0, 0), ("foreign", 3), ("copy", 3), ("truncate", 2, 3), ("mirror maker", 4, 3)],
            id="the same with two truncations",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("truncate", 0, 1), ("mirror maker", 1, 1), ("read syncs",), ("read ledger",), ("copy", 1), ("flush without sync",), ("refresh",)],
            id="a ledger that is newer only at its end",
        ),
        pytest.param(
            False,
            frozenset({0, 5, 6}),
            [("batch", 6), ("truncate", 1, 4), ("copy", 1), ("foreign", 2), ("mirror maker", 3, 1)],
            id="another record where a batch with holes began",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("mirror maker", 7, 2), ("truncate", 8, 8), ("batch", 1), ("truncate", 9, 6), ("copy", 1)],
            id="a run that begins where MirrorMaker 2 had written before a truncation",
        ),
        pytest.param(
            False,
            NO_HOLES,
            [("mirror maker", 1, 1), ("batch", 1), ("truncate", 0, 0), ("batch", 3), ("mirror maker", 1, 1), ("truncate", 4, 0), ("copy", 3)],
            id="a sync that may be older than a truncation, and is not",
        ),
    ],
)  # fmt: skip
def test_histories_that_were_translated_wrongly_once(
    sole_writer: bool, holes: frozenset[int], history: list[Operation]
) -> None:
    check(sole_writer, holes, history)
