"""Frequencies of image axes against an evaluation in 90 digits."""

from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.tables.bands import InTurns, Measured, Ones, Periods, PixelBands
from service.tables.frequencies import FrequencyRule, Geometric
from tests.exact import frequency

# Of 80 digits, ten are for the roundings of a series and its logarithm.
DIGITS = 70

counts = st.integers(1, 40)
reals = st.floats(1e-9, 1e9)


def assert_are(rule: FrequencyRule, expected: list[Any]) -> None:
    found = rule.exact()
    assert len(found) == rule.count == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert abs(mpmath.mpf(str(one)) / other - 1) < mpmath.mpf(10) ** -DIGITS


@given(st.floats(1.5, 1e250), counts)
@example(100.0, 16)
def test_periods_of_a_base_are_those_of_dinov3(base: float, count: int) -> None:
    """base^(2j/(d/2)) for j below d/4."""
    head_dim = 4 * count
    periods = [mpmath.mpf(base) ** (mpmath.mpf(2 * j) / (head_dim // 2)) for j in range(count)]

    assert_are(Periods(1.0, base, count, count), [2 * mpmath.pi / period for period in periods])


@given(reals, reals, counts)
@example(0.5, 20.0, 16)
@example(20.0, 0.5, 1)
def test_periods_between_two_are_in_equal_ratios(
    shortest: float, longest: float, count: int
) -> None:
    """max · (max/min)^(linspace(0, 1, n) − 1)."""
    ratio = mpmath.mpf(longest) / mpmath.mpf(shortest)
    at = [mpmath.mpf(j) / max(count - 1, 1) for j in range(count)]
    periods = [longest * ratio ** (place - 1) for place in at]

    rule = Periods(shortest, longest, count - 1, count)

    assert_are(rule, [2 * mpmath.pi / period for period in periods])


@given(reals, counts)
@example(10.0, 8)
@example(2.0, 3)
@example(224.0, 1)
@example(1e-9, 2)
def test_even_bands_run_from_one_to_half_of_max_freq(max_freq: float, count: int) -> None:
    """linspace(1, max_freq/2, n)·π, which is π for one band."""
    steps = max(count - 1, 1)
    top = mpmath.mpf(max_freq) / 2

    bands = [1 + (top - 1) * k / steps for k in range(count)]

    assert_are(PixelBands(max_freq, count, True), [band * mpmath.pi for band in bands])


@given(reals, counts)
@example(224.0, 16)
@example(2.0, 3)
@example(224.0, 1)
@example(1e-9, 2)
def test_other_bands_run_there_in_equal_ratios(max_freq: float, count: int) -> None:
    """2^linspace(0, log2(max_res) − 1, n)·π."""
    steps = max(count - 1, 1)
    highest = mpmath.log(mpmath.mpf(max_freq), 2) - 1

    bands = [mpmath.mpf(2) ** (highest * k / steps) for k in range(count)]

    assert_are(PixelBands(max_freq, count, False), [band * mpmath.pi for band in bands])


def test_constant_frequencies_are_one_radian() -> None:
    assert_are(Ones(5), [mpmath.mpf(1)] * 5)


@given(st.fractions(min_value="1/1000000", max_value=1000, max_denominator=2**40))
def test_a_unit_multiplies_every_frequency(unit: Fraction) -> None:
    measured = Measured(Geometric(10000.0, 8, 4), unit)
    factor = mpmath.mpf(unit.numerator) / unit.denominator

    assert_are(measured, [frequency(10000.0, 8, k) * factor for k in range(4)])


@pytest.mark.parametrize(
    "rule", [Periods(1.0, 100.0, 4, 4), PixelBands(224.0, 4, True), Ones(4)], ids=repr
)
def test_rules_of_equal_numbers_are_one_key_of_the_caches(rule: FrequencyRule) -> None:
    again = type(rule)(**vars(rule))

    assert (again, hash(again)) == (rule, hash(rule))
    assert Measured(rule, Fraction(1, 2)) != Measured(rule, Fraction(1, 3))


def test_turns_are_two_pi_radians() -> None:
    rule = Geometric(10.0, 4, 2)

    expected = [2 * mpmath.pi * mpmath.mpf(str(radian)) for radian in rule.exact()]

    assert_are(InTurns(rule), expected)
