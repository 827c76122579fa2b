"""Read tables of queries and keys as strips: one number for each distance key - query.

Rows with gaps between them are located one by one, by the numbers that a rule gives for distances.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from service.analysis.families.requests import position_parameters
from service.analysis.measure import spread_indices
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

# Rows that are compared with the strip.
CHECKED_ROWS = 8


@dataclass(frozen=True, eq=False)
class Strip:
    """The values of distances, where queries follow one another and keys do.

    Attributes:
        values: (heads, queries + keys - 1), for distances key - query that rise by one; those of
            the last query and the first key come first.
        queries: the number of queries.
        keys: the number of keys.
    """

    values: NDArray[np.float64] | NDArray[np.int64]
    queries: int
    keys: int

    def distances(self, zero: int) -> Int64s:
        """Return every distance if distance 0 is at this place, which may be outside."""
        return np.arange(self.values.shape[1], dtype=np.int64) - zero

    def places(self, zero: int) -> tuple[Int64s, Int64s]:
        """Return query positions from 0, and the key positions that put distance 0 at index 0."""
        first_key = self.queries - 1 - zero
        keys = np.arange(first_key, first_key + self.keys, dtype=np.int64)
        return np.arange(self.queries, dtype=np.int64), keys


def strips(values: Float64s | Int64s, share: float = 0.0) -> Iterator[Strip]:
    """Read a vector (n,), a matrix (Q, K) or heads of it (H, Q, K) as strips."""
    if values.ndim == 1:
        yield from line_strips(values)
    elif values.ndim in {2, 3}:
        strip = strip_of(values if values.ndim == 3 else values[np.newaxis], share)
        if strip is not None:
            yield strip


def line_strips(line: Float64s | Int64s) -> Iterator[Strip]:
    """Read a vector as one query with many keys, and as many queries with one key."""
    yield Strip(line[np.newaxis], 1, len(line))
    yield Strip(line[np.newaxis, ::-1], len(line), 1)


def strip_of(block: Float64s | Int64s, share: float = 0.0, wrong_rows: int = 0) -> Strip | None:
    """Read heads by queries by keys (H, Q, K) as a strip, if they depend on distances alone.

    Args:
        block: the values; infinite ones are equal to each other.
        share: by how much of their size equal ones may differ.
        wrong_rows: how many of the checked rows may be something else.
    """
    _, queries, keys = block.shape
    values = _typical(block)
    for row in spread_indices(queries, CHECKED_ROWS):
        own = values[:, queries - 1 - row : queries - 1 - row + keys]
        wrong_rows -= not alike(block[:, row], own, share)
        if wrong_rows < 0:
            return None
    return Strip(values, queries, keys)


def _typical(block: Float64s | Int64s) -> Float64s | Int64s:
    """Return the value of each distance: the middle one of three that have it.

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


def alike(some: Float64s | Int64s, others: Float64s | Int64s, share: float) -> bool:
    """Return whether numbers are equal but for a share of their size."""
    if share == 0:
        return bool(np.array_equal(some, others))
    with np.errstate(invalid="ignore"):
        is_near = np.abs(some - others) <= share * np.abs(others)
    return bool(((some == others) | is_near).all())


# Rows with gaps.

# Rows are looked for one after another, among places as far as this from the first key.
_MAX_ROWS = 1024
_REACH = 4096
_PROBES = 6


def aligned(
    rows: Int64s, values_of_distances: Callable[[Int64s], Int64s], sign: int
) -> Int64s | None:
    """Find where each row (R, K) is, if all are what a rule gives for K neighbours of a place.

    Args:
        rows: the numbers.
        values_of_distances: the rule.
        sign: 1 where rows are of queries, -1 where they are of keys.

    Returns:
        How far each row is after the first of its columns, or None where one is nowhere. Of
        several places the one in line with its neighbours is taken.
    """
    count, width = rows.shape
    if count > _MAX_ROWS:
        return None
    reach = _REACH + width
    offsets = np.arange(-reach, reach + width, dtype=np.int64)
    windows = sliding_window_view(values_of_distances(sign * offsets), width)
    probes = spread_indices(width, _PROBES)
    probed = windows[:, probes]
    places: list[Int64s] = []
    for row in rows:
        likely = np.flatnonzero((probed == row[probes]).all(axis=1))
        exact = likely[(windows[likely] == row).all(axis=1)]
        if not len(exact):
            return None
        # A window that starts at distance d is of a row that is at -d, its first column at 0.
        places.append(-offsets[exact])
    return _in_line(places)


def _in_line(places: list[Int64s]) -> Int64s:
    """Choose of several places those nearest to the line through rows with one place only."""
    known = np.array([row for row, each in enumerate(places) if len(each) == 1])
    if not len(known):
        return np.array([each[np.abs(each).argmin()] for each in places])
    exact = np.array([places[row][0] for row in known])
    step = 1.0
    if len(known) > 1:
        step = float(exact[-1] - exact[0]) / float(known[-1] - known[0])
    chosen = []
    for row, each in enumerate(places):
        beside = np.abs(known - row).argmin()
        expected = exact[beside] + step * (row - known[beside])
        chosen.append(each[np.abs(each - expected).argmin()])
    return np.array(chosen, dtype=np.int64)


# Request parameters.


def query_key_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Return queries and keys as parameters, moved together so that the first of all is at 0."""
    origin = min(int(queries.min()), int(keys.min()))
    return absolute_parameters(queries - origin, keys - origin)


def absolute_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Return the parameters of queries and keys; omit keys that are the default."""
    of_queries = position_parameters(queries, "query")
    if np.array_equal(queries, keys) and of_queries.keys() == {"query_len"}:
        return of_queries
    return {**of_queries, **position_parameters(keys, "key")}
