"""Tables over queries and keys: what depends on the distance between the two, head by head."""

from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from service.tables.angle import Int64s
from service.tables.distinct import distinct
from service.tables.document import ParameterValue
from service.tables.dtypes import DType, Elements, round_into
from service.tables.positions import Positions
from service.tables.table import STEP_ELEMENTS


@dataclass(frozen=True)
class QueryKey:
    """Positions of queries, down, and of keys, across.

    Attributes:
        queries: the position of each row.
        keys: the position of each column.
    """

    queries: Positions
    keys: Positions

    @property
    def shape(self) -> tuple[int, int]:
        """Queries by keys."""
        return self.queries.count, self.keys.count

    @property
    def is_contiguous(self) -> bool:
        """Tell whether queries follow each other, and keys do."""
        return self.queries.is_contiguous and self.keys.is_contiguous

    @property
    def farthest(self) -> int:
        """The largest distance there is."""
        ends = [end for run in self.keys.runs for end in (run.first, run.last)]
        return max(self.queries.farthest_from(end) for end in (min(ends), max(ends)))

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell them as canonical parameters: starts and lengths where those say it all."""
        return {**_spelled("query", self.queries), **_spelled("key", self.keys)}

    def places(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Give the positions of query and key of the flat elements start to stop."""
        columns = self.keys.count
        row, column = np.divmod(np.arange(start, stop, dtype=np.int64), columns)
        first = int(row[0])
        queries = self.queries.at(first, int(row[-1]) + 1)[row - first]
        if columns <= stop - start:
            return queries, self.keys.at(0, columns)[column]
        # A part of one row, or the end of one and the beginning of the next.
        begin = int(column[0])
        end = min(begin + stop - start, columns)
        rest = stop - start - (end - begin)
        return queries, np.concatenate([self.keys.at(begin, end), self.keys.at(0, rest)])

    def distances(self, start: int, stop: int) -> Int64s:
        """Give key − query of the flat elements start to stop, shape (stop - start,)."""
        queries, keys = self.places(start, stop)
        return keys - queries


def _spelled(name: str, positions: Positions) -> dict[str, ParameterValue]:
    if positions.is_contiguous:
        return {f"{name}_start": positions.runs[0].first, f"{name}_len": positions.count}
    return {f"{name}_positions": str(positions)}


class OfDistance(Protocol):
    """What a distance between a query and a key is worth to each head."""

    @property
    def work_per_element(self) -> int:
        """How many sines, or as much work, a distance takes."""

    def values(self, distances: Int64s, head: int) -> Elements:
        """Evaluate distances (n,), each key − query, for one head: float64 or int64, (n,)."""


@dataclass(frozen=True, eq=False)
class RelativeTable:
    """A value for every query and key that depends on their distance, for one head or several.

    Attributes:
        of_distance: the value.
        pairs: queries and keys.
        dtype: a real type, to which float64 values are rounded once, or an integer type.
        heads: the numbers of the heads along a leading axis, or none, where there is no such
            axis and head 0 is meant.
    """

    of_distance: OfDistance
    pairs: QueryKey
    dtype: DType
    heads: range | tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Queries by keys, after the heads where there are any."""
        return (*(() if self.heads is None else (len(self.heads),)), *self.pairs.shape)

    @property
    def work_per_element(self) -> int:
        """As much as the value."""
        return self.of_distance.work_per_element

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        heads = (0,) if self.heads is None else self.heads
        pairs, columns = prod(self.pairs.shape), self.pairs.keys.count
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = start
        while done < stop:
            head, first = divmod(done, pairs)
            last = min(first + STEP_ELEMENTS, pairs, first + stop - done)
            if columns >= STEP_ELEMENTS:
                # Rows so long are not computed but for the part that is asked for.
                last = min(last, (first // columns + 1) * columns)
            elements[done - start : done - start + last - first] = self._of_pairs(
                first, last, heads[head]
            )
            done += last - first
        return elements

    def _of_pairs(self, first: int, last: int, head: int) -> Elements:
        """Evaluate each distance that occurs once."""
        if self.pairs.is_contiguous:
            return self._of_runs(first, last, head)
        some, place = distinct(self.pairs.distances(first, last))
        return _rounded(self.of_distance.values(some, head), self.dtype)[place]

    def _of_runs(self, first: int, last: int, head: int) -> Elements:
        """Evaluate queries and keys that follow each other: each row is the last one moved on."""
        columns = self.pairs.keys.count
        row, column = divmod(first, columns)
        rows = (last - 1) // columns + 1 - row
        begin = self.pairs.keys.runs[0].first - self.pairs.queries.runs[0].first - row
        if rows == 1:
            return self._rounded(begin + column, begin + column + last - first - 1, head)
        every = self._rounded(begin - (rows - 1), begin + columns - 1, head)
        (item,) = every.strides
        table = as_strided(every[rows - 1 :], (rows, columns), (-item, item), writeable=False)
        return table.reshape(-1)[column : column + last - first]

    def _rounded(self, low: int, high: int, head: int) -> Elements:
        """Evaluate all distances from low to high."""
        every = np.arange(low, high + 1, dtype=np.int64)
        return _rounded(self.of_distance.values(every, head), self.dtype)


def _rounded(values: Elements, dtype: DType) -> Elements:
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(dtype.storage)
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values, elements, dtype)
    return elements
