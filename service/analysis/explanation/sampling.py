"""Which rows of an array are examined before every number is, and where faults lie.

Up to 512 rows all are examined. Of more: the first 96, 2^k − 1, 2^k and 2^k + 1, the last 16, 64
evenly spaced ones, and these 64 times 7919 modulo the number of rows. A fault that begins at a row
and goes on is seen in the last rows; one of a sixty-third of the rows or more, and one with a
period of up to 96 rows, too; a random share q of the rows is missed with (1 − q)^128. What narrow
integers do shows at powers of two. The last pass, over every number, finds the rest.
"""

from collections.abc import Iterable

import numpy as np

from service.numerics.phasors import Indices

ALL_ROWS = 512
"""Up to this many rows all are examined."""

_FIRST, _LAST, _EVEN, _SCATTER = 96, 16, 64, 7919
DESCRIPTION = "the first 96 rows, those around powers of two, the last 16, and 128 spread ones"


def sampled_rows(rows: int) -> Indices:
    """Return the indices of the rows to examine, rising."""
    if rows <= ALL_ROWS:
        return np.arange(rows)
    powers = [2**k + near for k in range(5, 63) if 2**k <= rows for near in (-1, 0, 1)]
    even = np.linspace(0, rows - 1, _EVEN).astype(np.int64)
    chosen: Iterable[int] = (
        *range(_FIRST),
        *powers,
        *range(rows - _LAST, rows),
        *even.tolist(),
        *(even * _SCATTER % rows).tolist(),
    )
    return np.unique([row for row in chosen if row < rows])
