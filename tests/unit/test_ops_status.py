"""What a board says, as operators see it: who has the flow, and what is told of it."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from configs import CLUSTERS, ONE_FLOW, ReadText, flow_of, read_text

from farshore.dataplane import board
from farshore.dataplane.assignment import Copied, Gap
from farshore.dataplane.backlog import Backlog
from farshore.dataplane.picture import Picture
from farshore.model import TopicPartition
from farshore.ops import status as asking
from farshore.ops.handing_back import how_to_start
from farshore.ops.sight import Sight, State, state_of, with_recent
from farshore.ops.status import NOT_STARTED, counts, data, summary

__all__ = ["read_text"]

NOTHING = Picture()


def planned(generation: int) -> dict[int, board.Plan]:
    copied = Copied(TopicPartition("orders", 0), TopicPartition("A.orders", 0))
    return {0: board.Plan(0, generation, 1, (copied,))}


def test_who_gives_leases_runs_and_who_has_stopped_says_so() -> None:
    running = Picture(lease=board.Lease(3), plans=planned(3))
    assert state_of(NOTHING, NOTHING) is State.NEVER
    assert state_of(running, running) is State.RUNNING
    assert state_of(running, NOTHING) is State.LAPSED
    idle = Picture(lease=board.Lease(4), plans=planned(3))
    assert state_of(idle, idle) is State.IDLE, "no slot of this generation has anything to copy"
    stopping = Picture(lease=board.Lease(3, stop=True))
    assert state_of(stopping, stopping) is State.STOPPING
    assert state_of(Picture(lease=board.Lease(3, stop=True, over=True)), NOTHING) is State.STOPPED


def test_who_copies_nothing_is_known_by_his_upkeep() -> None:
    idle = Picture(lease=board.Lease(3, stop=True, over=True), upkeep=board.Upkeep(4))
    assert state_of(idle, idle) is State.IDLE
    assert state_of(idle, NOTHING) is State.LAPSED
    assert state_of(Picture(upkeep=board.Upkeep(1, over=True)), NOTHING) is State.STOPPED
    beside = Picture(lease=board.Lease(4), plans=planned(4), upkeep=board.Upkeep(4))
    assert state_of(beside, Picture(lease=board.Lease(4))) is State.RUNNING
    assert state_of(beside, Picture(upkeep=board.Upkeep(4))) is State.LAPSED


def test_heartbeats_and_groups_are_told_in_words_as_far_as_there_are_any() -> None:
    assert list(counts(board.Upkeep(1))) == []
    upkeep = board.Upkeep(1, heartbeat_age=0.94, groups=1400, skipped=(("the group is live on the target", 2),))
    assert list(counts(upkeep)) == [
        "last heartbeat 0.9 s old",
        "1,400 groups followed",
        "2 group offsets not written: the group is live on the target",
    ]


def report(slot: int, generation: int = 3, **fields: object) -> board.Report:
    return board.Report(slot, generation, "running", **fields)  # type: ignore[arg-type]


def test_slots_of_earlier_generations_and_ended_ones_are_left_out_and_silent_ones_are_told() -> None:
    copied, trouble = planned(3)[0].copied, board.TroubleReport("slot 4", "positions", "why", 5.0)
    picture = Picture(
        lease=board.Lease(3),
        lease_at=1000.0,
        plans={
            0: board.Plan(0, 3, 1, copied),
            1: board.Plan(1, 3, 2, copied),
            2: board.Plan(2, 3, 3, end=True),
            4: board.Plan(4, 3, 4),
        },
        reports={
            0: report(0),
            1: report(1),
            2: report(2),
            3: report(3, generation=2),
            4: report(4, troubles=(trouble,)),
        },
        reported_at={0: 999.5, 1: 980.0, 2: 999.5, 3: 999.5, 4: 999.5},
    )
    status = summary("A->B", Sight(State.RUNNING, picture))
    assert status.troubles == [], "what ailed a slot that has nothing to copy any more is over"
    ended = replace(picture, reports=picture.reports | {5: replace(report(5), state="released")})
    shown = [each.report.slot for each in summary("A->B", Sight(State.RUNNING, ended)).slots]
    assert shown == [0, 1], "its last plan is not on the board any more"
    assert [(each.report.slot, each.silent_since) for each in status.slots] == [(0, None), (1, 980.0)]
    assert status.since is None
    lapsed = summary("A->B", Sight(State.LAPSED, picture))
    assert lapsed.since == 1000.0
    assert [each.silent_since for each in lapsed.slots] == [None, None]


def test_a_planned_slot_that_was_never_heard_of_is_shown_and_its_lag_is_not_known() -> None:
    copied = tuple(Copied(TopicPartition("orders", n), TopicPartition("A.orders", n)) for n in range(2))
    picture = Picture(
        lease=board.Lease(3),
        lease_at=1000.0,
        plans={0: board.Plan(0, 3, 1, copied[:1]), 1: board.Plan(1, 3, 2, copied), 2: board.Plan(2, 2, 9, copied)},
        reports={0: report(0, partitions=1), 1: report(1, generation=2)},
        reported_at={0: 999.5, 1: 999.5},
    )
    status = summary("A->B", Sight(State.RUNNING, picture))
    assert [(each.report.slot, each.report.state) for each in status.slots] == [(0, "running"), (1, NOT_STARTED)]
    assert status.problem == "1 of 2 slots planned, not started: 2 partitions are not copied"
    slots = data([status])["flows"][0]["slots"]
    assert [(slot["partitions"], slot["lag"], slot["lag_seconds"]) for slot in slots] == [
        (1, None, None),
        (2, None, None),
    ]


def test_a_slot_that_is_planned_and_was_never_heard_is_not_started_and_without_any_other_nothing_is_copied() -> None:
    picture = Picture(lease=board.Lease(3), plans=planned(3), reports={0: report(0, generation=2)})
    status = summary("A->B", Sight(State.RUNNING, picture))
    assert [(each.report.state, each.report.partitions, each.silent_since) for each in status.slots] == [
        (NOT_STARTED, 1, None)
    ]
    assert status.state is State.WAITING
    assert status.backlog.offsets is None


def kept_up(**fields: Any) -> board.Upkeep:
    """Of generation 3, with a pass that looks for topics."""
    found = board.PassReport("topics", 600.0, None, None, 1.0, 0.5)
    return board.Upkeep(3, (replace(found, **fields),))


def test_a_driver_that_cannot_look_for_topics_waits_and_says_why() -> None:
    failing = kept_up(degraded_since=5.0, reason="A: list of topics: not allowed")
    held = Picture(lease=board.Lease(3), lease_at=100.0, upkeep=failing, upkeep_at=99.0)
    status = summary("A->B", Sight(state_of(held, held), held))
    assert (status.state, status.problem) == (State.WAITING, "topics: A: list of topics: not allowed")
    assert State.WAITING.at_work, "so that its upkeep is shown"
    looking = replace(held, upkeep=kept_up(last_run=None, took=None))
    status = summary("A->B", Sight(state_of(looking, looking), looking))
    assert (status.state, status.problem) == (State.WAITING, "topics are being looked for")
    found = replace(held, upkeep=kept_up())
    status = summary("A->B", Sight(state_of(found, found), found))
    assert (status.state, status.problem) == (State.IDLE, None)


def test_a_pass_that_is_degraded_is_a_problem_of_a_flow_that_runs() -> None:
    well = Picture(
        lease=board.Lease(3), plans=planned(3), reports={0: report(0)}, lease_at=100.0, reported_at={0: 99.0},
        upkeep=kept_up(degraded_since=5.0, reason="orders: A.orders has 3 partitions, orders 2"),
    )  # fmt: skip
    status = summary("A->B", Sight(State.RUNNING, well))
    said = "topics: orders: A.orders has 3 partitions, orders 2"
    assert (status.state, status.problem) == (State.RUNNING, said)
    assert summary("A->B", Sight(State.STOPPED, well)).problem is None, "what ailed it then is not so now"


def test_a_driver_that_says_that_nothing_is_copied_waits_though_its_slots_tell_of_no_trouble() -> None:
    held_up = kept_up(name="copying", degraded_since=5.0, reason="nothing was copied for 9 s, and something waits")
    well = Picture(
        lease=board.Lease(3), plans=planned(3), reports={0: report(0)}, lease_at=100.0, reported_at={0: 99.0},
        upkeep=held_up,
    )  # fmt: skip
    status = summary("A->B", Sight(State.RUNNING, well))
    said = "copying: nothing was copied for 9 s, and something waits"
    assert (status.state, status.problem) == (State.WAITING, said)
    no_core_yet = Picture(lease=board.Lease(3), lease_at=100.0, upkeep=held_up)
    assert summary("A->B", Sight(State.IDLE, no_core_yet)).state is State.WAITING
    assert summary("A->B", Sight(State.STOPPED, well)).state is State.STOPPED


def test_lag_is_not_known_while_a_partition_moves_from_one_slot_to_another() -> None:
    """It is in no plan then, and no slot counts it."""
    told = replace(report(0), lag_age=0.5, lease_at=99.5, plan=planned(3)[0].version)
    still = Picture(
        lease=board.Lease(3, partitions=len(planned(3)[0].copied)), plans=planned(3), reports={0: told}, lease_at=100.0,
        reported_at={0: 99.0},
    )  # fmt: skip
    assert summary("A->B", Sight(State.RUNNING, still)).backlog.offsets is not None
    moving = replace(still, lease=board.Lease(3, partitions=len(planned(3)[0].copied) + 1))
    assert summary("A->B", Sight(State.RUNNING, moving)).backlog.offsets is None


def test_a_flow_whose_plan_was_lost_from_the_board_runs_as_its_lease_says() -> None:
    picture = Picture(lease=board.Lease(3, partitions=4), lease_at=100.0)
    assert state_of(picture, picture) is State.RUNNING
    assert state_of(replace(picture, lease=board.Lease(3, partitions=0)), picture) is State.IDLE


def test_a_slot_whose_clock_is_behind_is_not_silent() -> None:
    late = Picture(
        lease=board.Lease(3), plans=planned(3), reports={0: replace(report(0), lease_at=99.0)}, lease_at=100.0,
        reported_at={0: 80.0},
    )  # fmt: skip
    (slot,) = summary("A->B", Sight(State.RUNNING, late)).slots
    assert slot.silent_since is None
    gone = replace(late, reports={0: replace(report(0), lease_at=80.0)}, reported_at={0: 99.0})
    (slot,) = summary("A->B", Sight(State.RUNNING, gone)).slots
    assert slot.silent_since == 80.0


def test_a_driver_that_has_lost_the_lock_is_paused_and_not_lapsed() -> None:
    paused = Picture(lease=board.Lease(3), lease_at=100.0, upkeep=board.Upkeep(3), upkeep_at=110.0)
    heard = Picture(upkeep=board.Upkeep(3))
    assert state_of(paused, heard) is State.PAUSED
    assert state_of(paused, NOTHING) is State.LAPSED
    assert state_of(replace(paused, upkeep=board.Upkeep(3, over=True)), heard) is State.LAPSED
    assert state_of(replace(paused, upkeep_at=104.0), heard) is State.LAPSED, "what it said last, when it died"
    problem = summary("A->B", Sight(State.PAUSED, paused)).problem
    assert problem == "its driver has lost the lock, and waits to hold it again"


def test_what_was_said_lately_counts_as_heard_where_there_is_no_time_to_listen() -> None:
    running = Picture(lease=board.Lease(3), plans=planned(3), lease_at=100.0)
    assert state_of(running, with_recent(NOTHING, running, 108.0)) is State.RUNNING
    assert state_of(running, with_recent(NOTHING, running, 110.0)) is State.LAPSED
    assert state_of(running, with_recent(NOTHING, running, 80.0)) is State.LAPSED, "the clocks differ"
    assert state_of(running, with_recent(running, running, 80.0)) is State.RUNNING, "but it was heard"


def test_a_source_that_cannot_be_reached_is_a_problem_of_a_flow_that_no_driver_has() -> None:
    stopped = summary("A->B", Sight(State.STOPPED, Picture(lease=board.Lease(3, over=True))))
    found = replace(stopped, unreachable="A: no answer within 4 s")
    assert found.problem == "its source cannot be reached: A: no answer within 4 s"
    assert data([found])["flows"][0]["unreachable"] == "A: no answer within 4 s"


def test_status_finds_out_by_itself_that_a_source_cannot_be_reached(
    read_text: ReadText, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # where nothing listens
        flow = flow_of(read_text(ONE_FLOW.replace("a:9092", f"127.0.0.1:{closed.getsockname()[1]}")))
        sights = [Sight(State.NEVER, NOTHING), Sight(State.RUNNING, Picture(lease=board.Lease(3)))]
        monkeypatch.setattr(asking, "look", lambda *_, **__: sights.pop(0))
        monkeypatch.setattr(asking, "has_run", lambda _: False)
        (never,) = asking.status_of([flow])
        (running,) = asking.status_of([flow])
    assert (never.state, running.unreachable) == (State.NEVER, None), "which is its driver's to tell"
    assert "connection refused, nothing listens there" in str(never.problem)


def test_what_takes_longer_than_the_time_for_an_answer_is_not_waited_for(
    read_text: ReadText, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    lapsed = Picture(lease=board.Lease(3), plans=planned(3), lease_at=100.0)

    def ask(*_: object) -> dict[int, Backlog]:
        over.wait(20)
        return {}

    monkeypatch.setattr(asking, "_ANSWER_SECONDS", 0.6)
    monkeypatch.setattr(asking, "look", lambda *_, **__: Sight(State.LAPSED, lapsed))
    monkeypatch.setattr(asking, "backlogs_of", ask)
    monkeypatch.setattr(asking._Source, "_ask", lambda _: over.wait(20))
    began = time.monotonic()
    (found,) = asking.status_of([flow_of(read_text(ONE_FLOW))])
    took = time.monotonic() - began
    over.set()
    assert (found.state, found.backlog.offsets) == (State.LAPSED, None)
    assert took < 3


def test_one_slot_is_counted_as_one() -> None:
    status = summary("A->B", Sight(State.RUNNING, Picture(lease=board.Lease(3), plans=planned(3))))
    assert status.problem == "1 of 1 slot planned, not started: 1 partition is not copied"


def test_a_flow_that_was_handed_back_is_not_just_stopped() -> None:
    over = board.Lease(3, stop=True, over=True)
    assert state_of(Picture(lease=over, end=board.End(3)), NOTHING) is State.HANDED_BACK
    assert state_of(Picture(lease=over, end=board.End(2)), NOTHING) is State.STOPPED, "it was started again since"
    assert summary("A->B", Sight(State.HANDED_BACK, Picture(lease=over))).problem is None


def lag_told(state: State = State.RUNNING, **fields: Any) -> int | None:
    """Of a slot with one partition, planned in version 1; its driver's last lease is of second 1000."""
    told = replace(board.Report(0, 3, "running", 1, lag=7, lag_age=2.0, lease_at=999.0), **fields)
    picture = Picture(
        lease=board.Lease(3), lease_at=1000.0, plans=planned(3), reports={0: told}, reported_at={0: 1000.0}
    )
    return summary("A->B", Sight(state, picture)).backlog.offsets


def test_lag_is_told_by_a_slot_that_has_just_known_it_and_else_not_known() -> None:
    assert lag_told() == 7
    assert lag_told(lag_age=None) is None, (
        "it does not know itself, or is of a version that told what it could not know"
    )
    assert lag_told(lease_at=990.0) is None, "it was written long ago, by its driver's own clock"
    assert lag_told(plan=2) is None, "it is about other partitions"
    assert lag_told(State.STOPPED) is None
    assert lag_told(State.LAPSED) is None


def test_the_json_is_whole_and_its_times_are_readable() -> None:
    orders = TopicPartition("orders", 1)
    trouble = board.TroubleReport("orders-1", "refused", "too large", 1_700_000_000.0)
    kept_up = board.Upkeep(
        3, (board.PassReport("topic configs", 600.0, 1_700_000_000.0, "not allowed", 1_700_000_001.0, 0.5),), 1.5, 2,
        (("group is active", 7),),
    )  # fmt: skip
    picture = Picture(
        lease=board.Lease(3),
        lease_at=1_700_000_000.0,
        reports={0: report(0, partitions=2, records=9, bytes=90, lag=1, lag_seconds=0.5, batches=(1, 2, 3),
                           troubles=(trouble,))},
        reported_at={0: 1_700_000_000.0},
        counted_gaps={orders: board.Gaps(orders, 1, 2, (Gap(orders, 5, 7, "skipped by hand", 1_700_000_000.0),))},
        notices={("target wiped", ""): board.Notice("target wiped", "", 2, "B was wiped", 1_700_000_000.0)},
        upkeep=kept_up,
    )  # fmt: skip
    (flow,) = json.loads(json.dumps(data([summary("A->B", Sight(State.RUNNING, picture))])))["flows"]
    at = "2023-11-14T22:13:20Z"
    assert flow == {
        "flow": "A->B",
        "state": "running",
        "since": None,
        "generation": 3,
        "unreadable": None,
        "unreachable": None,
        "problem": "partitions in trouble: 1; topic configs: not allowed", "lag": None, "lag_seconds": None,
        "slots": [
            {
                "slot": 0, "state": "running", "silent_since": None, "partitions": 2, "records": 9, "bytes": 90, "lag": None,
                "lag_seconds": None, "held_bytes": 0, "batches": {"as_is": 1, "merged": 2, "anew": 3},
            }
        ],
        "troubles": [{"partition": "orders-1", "kind": "refused", "reason": "too large", "since": at}],
        "upkeep": {
            "heartbeat_age_seconds": 1.5,
            "groups": 2,
            "group_offsets_skipped": {"group is active": 7},
            "passes": [
                {
                    "name": "topic configs", "every_seconds": 600.0, "fine": False, "degraded_since": at,
                    "reason": "not allowed", "last_run": "2023-11-14T22:13:21Z", "took_seconds": 0.5,
                }
            ],
        },
        "gaps": [
            {
                "partition": "orders-1", "times": 1, "offsets": 2,
                "newest": [{"begin": 5, "end": 7, "reason": "skipped by hand", "at": at}],
            }
        ],
        "notices": [
            {"kind": "target wiped", "subject": "", "times": 2, "text": "B was wiped", "at": at},
        ],
    }  # fmt: skip


def test_a_dedicated_mirror_maker_is_started_with_its_file(read_text: ReadText) -> None:
    assert how_to_start(flow_of(read_text(ONE_FLOW))) == ["connect-mirror-maker.sh mm2.properties"]
    assert CLUSTERS in ONE_FLOW


def test_connectors_are_resumed_by_their_names(read_text: ReadText) -> None:
    connector = {
        "name": "mirror-a", "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A", "target.cluster.alias": "B", "topics": "orders",
        "source.cluster.bootstrap.servers": "a:9092", "target.cluster.bootstrap.servers": "b:9092",
    }  # fmt: skip
    started = how_to_start(flow_of(read_text(json.dumps(connector), "mirror-a.json")))
    assert started[0] == "connect-distributed.sh WORKER.properties"
    assert started[-1] == "curl -X PUT http://localhost:8083/connectors/mirror-a/resume"


def test_only_a_flow_that_is_not_as_it_should_be_has_a_problem() -> None:
    well = Picture(
        lease=board.Lease(3), plans=planned(3), reports={0: report(0)}, lease_at=100.0, reported_at={0: 99.0}
    )
    assert summary("A->B", Sight(State.RUNNING, well)).problem is None
    assert summary("A->B", Sight(State.STOPPED, well)).problem is None
    assert summary("A->B", Sight(State.NEVER, NOTHING)).problem is None
    lapsed = summary("A->B", Sight(State.LAPSED, well)).problem
    assert lapsed == "nothing has been heard of it since 1970-01-01T00:01:40Z"
    well.reported_at[0] = 80.0
    silent = summary("A->B", Sight(State.RUNNING, well))
    assert (silent.problem, silent.state) == ("1 of 1 slot silent", State.WAITING)
    trouble = board.TroubleReport("orders-0", "refused", "too large", 1.0)
    ailing = Picture(lease=board.Lease(3), plans=planned(3), reports={0: report(0, troubles=(trouble,))})
    found = summary("A->B", Sight(State.RUNNING, ailing))
    assert (found.problem, found.state) == ("partitions in trouble: 1", State.WAITING), "all that it has"
    assert data([found])["flows"][0]["problem"] == found.problem
