"""Rows of distances with gaps between them: where each one is, by what it holds.

Where queries and keys are, as parameters of a table over them.

Strips: tables of queries and keys as what a distance between the two is worth.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s, Int64s
from service.numerics.positions import Positions

OfDistances: TypeAlias = Callable[[Int64s], Int64s]
"""Gives the number of each distance key - query."""

# Rows are looked for one after another, among places as far as this from the first key.
_MOST_ROWS = 1024
_REACH = 4096
_PROBES = 6


def aligned(rows: Int64s, of_distances: OfDistances, sign: int) -> Int64s | None:
    """Find where each row (R, K) is, if all are what a rule says of K neighbours and that place.

    Args:
        rows: what is known of them.
        of_distances: the rule.
        sign: 1 where rows are of queries, -1 where they are of keys.

    Returns:
        How far each row is after the first of its columns, or None where one is nowhere. Of
        several places the one is taken that goes on from its neighbours.
    """
    count, width = rows.shape
    if count > _MOST_ROWS:
        return None
    reach = _REACH + width
    offsets = np.arange(-reach, reach + width, dtype=np.int64)
    windows = sliding_window_view(of_distances(sign * offsets), width)
    probes = np.unique(np.linspace(0, width - 1, _PROBES, dtype=np.int64))
    probed = windows[:, probes]
    found: list[Int64s] = []
    for row in rows:
        likely = np.flatnonzero((probed == row[probes]).all(axis=1))
        exact = likely[(windows[likely] == row).all(axis=1)]
        if not len(exact):
            return None
        # A window that starts at distance d is of a row that is at -d, its first column at 0.
        found.append(-offsets[exact])
    return _going_on(found)


def _going_on(found: list[Int64s]) -> Int64s:
    """Choose of several places those nearest to the line through rows with one place only."""
    known = np.array([row for row, places in enumerate(found) if len(places) == 1])
    if not len(known):
        return np.array([places[np.abs(places).argmin()] for places in found])
    exact = np.array([found[row][0] for row in known])
    step = 1.0
    if len(known) > 1:
        step = float(exact[-1] - exact[0]) / float(known[-1] - known[0])
    chosen = []
    for row, places in enumerate(found):
        beside = np.abs(known - row).argmin()
        expected = exact[beside] + step * (row - known[beside])
        chosen.append(places[np.abs(places - expected).argmin()])
    return np.array(chosen, dtype=np.int64)


def query_key_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Spell queries and keys, moved together so that the first of all is at 0.

    Args:
        queries: the position of each, from wherever.
        keys: the position of each, from the same place.
    """
    origin = min(int(queries.min()), int(keys.min()))
    return positions_parameters(queries - origin, keys - origin)


def positions_parameters(queries: Int64s, keys: Int64s) -> dict[str, ParameterValue]:
    """Spell queries and keys where they are."""
    spelled = {**_along("query", queries), **_along("key", keys)}
    if np.array_equal(queries, keys) and spelled.keys() == {"query_len", "key_len"}:
        del spelled["key_len"]
    return spelled


def contiguous(nearest: int, queries: int, keys: int) -> tuple[Int64s, Int64s]:
    """Give queries and keys that follow one another.

    Args:
        nearest: how far the first key is after the first query.
        queries: how many there are.
        keys: how many there are.
    """
    return np.arange(queries, dtype=np.int64), np.arange(nearest, nearest + keys, dtype=np.int64)


def _along(axis: str, places: Int64s) -> dict[str, ParameterValue]:
    positions = Positions.of_runs(_integers(places))
    if not positions.is_contiguous:
        return {f"{axis}_positions": str(positions)}
    start = positions.runs[0].first
    begun: dict[str, ParameterValue] = {f"{axis}_start": start} if start else {}
    return {**begun, f"{axis}_len": positions.count}


def _integers(places: Int64s) -> Sequence[int]:
    listed: list[int] = places.tolist()
    return listed


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
