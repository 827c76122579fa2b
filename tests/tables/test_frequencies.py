"""Frequency rules, in arithmetic of many digits."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.frequencies import Geometric, wavelengths
from service.tables.rotary_rule import Given
from tests.exact import frequency


@given(st.floats(1.0, 1e300), st.integers(1, 4096))
def test_a_geometric_series_is_right_to_sixty_digits(base: float, dim: int) -> None:
    count = -(-dim // 2)

    exact = Geometric(base, dim, count).exact()

    assert count == len(exact)
    for pair in {0, count // 2, count - 1}:
        expected = frequency(base, dim, pair)
        assert abs(mpmath.mpf(str(exact[pair])) - expected) <= expected * mpmath.mpf("1e-60")


def test_a_worker_thread_evaluates_to_the_same_digits() -> None:
    rule = Geometric(10000.0, 128, 64)

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(rule.exact).result()

    assert rule.exact() == in_thread
    assert len(str(in_thread[1])) > 70


def test_given_frequencies_are_the_numbers_they_are() -> None:
    (exact,) = Given((0.1,)).exact()

    assert str(exact).startswith("0.1000000000000000055511151231257827021181583404541015625")


@pytest.mark.parametrize(("value", "expected"), [(1, "6.28318530717958647692528676655"), (0, "")])
def test_a_wavelength_is_a_turn_by_the_frequency(value: int, expected: str) -> None:
    (wavelength,) = wavelengths([Decimal(value)])

    if value == 0:
        assert wavelength.is_infinite()
    else:
        assert str(wavelength).startswith(expected)
