"""What the harness asks of a cluster happens, whatever becomes of the answers."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos import cluster_faults
from chaos.cluster_faults import until_true


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_faults, "_ASK_SECONDS", 0.2)
    monkeypatch.setattr(cluster_faults, "_SEEN_SECONDS", 0.0)
    monkeypatch.setattr(cluster_faults, "wait_for", lambda true, _: true())


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._TIMED_OUT)), TimeoutError()])
def test_a_lost_answer_does_not_matter_where_the_wish_was_fulfilled(error: Exception) -> None:
    asked: list[int] = []

    def wish() -> None:
        asked.append(1)
        raise error

    until_true(wish, lambda: len(asked) == 3, "three times")
    assert len(asked) == 3


def test_what_never_happens_is_told_with_the_reason() -> None:
    def wish() -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_PARTITIONS))

    with pytest.raises(AssertionError, match=r"it grows: not after .*INVALID_PARTITIONS"):
        until_true(wish, lambda: False, "it grows")


def test_a_look_that_fails_is_taken_again() -> None:
    looks = iter([False, True])

    def true() -> bool:
        if not next(looks):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return True

    until_true(lambda: None, true, "it is there")
