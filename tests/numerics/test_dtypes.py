"""Rounding to element types, once; bounds of parameters keep results in range."""

from fractions import Fraction
from math import isfinite, log

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.numerics.dtypes import (
    BFLOAT16,
    REAL_DTYPES,
    largest_finite,
    may_overflow,
    round_integers_into,
    round_into,
    round_results,
    rounding_bound,
    to_float64,
)
from service.numerics.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_MSCALE,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)
from service.numerics.phase import MAX_FREQUENCY, MAX_POSITION, MIN_FREQUENCY
from tests.exact import rounded

VALUES = st.one_of(
    st.floats(-1.0, 1.0),
    st.floats(-60000.0, 60000.0),
    st.floats(-1e-37, 1e-37),
    st.sampled_from([0.0, -0.0, 1.0, 2.0**-133, 2.0**-134, 1.5 * 2.0**-133, 2.0**-24, 2.0**-25]),
)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@given(st.lists(VALUES, min_size=1, max_size=20))
def test_every_value_is_rounded_once_to_nearest_even(name: str, values: list[float]) -> None:
    dtype = REAL_DTYPES[name]
    elements = np.empty(len(values), dtype=dtype.storage)

    round_into(np.array(values), elements, dtype)

    expected = [rounded(Fraction(value), name) for value in values]
    assert expected == [Fraction(float(value)) for value in to_float64(elements, dtype)]


def test_bfloat16_is_not_rounded_twice() -> None:
    """Just above a tie of bfloat16, by less than float32 can tell."""
    above = 1.0 + 2.0**-8 + 2.0**-40
    below = 1.0 + 3 * 2.0**-8 - 2.0**-40
    bits = np.empty(4, dtype="<u2")

    round_into(np.array([above, -above, below, -below]), bits, BFLOAT16)

    values = to_float64(bits, BFLOAT16).tolist()
    assert values == [1.0 + 2.0**-7, -1.0 - 2.0**-7, 1.0 + 2.0**-7, -1.0 - 2.0**-7]


def test_bfloat16_of_float32_equals_ml_dtypes() -> None:
    patterns = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
    values = patterns.view(np.float32)
    bits = np.empty(len(values), dtype="<u2")

    round_into(to_float64(values, REAL_DTYPES["float32"]), bits, BFLOAT16)

    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    is_nan = np.isnan(values)
    assert (bits[~is_nan] == expected.view(np.uint16)[~is_nan]).all()
    assert np.isnan(bits.view(ml_dtypes.bfloat16)[is_nan]).all()


def _beside(value: float) -> list[float]:
    """Return a value, its neighbours, and numbers that float32 cannot tell from it."""
    near = [value, float(np.nextafter(value, np.inf)), float(np.nextafter(value, -np.inf))]
    return [*near, value * (1 + 2.0**-40), value * (1 - 2.0**-40)]


@pytest.mark.parametrize(("name", "kept_bits"), [("float16", 10), ("bfloat16", 7)])
@pytest.mark.parametrize("exponent", [-133, -126, -24, -15, -14, -1, 0, 15])
def test_numbers_at_and_beside_ties_are_rounded_to_the_right_side(
    name: str, kept_bits: int, exponent: int
) -> None:
    dtype = REAL_DTYPES[name]
    halves = [k * 2.0 ** (exponent - kept_bits - 1) for k in range(1, 2 ** (kept_bits + 2), 37)]
    values = [sign * value for half in halves for value in _beside(half) for sign in (1, -1)]
    values = [value for value in values if abs(value) <= largest_finite(dtype)]
    elements = np.empty(len(values), dtype=dtype.storage)

    round_into(np.array(values), elements, dtype)

    expected = [rounded(Fraction(value), name) for value in values]
    assert expected == [Fraction(float(value)) for value in to_float64(elements, dtype)]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_rounding_into_columns_of_rows_leaves_the_others(name: str) -> None:
    dtype = REAL_DTYPES[name]
    values = np.array([[1.0, 1 + 2.0**-8, 2.0**-20], [-0.0, 3.0, -1 - 2.0**-11]])
    alone, rows = np.empty((2, 3), dtype.storage), np.zeros((2, 6), dtype.storage)

    round_into(values, alone, dtype)
    round_into(values, rows[:, ::2], dtype)

    assert rows[:, ::2].tobytes() == alone.tobytes()
    assert not rows[:, 1::2].any()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 3.4e38, 1e300, -1e300])
def test_values_too_large_for_bfloat16_are_infinite(value: float) -> None:
    bits = np.empty(1, dtype="<u2")

    round_into(np.array([value]), bits, BFLOAT16)

    assert np.copysign(np.inf, value) == to_float64(bits, BFLOAT16)[0]


@pytest.mark.parametrize("value", [65_520.0, -65_520.0, np.inf, -np.inf, 1e300])
def test_values_too_large_for_float16_are_infinite_beside_small_ones(value: float) -> None:
    halves = np.empty(2, dtype="<f2")

    with np.errstate(over="ignore"):
        round_into(np.array([value, 2.0**-24]), halves, REAL_DTYPES["float16"])

    assert halves.tolist() == [np.copysign(np.inf, value), 2.0**-24]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("payload", [0x7FF8 << 48, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF])
def test_a_nan_of_any_payload_stays_a_nan(name: str, payload: int) -> None:
    values = np.array([payload, 0], dtype=np.uint64).view(np.float64)
    dtype = REAL_DTYPES[name]
    elements = np.empty(2, dtype=dtype.storage)

    round_into(values, elements, dtype)

    assert np.isnan(to_float64(elements, dtype)).tolist() == [True, False]


@pytest.mark.parametrize("name", sorted(REAL_DTYPES))
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf, 1e300])
def test_round_results_rounds_every_nan_to_the_same_one(name: str, value: float) -> None:
    dtype = REAL_DTYPES[name]
    values = np.array([1.0, value, -2.0])
    results, expected = np.empty(3, dtype=dtype.storage), np.empty(3, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(np.where(np.isnan(values), np.nan, values), expected, dtype)

    round_results(values.copy(), results, dtype)

    assert expected.tobytes() == results.tobytes()


@pytest.mark.parametrize("name", sorted(REAL_DTYPES))
@given(st.lists(VALUES, min_size=1, max_size=20))
def test_rounding_errors_are_within_the_bound(name: str, values: list[float]) -> None:
    dtype = REAL_DTYPES[name]
    elements = np.empty(len(values), dtype=dtype.storage)

    round_into(np.array(values), elements, dtype)

    bound = rounding_bound(dtype, max(map(abs, values)))
    for value, found in zip(values, to_float64(elements, dtype).tolist(), strict=True):
        assert abs(Fraction(found) - Fraction(value)) <= Fraction(bound)


@pytest.mark.parametrize("name", sorted(REAL_DTYPES))
def test_the_largest_finite_number_rounds_to_itself(name: str) -> None:
    dtype = REAL_DTYPES[name]
    elements = np.empty(1, dtype=dtype.storage)

    round_into(np.array([largest_finite(dtype)]), elements, dtype)

    assert to_float64(elements, dtype).tolist() == [largest_finite(dtype)]


@pytest.mark.parametrize("name", list(REAL_DTYPES))
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20))
def test_integers_are_rounded_once(name: str, numbers: list[int]) -> None:
    dtype = REAL_DTYPES[name]
    elements = np.empty(len(numbers), dtype=dtype.storage)

    round_integers_into(np.array(numbers), elements, dtype)

    for number, found in zip(numbers, to_float64(elements, dtype), strict=True):
        if name == "float16" and abs(number) >= 65_520:
            assert found == np.copysign(np.inf, number)
        elif name == "float64":
            assert found == float(number)
        else:
            assert Fraction(float(found)) == rounded(Fraction(number), name)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_next_to_a_tie_round_to_their_side(name: str, sign: int) -> None:
    """Rounded to float64 before, they would be the tie itself."""
    dtype, kept_bits = REAL_DTYPES[name], {"float32": 23, "bfloat16": 7}[name]
    step = 2 ** (60 - kept_bits)
    numbers = np.array([2**60 + step // 2 + 1, 2**60 + 3 * step // 2 - 1]) * sign
    elements = np.empty(2, dtype=dtype.storage)

    round_integers_into(numbers, elements, dtype)

    assert to_float64(elements, dtype).tolist() == [sign * (2**60 + step)] * 2


@pytest.mark.parametrize(
    ("name", "first_too_large"),
    [
        ("float16", 65_520.0),
        ("bfloat16", 2.0**128 - 2.0**119),
        ("float32", 2.0**128 - 2.0**103),
    ],
)
def test_a_size_may_overflow_where_it_rounds_to_infinity(name: str, first_too_large: float) -> None:
    dtype = REAL_DTYPES[name]

    assert may_overflow(first_too_large, dtype)
    assert not may_overflow(first_too_large * (1 - 2.0**-30), dtype)
    assert not may_overflow(first_too_large, REAL_DTYPES["float64"])


def test_frequencies_stay_in_the_range_of_exact_phases() -> None:
    assert 1 / MAX_BASE >= MIN_FREQUENCY
    # Divided by a factor of its own, by one for all, and by what dynamic scaling makes of a length.
    assert 1 / MAX_SCALED_BASE / MAX_FACTOR**2 / MAX_LENGTH >= MIN_FREQUENCY
    assert 1 / MIN_FACTOR**2 <= MAX_FREQUENCY * (1 + 1e-15)
    assert MAX_LENGTH <= MAX_POSITION


def test_attention_factors_stay_in_the_range_of_every_type() -> None:
    largest = float(np.finfo(np.float16).max)
    assert largest > MAX_ATTENTION_FACTOR
    assert 0.1 * MAX_MSCALE * log(MAX_FACTOR) + 1 < largest


def test_wavelengths_stay_in_the_range_of_float64() -> None:
    assert isfinite(2 * 3.2 * MAX_SCALED_BASE * MAX_FACTOR**2 * MAX_LENGTH)
    assert isfinite(2 * 3.2 * MAX_BASE)
