"""Frequencies against an independent evaluation of their formulas."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.numerics import phase as scaling
from service.numerics.phase import Geometric, ScaledGeometric, wavelengths
from tests.exact import frequency


@given(st.floats(1.0, 1e300), st.integers(1, 4096))
def test_a_geometric_series_is_right_to_sixty_digits(base: float, dim: int) -> None:
    count = -(-dim // 2)

    exact = list(Geometric(base, dim, count).exact())

    assert count == len(exact)
    for pair in {0, count // 2, count - 1}:
        expected = frequency(base, dim, pair)
        assert abs(mpmath.mpf(str(exact[pair])) - expected) <= expected * mpmath.mpf("1e-60")


ENDS = st.tuples(st.floats(1e-250, 1e9), st.floats(1e-250, 1e250)).map(sorted)


@given(st.floats(1e-9, 1e9), ENDS, st.integers(1, 64), st.integers(1, 64), st.booleans())
def test_scaled_geometric_starts_at_first_and_falls_by_the_ratio(
    first: float, ends: list[float], dim: int, count: int, full_turns: bool
) -> None:
    least, greatest = ends
    exact = list(ScaledGeometric(first, least, greatest, dim, count, full_turns).exact())

    assert len(exact) == count
    ratio = mpmath.mpf(least) / mpmath.mpf(greatest)
    for pair in {0, count // 2, count - 1}:
        expected = first * ratio ** (mpmath.mpf(2 * pair) / dim)
        expected *= 2 * mpmath.pi if full_turns else 1
        assert abs(mpmath.mpf(str(exact[pair])) - expected) <= expected * mpmath.mpf("1e-60")


def test_a_worker_thread_evaluates_to_the_same_digits() -> None:
    rule = Geometric(10000.0, 128, 64)

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(lambda: list(rule.exact())).result()

    assert list(rule.exact()) == in_thread
    assert len(str(in_thread[1])) > 70


@pytest.mark.parametrize(("value", "expected"), [(1, "6.28318530717958647692528676655"), (0, "")])
def test_a_wavelength_is_two_pi_divided_by_the_frequency(value: int, expected: str) -> None:
    (wavelength,) = wavelengths([Decimal(value)])

    if value == 0:
        assert wavelength.is_infinite()
    else:
        assert str(wavelength).startswith(expected)


def exact(value: Decimal | float) -> Any:
    return mpmath.mpf(str(value)) if isinstance(value, Decimal) else mpmath.mpf(value)


def check(got: Sequence[Decimal], expected: Sequence[Any], relative: str = "1e-70") -> None:
    assert len(got) == len(expected)
    for found, reference in zip(got, expected, strict=True):
        assert abs(exact(found) - reference) <= mpmath.mpf(relative) * abs(reference)


def test_a_geometric_series_keeps_its_digits_over_the_widest_head() -> None:
    frequencies = list(scaling.geometric_series(Decimal(500000), 65536, 32768))

    check(frequencies[-1:], [frequency(500000, 65536, 32767)])
