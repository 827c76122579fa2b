"""Tables over queries and keys: values that depend on key − query, for one head or for several.

A family of such a table subclasses ``DistanceTableFamily`` (queries by keys) or ``DistanceBias``
(heads by queries by keys) and evaluates distances; ``RelativeTable`` evaluates each distance once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from service.encodings.family import (
    ComposedFamily,
    Parameters,
    PositionList,
    TableFamily,
    about,
    contiguous,
    impossible,
)
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Boolean, Integer, to_query
from service.numerics.dtypes import INT32, DType, Elements, may_overflow, round_into
from service.numerics.limits import MAX_CHANNELS, MAX_LENGTH
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.positions import Positions
from service.numerics.tables import (
    STEP_ELEMENTS,
    Document,
    ParameterValue,
    StoredTable,
    Table,
    distinct_integers,
    gather_biases,
    row_ranges,
    setup_work,
)


@dataclass(frozen=True)
class QueryKey:
    """The positions of queries, which are rows, and of keys, which are columns."""

    queries: Positions
    keys: Positions

    @property
    def shape(self) -> tuple[int, int]:
        return self.queries.count, self.keys.count

    @property
    def is_contiguous(self) -> bool:
        """True if queries, and keys, are consecutive."""
        return self.queries.is_contiguous and self.keys.is_contiguous

    @property
    def farthest(self) -> int:
        """The largest |key − query|."""
        return max(self.queries.farthest_from(end) for end in (self.keys.least, self.keys.most))

    @property
    def farthest_behind(self) -> int:
        """The largest distance of a key before its query; 0 where there is none."""
        return max(0, self.queries.most - self.keys.least)

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters: start and length where positions are contiguous."""
        return {**_canonical("query", self.queries), **_canonical("key", self.keys)}

    def places(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Return the positions of query and key of the flat elements start to stop."""
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
        """Return key − query of the flat elements start to stop, shape (stop - start,)."""
        queries, keys = self.places(start, stop)
        return keys - queries


def _canonical(name: str, positions: Positions) -> dict[str, ParameterValue]:
    if positions.is_contiguous:
        return {f"{name}_start": positions.runs[0].first, f"{name}_len": positions.count}
    return {f"{name}_positions": str(positions)}


class DistanceFunction(Protocol):
    """The value of a distance between a query and a key, for each head."""

    @property
    def work_per_element(self) -> int:
        """The cost of one distance for one head, in sines."""

    def values(self, distances: Int64s, heads: range) -> Elements:
        """Evaluate distances (n,), each key − query, for consecutive heads counted from 0.

        float64 or int64, of shape (heads, n); (n,) where all heads have the same values.
        """

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound |values| of all pairs and heads, except for an intended −∞; 0 of integers."""


@dataclass(frozen=True, eq=False)
class RelativeTable:
    """A function of the distance of every query and key, for one head or several.

    Attributes:
        function: the value of a distance.
        pairs: queries and keys.
        dtype: a real type, to which float64 values are rounded once, or an integer type.
        heads: consecutive heads, counted from 0.
        has_head_axis: whether they are a leading axis; without it there is one.
    """

    function: DistanceFunction
    pairs: QueryKey
    dtype: DType
    heads: range = range(1)
    has_head_axis: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (*((len(self.heads),) if self.has_head_axis else ()), *self.pairs.shape)

    @property
    def work_per_element(self) -> int:
        return self.function.work_per_element

    @property
    def setup_work(self) -> int:
        return setup_work(self.function)

    @property
    def overflows(self) -> bool:
        """True if a value may be too large for the type."""
        bound = self.function.bound(self.pairs, self.heads)
        return bound > 0 and may_overflow(bound, self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = 0
        for rows, pairs in row_ranges(start, stop, prod(self.pairs.shape)):
            heads = self.heads[rows.start : rows.stop]
            room = elements[done : done + len(heads) * len(pairs)]
            by_head = room.reshape(len(heads), len(pairs))
            for part in self._parts(pairs):
                own = slice(part.start - pairs.start, part.stop - pairs.start)
                by_head[:, own] = self._of_pairs(part.start, part.stop, heads)
            done += len(room)
        return elements

    def _parts(self, pairs: range) -> Iterator[range]:
        """Split pairs at the end of a long row, so that no other part of it is computed."""
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
        some, place = distinct_integers(self.pairs.distances(first, last))
        return self._rounded(some, heads)[..., place]

    def _of_runs(self, first: int, last: int, heads: range) -> Elements:
        """Evaluate contiguous queries and keys: each row is the previous one, shifted by one."""
        columns = self.pairs.keys.count
        row, column = divmod(first, columns)
        rows = (last - 1) // columns + 1 - row
        begin = self.pairs.keys.runs[0].first - self.pairs.queries.runs[0].first - row
        if rows == 1:
            low = begin + column
            return self._rounded(np.arange(low, low + last - first, dtype=np.int64), heads)
        low, stop = begin - (rows - 1), begin + columns
        every = self._rounded(np.arange(low, stop, dtype=np.int64), heads)
        *of_heads, item = every.strides
        shape = (*every.shape[:-1], rows, columns)
        rolled = as_strided(
            every[..., rows - 1 :], shape, (*of_heads, -item, item), writeable=False
        )
        return rolled.reshape(*every.shape[:-1], -1)[..., column : column + last - first]

    def _rounded(self, distances: Int64s, heads: range) -> Elements:
        values = self.function.values(distances, heads)
        if np.issubdtype(values.dtype, np.integer):
            return values.astype(self.dtype.storage)
        elements = np.empty(values.shape, dtype=self.dtype.storage)
        with np.errstate(over="ignore"):
            round_into(values, elements, self.dtype)
        return elements


Heads = Annotated[Integer, about("Number of attention heads.", 8, ge=1, le=MAX_CHANNELS)]
Causal = Annotated[
    Boolean,
    about(
        "Whether keys after the query have the bias 0 of distance 0; they are not masked. "
        "Otherwise they have the bias of |d|.",
        False,
    ),
]
_MAX_INT32 = 2**31 - 1


class QueryKeyParameters(Parameters):
    """The queries and the keys: a start and a length of each, or a list of positions."""

    query_len: Annotated[
        Integer | None,
        about(
            "Number of queries; required unless query_positions is given.", 4, ge=1, le=MAX_LENGTH
        ),
    ] = None
    query_start: Annotated[
        Integer | None,
        about(
            "Position of the first query; 0 unless given. A decoder that has cached n keys asks "
            "for query_start=n, query_len=1 and key_len=n+1.",
            0,
            ge=-MAX_POSITION,
            le=MAX_POSITION,
        ),
    ] = None
    query_positions: Annotated[
        PositionList | None,
        about("Position of each query, in place of query_len and query_start.", "7"),
    ] = None
    key_len: Annotated[
        Integer | None,
        about(
            "Number of keys; as many as queries unless given, where those start at 0.",
            6,
            ge=1,
            le=MAX_LENGTH,
        ),
    ] = None
    key_start: Annotated[
        Integer | None,
        about("Position of the first key; 0 unless given.", 0, ge=-MAX_POSITION, le=MAX_POSITION),
    ] = None
    key_positions: Annotated[
        PositionList | None,
        about("Position of each key, in place of key_len and key_start.", "0:6"),
    ] = None

    @cached_property
    def pairs(self) -> QueryKey:
        """Queries and keys; raises InvalidParameters unless each is given in exactly one way."""
        queries = self._positions("query", None)
        # Queries that start elsewhere than at 0 are those of a decoder, which has more keys.
        is_square = queries == Positions.contiguous(0, queries.count)
        pairs = QueryKey(queries, self._positions("key", queries.count if is_square else None))
        if pairs.farthest > MAX_POSITION:
            raise self._too_far("query", "key")
        return pairs

    def _too_far(self, *axes: str) -> InvalidParameters:
        names = [f"{axis}_{part}" for axis in axes for part in ("start", "positions", "len")]
        name = next(name for name in names if getattr(self, name) is not None)
        rule = "queries and keys must lie within 2^62 of each other"
        return impossible(name, getattr(self, name), rule)

    def _positions(self, axis: str, default_len: int | None) -> Positions:
        length, start = getattr(self, f"{axis}_len"), getattr(self, f"{axis}_start")
        listed: Positions | None = getattr(self, f"{axis}_positions")
        if listed is None:
            length = length or default_len
            if length is None:
                rule = f"{axis}_len is required, unless {axis}_positions is given"
                if axis == "key":
                    rule += " or queries start at 0: a decoder sends key_len=query_start+query_len"
                raise impossible(f"{axis}_len", None, rule)
            return contiguous(start or 0, length, name=f"{axis}_start")
        faults = [
            Fault(name, to_query(value), f"{name} does not go with {axis}_positions")
            for name, value in ((f"{axis}_len", length), (f"{axis}_start", start))
            if value is not None
        ]
        if faults:
            raise InvalidParameters(*faults)
        return listed


class HeadParameters(Parameters):
    """All heads, or one of them."""

    head: Annotated[
        Integer | None,
        about("One head alone, counted from 0: shape (query, key). All unless given.", 0, ge=0),
    ] = None

    def removable_axes(self) -> Mapping[str, str]:
        return {"head": "add head=0"}

    def check_head(self, count: int) -> int | None:
        """Return the one head; raises InvalidParameters unless it is below the count."""
        if self.head is not None and self.head >= count:
            raise impossible("head", self.head, f"head must be less than the {count} heads")
        return self.head

    @property
    def head_parameters(self) -> dict[str, ParameterValue]:
        """The canonical parameter of one head."""
        return {} if self.head is None else {"head": self.head}

    @property
    def bias_axes(self) -> tuple[str, ...]:
        """The axes of biases: one head alone has no axis of heads."""
        return ("head", "query", "key") if self.head is None else ("query", "key")


class BiasParameters(QueryKeyParameters, HeadParameters):
    """Queries, keys and heads of biases."""

    def bias_table(self, function: DistanceFunction, dtype: DType, count: int) -> RelativeTable:
        """Return the biases of a number of heads, or of the one head, unevaluated."""
        pairs, head = self.pairs, self.check_head(count)
        heads = range(count) if head is None else range(head, head + 1)
        return RelativeTable(function, pairs, dtype, heads, has_head_axis=head is None)

    @property
    def pair_parameters(self) -> dict[str, ParameterValue]:
        """The canonical parameters of queries, keys and head."""
        return {**self.pairs.parameters(), **self.head_parameters}


class DistanceTableFamily(TableFamily, QueryKeyParameters):
    """Base of tables of queries by keys whose elements depend on key − query.

    A subclass declares ``values``, the formula, and ``bound`` where its values are not integers.
    """

    @property
    def work_per_element(self) -> int:
        """The cost of one distance for one head, in sines."""
        return 1

    @property
    def setup_work(self) -> int:
        """The cost before the first element, in sines."""
        return 0

    def values(self, distances: Int64s, heads: range) -> Elements:
        """Evaluate distances (n,), each key − query: (n,), or (heads, n)."""
        raise NotImplementedError

    def bound(self, pairs: QueryKey, heads: range) -> float:  # noqa: ARG002
        """Bound the absolute values of all pairs and heads; 0 of integers."""
        return 0.0

    @property
    def axes(self) -> tuple[str, ...]:
        return "query", "key"

    def table(self) -> Table:
        return RelativeTable(self, self.pairs, self.element_type)

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), **self.pairs.parameters()}


class DistanceBias(DistanceTableFamily, BiasParameters):
    """Base of biases of heads that depend on key − query: (head, query, key), or one head alone."""

    array: ClassVar[str] = "bias"

    if TYPE_CHECKING:
        num_heads: int

    @property
    def axes(self) -> tuple[str, ...]:
        return self.bias_axes

    def table(self) -> Table:
        return self.bias_table(self, self.element_type, self.num_heads)

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), **self.head_parameters}


class GatheredBias(ComposedFamily, HeadParameters):
    """Base of biases that are rows of a learned table, named by another family."""

    def gathered(self, weight: StoredTable, index: TableFamily) -> Document:
        """Return the biases of every head, or of one: column h of weight is head h.

        Args:
            weight: a row for each number of the index, a column for each head.
            index: the row of every query and key, with ``dtype="int64"``.
        """
        parameters, table = index.canonical(), index.table()
        arrays = {"bias": gather_biases(weight, table, self.check_head(weight.shape[1]))}
        parameters |= self.head_parameters
        return self.describe(arrays, parameters, axes=self.bias_axes, states_axes=True)


def agreed_rows(name: str, value: int | None, rows: int) -> int:
    """Return what the rows of weight imply; raises InvalidParameters for another value."""
    if value is not None and value != rows:
        raise impossible(name, value, f"{name} is {rows} by the rows of weight")
    return rows


def wrong_rows(rows: int, rule: str) -> InvalidBody:
    """Return the error of a weight with an impossible number of rows."""
    return InvalidBody(f"weight has {rows} rows, and must have {rule}", "/weight")


def check_fits(dtype: DType, largest: int) -> None:
    """Raise InvalidParameters if int32 is too narrow for the largest number of a table."""
    if dtype is INT32 and largest > _MAX_INT32:
        raise impossible("dtype", "int32", f"numbers up to {largest} need dtype=int64")
