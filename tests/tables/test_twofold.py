"""Pairs of float64."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import MAX_POSITION
from service.tables.twofold import (
    Twofold,
    any_sum,
    constant,
    in_steps,
    of_floats,
    of_integers,
    ordered_sum,
    product,
    times,
)

SIZES = st.floats(1e-100, 1e100)
REALS = st.one_of(st.just(0.0), SIZES, SIZES.map(lambda size: -size))


def exact(pair: Twofold) -> Fraction:
    return Fraction(float(pair.high[0])) + Fraction(float(pair.low[0]))


def single(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([value])


@given(st.integers(-MAX_POSITION, MAX_POSITION))
def test_integers_are_exact(number: int) -> None:
    assert exact(of_integers(np.array([number], dtype=np.int64))) == number


@given(REALS, REALS)
def test_sums_are_exact(one: float, other: float) -> None:
    large, small = sorted((one, other), key=abs, reverse=True)

    total = Fraction(one) + Fraction(other)
    assert exact(any_sum(single(one), single(other))) == total
    assert exact(ordered_sum(single(large), single(small))) == total
    assert any_sum(single(one), single(other)).high[0] == one + other


@given(REALS, REALS)
def test_products_are_within_104_bits(one: float, other: float) -> None:
    got = product(single(one), single(other))

    whole = Fraction(one) * Fraction(other)
    assert got.high[0] == one * other
    assert abs(exact(got) - whole) <= abs(whole) / 2**104


@given(SIZES, st.floats(-0.5, 0.5), SIZES, st.floats(-0.5, 0.5))
def test_products_of_pairs_are_within_102_bits(
    one: float, one_part: float, other: float, other_part: float
) -> None:
    first = ordered_sum(single(one), single(one * one_part * 2.0**-52))
    second = ordered_sum(single(other), single(other * other_part * 2.0**-52))

    whole = exact(first) * exact(second)
    assert abs(exact(times(first, second)) - whole) <= abs(whole) / 2**102


def test_a_decimal_keeps_106_bits() -> None:
    third = Decimal(1) / Decimal(3)

    assert abs(exact(constant(third)) - Fraction(third)) <= Fraction(1, 2**107)


def test_a_float_is_itself() -> None:
    assert exact(of_floats(single(0.1))) == Fraction(0.1)


def test_a_value_is_the_same_whichever_step_it_falls_into() -> None:
    numbers = np.arange(10_000)

    whole = in_steps(lambda part: of_integers(part).high, numbers)

    assert whole.tolist() == list(range(10_000))
    assert in_steps(lambda part: of_integers(part).high, numbers[:0]).shape == (0,)
