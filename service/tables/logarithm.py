"""Natural logarithms that are the same on every machine.

A number x ≥ 1 is 2^k·m with 1 ≤ m < 2. With a short factor g just above the reciprocal of m's
leading bits, taken from a table,

    ln x = k·ln 2 − ln g + ln(1 + r),    r = m·g − 1,    0 ≤ r < 2^-7

No term is negative, so nothing cancels: the error is small relative to the logarithm, however
close to 0 it is. Where x is 1, or 1 + t with t < 2^-8, k = 0, g = 1 and r = t.

Error, in units of 2^-53: r is kept as a pair, and so are ln 2 and ln g. Of the series
r − r²·(1/2 − r/3 + …), cut after r^9, what is subtracted is at most r²/2 in size; its three
factors and the two sums it enters round it five times, by 2.5·r² together, the cut by far less.
Where k = 0 and g = 1 that is 2.5·r < 0.02 of the logarithm; everywhere else the logarithm is above
2^-7.01, and 2.5·r² < 2.5·2^-14 is as little of it. So before it is rounded a logarithm is within
2^-58 of its own size, and one of an integer, which is 0 or above 0.69, within 2^-65.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

from service.tables.angle import Float64s, Int64s, UInt64s, exact_context
from service.tables.polynomial import horner
from service.tables.twofold import Twofold, any_sum, of_integers, ordered_sum

_INDEX_BITS = 7
_FRACTION_BITS = 52
_INDEX_SHIFT = np.uint64(_FRACTION_BITS - _INDEX_BITS)
_INDEX_MASK = np.uint64(2**_INDEX_BITS - 1)

# m without its last 21 bits, times a factor of 20 bits, is exact, and so is that minus 1.
_LEADING_BITS = np.uint64(2**64 - 2**21)
_FACTOR_BITS = 20

# Leading parts of ln 2 and ln g are multiples of this: sums of them below 2^11 are exact.
_GRID = 2.0**-42

_SMALL = 2.0**-8

# (ln(1 + r) − r)/r² = −1/2 + r/3 − r²/4 + …, the last coefficient first.
_SERIES = [(-1.0) ** (n + 1) / n for n in range(9, 1, -1)]


@dataclass(frozen=True, eq=False)
class _Logs:
    """Factors g by the leading bits of m, and their logarithms −ln g, and ln 2, in two parts."""

    factor: Float64s
    high: Float64s
    low: Float64s
    two_high: float
    two_low: float


@cache
def _logs() -> _Logs:
    context = exact_context()
    steps, unit = 2**_INDEX_BITS, 2**_FACTOR_BITS
    # Rounded up, so that m·g is at least 1.
    factors = [-(-unit * steps // (steps + index)) / unit for index in range(steps)]
    parts = [_in_parts(-context.ln(Decimal(factor))) for factor in factors]
    two_high, two_low = _in_parts(context.ln(Decimal(2)))
    high, low = np.array(parts).T
    return _Logs(np.array(factors), high, low, two_high, two_low)


def _in_parts(value: Decimal) -> tuple[float, float]:
    high = round(float(value) / _GRID) * _GRID
    return high, float(exact_context().subtract(value, Decimal(high)))


def ln_1p(t: Twofold) -> Twofold:
    """Evaluate ln(1 + t) for t (n,), each 0 or between 2^-900 and 2^1000: within 2^-58 of it."""
    with_one = any_sum(np.ones_like(t.high), t.high)
    x = ordered_sum(with_one.high, with_one.low + t.low)
    exponent, index, rest = _reduced(x)
    is_small = t.high < _SMALL
    if is_small.any():
        exponent[is_small], index[is_small] = 0, 0
        rest.high[is_small], rest.low[is_small] = t.high[is_small], t.low[is_small]
    return _composed(exponent, index, rest)


def ln(numbers: Int64s) -> Twofold:
    """Evaluate the logarithms of integers (n,) from 1 to 2^62: within 2^-65."""
    return _composed(*_reduced(of_integers(numbers)))


def _reduced(x: Twofold) -> tuple[NDArray[np.int32], UInt64s, Twofold]:
    """Give k, the number of g in the table, and r."""
    half, exponent = np.frexp(x.high)
    m: Float64s = half * 2.0
    tail = np.ldexp(x.low, 1 - exponent)
    bits = m.view(np.uint64)
    index = (bits >> _INDEX_SHIFT) & _INDEX_MASK
    factor = _logs().factor.take(index.view(np.int64), mode="clip")
    leading = (bits & _LEADING_BITS).view(np.float64)
    rest = (m - leading) * factor
    rest += tail * factor
    return exponent - 1, index, any_sum(leading * factor - 1.0, rest)


def _composed(exponent: NDArray[np.int32], index: UInt64s, rest: Twofold) -> Twofold:
    logs, place = _logs(), index.view(np.int64)
    series = horner(_SERIES, rest.high)
    series *= rest.high
    series *= rest.high
    series += rest.low - rest.low * rest.high

    power = exponent.astype(np.float64)
    large = power * logs.two_high
    large += logs.high.take(place, mode="clip")
    total = ordered_sum(large, rest.high)
    low = power * logs.two_low
    low += logs.low.take(place, mode="clip")
    low += total.low
    low += series
    return ordered_sum(total.high, low)
