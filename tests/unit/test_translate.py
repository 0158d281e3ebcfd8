"""The offset map against a model: a log of downstream entries that knows which upstream record each of them is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from farshore.model import OffsetSync, Run, TopicPartition
from farshore.translate import Basis, OffsetMap, Translation, within_batch

ORDERS = TopicPartition("orders", 0)

Note = tuple[int, list[Run]]


@dataclass
class World:
    """A source log with holes, its copy, and what Farshore writes about it. `log` holds upstream offsets downstream."""

    holes: frozenset[int]
    log: list[int | None] = field(default_factory=list)
    position: int = 0
    saved: int = 0
    clock: int = 0
    ledger: list[Note] = field(default_factory=list)
    syncs: list[tuple[int, OffsetSync, Run | None]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    """Not yet in the ledger, or open."""
    noted_since_truncation: bool = True

    def copy(self, count: int, *, in_one_batch: bool) -> None:
        """The next `count` upstream offsets; those with records are appended."""
        offsets = [u for u in range(self.position, self.position + count) if u not in self.holes]
        self.position += count
        for stretch in [offsets] if in_one_batch else [[u] for u in offsets]:
            if stretch:
                self._note(Run(stretch[0], stretch[-1], len(self.log), len(stretch)))
                self.log += stretch

    def _note(self, run: Run) -> None:
        joined = self.runs[-1].joined(run) if self.runs else None
        if joined is None:
            self.runs.append(run)
        else:
            self.runs[-1] = joined

    def flush(self, *, open_too: bool) -> None:
        """As a slot does once a second: closed runs to the ledger, the newest to the syncs, then the position."""
        self.clock += 1
        self.saved = self.position
        if not self.runs:
            return
        self.noted_since_truncation = True
        written = self.runs if open_too else self.runs[:-1]
        if written:
            self.ledger.append((self.clock, list(written)))
        newest = self.runs[-1]
        sync = OffsetSync(ORDERS, newest.last_upstream, newest.last_downstream)
        self.syncs.append((self.clock, sync, newest))
        self.runs = self.runs[-1:]

    def restart(self, *, at: int | None = None) -> None:
        """What was not flushed is not known, and copied again."""
        self.runs = []
        self.position = self.saved if at is None else at
        self.saved = self.position

    def truncate(self, end: int) -> None:
        """The target loses the end of its log, or, from 0 on, is made anew."""
        self.flush(open_too=True)
        del self.log[end:]
        self.runs = []
        self.noted_since_truncation = False

    def mirror_maker(self, count: int, every: int) -> None:
        """MirrorMaker 2 copies in between, from where Farshore was stopped, with a sync now and then."""
        self.flush(open_too=True)
        self.runs = []
        for number in range(count):
            if self.position not in self.holes:
                self.log.append(self.position)
                if number % every == 0 or number == count - 1:
                    self.clock += 1
                    self.syncs.append((self.clock, OffsetSync(ORDERS, self.position, len(self.log) - 1), None))
                    self.noted_since_truncation = True
            self.position += 1
        self.saved = self.position

    def right(self, upto: int) -> list[int]:
        """For each upstream offset the furthest place at or behind which every record from it on has a copy."""
        copies = {u: d for d, u in enumerate(self.log) if u is not None}
        last = max([upto, *copies])
        right = [len(self.log)] * (last + 2)
        for upstream in range(last, -1, -1):
            right[upstream] = min(right[upstream + 1], copies.get(upstream, len(self.log)))
        return right


class Reader:
    """Follows both topics, the syncs first, as the control loop does."""

    def __init__(self, world: World, *, sole_writer: bool) -> None:
        self.world = world
        self.map = OffsetMap(sole_writer=sole_writer)
        self._syncs = self._ledger = 0

    def refresh(self) -> None:
        for written, sync, run in self.world.syncs[self._syncs :]:
            self.map.note_sync(sync, written, run)
        for written, runs in self.world.ledger[self._ledger :]:
            self.map.note_runs(runs, written)
        self._syncs, self._ledger = len(self.world.syncs), len(self.world.ledger)


def compacted(world: World, *, sole_writer: bool) -> Reader:
    """One who comes late: of the syncs the last is left, and of each key in the ledger."""
    last = {(runs[0].upstream, runs[0].downstream): number for number, (_, runs) in enumerate(world.ledger)}
    ledger = [world.ledger[number] for number in sorted(last.values())]
    reader = Reader(World(world.holes, ledger=ledger, syncs=world.syncs[-1:]), sole_writer=sole_writer)
    reader.refresh()
    return reader


def check_safe(world: World, reader: Reader) -> None:
    if not world.noted_since_truncation:
        return
    for upstream, right in enumerate(world.right(world.position + 3)):
        found = reader.map.translate(upstream)
        assert found.offset is None or 0 <= found.offset <= right, (upstream, found, world.log)


operations = st.one_of(
    st.tuples(st.just("copy"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("copy"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("flush"), st.booleans()),
    st.tuples(st.just("flush"), st.booleans()),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("reset"), st.integers(0, 40)),
    st.tuples(st.just("truncate"), st.integers(0, 40), st.none() | st.integers(0, 40)),
    st.tuples(st.just("foreign"), st.integers(1, 5)),
    st.tuples(st.just("mirror maker"), st.integers(1, 20), st.integers(1, 6)),
)
holes = st.frozensets(st.integers(0, 120), max_size=25)


def run_history(world: World, reader: Reader, history: list[tuple[object, ...]], allowed: set[str]) -> None:
    for operation in history:
        note(f"{operation}")
        match operation:
            case ["copy", int(count), bool(in_one_batch)]:
                world.copy(count, in_one_batch=in_one_batch)
            case ["flush", bool(open_too)]:
                world.flush(open_too=open_too)
            case ["refresh"]:
                reader.refresh()
                check_safe(world, reader)
            case ["restart"] if "restart" in allowed:
                world.restart()
            case ["reset", int(at)] if "reset" in allowed:
                world.flush(open_too=True)
                world.restart(at=at)
            case ["truncate", int(end), at] if "truncate" in allowed:
                world.truncate(end)
                assert at is None or isinstance(at, int)
                world.restart(at=at)
            case ["foreign", int(count)] if "foreign" in allowed:
                world.log += [None] * count
            case ["mirror maker", int(count), int(every)] if "mirror maker" in allowed:
                world.mirror_maker(count, every)


histories = st.lists(operations, max_size=25)


def begun(holes: frozenset[int]) -> World:
    """Something has been noted: before that, nobody can tell what a crash left from what was there already."""
    world = World(holes)
    world.copy(2, in_one_batch=False)
    world.flush(open_too=True)
    return world


@pytest.mark.parametrize(
    "allowed",
    [{"restart"}, {"reset"}, {"mirror maker"}, {"truncate"}],
    ids=lambda allowed: " and ".join(sorted(allowed)),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, history=histories)
def test_nothing_unread_ever_lies_below_a_translation(
    allowed: set[str], holes: frozenset[int], history: list[tuple[object, ...]]
) -> None:
    world = begun(holes)
    reader = Reader(world, sole_writer=True)
    run_history(world, reader, history, allowed)
    world.flush(open_too=False)
    reader.refresh()
    check_safe(world, reader)
    check_safe(world, compacted(world, sole_writer=True))


@pytest.mark.parametrize(
    "allowed", [{"foreign", "reset"}, {"foreign", "truncate"}], ids=lambda allowed: " and ".join(sorted(allowed))
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, history=histories)
def test_nor_where_others_write_between(
    allowed: set[str], holes: frozenset[int], history: list[tuple[object, ...]]
) -> None:
    world = World(holes)
    reader = Reader(world, sole_writer=False)
    run_history(world, reader, history, allowed)
    world.flush(open_too=False)
    reader.refresh()
    check_safe(world, reader)


@pytest.mark.parametrize(
    "allowed", [{"reset"}, {"foreign", "reset"}, {"restart"}], ids=lambda allowed: " and ".join(sorted(allowed))
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(holes=holes, history=histories)
def test_translations_are_exact_where_runs_cover_the_offset(
    allowed: set[str], holes: frozenset[int], history: list[tuple[object, ...]]
) -> None:
    world = begun(holes)
    reader = Reader(world, sole_writer="foreign" not in allowed)
    record_by_record = [(*each[:2], False) if each[0] == "copy" else each for each in history]
    run_history(world, reader, record_by_record, allowed)
    world.flush(open_too=False)
    if "restart" in allowed:
        world.copy(200, in_one_batch=False)
        world.flush(open_too=False)
    reader.refresh()
    right = world.right(world.position)
    for upstream in {each for each in world.log if each is not None}:
        found = reader.map.translate(upstream)
        if found.basis is not Basis.COPYING_AGAIN:
            assert found.exact
            assert found.offset == right[upstream], (upstream, found, world.log)
        elif "foreign" in allowed:
            assert found.offset == right[upstream], (upstream, found, world.log)


@settings(max_examples=100, deadline=None)
@given(holes=holes, history=histories, limit=st.integers(4, 12))
def test_old_runs_are_thinned_out_and_translations_stay_safe(
    holes: frozenset[int], history: list[tuple[object, ...]], limit: int
) -> None:
    world = World(holes)
    reader = Reader(world, sole_writer=True)
    reader.map = OffsetMap(limit=limit)
    run_history(world, reader, history, {"reset"})
    for _ in range(10):
        world.copy(7, in_one_batch=False)
        world.flush(open_too=False)
    reader.refresh()
    check_safe(world, reader)


def map_of(*runs: Run, sole_writer: bool = True) -> OffsetMap:
    known = OffsetMap(sole_writer=sole_writer)
    for written, run in enumerate(runs):
        known.note_runs([run], written)
    return known


def test_a_partition_of_which_nothing_is_known_has_no_translation() -> None:
    assert OffsetMap().translate(5) == Translation(None, Basis.UNKNOWN)


def test_offsets_between_and_behind_runs_go_on_behind_the_run_before() -> None:
    known = map_of(Run(0, 9, 0, 10), Run(12, 19, 10, 8))
    assert known.translate(10) == Translation(10, Basis.BETWEEN, exact=True)
    assert known.translate(11) == Translation(10, Basis.BETWEEN, exact=True)
    assert known.translate(12) == Translation(10, Basis.RUN, exact=True)
    assert known.translate(20) == Translation(18, Basis.END, exact=True)
    assert known.translate(500) == Translation(18, Basis.END, exact=True), "the group is ahead of the mirror"


def test_a_group_older_than_the_target_begins_with_it() -> None:
    known = map_of(Run(100, 109, 0, 10))
    assert known.translate(50) == Translation(0, Basis.BEGINNING, exact=True)


def test_a_group_that_lags_behind_the_first_known_run_is_told_so_unless_the_log_begins_there() -> None:
    known = map_of(Run(100, 109, 70, 10))
    assert known.translate(50) == Translation(None, Basis.TOO_OLD)
    assert known.translate(50, log_start=70) == Translation(70, Basis.BEGINNING, exact=True)
    assert known.translate(50, log_start=75).offset == 70, "retention has come further, which does no harm"


def test_inside_a_batch_with_holes_the_group_goes_on_where_the_batch_begins() -> None:
    batch = Run(10, 20, 5, 4)
    known = map_of(Run(0, 4, 0, 5), batch, Run(21, 30, 9, 10))
    assert known.translate(10) == Translation(5, Basis.RUN, exact=True)
    assert known.translate(15) == Translation(5, Basis.BATCH, batch=batch)
    assert known.translate(20) == Translation(8, Basis.RUN, exact=True)
    assert known.translate(21) == Translation(9, Basis.RUN, exact=True)


@pytest.mark.parametrize(("upstream", "downstream"), [(10, 5), (11, 6), (13, 6), (14, 7), (18, 8), (20, 8)])
def test_a_look_at_the_batch_makes_it_exact(upstream: int, downstream: int) -> None:
    assert within_batch(Run(10, 20, 5, 4), [10, 13, 17, 20], upstream) == (downstream, True)


def test_a_batch_that_was_compacted_since_gives_a_safe_answer() -> None:
    assert within_batch(Run(10, 20, 5, 4), [10, 20], 18) == (6, False)


def test_a_batch_of_a_log_made_anew_under_the_same_name_gives_a_safe_answer() -> None:
    assert within_batch(Run(10, 20, 5, 4), range(10, 21), 18) == (5, False)


def test_what_a_crash_left_unnoted_counts_until_as_much_is_copied_again() -> None:
    """Upstream 10 to 14 lie at 10 to 14, noted by nobody, and are copied again from 15 on."""
    known = map_of(Run(0, 9, 0, 10), Run(10, 11, 15, 2))
    assert known.translate(12) == Translation(10, Basis.COPYING_AGAIN)
    known.note_runs([Run(10, 14, 15, 5)], 9)
    assert known.translate(12) == Translation(17, Basis.RUN, exact=True)


def test_where_others_write_too_a_jump_means_nothing() -> None:
    known = map_of(Run(0, 9, 0, 10), Run(10, 11, 15, 2), sole_writer=False)
    assert known.translate(11) == Translation(16, Basis.RUN, exact=True)


def test_a_recreated_remote_topic_makes_the_runs_before_worthless() -> None:
    known = map_of(Run(0, 99, 0, 100), Run(100, 109, 0, 10))
    assert known.translate(50) == Translation(0, Basis.BEGINNING, exact=True)
    assert known.translate(105) == Translation(5, Basis.RUN, exact=True)


def test_an_old_sync_read_after_the_truncation_is_known_changes_nothing() -> None:
    known = map_of(Run(0, 99, 0, 100), Run(100, 149, 50, 50))
    known.note_sync(OffsetSync(ORDERS, 80, 80), written=0, run=Run(0, 80, 0, 81))
    assert known.translate(40) == Translation(40, Basis.RUN, exact=True)
    assert known.translate(120) == Translation(70, Basis.RUN, exact=True)


def test_mirror_makers_syncs_count_between_and_behind_runs() -> None:
    known = map_of(Run(1000, 1999, 1000, 1000))
    for upstream in (900, 2100, 2200):
        known.note_sync(OffsetSync(ORDERS, upstream, upstream), written=10)
    assert known.translate(960) == Translation(901, Basis.SYNC)
    assert known.translate(900) == Translation(900, Basis.SYNC, exact=True)
    assert known.translate(1500) == Translation(1500, Basis.RUN, exact=True)
    assert known.translate(2000) == Translation(2000, Basis.END, exact=True)
    assert known.translate(2050) == Translation(2000, Basis.END), "some of those before may have been copied"
    assert known.translate(2150) == Translation(2101, Basis.SYNC)
    assert known.translate(800) == Translation(None, Basis.TOO_OLD)


def test_a_flow_that_is_set_back_behind_mirror_makers_copies_keeps_to_them_until_it_has_caught_up() -> None:
    known = OffsetMap()
    for upstream in (0, 500, 600, 999):
        known.note_sync(OffsetSync(ORDERS, upstream, upstream), written=1)
    known.note_runs([Run(500, 700, 1000, 201)], 2)
    assert known.translate(650) == Translation(601, Basis.SYNC), "701 to 999 have no newer copy yet"
    known.note_runs([Run(500, 999, 1000, 500)], 3)
    assert known.translate(650) == Translation(1150, Basis.RUN, exact=True)


def test_ten_thousand_transactions_are_all_exact() -> None:
    known = OffsetMap()
    for number in range(10_000):
        known.note_runs([Run(number * 3, number * 3 + 1, number * 2, 2)], number)
    for number in (0, 17, 9_998):
        marker = number * 3 + 2
        assert known.translate(number * 3 + 1) == Translation(number * 2 + 1, Basis.RUN, exact=True)
        assert known.translate(marker) == Translation(number * 2 + 2, Basis.BETWEEN, exact=True)
