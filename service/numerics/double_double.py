"""Double-double arithmetic: numbers as unevaluated sums of two float64, good to about 104 bits.

Everything here has the same bytes on every machine: it uses additions, subtractions and
multiplications of float64 in a fixed order, which IEEE 754 fixes to the last bit, where NumPy's
``log``, ``exp``, ``power`` and ``sum`` differ between processors.

Sums and products are those of Dekker ("A floating-point technique for extending the available
precision", 1971) and Knuth (The Art of Computer Programming, volume 2, 4.2.2).

Logarithm. A number x ≥ 1 is 2^k·m with 1 ≤ m < 2. With a short factor g just above the reciprocal
of m's leading bits, taken from a table,

    ln x = k·ln 2 − ln g + ln(1 + r),    r = m·g − 1,    0 ≤ r < 2^-7

No term is negative, so nothing cancels: the error is small relative to the logarithm, however
close to 0 it is. Where x is 1, or 1 + t with t < 2^-8, k = 0, g = 1 and r = t.

Its error, in units of 2^-53: r is kept as a pair, and so are ln 2 and ln g. Of the series
r − r²·(1/2 − r/3 + …), cut after r^9, what is subtracted is at most r²/2 in size; its three
factors and the two sums it enters round it five times, by 2.5·r² together, the cut by far less.
Where k = 0 and g = 1 that is 2.5·r < 0.02 of the logarithm; everywhere else the logarithm is above
2^-7.01, and 2.5·r² < 2.5·2^-14 is as little of it. So before it is rounded a logarithm is within
2^-58 of its own size, and one of an integer, which is 0 or above 0.69, within 2^-65.

Exponential.

    e^y = 2^k · 2^(j/128) · e^r,    128·k + j = ⌊128·y/ln 2⌉,    |r| ≤ ln 2/256 < 2^-8.5

Its error, relative to the result and in units of 2^-53: ln 2/128 is kept in three parts, so that r
is right to 2^-90, and 2^(j/128) as a pair. The series of e^r − 1, cut after r^6, leaves out 2^-71.
It is below 2^-8.5 in size and is rounded three times: when it is summed, times 2^(j/128), and plus
the low part of that. Together 0.009, or 2^-59.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.numerics.phase import (
    Float64s,
    Int64s,
    UInt64s,
    exact_arithmetic,
    horner,
)

# Elements of a step: its dozen arrays of this length fit into the cache of a core.
_CACHED_ELEMENTS = 4096

# Keeps a float64 without the last 27 bits of its significand.
_LEADING_26_BITS = np.uint64(2**64 - 2**27)


class DoubleDouble(NamedTuple):
    """The numbers high + low, where high is high + low rounded to float64."""

    high: Float64s
    low: Float64s

    @property
    def nbytes(self) -> int:
        return self.high.nbytes + self.low.nbytes

    def column(self, rows: slice) -> "DoubleDouble":
        """Return some of numbers (n,) as a column (m, 1)."""
        return DoubleDouble(self.high[rows, np.newaxis], self.low[rows, np.newaxis])


def from_decimal(value: Decimal) -> DoubleDouble:
    """Round a decimal to a pair of shape (1,), within 2^-106 of its size."""
    high, low = _split_decimal(value)
    return DoubleDouble(np.array([high]), np.array([low]))


def from_integers(numbers: Int64s) -> DoubleDouble:
    """Convert integers within ±2^62 exactly."""
    high = numbers.astype(np.float64)
    return DoubleDouble(high, (numbers - high.astype(np.int64)).astype(np.float64))


def from_floats(numbers: Float64s) -> DoubleDouble:
    """Convert float64 exactly: the low parts are 0."""
    return DoubleDouble(numbers, np.zeros_like(numbers))


def fast_two_sum(large: Float64s, small: Float64s) -> DoubleDouble:
    """Add exactly; the first number must be the larger in size, or 0."""
    high = large + small
    return DoubleDouble(high, small - (high - large))


def two_sum(one: Float64s, other: Float64s) -> DoubleDouble:
    """Add any two numbers exactly."""
    high = one + other
    of_other = high - one
    return DoubleDouble(high, (one - (high - of_other)) + (other - of_other))


def two_product(one: Float64s, other: Float64s) -> DoubleDouble:
    """Multiply: within 2^-104 of the product, which must lie between 2^-900 and 2^1000 or be 0.

    Each factor is cut after 26 bits; of the four products of the parts only the smallest, 2^-52 of
    the whole, may be rounded.
    """
    one_high, other_high = _leading(one), _leading(other)
    one_low, other_low = one - one_high, other - other_high
    high = one * other
    low = one_high * other_high
    low -= high
    low += one_high * other_low
    low += one_low * other_high
    low += one_low * other_low
    return DoubleDouble(high, low)


def multiply(one: DoubleDouble, other: DoubleDouble) -> DoubleDouble:
    """Multiply pairs: within 2^-102 of the product."""
    high, low = two_product(one.high, other.high)
    low += one.high * other.low
    low += one.low * other.high
    return fast_two_sum(high, low)


def _leading(numbers: Float64s) -> Float64s:
    return (numbers.view(np.uint64) & _LEADING_26_BITS).view(np.float64)


@exact_arithmetic
def _split_decimal(value: Decimal, unit: float = 0.0) -> tuple[float, float]:
    """Split a decimal into the nearest float64, or multiple of a unit, and the rest."""
    high = round(float(value) / unit) * unit if unit else float(value)
    return high, float(value - Decimal(high))


def evaluate_in_blocks(
    evaluate: Callable[[slice, slice], Float64s], rows: int, columns: int
) -> Float64s:
    """Return a matrix (rows, columns), evaluated in blocks that fit into a core's own cache.

    Args:
        evaluate: returns the block of some rows and columns, or one row that holds for all rows.
        rows: of the matrix.
        columns: of the matrix.
    """
    values = np.empty((rows, columns))
    step = max(1, _CACHED_ELEMENTS // max(1, columns))
    for row in range(0, rows, step):
        block_rows = slice(row, row + step)
        for column in range(0, columns, _CACHED_ELEMENTS):
            block_columns = slice(column, column + _CACHED_ELEMENTS)
            values[block_rows, block_columns] = evaluate(block_rows, block_columns)
    return values


def evaluate_integers(evaluate: Callable[[Int64s], Float64s], numbers: Int64s) -> Float64s:
    """Evaluate a function of integers (n,) in blocks, as ``evaluate_in_blocks`` does."""
    return evaluate_in_blocks(lambda _, part: evaluate(numbers[part]), 1, len(numbers)).reshape(-1)


_INDEX_BITS = 7
_INDEX_SHIFT = np.uint64(52 - _INDEX_BITS)
_INDEX_MASK = np.uint64(2**_INDEX_BITS - 1)

# m without its last 21 bits, times a factor of 20 bits, is exact, and so is that minus 1.
_LEADING_32_BITS = np.uint64(2**64 - 2**21)
_FACTOR_BITS = 20

# Leading parts of ln 2 and ln g are multiples of this: sums of them below 2^11 are exact.
_LOG_UNIT = 2.0**-42

_SMALL = 2.0**-8

# (ln(1 + r) − r)/r² = −1/2 + r/3 − r²/4 + …, the last coefficient first.
_LOG_SERIES = [(-1.0) ** (n + 1) / n for n in range(9, 1, -1)]


@dataclass(frozen=True, eq=False)
class _LogTable:
    """Factors g by the leading bits of m, their logarithms −ln g, and ln 2, in two parts each."""

    factor: Float64s
    high: Float64s
    low: Float64s
    two_high: float
    two_low: float


@cache
@exact_arithmetic
def _log_table() -> _LogTable:
    steps, unit = 2**_INDEX_BITS, 2**_FACTOR_BITS
    # Rounded up, so that m·g is at least 1.
    factors = [-(-unit * steps // (steps + index)) / unit for index in range(steps)]
    logs = [_split_decimal(-Decimal(factor).ln(), _LOG_UNIT) for factor in factors]
    two_high, two_low = _split_decimal(Decimal(2).ln(), _LOG_UNIT)
    high, low = np.array(logs).T
    return _LogTable(np.array(factors), high, low, two_high, two_low)


def ln_1p(t: DoubleDouble) -> DoubleDouble:
    """Return ln(1 + t) for t (n,), each 0 or between 2^-900 and 2^1000: within 2^-58 of it."""
    with_one = two_sum(np.ones_like(t.high), t.high)
    x = fast_two_sum(with_one.high, with_one.low + t.low)
    exponent, index, rest = _reduce_logarithm(x)
    is_small = t.high < _SMALL
    if is_small.any():
        exponent[is_small], index[is_small] = 0, 0
        rest.high[is_small], rest.low[is_small] = t.high[is_small], t.low[is_small]
    return _compose_logarithm(exponent, index, rest)


def ln(numbers: Int64s) -> DoubleDouble:
    """Return the natural logarithms of integers (n,) from 1 to 2^62: within 2^-65."""
    return _compose_logarithm(*_reduce_logarithm(from_integers(numbers)))


def _reduce_logarithm(x: DoubleDouble) -> tuple[NDArray[np.int32], UInt64s, DoubleDouble]:
    """Return k, the index of g in the table, and r."""
    half, exponent = np.frexp(x.high)
    m: Float64s = half * 2.0
    tail = np.ldexp(x.low, 1 - exponent)
    bits = m.view(np.uint64)
    index = (bits >> _INDEX_SHIFT) & _INDEX_MASK
    factor = _log_table().factor.take(index.view(np.int64), mode="clip")
    leading = (bits & _LEADING_32_BITS).view(np.float64)
    rest = (m - leading) * factor
    rest += tail * factor
    return exponent - 1, index, two_sum(leading * factor - 1.0, rest)


def _compose_logarithm(
    exponent: NDArray[np.int32], index: UInt64s, rest: DoubleDouble
) -> DoubleDouble:
    table, place = _log_table(), index.view(np.int64)
    series = horner(_LOG_SERIES, rest.high)
    series *= rest.high
    series *= rest.high
    series += rest.low - rest.low * rest.high

    k = exponent.astype(np.float64)
    large = k * table.two_high
    large += table.high.take(place, mode="clip")
    total = fast_two_sum(large, rest.high)
    low = k * table.two_low
    low += table.low.take(place, mode="clip")
    low += total.low
    low += series
    return fast_two_sum(total.high, low)


_STEPS = 128

# The leading parts of ln 2/128 are multiples of these: times an integer below 2^16 they are exact.
_STEP_UNITS = (2.0**-44, 2.0**-81)

_EXP_SERIES = [1.0 / factorial(n) for n in range(6, 1, -1)]

MAX_EXPONENT = 8.0
"""The largest exponent of ``power``: 2^62 to it, times any factor, is in the range of float64."""


@dataclass(frozen=True, eq=False)
class _ExpTable:
    """The numbers 2^(j/128) in two parts, and ln 2/128 in three."""

    high: Float64s
    low: Float64s
    step: tuple[float, float, float]


@cache
@exact_arithmetic
def _exp_table() -> _ExpTable:
    step = Decimal(2).ln() / _STEPS
    high, low = np.array([_split_decimal((step * j).exp()) for j in range(_STEPS)]).T
    first, _ = _split_decimal(step, _STEP_UNITS[0])
    second, third = _split_decimal(step - Decimal(first), _STEP_UNITS[1])
    return _ExpTable(high, low, (first, second, third))


def exp(y: DoubleDouble) -> DoubleDouble:
    """Return e^y for y (n,) between 0 and 350: within 2^-59 of it."""
    table = _exp_table()
    first, second, third = table.step
    number = np.rint(y.high * (1.0 / (first + second)))
    rest = two_sum(y.high - number * first, -number * second)
    rest = two_sum(rest.high, rest.low + (y.low - number * third))

    series = horner(_EXP_SERIES, rest.high)
    series *= rest.high
    series *= rest.high
    series += rest.low
    series += rest.high

    exponent, index = np.divmod(number.astype(np.int64), _STEPS)
    root = table.high.take(index, mode="clip")
    series *= root
    series += table.low.take(index, mode="clip")
    result = fast_two_sum(root, series)
    scale = exponent.astype(np.int32)
    return DoubleDouble(np.ldexp(result.high, scale), np.ldexp(result.low, scale))


def power(numbers: Int64s, exponent: Float64s | float) -> DoubleDouble:
    """Raise integers (n,) from 0 to 2^62 to a power, or to each of powers (m, 1): (m, n).

    A power is above 0 and up to MAX_EXPONENT.

    A logarithm is within 2^-65, times 8 within 2^-62, and the exponential puts in 2^-59: each
    result is within 2^-58 of its own size. One that float64 can hold is exact in the high part.
    """
    result = exp(multiply(ln(np.maximum(numbers, 1)), from_floats(np.atleast_1d(exponent))))
    is_zero = numbers == 0
    return DoubleDouble(np.where(is_zero, 0.0, result.high), np.where(is_zero, 0.0, result.low))


# A part times half of a position has at most 53 bits, and so is exact.
_PART_BITS = 21
_PARTS = 4
_HALF_BITS = np.int64(32)
_LOW_HALF = np.int64(2**32 - 1)


@exact_arithmetic
def split_factors(factors: Sequence[Decimal]) -> Float64s:
    """Split factors (n,) into sums of short float64 for ``multiply_positions``: (4, n)."""
    parts = []
    rest = list(factors)
    for _ in range(_PARTS):
        significand, exponent = np.frexp([float(value) for value in rest])
        # Truncated to the leading bits, towards 0.
        part = np.ldexp(np.trunc(significand * 2.0**_PART_BITS), exponent - _PART_BITS)
        rest = [value - Decimal(short) for value, short in zip(rest, part.tolist(), strict=True)]
        parts.append(part)
    return np.array(parts)


def multiply_positions(parts: Float64s, positions: Int64s) -> Float64s:
    """Multiply positions (m,) within ±2^62 by n factors split into parts (4, n): float64 (m, n).

    Products of parts with the halves of a position are exact; only their sums, all of one sign,
    are rounded: each product is within 8·2^-53 of its own size.
    """
    magnitudes = np.abs(positions)
    high = (magnitudes >> _HALF_BITS).astype(np.float64)[:, np.newaxis] * 2.0**32
    low = (magnitudes & _LOW_HALF).astype(np.float64)[:, np.newaxis]
    total = np.zeros((len(positions), len(parts[0])))
    for part in reversed(parts):
        total += low * part
        total += high * part
    np.negative(total, out=total, where=(positions < 0)[:, np.newaxis])
    return total


def pairwise_sum(terms: Float64s) -> Float64s:
    """Sum terms (m, n) along the last axis by adding its halves: shape (m,).

    A term goes through two additions a halving at most, ⌈log2 n⌉ halvings in all.
    """
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        folded = terms[:, :half] + terms[:, half : 2 * half]
        if terms.shape[1] % 2:
            folded[:, 0] += terms[:, -1]
        terms = folded
    return terms[:, 0]
