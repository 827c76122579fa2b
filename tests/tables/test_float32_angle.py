"""Angles as engines compute them, their exact sines and cosines, and how far off they are."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables import scaling
from service.tables.angle import MAX_POSITION, Int64s, exact_context
from service.tables.float32_angle import (
    Float32s,
    float32_angles,
    float32_distance,
    float32_frequencies,
    float32_sin_cos,
)
from service.tables.scaling import Decimals
from tests.exact import UNIT, rounded

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
    """Give a power of two's multiple exactly."""
    return Decimal(float(value))


def check_rounded(frequencies: Sequence[Decimal]) -> None:
    for ours, frequency in zip(float32_frequencies(frequencies), frequencies, strict=True):
        assert Fraction(float(ours)) == rounded(Fraction(frequency), "float32")


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


def test_geometric_frequencies_are_the_float32_nearest_to_them() -> None:
    check_rounded(scaling.default(Decimal(10000), 128, 64))


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
        for column, frequency in enumerate(frequencies):
            angle = engine_angle(position, frequency)
            assert Fraction(float(angles[row, column])) == angle
            turned = mpmath.mpf(angle.numerator) / angle.denominator
            assert abs(sine[row, column] - mpmath.sin(turned)) <= 0.9 * UNIT
            assert abs(cosine[row, column] - mpmath.cos(turned)) <= 0.9 * UNIT


@pytest.mark.parametrize("count", [1, 2, 3, 2**22 + 1, 2**23 - 1, 2**23, 2**23 + 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_subnormal_angle_is_its_own_sine(count: int, sign: int) -> None:
    frequency = np.array([count * 2.0**-149], dtype=np.float32)

    sine, cosine = float32_sin_cos(frequency, at(sign))

    assert sine.tolist() == [[sign * count * 2.0**-149]]
    assert cosine.tolist() == [[1.0]]


def test_no_angle_has_a_sine_of_positive_zero() -> None:
    sine, cosine = float32_sin_cos(np.array([0.0, 1.0], dtype=np.float32), at(0, -7))

    assert not np.signbit(sine[0]).any()
    assert not np.signbit(sine[1, 0])
    assert cosine[0].tolist() == [1.0, 1.0]


def test_a_position_past_2_to_the_24_turns_as_the_float32_nearest_to_it() -> None:
    kept = np.array([1.0, 3.0], dtype=np.float32)

    odd = float32_sin_cos(kept, at(2**24 + 1, 2**24 + 3))
    even = float32_sin_cos(kept, at(2**24, 2**24 + 4))

    assert [part.tolist() for part in odd] == [part.tolist() for part in even]


def distances(frequencies: Decimals, positions: list[int]) -> list[float]:
    """Measure how far sines and cosines are from those of the exact angles."""
    sine, cosine = float32_sin_cos(float32_frequencies(frequencies), at(*positions))
    measured = []
    for row, position in enumerate(positions):
        for column, frequency in enumerate(frequencies):
            angle = position * mpmath.mpf(str(frequency))
            measured += [
                float(abs(sine[row, column] - mpmath.sin(angle))),
                float(abs(cosine[row, column] - mpmath.cos(angle))),
            ]
    return measured


@given(
    st.lists(st.floats(0.0, 10.0).map(Decimal), min_size=1, max_size=3),
    st.lists(POSITIONS, min_size=1, max_size=3),
)
def test_the_distance_is_never_more_than_its_bound(
    frequencies: Decimals, positions: list[int]
) -> None:
    bound = float32_distance(frequencies, max(map(abs, positions)))

    assert max(distances(frequencies, positions)) <= float(bound) + 2 * UNIT


@given(st.integers(0, 2**26), st.floats(1e-6, 1.0).map(Decimal))
def test_the_bound_holds_for_every_position_up_to_the_farthest(
    farthest: int, frequency: Decimal
) -> None:
    positions = [farthest, max(farthest - 1, 0), farthest // 2, -farthest]

    bound = float32_distance([frequency], farthest)

    assert max(distances([frequency], positions)) <= float(bound) + 2 * UNIT


@pytest.mark.parametrize("farthest", [512, 4095, 131071])
@pytest.mark.parametrize("base", [10000, 500000])
def test_the_bound_is_not_ten_times_what_is_seen(farthest: int, base: int) -> None:
    frequencies = scaling.default(Decimal(base), 128, 64)

    seen = max(distances(frequencies, list(range(farthest - 50, farthest + 1))))

    assert seen <= float32_distance(frequencies, farthest) <= 10 * Decimal(seen)


def test_the_bound_has_all_its_digits_in_a_bare_thread() -> None:
    frequencies = scaling.default(Decimal(10**9), 128, 64)[-1:]

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(float32_distance, frequencies, 2**24 + 1).result()

    assert in_thread == float32_distance(frequencies, 2**24 + 1) < 2
    assert len(in_thread.as_tuple().digits) > 70


def test_the_bound_of_no_angle_is_hardly_anything() -> None:
    assert 0 < float32_distance([Decimal(1), Decimal("0.1")], 0) < Decimal("1e-45")
    assert 0 < float32_distance([Decimal(0)], MAX_POSITION) < Decimal("1e-45")
