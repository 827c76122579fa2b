"""Tables of angles along several axes, and float32 angles: bounds against exact arithmetic."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.rotary.rules import Default
from service.numerics import phase as scaling
from service.numerics.axes import (
    AngleRounding,
    AxesTable,
    Axis,
    Float32s,
    angles_table,
    float32_angles,
    float32_distance,
    float32_frequencies,
    float32_sin_cos,
)
from service.numerics.dtypes import FLOAT32, FLOAT64
from service.numerics.phase import MAX_POSITION, Decimals, Float64s, Int64s, exact_context
from service.numerics.phasors import Channels, PhasorTable
from service.numerics.positions import Positions, Run
from service.numerics.setups import Setups
from service.numerics.tables import Table, size
from tests.exact import UNIT, frequency, rounded

SCATTERED = Positions.of_runs(Run(at, 1, 3) for at in (-5, 0, 4095, 2**40, MAX_POSITION - 2))
FAST, SLOW = Default(4, 100.0), Default(6, 10000.0)
FIRST = Axis(FAST, SCATTERED, (4, 1))
SECOND = Axis(SLOW, Positions.contiguous(7, 15), (0, 2, 3))
# Which axis, and which of its frequencies, each frequency of a row is.
ORDER = [(SECOND, 0), (FIRST, 1), (SECOND, 1), (SECOND, 2), (FIRST, 0)]
COMPACT = Channels(("cos", "sin"), interleaved=False, width=10)
EVERY_ROUNDING = pytest.mark.parametrize("rounding", ["exact", "float32"])


def read(table: Table) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def both_axes(
    rounding: AngleRounding = "exact", channels: Channels = COMPACT, scale: float = 1.0
) -> AxesTable:
    shape = (15, channels.width)
    return AxesTable((FIRST, SECOND), rounding, channels, FLOAT64, shape, scale)


def exact_angle(axis: Axis, row: int, pair: int) -> Any:
    assert isinstance(axis.rule, Default)
    position = int(axis.positions.at(row, row + 1)[0])
    return position * frequency(axis.rule.rope_theta, axis.rule.rotary_dim, pair)


def test_each_frequency_uses_the_position_of_its_axis() -> None:
    rows = read(both_axes())

    for row in range(15):
        for place, (axis, pair) in enumerate(ORDER):
            angle = exact_angle(axis, row, pair)
            assert abs(rows[row, place] - mpmath.cos(angle)) <= 6 * UNIT
            assert abs(rows[row, place + 5] - mpmath.sin(angle)) <= 6 * UNIT


@EVERY_ROUNDING
def test_channels_have_indices_of_component_and_frequency(rounding: AngleRounding) -> None:
    compact = read(both_axes(rounding))
    cos, sin = compact[:, :5], compact[:, 5:]

    pairs = Channels(("cos", "sin"), interleaved=True, width=10)
    doubled = Channels(("sin", "cos"), interleaved=False, width=20, repeats=2)

    expected = np.stack([cos, sin], axis=-1).reshape(15, 10)
    assert (read(both_axes(rounding, pairs)) == expected).all()
    expected = np.concatenate([sin.repeat(2, axis=1), cos.repeat(2, axis=1)], axis=1)
    assert (read(both_axes(rounding, doubled)) == expected).all()


def test_one_exact_axis_is_the_table_of_a_sequence() -> None:
    rule = Default(64, 10000.0)
    channels = Channels(("cos", "sin"), interleaved=True, width=64)
    axes = (Axis(rule, SCATTERED, tuple(range(32))),)

    table = AxesTable(axes, "exact", channels, FLOAT32, (15, 64))

    plain = PhasorTable(rule, channels, SCATTERED, FLOAT32, (15, 64), 1.0)
    assert read(table).tobytes() == read(plain).tobytes()


class Counting:
    """A growth by the position itself."""

    def at(self, positions: Int64s) -> Float64s:
        return np.repeat(positions.astype(np.float64)[:, np.newaxis], 3, axis=1)

    def setup(self, positions: Int64s) -> Setups:  # noqa: ARG002
        return Setups()


def test_growth_multiplies_cosines_and_sines() -> None:
    axes = (Axis(SLOW, Positions.contiguous(-2, 5), (0, 1, 2)),)
    channels = Channels(("cos", "sin"), interleaved=False, width=6)

    grown = AxesTable(axes, "exact", channels, FLOAT64, (5, 6), 1.0, Counting())

    plain = read(AxesTable(axes, "exact", channels, FLOAT64, (5, 6)))
    assert (read(grown) == plain * np.arange(-2, 3)[:, np.newaxis]).all()


def test_angles_are_within_eight_units_of_their_size() -> None:
    angles = read(angles_table((FIRST, SECOND), "exact", FLOAT64, (15, 5)))

    for row in range(15):
        for place, (axis, pair) in enumerate(ORDER):
            angle = exact_angle(axis, row, pair)
            assert abs(angles[row, place] - angle) <= 8 * UNIT * abs(angle)


def test_rounded_angles_are_products_of_float32() -> None:
    angles = read(angles_table((FIRST, SECOND), "float32", FLOAT64, (15, 5)))
    components = read(both_axes("float32"))

    for place, (axis, pair) in enumerate(ORDER):
        positions = axis.positions.at(0, 15).astype(np.float32)
        expected = positions * np.float32(float(list(axis.rule.exact())[pair]))
        assert expected.dtype == np.float32
        assert (angles[:, place] == expected).all()
        for cos, sin, angle in zip(
            components[:, place], components[:, place + 5], expected.tolist(), strict=True
        ):
            assert abs(cos - mpmath.cos(angle)) <= 0.9 * UNIT
            assert abs(sin - mpmath.sin(angle)) <= 0.9 * UNIT


POSITIONS = st.one_of(
    st.integers(-MAX_POSITION, MAX_POSITION),
    st.integers(-(2**24) - 3, 2**24 + 3),
    st.sampled_from([0, 1, -1, 2**24, 2**24 + 1, MAX_POSITION, -MAX_POSITION]),
)
FREQUENCIES = st.one_of(
    st.floats(0.0, 1.0, width=32),
    st.floats(1e-9, 1.0).map(lambda value: float(np.float32(value))),
    st.floats(1.0, 1e18).map(lambda value: float(np.float32(value))),
    st.sampled_from([0.0, 2.0**-149, 3 * 2.0**-149, 2.0**-126, 1.0]),
)
# Halfway between two float32, as an odd multiple of a power of two.
MIDPOINTS = st.builds(
    lambda significand, exponent: Fraction(2 * significand + 1) * Fraction(2) ** exponent,
    st.integers(2**23, 2**24 - 1),
    st.integers(-149, 35),
)
SUBNORMAL_MIDPOINTS = st.integers(0, 2**23 - 1).map(
    lambda count: Fraction(2 * count + 1) * Fraction(2) ** -150
)


def at(*positions: int) -> Int64s:
    return np.array(positions, dtype=np.int64)


def decimal(value: Fraction) -> Decimal:
    return Decimal(float(value))


def check_rounded(frequencies: Sequence[Decimal]) -> None:
    for found, omega in zip(float32_frequencies(frequencies), frequencies, strict=True):
        assert Fraction(float(found)) == rounded(Fraction(omega), "float32")


@given(st.lists(st.floats(0.0, 1e18), min_size=1, max_size=20))
def test_frequencies_are_rounded_to_float32(values: list[float]) -> None:
    check_rounded([Decimal(value) for value in values])


@given(st.one_of(MIDPOINTS, SUBNORMAL_MIDPOINTS))
def test_frequencies_next_to_a_tie_are_rounded_once(midpoint: Fraction) -> None:
    """Far closer to the tie than a float64 tells; those that are ties go to the even one."""
    tie, context = decimal(midpoint), exact_context()
    hair = context.multiply(tie, Decimal("1e-70"))

    assert Fraction(tie) == midpoint
    check_rounded([tie, context.add(tie, hair), context.subtract(tie, hair)])
    below, above = float32_frequencies([context.subtract(tie, hair), context.add(tie, hair)])
    assert np.nextafter(below, np.float32(np.inf)) == above


def test_frequencies_below_every_float32_are_zero() -> None:
    tiny = [Decimal(0), Decimal("1e-400"), Decimal("1e-300"), Decimal(2.0**-150)]

    assert float32_frequencies(tiny).tolist() == [0.0] * 4


def engine_angle(position: int, frequency: float) -> Fraction:
    """Round a position to float32, and its product with a float32, by fractions."""
    product = rounded(Fraction(position), "float32") * Fraction(frequency)
    return rounded(product, "float32")


@given(
    st.lists(FREQUENCIES, min_size=1, max_size=4),
    st.lists(POSITIONS, min_size=1, max_size=4),
)
def test_sines_and_cosines_are_those_of_the_rounded_angle(
    frequencies: list[float], positions: list[int]
) -> None:
    kept: Float32s = np.array(frequencies, dtype=np.float32)

    sine, cosine = float32_sin_cos(kept, at(*positions))
    angles = float32_angles(kept, at(*positions))

    for row, position in enumerate(positions):
        for column, omega in enumerate(frequencies):
            angle = engine_angle(position, omega)
            assert Fraction(float(angles[row, column])) == angle
            expected = mpmath.mpf(angle.numerator) / angle.denominator
            assert abs(sine[row, column] - mpmath.sin(expected)) <= 0.9 * UNIT
            assert abs(cosine[row, column] - mpmath.cos(expected)) <= 0.9 * UNIT


@pytest.mark.parametrize("count", [1, 2, 3, 2**22 + 1, 2**23 - 1, 2**23, 2**23 + 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_subnormal_angle_is_its_own_sine(count: int, sign: int) -> None:
    frequency = np.array([count * 2.0**-149], dtype=np.float32)

    sine, cosine = float32_sin_cos(frequency, at(sign))

    assert sine.tolist() == [[sign * count * 2.0**-149]]
    assert cosine.tolist() == [[1.0]]


def test_the_sine_of_angle_zero_is_positive_zero() -> None:
    sine, cosine = float32_sin_cos(np.array([0.0, 1.0], dtype=np.float32), at(0, -7))

    assert not np.signbit(sine[0]).any()
    assert not np.signbit(sine[1, 0])
    assert cosine[0].tolist() == [1.0, 1.0]


def test_a_position_above_2_to_the_24_is_rounded_to_float32() -> None:
    kept = np.array([1.0, 3.0], dtype=np.float32)

    odd = float32_sin_cos(kept, at(2**24 + 1, 2**24 + 3))
    even = float32_sin_cos(kept, at(2**24, 2**24 + 4))

    assert [part.tolist() for part in odd] == [part.tolist() for part in even]


def distances(frequencies: Decimals, positions: list[int]) -> list[float]:
    """Measure how far sines and cosines are from those of the exact angles."""
    sine, cosine = float32_sin_cos(float32_frequencies(frequencies), at(*positions))
    measured = []
    for row, position in enumerate(positions):
        for column, omega in enumerate(frequencies):
            angle = position * mpmath.mpf(str(omega))
            measured += [
                float(abs(sine[row, column] - mpmath.sin(angle))),
                float(abs(cosine[row, column] - mpmath.cos(angle))),
            ]
    return measured


@given(
    st.lists(st.floats(0.0, 10.0).map(Decimal), min_size=1, max_size=3),
    st.lists(POSITIONS, min_size=1, max_size=3),
)
def test_float32_errors_are_within_their_bound(frequencies: Decimals, positions: list[int]) -> None:
    bound = float32_distance(frequencies, max(map(abs, positions)))

    assert max(distances(frequencies, positions)) <= float(bound) + 2 * UNIT


@pytest.mark.full
@pytest.mark.parametrize("farthest", [512, 4095, 131071])
@pytest.mark.parametrize("base", [10000, 500000])
def test_the_float32_bound_is_within_ten_times_the_error(farthest: int, base: int) -> None:
    frequencies = list(scaling.geometric_series(Decimal(base), 128, 64))

    seen = max(distances(frequencies, list(range(farthest - 50, farthest + 1))))

    assert seen <= float32_distance(frequencies, farthest) <= 10 * Decimal(seen)


def test_the_float32_bound_is_the_same_in_a_new_thread() -> None:
    frequencies = list(scaling.geometric_series(Decimal(10**9), 128, 64))[-1:]

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(float32_distance, frequencies, 2**24 + 1).result()

    assert in_thread == float32_distance(frequencies, 2**24 + 1) < 2
    assert len(in_thread.as_tuple().digits) > 70


def test_the_float32_bound_at_position_zero_is_tiny() -> None:
    assert 0 < float32_distance([Decimal(1), Decimal("0.1")], 0) < Decimal("1e-45")
    assert 0 < float32_distance([Decimal(0)], MAX_POSITION) < Decimal("1e-45")
