"""What is believed to have vanished, by what a cluster tells of its topics; and what is done about it."""

from __future__ import annotations

import asyncio

import pytest

from farshore.clock import SYSTEM_CLOCK
from farshore.driver.vanishing import Found, KnownTopics, Topic, Vanished
from farshore.driver.watching import ClusterWiped, TopicWatch
from farshore.errors import Unreachable
from farshore.kafka.raw import ClusterMetadata
from farshore.kafka.raw_errors import UNKNOWN_TOPIC_OR_PARTITION
from farshore.kafka.raw_model import PartitionMetadata, TopicMetadata
from farshore.model import Flow

BOARD, POSITIONS, REMOTE = "board", "positions", "A.orders"


def found(cluster_id: str | None = "one", **ids: str | None) -> Found:
    """Topics with their ids; those with the id "gone" are not there."""
    names = {"board": BOARD, "positions": POSITIONS, "remote": REMOTE}
    topics = {names[name]: None if topic_id == "gone" else Topic(topic_id, 1) for name, topic_id in ids.items()}
    return Found(cluster_id, topics)


def known() -> KnownTopics:
    topics = KnownTopics([BOARD, POSITIONS])
    assert topics.look(found(board="b1", positions="p1", remote="r1")) == Vanished()
    return topics


def test_a_topic_that_is_gone_is_missing_until_it_is_there_again_and_then_it_was_made_again() -> None:
    topics = known()
    gone = found(board="gone", positions="p1", remote="r1")
    assert topics.look(gone) == Vanished(missing=(BOARD,))
    assert topics.look(gone) == Vanished(missing=(BOARD,))
    back = found(board="b2", positions="p1", remote="r1")
    assert topics.look(back) == Vanished(made_again=(BOARD,))
    assert topics.look(back) == Vanished()


def test_a_topic_that_was_made_again_between_two_looks_is_noticed_by_its_id() -> None:
    topics = known()
    assert topics.look(found(board="b1", positions="p2", remote="r1")) == Vanished(made_again=(POSITIONS,))


def test_a_broker_that_was_behind_has_lost_nothing_when_the_id_is_as_it_was() -> None:
    topics = known()
    assert topics.look(found(board="gone", positions="p1", remote="r1")) == Vanished(missing=(BOARD,))
    assert topics.look(found(board="b1", positions="p1", remote="r1")) == Vanished()


def test_brokers_without_ids_show_what_vanished_only_while_it_is_gone() -> None:
    topics = KnownTopics([BOARD])
    assert topics.look(found(board=None, remote=None)) == Vanished()
    assert topics.look(found(board="gone", remote=None)) == Vanished(missing=(BOARD,))
    assert topics.look(found(board=None, remote=None)) == Vanished(made_again=(BOARD,))


def test_a_remote_topic_that_is_gone_is_not_ours_to_make_here() -> None:
    assert known().look(found(board="b1", positions="p1", remote="gone")) == Vanished()


def test_all_internal_topics_gone_is_no_wipe_while_a_remote_topic_is_there() -> None:
    topics = known()
    gone = found(board="gone", positions="gone", remote="r1")
    assert topics.look(gone) == topics.look(gone) == Vanished(missing=(BOARD, POSITIONS))


@pytest.mark.parametrize(
    "empty",
    [
        found("two", board="gone", positions="gone", remote="gone"),
        found("two", board="b1", positions="p1", remote="r1"),
        found("one", board="gone", positions="gone", remote="gone"),
        found("one", board="gone", positions="p2", remote="r2"),
    ],
    ids=["another cluster", "its topics have the same names", "the same id", "made again by others"],
)
def test_a_wipe_is_believed_when_it_is_seen_twice_and_nothing_is_made_before(empty: Found) -> None:
    topics = known()
    assert topics.look(empty) == Vanished()
    assert topics.suspicious
    assert topics.look(empty).wiped is not None


def test_one_look_at_a_broker_that_is_behind_is_forgotten() -> None:
    topics = known()
    nothing = found(board="gone", positions="gone", remote="gone")
    assert topics.look(nothing) == Vanished()
    assert topics.look(found(board="b1", positions="p1", remote="r1")) == Vanished()
    assert topics.look(nothing) == Vanished()


class PlayedCluster:
    alias = "B"

    def __init__(self) -> None:
        self.topics = {BOARD: "b1", REMOTE: "r1"}
        self.away = False

    async def metadata(self, names: list[str]) -> ClusterMetadata:
        if self.away:
            raise Unreachable("B is away", cluster="B")
        partition = {0: PartitionMetadata(0, 0, 1, 0, (1,), (1,))}
        return ClusterMetadata("one", {}, {name: self._topic(name, partition) for name in names})

    def _topic(self, name: str, partitions: dict[int, PartitionMetadata]) -> TopicMetadata:
        if name in self.topics:
            return TopicMetadata(name, 0, self.topics[name], partitions)
        return TopicMetadata(name, UNKNOWN_TOPIC_OR_PARTITION, None, {})


class Watched:
    def __init__(self) -> None:
        self.cluster = PlayedCluster()
        self.told: list[tuple[str, str, int]] = []
        self.made = 0
        self.watch = TopicWatch(
            Flow("A", "B"),
            self.cluster,  # type: ignore[arg-type]
            {BOARD: "lock and plan"},
            make_missing=self._make,
            made_again=lambda name, purpose, partitions, _: self.told.append((name, purpose, partitions)),
            remote=lambda: [REMOTE],
            clock=SYSTEM_CLOCK,
        )

    async def _make(self) -> None:
        self.made += 1
        self.cluster.topics.setdefault(BOARD, "b2")

    def look(self) -> bool:
        return asyncio.run(self.watch.look())


def test_a_watch_makes_what_is_missing_and_tells_of_it_when_it_is_there() -> None:
    watched = Watched()
    assert not watched.look()
    del watched.cluster.topics[BOARD]
    assert watched.look()
    assert not watched.look()
    assert (watched.made, watched.told) == (1, [(BOARD, "lock and plan", 1)])


def test_a_cluster_that_cannot_be_asked_has_lost_nothing() -> None:
    watched = Watched()
    watched.look()
    watched.cluster.topics.clear()
    watched.cluster.away = True
    assert not watched.look()
    assert not watched.look()
    assert watched.made == 0


def test_a_wiped_cluster_ends_the_watch_before_anything_is_made() -> None:
    watched = Watched()
    watched.look()
    watched.cluster.topics.clear()
    assert watched.look()
    with pytest.raises(ClusterWiped, match="B was wiped"):
        watched.look()
    assert watched.made == 0
