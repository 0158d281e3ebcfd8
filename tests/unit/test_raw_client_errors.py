"""What a copier makes of Kafka's error codes. That names are right is checked against Java, with the brokers."""

from __future__ import annotations

from farshore.kafka.raw_errors import DIFFERENT_FROM_JAVA, ERRORS, Category, error_info


def test_every_category_has_a_code_and_every_departure_from_java_a_row() -> None:
    assert {info.category for info in ERRORS.values()} == set(Category)
    assert set(DIFFERENT_FROM_JAVA) <= set(ERRORS)


def test_codes_lie_under_their_own_number_and_names_are_unique() -> None:
    assert all(info.code == code for code, info in ERRORS.items())
    assert len({info.name for info in ERRORS.values()}) == len(ERRORS)


def test_what_moves_by_itself_is_tried_again_after_a_look_at_the_metadata() -> None:
    for code in (3, 5, 6, 13, 74):
        assert error_info(code).retriable
        assert error_info(code).refresh


def test_what_somebody_has_to_change_is_not_tried_again() -> None:
    final = (Category.PERMISSION, Category.REFUSED_BY_TOPIC, Category.TOO_LARGE, Category.FENCED, Category.SEQUENCE)
    assert not any(info.retriable for info in ERRORS.values() if info.category in final)


def test_a_code_from_the_future_is_unknown_and_worth_another_try() -> None:
    info = error_info(999)
    assert (info.name, info.category, info.retriable) == ("ERROR_999", Category.UNKNOWN, True)
    assert str(info) == "ERROR_999 (the broker cannot say: its log may)"
