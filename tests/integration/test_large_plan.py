"""Plans above what brokers take in one record, on a real broker."""

from __future__ import annotations

from dataclasses import replace

from records import create_topic
from test_control_topics import Scene, scene

from farshore.dataplane import board
from farshore.dataplane.assignment import Copied
from farshore.dataplane.picture import Picture, read_picture
from farshore.model import TopicPartition
from farshore.naming import board_topic
from farshore.ops.holding import write_board

__all__ = ["scene"]


def _read(scene: Scene) -> Picture:
    connection = scene.flow().worker.connection
    return read_picture(connection, cluster="B", board_topic=board_topic(scene.alias))


def test_a_plan_of_twenty_thousand_topics_for_one_slot_is_written_and_read(scene: Scene) -> None:
    create_topic(scene.target_servers, board_topic(scene.alias), 1, cleanup_policy="compact")
    names = [f"{scene.topic}.some.topic.of.a.team-{n:05d}" for n in range(20_000)]
    copied = tuple(Copied(TopicPartition(name, 0), TopicPartition(f"A.{name}", 0)) for name in names)
    plan = board.Plan(0, 1, 1, copied)
    write_board(scene.flow(), [board.Lease(1), plan])
    assert _read(scene).plans == {0: plan}
    fewer = replace(plan, version=2, copied=copied[:8000])
    write_board(scene.flow(), [fewer])
    assert _read(scene).plans == {0: fewer}
