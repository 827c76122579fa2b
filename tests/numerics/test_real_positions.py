"""Tables of real positions, and frequencies of image axes, against 90-digit arithmetic."""

from fractions import Fraction
from math import inf, nan, nextafter
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.numerics.dtypes import FLOAT64, REAL_DTYPES
from service.numerics.limits import MAX_SCALED_BASE
from service.numerics.phase import (
    ConstantFrequencies,
    FrequencyRule,
    Geometric,
    PeriodFrequencies,
    PixelBands,
    ScaledFrequencies,
    TimesTwoPi,
)
from service.numerics.phasors import Channels, PhasorTable, RealPhasorTable
from service.numerics.positions import (
    MIN_REAL_POSITION,
    Positions,
    RealPositions,
    first_out_of_range,
    split_units,
)
from service.numerics.tables import size
from tests.exact import UNIT, frequency

SMALL = st.floats(MIN_REAL_POSITION, 1.0)
REALS = st.one_of(
    st.just(0.0),
    SMALL,
    SMALL.map(lambda value: -value),
    st.floats(-1e6, 1e6).filter(lambda value: abs(value) >= MIN_REAL_POSITION),
    st.floats(-(2.0**62), 2.0**62).filter(lambda value: abs(value) >= MIN_REAL_POSITION),
    st.integers(-(2**53), 2**53).map(float),
)
SIN_COS = Channels(("sin", "cos"), interleaved=True, width=8)
RULE = Geometric(10000.0, 8, 4)


def table(values: list[float], rule: FrequencyRule = RULE, dtype: str = "float64") -> NDArray[Any]:
    shape = (len(values), 8)
    positions = np.array(values)
    phasors = RealPhasorTable(rule, SIN_COS, positions, REAL_DTYPES[dtype], shape)
    return np.asarray(phasors.read(0, size(phasors))).reshape(shape)


@given(st.lists(REALS, min_size=1, max_size=20))
@example([2.0**62, -(2.0**62), MIN_REAL_POSITION, nextafter(1.0, 0.0), 2.0**52 + 0.5])
def test_split_units_multiply_to_the_value(values: list[float]) -> None:
    integers, exponents = split_units(np.array(values))

    for value, integer, exponent in zip(values, integers.tolist(), exponents.tolist(), strict=True):
        assert integer * Fraction(2) ** exponent == Fraction(value)
        assert abs(integer) <= 2**62
        assert exponent == 0 or (exponent % 8 == 0 and -152 <= exponent < 0)
        assert (exponent == 0) == value.is_integer()


@pytest.mark.full
@settings(max_examples=150)
@given(REALS, st.floats(1.0, 1e12))
@example(MIN_REAL_POSITION, MAX_SCALED_BASE)
@example(0.1, 10000.0)
def test_values_are_within_their_bound_however_small(value: float, base: float) -> None:
    (row,) = table([value], Geometric(base, 8, 4))

    bound = (3.9 if value.is_integer() else 0.9) * UNIT
    relative = (6 if value.is_integer() else 3.5) * UNIT
    for pair in range(4):
        angle = mpmath.mpf(value) * frequency(base, 8, pair)
        for found, exact in (
            (row[2 * pair], mpmath.sin(angle)),
            (row[2 * pair + 1], mpmath.cos(angle)),
        ):
            assert abs(found - exact) <= bound
            assert abs(angle) >= 1 or abs(found - exact) <= relative * abs(exact)


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=9), REALS)
def test_whole_numbers_have_the_bytes_of_integer_positions(
    positions: list[int], other: float
) -> None:
    whole = RealPositions(np.array(positions, dtype=np.float64))
    alone = PhasorTable(RULE, SIN_COS, whole.whole(), FLOAT64, (len(positions), 8))

    assert whole.is_whole
    among = table([*whole.numbers, other])[: len(positions)]
    assert among.tobytes() == alone.read(0, size(alone)).tobytes()


@given(st.lists(REALS, min_size=1, max_size=30), st.data())
def test_a_row_does_not_depend_on_the_other_rows(values: list[float], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(values) - 1))

    assert table([values[number]])[0].tobytes() == table(values)[number].tobytes()


@pytest.mark.parametrize(
    ("values", "out"),
    [
        ((0.0, 1.5, -(2.0**62)), None),
        ((MIN_REAL_POSITION, -MIN_REAL_POSITION), None),
        ((1.0, nextafter(2.0**62, 1e30)), nextafter(2.0**62, 1e30)),
        ((1.0, -1e-31, 1e300), -1e-31),
        ((1.0, inf, nan), inf),
        ((1.0, -inf), -inf),
        ((1.0, nan), nan),
    ],
)
def test_values_without_an_exact_angle_are_out_of_range(
    values: tuple[float, ...], out: float | None
) -> None:
    assert repr(first_out_of_range(np.array(values))) == repr(out)


def test_canonical_parameters_are_a_list() -> None:
    positions = RealPositions(np.array((0.5, 2.0, -8.25)))

    assert (positions.count, positions.is_whole) == (3, False)
    assert positions.parameters() == {"positions": (0.5, 2.0, -8.25)}
    assert hash(positions) == hash(RealPositions(np.array((0.5, 2.0, -8.25))))
    assert RealPositions(np.array((4.0, 5.0))).whole() == Positions.contiguous(4, 2)


@given(st.lists(REALS, min_size=1, max_size=40))
def test_there_are_at_most_twenty_units(values: list[float]) -> None:
    exponents = split_units(np.array([*values, 2.0**-99 - 2.0**-152]))[1]

    assert {*exponents.tolist()} <= {*range(-152, 1, 8)}


# Of 80 digits, ten are for the roundings of a series and its logarithm.
DIGITS = 70

counts = st.integers(1, 40)
reals = st.floats(1e-9, 1e9)


def assert_are(rule: FrequencyRule, expected: list[Any]) -> None:
    found = list(rule.exact())
    assert len(found) == rule.count == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert abs(mpmath.mpf(str(one)) / other - 1) < mpmath.mpf(10) ** -DIGITS


@given(st.floats(1.5, 1e250), counts)
@example(100.0, 16)
def test_periods_of_a_base_are_those_of_dinov3(base: float, count: int) -> None:
    """base^(2j/(d/2)) for j below d/4."""
    head_dim = 4 * count
    periods = [mpmath.mpf(base) ** (mpmath.mpf(2 * j) / (head_dim // 2)) for j in range(count)]

    assert_are(
        PeriodFrequencies(1.0, base, count, count), [2 * mpmath.pi / period for period in periods]
    )


@given(reals, reals, counts)
@example(0.5, 20.0, 16)
@example(20.0, 0.5, 1)
def test_periods_from_shortest_to_longest_are_geometric(
    shortest: float, longest: float, count: int
) -> None:
    """max · (max/min)^(linspace(0, 1, n) − 1)."""
    ratio = mpmath.mpf(longest) / mpmath.mpf(shortest)
    at = [mpmath.mpf(j) / max(count - 1, 1) for j in range(count)]
    periods = [longest * ratio ** (place - 1) for place in at]

    rule = PeriodFrequencies(shortest, longest, count - 1, count)

    assert_are(rule, [2 * mpmath.pi / period for period in periods])


@given(reals, counts)
@example(10.0, 8)
@example(2.0, 3)
@example(224.0, 1)
@example(1e-9, 2)
def test_linear_pixel_bands_go_from_1_to_half_of_max_freq(max_freq: float, count: int) -> None:
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
def test_other_pixel_bands_have_equal_ratios(max_freq: float, count: int) -> None:
    """2^linspace(0, log2(max_res) − 1, n)·π."""
    steps = max(count - 1, 1)
    highest = mpmath.log(mpmath.mpf(max_freq), 2) - 1

    bands = [mpmath.mpf(2) ** (highest * k / steps) for k in range(count)]

    assert_are(PixelBands(max_freq, count, False), [band * mpmath.pi for band in bands])


def test_every_constant_frequency_is_one_radian_per_position() -> None:
    assert_are(ConstantFrequencies(5), [mpmath.mpf(1)] * 5)


@given(st.fractions(min_value="1/1000000", max_value=1000, max_denominator=2**40))
def test_a_unit_multiplies_every_frequency(unit: Fraction) -> None:
    measured = ScaledFrequencies(Geometric(10000.0, 8, 4), unit)
    factor = mpmath.mpf(unit.numerator) / unit.denominator

    assert_are(measured, [frequency(10000.0, 8, k) * factor for k in range(4)])


@pytest.mark.parametrize(
    "rule",
    [PeriodFrequencies(1.0, 100.0, 4, 4), PixelBands(224.0, 4, True), ConstantFrequencies(4)],
    ids=repr,
)
def test_rules_of_equal_numbers_are_one_key_of_the_caches(rule: FrequencyRule) -> None:
    again = type(rule)(**vars(rule))

    assert (again, hash(again)) == (rule, hash(rule))
    assert ScaledFrequencies(rule, Fraction(1, 2)) != ScaledFrequencies(rule, Fraction(1, 3))


def test_times_two_pi_multiplies_every_frequency() -> None:
    rule = Geometric(10.0, 4, 2)

    expected = [2 * mpmath.pi * mpmath.mpf(str(radian)) for radian in rule.exact()]

    assert_are(TimesTwoPi(rule), expected)
