"""Plain numbers: what somebody may have written down, near what was measured."""

import pytest

from service.analysis.plain import plain_numbers


@pytest.mark.parametrize(
    ("measured", "error", "first"),
    [
        (9999.87, 3e-4, 10000.0),
        (499999.2, 1e-5, 500000.0),
        (131071.6, 1e-5, 131072.0),
        (0.088388, 1e-5, 0.088388),
        (1.2772588722239782, 1e-16, 1.2772588722239782),
        (150000.4, 1e-4, 150000.0),
        (8.0000003, 1e-6, 8.0),
    ],
)
def test_the_plainest_comes_first(measured: float, error: float, first: float) -> None:
    assert next(plain_numbers(measured, error)) == first


def test_numbers_are_within_the_error_and_different() -> None:
    found = list(plain_numbers(9999.87, 3e-4))

    assert len(found) == len(set(found)) == 3
    assert all(abs(number - 9999.87) <= 3e-4 * 9999.87 for number in found)


def test_a_power_of_two_is_plain() -> None:
    assert 65536.0 in list(plain_numbers(65535.2, 1e-4))


@pytest.mark.parametrize("measured", [0.0, -1.0, float("inf"), float("nan")])
def test_there_is_none_near_what_is_not_above_zero(measured: float) -> None:
    assert not list(plain_numbers(measured, 0.1))


def test_there_are_as_many_as_asked_for_at_most() -> None:
    assert len(list(plain_numbers(3.14159, 1e-2, most=2))) == 2
