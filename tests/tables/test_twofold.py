"""Pairs of float64."""

from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import MAX_POSITION, Float64s
from service.tables.twofold import (
    Twofold,
    any_sum,
    constant,
    in_blocks,
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


def block_of(whole: Float64s, some: slice, part: slice) -> Float64s:
    return whole[some, part]


def test_a_matrix_is_the_same_whichever_block_an_element_falls_into() -> None:
    for shape in ((1, 10_000), (10_000, 1), (700, 13), (3, 5000), (0, 4), (4, 0)):
        whole = np.add.outer(10.0 * np.arange(shape[0]), np.arange(shape[1]))

        found = in_blocks(partial(block_of, whole), *shape)

        assert found.shape == shape
        assert (found == whole).all()


def test_a_row_may_be_right_for_all() -> None:
    assert in_blocks(lambda _, part: np.arange(3.0)[part], 2, 3).tolist() == [[0, 1, 2]] * 2


def test_a_column_holds_some_of_the_numbers() -> None:
    pair = Twofold(np.arange(5.0), np.arange(5.0) / 2**60)

    assert pair.column(slice(1, 3)).high.tolist() == [[1], [2]]
    assert pair.column(slice(1, 3)).low.tolist() == [[2.0**-60], [2.0**-59]]
