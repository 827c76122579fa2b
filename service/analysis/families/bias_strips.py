"""Read matrices of queries and keys as strips: one value for each distance key - query.

If query positions have gaps, each row is located by comparing it with the values that a rule gives
for a range of distances.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from service.analysis.families.requests import position_parameters
from service.analysis.families.series import spread_indices
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

# How many rows are compared with the strip.
CHECKED_ROWS = 8


@dataclass(frozen=True, eq=False)
class Strip:
    """The value of each distance key - query, for contiguous queries and contiguous keys.

    Attributes:
        values: the values of consecutive distances, (heads, queries + keys - 1); the first distance
            is first key - last query.
        queries: the number of queries.
        keys: the number of keys.
    """

    values: NDArray[np.float64] | NDArray[np.int64]
    queries: int
    keys: int

    def distances(self, zero: int) -> Int64s:
        """Return the distances if distance 0 has index ``zero``, which may be out of range."""
        return np.arange(self.values.shape[1], dtype=np.int64) - zero

    def positions(self, zero: int) -> tuple[Int64s, Int64s]:
        """Return query positions 0, 1, … and the key positions if distance 0 has index ``zero``."""
        first_key = self.queries - 1 - zero
        keys = np.arange(first_key, first_key + self.keys, dtype=np.int64)
        return np.arange(self.queries, dtype=np.int64), keys


def strips(values: Float64s | Int64s) -> list[Strip]:
    """Return a vector as two strips, of one query or of one key, or a matrix (Q, K) as a strip.

    Return an empty list if a matrix does not depend on key - query alone.
    """
    if values.ndim == 1:
        line = values[np.newaxis]
        return [Strip(line, 1, len(values)), Strip(line[:, ::-1], len(values), 1)]
    strip = strip_of(values[np.newaxis])
    return [] if strip is None else [strip]


def strip_of(block: Float64s | Int64s, share: float = 0.0, wrong_rows: int = 0) -> Strip | None:
    """Return a block (H, Q, K) as a strip, or None if it does not depend on key - query alone.

    Args:
        block: the values of heads, queries and keys; equal infinities count as equal.
        share: the relative difference of values that count as equal.
        wrong_rows: how many of the checked rows may differ.
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
    """Return the value of each distance, (H, Q + K - 1): the median of its values in three rows.

    The median ignores one wrong row. If a distance occurs in two rows only, the outer row counts
    twice: a caller may leave out that row if it is wrong.
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


def alike(values: Float64s | Int64s, expected: Float64s | Int64s, share: float) -> bool:
    """Return whether all values are within a relative error ``share`` of the expected ones."""
    if share == 0:
        return bool(np.array_equal(values, expected))
    with np.errstate(invalid="ignore"):
        is_near = np.abs(values - expected) <= share * np.abs(expected)
    return bool(((values == expected) | is_near).all())


# Rows with gaps.

# At most _MAX_ROWS rows are located, each at most _REACH positions from the keys. A few probed
# elements are compared before whole rows.
_MAX_ROWS = 1024
_REACH = 4096
_PROBES = 6


def locate_rows(
    rows: Int64s, values_of_distances: Callable[[Int64s], Int64s], sign: int
) -> Int64s | None:
    """Return the position of each row, (R,), given that columns have positions 0, 1, 2 and so on.

    Return None if a row has no position at which the rule gives its elements. A row with several
    such positions gets the one in line with the other rows.

    Args:
        rows: the elements, (R, K).
        values_of_distances: returns the rule's values for distances key - query.
        sign: 1 if rows are queries, -1 if rows are keys.
    """
    count, width = rows.shape
    if count > _MAX_ROWS:
        return None
    reach = _REACH + width
    offsets = np.arange(-reach, reach + width, dtype=np.int64)
    windows = sliding_window_view(values_of_distances(sign * offsets), width)
    probes = spread_indices(width, _PROBES)
    probed = windows[:, probes]
    positions: list[Int64s] = []
    for row in rows:
        likely = np.flatnonzero((probed == row[probes]).all(axis=1))
        exact = likely[(windows[likely] == row).all(axis=1)]
        if not len(exact):
            return None
        # The window that starts at distance d belongs to a row at position -d.
        positions.append(-offsets[exact])
    return _in_line(positions)


def _in_line(positions: list[Int64s]) -> Int64s:
    """Return one position per row.

    Where a row has several candidates, it is the one closest to the line through the rows that have
    only one.
    """
    rows, expected = np.arange(len(positions)), np.zeros(len(positions))
    known = np.array([row for row in rows if len(positions[row]) == 1], dtype=np.int64)
    if len(known):
        exact = np.array([positions[row][0] for row in known])
        step = (exact[-1] - exact[0]) / (known[-1] - known[0]) if len(known) > 1 else 1.0
        beside = np.abs(known - rows[:, np.newaxis]).argmin(axis=1)
        expected = exact[beside] + step * (rows - known[beside])
    pairs = zip(positions, expected, strict=True)
    return np.array([each[np.abs(each - near).argmin()] for each, near in pairs], dtype=np.int64)


# Request parameters.


def query_key_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Return the position parameters of queries and keys, shifted so that the lowest is 0."""
    origin = min(int(queries.min()), int(keys.min()))
    return absolute_parameters(queries - origin, keys - origin)


def absolute_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Return the position parameters of queries and keys.

    Leave out the key parameters if keys have the default, the same positions as the queries.
    """
    of_queries = position_parameters(queries, "query")
    if np.array_equal(queries, keys) and of_queries.keys() == {"query_len"}:
        return of_queries
    return {**of_queries, **position_parameters(keys, "key")}
