"""Strips: tables of queries and keys as what a distance between the two is worth."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.distances.query_keys import contiguous
from service.tables.angle import Float64s, Int64s

# Rows that are held against the first row and the first column.
_HELD_ROWS = 8


@dataclass(frozen=True, eq=False)
class Strip:
    """What distances are worth, where queries follow one another and keys do.

    Attributes:
        values: (heads, queries + keys - 1), for distances key - query that rise by one; those of
            the last query and the first key come first.
        queries: how many there are.
        keys: how many there are.
    """

    values: NDArray[np.float64] | NDArray[np.int64]
    queries: int
    keys: int

    def nearest(self, zero: int) -> int:
        """Give how far the first key is after the first query if distance 0 is in this place."""
        return self.queries - 1 - zero

    def distances(self, zero: int) -> Int64s:
        """Give every distance if distance 0 is in this place, which may be outside."""
        return np.arange(self.values.shape[1], dtype=np.int64) - zero

    def places(self, zero: int) -> tuple[Int64s, Int64s]:
        """Give queries and keys if distance 0 is in this place."""
        return contiguous(self.nearest(zero), self.queries, self.keys)


def strip_of(block: Float64s | Int64s, share: float = 0.0, wrong_rows: int = 0) -> Strip | None:
    """Read heads by queries by keys (H, Q, K) as a strip, if they depend on distances alone.

    Args:
        block: the values; infinite ones are equal to each other.
        share: by how much of their size equal ones may differ.
        wrong_rows: how many of a few rows may be something else.
    """
    _, queries, keys = block.shape
    values = _typical(block)
    for row in np.unique(np.linspace(0, queries - 1, _HELD_ROWS, dtype=np.int64)):
        own = values[:, queries - 1 - row : queries - 1 - row + keys]
        wrong_rows -= not alike(block[:, row], own, share)
        if wrong_rows < 0:
            return None
    return Strip(values, queries, keys)


def _typical(block: Float64s | Int64s) -> Float64s | Int64s:
    """Give what each distance is worth, by the middle one of three that have it.

    One wrong row is in one of the three, unless the distance occurs just once or twice. Of two
    rows the outer one counts twice: that one can be left out.
    """
    _, queries, keys = block.shape
    distances = np.arange(1 - queries, keys)
    first = np.maximum(0, -distances)
    last = np.minimum(queries - 1, keys - 1 - distances)
    middle = (first + last + (distances < 0)) // 2
    rows = np.stack([first, middle, last])
    # As the type of the block is one of two, NumPy's stubs take the result for any number.
    same: Float64s = block[:, rows, rows + distances]  # type: ignore[assignment]
    return np.asarray(np.sort(same, axis=1)[:, 1])


def line_strips(line: Float64s | Int64s) -> Iterator[Strip]:
    """Read a vector as one query with many keys, and as many queries with one key."""
    yield Strip(line[np.newaxis], 1, len(line))
    yield Strip(line[np.newaxis, ::-1], len(line), 1)


def strips(sample: Float64s | Int64s, share: float = 0.0) -> Iterator[Strip]:
    """Read a vector (n,), a matrix (Q, K) or heads of it (H, Q, K) as strips."""
    if sample.ndim == 1:
        yield from line_strips(sample)
    elif sample.ndim in {2, 3}:
        block = sample if sample.ndim == 3 else sample[np.newaxis]
        strip = strip_of(block, share)
        if strip is not None:
            yield strip


def alike(some: Float64s | Int64s, others: Float64s | Int64s, share: float) -> bool:
    """Tell whether numbers are equal but for a share of their size."""
    if share == 0:
        return bool(np.array_equal(some, others))
    is_same = some == others
    with np.errstate(invalid="ignore"):
        is_near = np.abs(some - others) <= share * np.abs(others)
    return bool((is_same | is_near).all())
