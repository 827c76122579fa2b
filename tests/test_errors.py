"""Details of errors, and values that they quote."""

import json

import pytest

from service import errors


def test_detail_lists_every_fault() -> None:
    first, second = (errors.Fault(name, "1", f"{name} must be 2") for name in "ab")

    assert errors.InvalidParameters(first, second).detail == "a must be 2; b must be 2"


def test_invalid_body_lists_every_fault() -> None:
    faults = [errors.Fault(f"/{i}", "1", f"{i} must be 2", in_body=True) for i in range(12)]
    error = errors.InvalidBody.at(*faults)

    assert error.detail.startswith("0 must be 2; 1 must be 2")
    assert error.detail.endswith("; and 2 more")
    assert error.faults == tuple(faults[:10])


def test_long_values_are_shortened() -> None:
    assert errors.shortened("a" * 100) == "a" * 80 + "…"
    assert errors.shortened([1, True]) == "[1, true]"


def test_deeply_nested_value_is_left_out() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]

    assert errors.shortened(nested) == "…"


def test_long_list_is_shortened_before_serialization() -> None:
    for value in ([0.5] * 81, list(range(500)), tuple("ab" * 100), [[1, 2]] * 80):
        assert errors.shortened(value) == json.dumps(value)[:80] + "…"
    assert errors.shortened([object()] * 10**6).endswith("…")


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 1), (0.3, 1), (1.2, 2), (90, 90), (1e9, 3600)]
)
def test_retry_after_is_whole_seconds_up_to_an_hour(seconds: float, expected: int) -> None:
    refusals = errors.Refusals()

    assert refusals.overloaded("waiting", "detail", seconds).retry_seconds == expected
    assert refusals.counts["waiting"] == 1
