"""Exponentials and powers that are the same on every machine.

    e^y = 2^k · 2^(j/128) · e^r,    128·k + j = ⌊128·y/ln 2⌉,    |r| ≤ ln 2/256 < 2^-8.5

Error, relative to the result and in units of 2^-53: ln 2/128 is kept in three parts, so that r is
right to 2^-90, and 2^(j/128) as a pair. The series of e^r − 1, cut after r^6, leaves out 2^-71. It
is below 2^-8.5 in size and is rounded three times: when it is summed, times 2^(j/128), and plus
the low part of that. Together 0.009, or 2^-59.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from math import factorial

import numpy as np

from service.tables.angle import Float64s, Int64s, exact_context
from service.tables.logarithm import ln
from service.tables.polynomial import horner
from service.tables.twofold import Twofold, any_sum, of_floats, ordered_sum, times

_STEPS = 128

# Leading parts of ln 2/128, cut so that multiples of them below 2^16 are exact.
_FIRST_GRID = 2.0**-44
_SECOND_GRID = 2.0**-81

MAX_EXPONENT = 8.0
"""The exponent of a power: that of 2^62, times any factor, stays in the range of float64."""

_SERIES = [1.0 / factorial(n) for n in range(6, 1, -1)]


@dataclass(frozen=True, eq=False)
class _Powers:
    """The numbers 2^(j/128) in two parts, and ln 2/128 in three."""

    high: Float64s
    low: Float64s
    step: tuple[float, float, float]


@cache
def _powers() -> _Powers:
    context = exact_context()
    step = context.divide(context.ln(Decimal(2)), Decimal(_STEPS))
    powers = [context.exp(context.multiply(step, Decimal(j))) for j in range(_STEPS)]
    high = np.array([float(power) for power in powers])
    rest = [context.subtract(power, Decimal(float(power))) for power in powers]
    first = round(float(step) / _FIRST_GRID) * _FIRST_GRID
    left = context.subtract(step, Decimal(first))
    second = round(float(left) / _SECOND_GRID) * _SECOND_GRID
    third = float(context.subtract(left, Decimal(second)))
    return _Powers(high, np.array([float(value) for value in rest]), (first, second, third))


def exp(y: Twofold) -> Twofold:
    """Evaluate e^y for y (n,) between 0 and 350: within 2^-59 of it."""
    powers = _powers()
    first, second, third = powers.step
    number = np.rint(y.high * (1.0 / (first + second)))
    rest = any_sum(y.high - number * first, -number * second)
    rest = any_sum(rest.high, rest.low + (y.low - number * third))

    series = horner(_SERIES, rest.high)
    series *= rest.high
    series *= rest.high
    series += rest.low
    series += rest.high

    exponent, index = np.divmod(number.astype(np.int64), _STEPS)
    power = powers.high.take(index, mode="clip")
    series *= power
    series += powers.low.take(index, mode="clip")
    result = ordered_sum(power, series)
    scale = exponent.astype(np.int32)
    return Twofold(np.ldexp(result.high, scale), np.ldexp(result.low, scale))


def power(numbers: Int64s, exponent: Float64s | float) -> Twofold:
    """Raise integers (n,) from 0 to 2^62 to a power, or to each of powers (m, 1): (m, n).

    A power is above 0 and up to MAX_EXPONENT.

    A logarithm is within 2^-65, times 8 within 2^-62, and the exponential puts in 2^-59: each
    power is within 2^-58 of its own size. One that float64 can hold is exact in the high part.
    """
    result = exp(times(ln(np.maximum(numbers, 1)), of_floats(np.atleast_1d(exponent))))
    is_zero = numbers == 0
    return Twofold(np.where(is_zero, 0.0, result.high), np.where(is_zero, 0.0, result.low))
