"""Tables of queries by keys whose values depend on key − query, for one head or several.

The family of such a table subclasses ``DistanceTableFamily`` and defines the value of a distance;
``RelativeTable`` computes the value of each distance once and copies it to all its pairs.
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
    impossible,
    optional,
)
from service.encodings.meaning import Selection
from service.encodings.position_parameters import contiguous
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Boolean, Integer, to_query
from service.numerics.dtypes import INT32, DType, Elements, may_overflow, round_numbers_into
from service.numerics.limits import MAX_CHANNELS, MAX_LENGTH
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.positions import Positions
from service.numerics.setups import NO_SETUP, Setup
from service.numerics.tables import (
    ELEMENT_SECONDS,
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
        """True if the queries are consecutive, and the keys are."""
        return self.queries.is_contiguous and self.keys.is_contiguous

    @property
    def farthest(self) -> int:
        """The largest |key − query|."""
        return max(self.queries.farthest_from(end) for end in (self.keys.least, self.keys.most))

    def longest(self, *, is_causal: bool) -> int:
        """Return the largest |key − query|; if causal, over keys before the query; 0 if none."""
        return max(0, self.queries.most - self.keys.least) if is_causal else self.farthest

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters of the queries and the keys."""
        return position_parameters("query", self.queries) | position_parameters("key", self.keys)


def position_parameters(name: str, positions: Positions) -> dict[str, ParameterValue]:
    """Return the canonical parameters of queries or keys: start and length, or a list."""
    if positions.is_contiguous:
        return {f"{name}_start": positions.first, f"{name}_len": positions.count}
    return {f"{name}_positions": str(positions)}


class DistanceFunction:
    """Base class of the functions that give each head a value of the distance key − query."""

    @property
    def element_seconds(self) -> float:
        """The processor seconds of the value of one distance for one head."""
        return 5 * ELEMENT_SECONDS

    @property
    def setup(self) -> Setup:
        """The setup of the values."""
        return NO_SETUP

    def values(self, distances: Int64s, heads: range) -> Elements:
        """Return the values of distances (n,), each key − query, for a range of heads.

        They are float64 or int64, of shape (heads, n), or (n,) if all heads have the same values.
        """
        raise NotImplementedError

    def bound(self, pairs: QueryKey, heads: range) -> float:  # noqa: ARG002
        """Return a bound of |value| over all pairs and heads, without masks of −∞; 0 for int64."""
        return 0.0


# The processor seconds of copying an element, and of finding its distance among sorted ones.
_COPIED_SECONDS = 1.6e-9
_SORTED_SECONDS = 7e-8


@dataclass(frozen=True, eq=False)
class RelativeTable:
    """The table of a distance function for every query and key, for one head or several.

    Attributes:
        function: returns the values of distances.
        pairs: the queries and keys.
        dtype: the element type: real, with float64 values rounded once, or integer.
        heads: consecutive heads, counted from 0.
        has_head_axis: whether the table has a leading head axis; if not, heads has length 1.
    """

    function: DistanceFunction
    pairs: QueryKey
    dtype: DType
    heads: range = range(1)
    has_head_axis: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (*((len(self.heads),) if self.has_head_axis else ()), *self.pairs.shape)

    @cached_property
    def element_seconds(self) -> float:
        value = self.function.element_seconds
        if not self.pairs.is_contiguous:
            return _SORTED_SECONDS + value
        # The distances of a block are evaluated once, and its rows are copied from them.
        queries, keys = self.pairs.shape
        rows = min(queries, max(1, STEP_ELEMENTS // keys))
        columns = min(keys, STEP_ELEMENTS)
        return _COPIED_SECONDS + value * (rows + columns - 1) / (rows * columns)

    @property
    def setup(self) -> Setup:
        return self.function.setup

    @property
    def overflows(self) -> bool:
        """True if a value may be too large for the element type."""
        bound = self.function.bound(self.pairs, self.heads)
        return bound > 0 and may_overflow(bound, self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, prod(self.pairs.shape), self.dtype, self._fill)

    def _fill(self, rows: range, pairs: range, block: Elements) -> None:
        heads, columns = self.heads[rows.start : rows.stop], self.pairs.keys.count
        if columns <= len(pairs):
            # Whole rows are evaluated together; the first and the last may be read in part.
            queries = range(pairs.start // columns, -(-pairs.stop // columns))
            values = self.block(queries, range(columns), heads)
            if len(pairs) == len(queries) * columns:
                block.reshape(len(rows), len(queries), columns)[...] = values
                return
            first = pairs.start % columns
            block[...] = values.reshape(*values.shape[:-2], -1)[..., first : first + len(pairs)]
            return
        done = 0
        for queries, keys in row_ranges(pairs.start, pairs.stop, columns):
            block[:, done : done + len(keys)] = self.block(queries, keys, heads)[..., 0, :]
            done += len(keys)

    def block(self, queries: range, keys: range, heads: range) -> Elements:
        """Return the elements of some queries and keys, (queries, keys) or (heads, queries, keys).

        The function is called once for each of their distances.
        """
        query = self.pairs.queries.at(queries.start, queries.stop)
        key = self.pairs.keys.at(keys.start, keys.stop)
        if not self.pairs.is_contiguous:
            distances, index = distinct_integers((key - query[:, np.newaxis]).reshape(-1))
            return self._rounded(distances, heads)[..., index.reshape(len(query), len(key))]
        # Each row equals the next row, shifted by one column.
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
        "Whether keys after the query have the bias 0, as at distance 0; they are not masked. "
        "With false they have the bias of |d|.",
        False,
    ),
]
_MAX_INT32 = 2**31 - 1


class QueryKeyParameters(Parameters):
    """The parameters of the queries and the keys: start and length, or a list of positions."""

    query_len: Integer | None = optional(
        "Number of queries; required unless query_positions is given.", 4, ge=1, le=MAX_LENGTH
    )
    query_start: Integer | None = optional(
        "Position of the first query; 0 unless given. A decoder that has cached n keys needs "
        "query_start=n, query_len=1 and key_len=n+1.",
        0,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
    )
    query_positions: PositionList | None = optional(
        "Position of each query, in place of query_len and query_start.", "7"
    )
    key_len: Integer | None = optional(
        "Number of keys. Required unless key_positions is given or the queries are 0, 1, 2, …; "
        "then the default is the number of queries.",
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
        """The queries and keys; raises InvalidParameters unless each is given in one way."""
        queries = self._positions("query", None)
        # A decoder's queries do not start at 0, and it has more keys than queries.
        is_square = queries == Positions.contiguous(0, queries.count)
        pairs = QueryKey(queries, self._positions("key", queries.count if is_square else None))
        if pairs.farthest > MAX_POSITION:
            raise self._too_far("query", "key")
        return pairs

    def _too_far(self, *axes: str) -> InvalidParameters:
        names = [f"{axis}_{part}" for axis in axes for part in ("start", "positions", "len")]
        name = next(name for name in names if getattr(self, name) is not None)
        rule = "no query and key may be more than 2^62 apart"
        return impossible(name, getattr(self, name), rule)

    def selections(self) -> Mapping[str, Selection]:
        return {
            **super().selections(),
            "query": _selection("query", self.pairs.queries),
            "key": _selection("key", self.pairs.keys),
        }

    def _positions(self, axis: str, default_len: int | None) -> Positions:
        length, start = getattr(self, f"{axis}_len"), getattr(self, f"{axis}_start")
        listed: Positions | None = getattr(self, f"{axis}_positions")
        if listed is None:
            length = length or default_len
            if length is None:
                rule = f"{axis}_len is required unless {axis}_positions is given"
                if axis == "key":
                    rule += " or queries start at 0: a decoder needs key_len=query_start+query_len"
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


def _selection(axis: str, places: Positions) -> Selection:
    return Selection(f"{axis}_positions", places, (f"{axis}_start", f"{axis}_len"))


class HeadParameters(Parameters):
    """The parameter that selects one head."""

    head: Integer | None = optional(
        "Return one head, counted from 0, of shape (query, key); all heads unless given.",
        0,
        ge=0,
        le=MAX_CHANNELS - 1,
    )

    def removable_axes(self) -> Mapping[str, str]:
        return {"head": "add head=0"}

    def selections(self) -> Mapping[str, Selection]:
        return {**super().selections(), "head": Selection("head")}

    def selected_heads(self, count: int) -> range:
        """Return the heads of the table; raises InvalidParameters unless head is below count."""
        if self.head is None:
            return range(count)
        if self.head >= count:
            raise impossible("head", self.head, f"head must be less than the {count} heads")
        return range(self.head, self.head + 1)

    @property
    def head_parameters(self) -> dict[str, ParameterValue]:
        """The canonical parameter ``head``, if it is given."""
        return {} if self.head is None else {"head": self.head}

    @property
    def bias_axes(self) -> tuple[str, ...]:
        """The names of the axes of biases; a selected head has no head axis."""
        return ("head", "query", "key") if self.head is None else ("query", "key")


class BiasParameters(QueryKeyParameters, HeadParameters):
    """The parameters of the queries, keys and heads of biases."""

    def bias_table(self, function: DistanceFunction, dtype: DType, count: int) -> RelativeTable:
        """Return the bias table of count heads, or of the selected head; computed when read."""
        pairs, heads = self.pairs, self.selected_heads(count)
        return RelativeTable(function, pairs, dtype, heads, has_head_axis=self.head is None)

    @property
    def pair_parameters(self) -> dict[str, ParameterValue]:
        """The canonical parameters of the queries, the keys and the head."""
        return {**self.pairs.parameters(), **self.head_parameters}


class DistanceTableFamily(DistanceFunction, TableFamily, QueryKeyParameters):
    """Base class of tables of queries by keys whose elements depend on key − query.

    A subclass defines ``values``, the formula, and ``bound`` if its values are not integers.
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return "query", "key"

    def table(self) -> Table:
        return RelativeTable(self, self.pairs, self.element_type)

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), **self.pairs.parameters()}


class GatheredBias(ComposedFamily, HeadParameters):
    """Base class of biases looked up in a learned table, at the indices of another family."""

    def gathered(self, weight: StoredTable, index: TableFamily) -> Document:
        """Return the biases of every head, or of the selected one.

        Args:
            weight: (rows, heads): a row for each index value, a column for each head.
            index: the family whose table holds the row of weight for every query and key, int64.
        """
        table = index.table()
        self.selected_heads(weight.shape[1])
        arrays = {"bias": gather_biases(weight, table, self.head)}
        parameters = {**index.canonical(), **self.head_parameters}
        return self.describe(arrays, parameters, axes=self.bias_axes, states_axes=True)


def distance_lengths(distances: Int64s, *, is_causal: bool) -> Int64s:
    """Return |key − query|; if causal, 0 for keys after the query."""
    return np.maximum(-distances, 0) if is_causal else np.abs(distances)


def checked_size(name: str, value: int | None, size: int) -> int:
    """Return the size that weight's rows give; raises InvalidParameters if value differs."""
    if value is not None and value != size:
        raise impossible(name, value, f"{name} must be {size}, which the rows of weight give")
    return size


def wrong_rows(rows: int, rule: str) -> InvalidBody:
    """Return the error for a weight with a wrong number of rows; rule says the right number."""
    return InvalidBody(f"weight has {rows} rows, but must have {rule}", "/weight")


def check_fits(dtype: DType, largest: int) -> None:
    """Raise InvalidParameters if the dtype is int32 and cannot hold the largest element."""
    if dtype is INT32 and largest > _MAX_INT32:
        raise impossible("dtype", "int32", f"numbers up to {largest} need dtype=int64")
