"""Numbers as unevaluated sums of two float64, good to about 104 bits.

The sums and products are those of Dekker ("A floating-point technique for extending the available
precision", 1971) and Knuth (The Art of Computer Programming, volume 2, 4.2.2). They use additions,
subtractions and multiplications of float64 alone, which IEEE 754 fixes to the last bit.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from service.tables.angle import Float64s, Int64s, exact_context

# As many elements as leave the arrays of an evaluation in a core's own cache.
_CACHED_ELEMENTS = 4096

# What is left of a significand without its last 27 bits.
_LEADING_BITS = np.uint64(2**64 - 2**27)


class Twofold(NamedTuple):
    """The numbers high + low, where high is the float64 nearest to them.

    Attributes:
        high: the leading parts.
        low: what is missing.
    """

    high: Float64s
    low: Float64s

    def column(self, some: slice) -> "Twofold":
        """Give some of numbers (n,) one below the other."""
        return Twofold(self.high[some, np.newaxis], self.low[some, np.newaxis])


def constant(value: Decimal) -> Twofold:
    """Give an exact decimal as one pair, within 2^-106 of its size; arrays of shape (1,)."""
    high = float(value)
    low = float(exact_context().subtract(value, Decimal(high)))
    return Twofold(np.array([high]), np.array([low]))


def of_integers(numbers: Int64s) -> Twofold:
    """Give integers within ±2^62 exactly."""
    high = numbers.astype(np.float64)
    return Twofold(high, (numbers - high.astype(np.int64)).astype(np.float64))


def of_floats(numbers: Float64s) -> Twofold:
    """Give float64 as they are."""
    return Twofold(numbers, np.zeros_like(numbers))


def ordered_sum(large: Float64s, small: Float64s) -> Twofold:
    """Add numbers of which the first is the larger in size, or 0: exact."""
    high = large + small
    return Twofold(high, small - (high - large))


def any_sum(one: Float64s, other: Float64s) -> Twofold:
    """Add any two numbers: exact."""
    high = one + other
    of_other = high - one
    return Twofold(high, (one - (high - of_other)) + (other - of_other))


def product(one: Float64s, other: Float64s) -> Twofold:
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
    return Twofold(high, low)


def times(one: Twofold, other: Twofold) -> Twofold:
    """Multiply pairs: within 2^-102 of the product."""
    high, low = product(one.high, other.high)
    low += one.high * other.low
    low += one.low * other.high
    return ordered_sum(high, low)


def _leading(numbers: Float64s) -> Float64s:
    return (numbers.view(np.uint64) & _LEADING_BITS).view(np.float64)


def in_blocks(evaluate: Callable[[slice, slice], Float64s], rows: int, columns: int) -> Float64s:
    """Evaluate a matrix a few elements at a time, so that a core's own cache holds all it takes.

    Args:
        evaluate: gives what is in some rows and columns, or in one row that is right for all.
        rows: how many there are.
        columns: how many there are.
    """
    values = np.empty((rows, columns))
    step = max(1, _CACHED_ELEMENTS // max(1, columns))
    for row in range(0, rows, step):
        some = slice(row, row + step)
        for column in range(0, columns, _CACHED_ELEMENTS):
            part = slice(column, column + _CACHED_ELEMENTS)
            values[some, part] = evaluate(some, part)
    return values


def in_steps(evaluate: Callable[[Int64s], Float64s], numbers: Int64s) -> Float64s:
    """Evaluate integers (n,) a few at a time, as ``in_blocks`` does."""
    return in_blocks(lambda _, part: evaluate(numbers[part]), 1, len(numbers)).reshape(-1)
