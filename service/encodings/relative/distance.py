"""Tables over queries and keys: values that depend on key − query, for one head or for several.

A family of such a table subclasses ``DistanceTableFamily`` and evaluates distances;
``RelativeTable`` evaluates each distance once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Annotated

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from service.encodings.family import (
    ComposedFamily,
    Parameters,
    PositionList,
    TableFamily,
    about,
    contiguous,
    impossible,
    optional,
)
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Boolean, Integer, to_query
from service.numerics.dtypes import INT32, DType, Elements, may_overflow, round_numbers_into
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
    read_blocks,
    row_ranges,
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

    def longest(self, *, is_causal: bool) -> int:
        """Return the largest |key − query|, only of keys before the query if causal; 0 if none."""
        return max(0, self.queries.most - self.keys.least) if is_causal else self.farthest

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters: start and length where positions are contiguous."""
        return position_parameters("query", self.queries) | position_parameters("key", self.keys)


def position_parameters(name: str, positions: Positions) -> dict[str, ParameterValue]:
    """Return the canonical parameters of queries or keys."""
    if positions.is_contiguous:
        return {f"{name}_start": positions.runs[0].first, f"{name}_len": positions.count}
    return {f"{name}_positions": str(positions)}


class DistanceFunction:
    """Base of functions of the distance between a query and a key, for each head."""

    @property
    def work_per_element(self) -> int:
        """The cost of one distance for one head, in sines."""
        return 1

    @property
    def setup_work(self) -> int:
        """The cost before the first element, in sines."""
        return 0

    def values(self, distances: Int64s, heads: range) -> Elements:
        """Evaluate distances (n,), each key − query, for consecutive heads counted from 0.

        float64 or int64, of shape (heads, n); (n,) where all heads have the same values.
        """
        raise NotImplementedError

    def bound(self, pairs: QueryKey, heads: range) -> float:  # noqa: ARG002
        """Bound |values| of all pairs and heads, except for an intended −∞; 0 of integers."""
        return 0.0


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
        return self.function.setup_work

    @property
    def overflows(self) -> bool:
        """True if a value may be too large for the type."""
        bound = self.function.bound(self.pairs, self.heads)
        return bound > 0 and may_overflow(bound, self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, prod(self.pairs.shape), self.dtype, self._fill)

    def _fill(self, rows: range, pairs: range, block: Elements) -> None:
        heads, columns = self.heads[rows.start : rows.stop], self.pairs.keys.count
        if columns < STEP_ELEMENTS:
            # Whole rows are evaluated together; the first and the last may be read in part.
            queries = range(pairs.start // columns, -(-pairs.stop // columns))
            values = self.block(queries, range(columns), heads)
            first = pairs.start % columns
            block[...] = values.reshape(*values.shape[:-2], -1)[..., first : first + len(pairs)]
            return
        done = 0
        for queries, keys in row_ranges(pairs.start, pairs.stop, columns):
            block[:, done : done + len(keys)] = self.block(queries, keys, heads)[..., 0, :]
            done += len(keys)

    def block(self, queries: range, keys: range, heads: range) -> Elements:
        """Return some queries by some keys, (queries, keys) or (heads, queries, keys).

        Each of their distances is evaluated once.
        """
        query = self.pairs.queries.at(queries.start, queries.stop)
        key = self.pairs.keys.at(keys.start, keys.stop)
        if not self.pairs.is_contiguous:
            distances, index = distinct_integers((key - query[:, np.newaxis]).reshape(-1))
            return self._rounded(distances, heads)[..., index.reshape(len(query), len(key))]
        # Each row is the row below it, shifted by one.
        values = self._rounded(np.arange(key[0] - query[-1], key[-1] - query[0] + 1), heads)
        return sliding_window_view(values, len(keys), axis=-1)[..., ::-1, :]

    def _rounded(self, distances: Int64s, heads: range) -> Elements:
        values = self.function.values(distances, heads)
        elements = np.empty(values.shape, dtype=self.dtype.storage)
        round_numbers_into(values, elements, self.dtype)
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

    query_len: Integer | None = optional(
        "Number of queries; required unless query_positions is given.", 4, ge=1, le=MAX_LENGTH
    )
    query_start: Integer | None = optional(
        "Position of the first query; 0 unless given. A decoder that has cached n keys asks "
        "for query_start=n, query_len=1 and key_len=n+1.",
        0,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
    )
    query_positions: PositionList | None = optional(
        "Position of each query, in place of query_len and query_start.", "7"
    )
    key_len: Integer | None = optional(
        "Number of keys; as many as queries unless given, where those start at 0.",
        6,
        ge=1,
        le=MAX_LENGTH,
    )
    key_start: Integer | None = optional(
        "Position of the first key; 0 unless given.", 0, ge=-MAX_POSITION, le=MAX_POSITION
    )
    key_positions: PositionList | None = optional(
        "Position of each key, in place of key_len and key_start.", "0:6"
    )

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

    head: Integer | None = optional(
        "One head alone, counted from 0: shape (query, key). All unless given.", 0, ge=0
    )

    def removable_axes(self) -> Mapping[str, str]:
        return {"head": "add head=0"}

    def selected_heads(self, count: int) -> range:
        """Return the heads of the table; raises InvalidParameters unless head is below a count."""
        if self.head is None:
            return range(count)
        if self.head >= count:
            raise impossible("head", self.head, f"head must be less than the {count} heads")
        return range(self.head, self.head + 1)

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
        pairs, heads = self.pairs, self.selected_heads(count)
        return RelativeTable(function, pairs, dtype, heads, has_head_axis=self.head is None)

    @property
    def pair_parameters(self) -> dict[str, ParameterValue]:
        """The canonical parameters of queries, keys and head."""
        return {**self.pairs.parameters(), **self.head_parameters}


class DistanceTableFamily(DistanceFunction, TableFamily, QueryKeyParameters):
    """Base of tables of queries by keys whose elements depend on key − query.

    A subclass declares ``values``, the formula, and ``bound`` where its values are not integers.
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return "query", "key"

    def table(self) -> Table:
        return RelativeTable(self, self.pairs, self.element_type)

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), **self.pairs.parameters()}


class GatheredBias(ComposedFamily, HeadParameters):
    """Base of biases that are rows of a learned table, named by another family."""

    def gathered(self, weight: StoredTable, index: TableFamily) -> Document:
        """Return the biases of every head, or of one: column h of weight is head h.

        Args:
            weight: a row for each number of the index, a column for each head.
            index: the row of every query and key, with ``dtype="int64"``.
        """
        table = index.table()
        self.selected_heads(weight.shape[1])
        arrays = {"bias": gather_biases(weight, table, self.head)}
        parameters = {**index.canonical(), **self.head_parameters}
        return self.describe(arrays, parameters, axes=self.bias_axes, states_axes=True)


def distance_lengths(distances: Int64s, *, is_causal: bool) -> Int64s:
    """Return |key − query|, or 0 for a key after the query where the bias is causal."""
    return np.maximum(-distances, 0) if is_causal else np.abs(distances)


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
