"""Positions that are no integers, as requests that name integers."""

import numpy as np

from tests.parity.asking import Query
from tests.parity.golden import Array

_FEWEST_PLACES = 2.0**27


def fractional(positions: Array, factor: float, count: int) -> Query:
    """Say positions, float64, that are divided by a factor: p/f = (p·2^s)/(f·2^s), which is exact.

    The power of two is halved between ``factor`` and ``freq_factors``, which are of limited size.
    """
    power = 1.0
    while not np.equal(positions * power, np.rint(positions * power)).all():
        power *= 2
    beside = power / min(power, _FEWEST_PLACES)
    query: Query = {
        "rope_type": "linear",
        "factor": factor * (power / beside),
        "positions": [int(position) for position in positions * power],
    }
    return query if beside == 1 else query | {"freq_factors": [beside] * count}
