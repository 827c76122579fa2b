"""Integers between which the powers of a ratio lie, decided by comparing integers."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice, takewhile
from math import gcd

import numpy as np

from service.tables.angle import Int64s, exact_context

# A power within this of an integer is compared with it exactly. Its own error, of at most 2^18
# multiplications in 80 digits of numbers below 10^19, is below 10^-50.
_NEAR = Decimal("1e-40")

# Sets of edges that are kept: 1 MiB each at most.
_KEPT = 16


@lru_cache(maxsize=_KEPT)
def ceilings(low: int, high: int, steps: int) -> Int64s:
    """Give the first integer from each low·(high/low)^(j/steps) on, 0 < j < steps."""
    powers = islice(_powers(low, high, steps), 1, steps)
    return np.array([whole + (not is_whole) for whole, is_whole in powers], dtype=np.int64)


@lru_cache(maxsize=_KEPT)
def floors(low: int, high: int, steps: int, limit: int) -> Int64s:
    """Give the last integer up to each low·(high/low)^(j/steps), 0 ≤ j, below a limit."""
    powers = _powers(low, high, steps) if steps else ()
    return np.array(list(takewhile(limit.__gt__, (whole for whole, _ in powers))), dtype=np.int64)


def _powers(low: int, high: int, steps: int) -> Iterator[tuple[int, bool]]:
    """Cut each low·(high/low)^(j/steps), j = 0, 1, …, to an integer; tell whether it is one."""
    context = exact_context()
    whole_growth = context.ln(context.divide(Decimal(high), Decimal(low)))
    growth = context.exp(context.divide(whole_growth, Decimal(steps)))
    power = Decimal(low)
    for step in count():
        near = int(context.to_integral_value(power))
        if context.subtract(power, Decimal(near)).copy_abs() > _NEAR:
            yield int(power), False
        else:
            order = _compared(Fraction(near, low), Fraction(high, low), step, steps)
            yield near - (order > 0), order == 0
        power = context.multiply(power, growth)


def _compared(ratio: Fraction, growth: Fraction, step: int, steps: int) -> int:
    """Tell on which side of growth^(step/steps) a ratio is, by integers alone: -1, 0 or 1."""
    shared = gcd(step, steps)
    left, right = ratio ** (steps // shared), growth ** (step // shared)
    return (left > right) - (left < right)
