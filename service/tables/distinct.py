"""Integers of which many are equal, so that what they are worth is evaluated once."""

import numpy as np

from service.tables.angle import Int64s

# Of integers spread no wider than this many times their number, all between are given: that takes
# no sorting.
_DENSE = 2


def distinct(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Give integers (m,) among which all of numbers (n,) are, and the place of each there (n,).

    The integers rise, and are at most twice as many as the numbers.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _DENSE * len(numbers):
        return np.arange(low, high + 1, dtype=np.int64), numbers - low
    return np.unique(numbers, return_inverse=True)
