"""One cluster under several aliases: which flows would never come to rest."""

from __future__ import annotations

from configs import ReadText, read_text, said

from farshore.config.settings import Settings
from farshore.control.cycles import Cycle, true_cycles
from farshore.model import Flow

__all__ = ["read_text"]

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def settings(read_text: ReadText, *lines: str) -> Settings:
    """Flows between A, A2, B and B2, each with a bootstrap server of its own; those that `lines` enable."""
    aliases = ("A", "A2", "B", "B2")
    servers = (f"{alias}.bootstrap.servers = {alias.lower()}:9092" for alias in aliases)
    reading = read_text(
        "\n".join((f"clusters = {', '.join(aliases)}", *servers, "emit.heartbeats.enabled = false", *lines))
    )
    assert reading.settings is not None, said(reading)
    return reading.settings


def enabled(*flows: str) -> list[str]:
    return [f"{flow}.enabled = true" for flow in flows]


DISTINCT = {"A": "ida", "A2": "ida2", "B": "idb", "B2": "idb2"}
DOUBLED = {"A": "ida", "A2": "ida", "B": "idb", "B2": "idb"}


def test_clusters_that_are_different_are_no_cycle(read_text: ReadText) -> None:
    assert true_cycles(settings(read_text, *enabled("A->B", "B->A", "A2->B2")), DISTINCT) == []


def test_a_cluster_mirrored_into_itself_is_refused_whatever_the_policy(read_text: ReadText) -> None:
    for lines in ((), (IDENTITY,), ("A->B.topics = just-one",)):
        found = true_cycles(settings(read_text, *enabled("A->B"), *lines), {"A": "same", "B": "same"})
        reason = "A and B are one cluster (id same), so it would be copied into itself for ever: check "
        assert found == [Cycle((Flow("A", "B"),), f"A->B: {reason}bootstrap.servers of both")]


def test_a_ring_under_the_identity_policy_that_closes_through_another_alias_is_refused(read_text: ReadText) -> None:
    flows = settings(read_text, *enabled("A->B", "B2->A"), IDENTITY, "A->B.topics = orders.*", "B2->A.topics = .*s")
    assert true_cycles(flows, DISTINCT) == []
    [found] = true_cycles(flows, DOUBLED)
    assert found.flows == (Flow("A", "B"), Flow("B2", "A"))
    assert found.reason.startswith("A->B, B2->A: B and B2 are one cluster (id idb), so topic 'orders")
    assert found.reason.endswith("' would be copied for ever: use one alias for one cluster")


def test_under_the_identity_policy_topics_that_do_not_overlap_are_no_cycle(read_text: ReadText) -> None:
    lines = (IDENTITY, "A->B.topics = east-.*", "B2->A.topics = west-.*")
    assert true_cycles(settings(read_text, *enabled("A->B", "B2->A"), *lines), DOUBLED) == []


def test_under_the_default_policy_names_grow_for_ever_where_no_alias_is_met_twice(read_text: ReadText) -> None:
    [found] = true_cycles(settings(read_text, *enabled("A->B", "B2->A2")), DOUBLED)
    assert found.reason.startswith(
        "A->B, B2->A2: A and A2 are one cluster (id ida); B and B2 are one cluster (id idb), so topic '"
    )


def test_under_the_default_policy_one_common_alias_brings_a_ring_to_rest(read_text: ReadText) -> None:
    assert true_cycles(settings(read_text, *enabled("A->B", "B2->A")), DOUBLED) == []


def test_two_aliases_without_a_ring_are_no_cycle(read_text: ReadText) -> None:
    assert true_cycles(settings(read_text, *enabled("A->B", "A2->B2"), IDENTITY), DOUBLED) == []


def test_clusters_that_do_not_tell_who_they_are_are_taken_for_different_ones(read_text: ReadText) -> None:
    flows = settings(read_text, *enabled("A->B", "B2->A2"))
    assert true_cycles(flows, {"A": None, "B": "idb", "B2": "idb"}) == []
    assert true_cycles(flows, dict.fromkeys(DISTINCT)) == []
