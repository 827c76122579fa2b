"""Tables over queries and keys: what depends on the distance between the two, head by head."""

from collections.abc import Iterator
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
from service.tables.table import STEP_ELEMENTS, rounds, setup_work


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
        return max(self.queries.farthest_from(end) for end in (self.keys.least, self.keys.most))

    @property
    def farthest_behind(self) -> int:
        """The largest distance of a key before its query; 0 where there is none."""
        return max(0, self.queries.most - self.keys.least)

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

    def values(self, distances: Int64s, heads: range) -> Elements:
        """Evaluate distances (n,), each key − query, for heads that follow each other.

        float64 or int64, of shape (heads, n); (n,) where it is the same for every head.
        """


@dataclass(frozen=True, eq=False)
class RelativeTable:
    """A value for every query and key that depends on their distance, for one head or several.

    Attributes:
        of_distance: the value.
        pairs: queries and keys.
        dtype: a real type, to which float64 values are rounded once, or an integer type.
        heads: how many heads there are along a leading axis, or None, where there is no such
            axis and head 0 is meant.
    """

    of_distance: OfDistance
    pairs: QueryKey
    dtype: DType
    heads: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Queries by keys, after the heads where there are any."""
        return (*(() if self.heads is None else (self.heads,)), *self.pairs.shape)

    @property
    def work_per_element(self) -> int:
        """As much as the value."""
        return self.of_distance.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the value."""
        return setup_work(self.of_distance)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = 0
        for heads, pairs in rounds(start, stop, prod(self.pairs.shape)):
            room = elements[done : done + len(heads) * len(pairs)]
            by_head = room.reshape(len(heads), len(pairs))
            for part in self._parts(pairs):
                own = slice(part.start - pairs.start, part.stop - pairs.start)
                by_head[:, own] = self._of_pairs(part.start, part.stop, heads)
            done += len(room)
        return elements

    def _parts(self, pairs: range) -> Iterator[range]:
        """Cut pairs where a row ends so long that only what is asked for of it is computed."""
        columns, first = self.pairs.keys.count, pairs.start
        end = (first // columns + 1) * columns
        if columns >= STEP_ELEMENTS and end < pairs.stop:
            yield range(first, end)
            first = end
        yield range(first, pairs.stop)

    def _of_pairs(self, first: int, last: int, heads: range) -> Elements:
        """Evaluate each distance that occurs once."""
        if self.pairs.is_contiguous:
            return self._of_runs(first, last, heads)
        some, place = distinct(self.pairs.distances(first, last))
        return _rounded(self.of_distance.values(some, heads), self.dtype)[..., place]

    def _of_runs(self, first: int, last: int, heads: range) -> Elements:
        """Evaluate queries and keys that follow each other: each row is the last one moved on."""
        columns = self.pairs.keys.count
        row, column = divmod(first, columns)
        rows = (last - 1) // columns + 1 - row
        begin = self.pairs.keys.runs[0].first - self.pairs.queries.runs[0].first - row
        if rows == 1:
            return self._rounded(begin + column, begin + column + last - first - 1, heads)
        every = self._rounded(begin - (rows - 1), begin + columns - 1, heads)
        *of_heads, item = every.strides
        shape = (*every.shape[:-1], rows, columns)
        rolled = as_strided(
            every[..., rows - 1 :], shape, (*of_heads, -item, item), writeable=False
        )
        return rolled.reshape(*every.shape[:-1], -1)[..., column : column + last - first]

    def _rounded(self, low: int, high: int, heads: range) -> Elements:
        """Evaluate all distances from low to high."""
        every = np.arange(low, high + 1, dtype=np.int64)
        return _rounded(self.of_distance.values(every, heads), self.dtype)


def _rounded(values: Elements, dtype: DType) -> Elements:
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(dtype.storage)
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values, elements, dtype)
    return elements
