"""Tables over queries and keys: what depends on the distance between the two, head by head.

Biases of attention heads: a table of all heads over queries and keys, or of one alone.

Parameters of tables over queries and keys, and of the heads they are for.

What routes that look rows of a sent array up have in common.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from pydantic import Field

from service.encodings.family import TableFamily
from service.encodings.fields import Parameters, PositionList, about, contiguous, impossible
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Boolean, Integer, to_query
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import INT32, DType, Elements, may_overflow, round_into
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.positions import Positions
from service.numerics.tables import (
    STEP_ELEMENTS,
    StoredTable,
    Table,
    distinct_integers,
    gather_biases,
    row_ranges,
    setup_work,
)


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


class DistanceFunction(Protocol):
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

    of_distance: DistanceFunction
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
        for heads, pairs in row_ranges(start, stop, prod(self.pairs.shape)):
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
        some, place = distinct_integers(self.pairs.distances(first, last))
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


class Bias(DistanceFunction, Protocol):
    """What distances are worth to heads, of bounded size."""

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of all that pairs are worth to heads, but for −∞ that is meant."""


@dataclass(frozen=True, eq=False)
class BiasTable(RelativeTable):
    """The biases of heads, or of one."""

    of_distance: Bias

    @property
    def overflows(self) -> bool:
        """Tell whether a bias may be too large for the type."""
        heads = range(1 if self.heads is None else self.heads)
        return may_overflow(self.of_distance.bound(self.pairs, heads), self.dtype)


@dataclass(frozen=True, eq=False)
class OneHead:
    """What a distance is worth to one of several heads, whichever is asked for.

    Attributes:
        of_distance: what it is worth to each.
        head: the one.
    """

    of_distance: Bias
    head: int

    @property
    def work_per_element(self) -> int:
        """As much as for each."""
        return self.of_distance.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the value."""
        return setup_work(self.of_distance)

    def values(self, distances: Int64s, heads: range) -> Elements:  # noqa: ARG002
        """Evaluate distances (n,) for the one head."""
        return self.of_distance.values(distances, self._only)

    def bound(self, pairs: QueryKey, heads: range) -> float:  # noqa: ARG002
        """Bound what pairs are worth to the one head."""
        return self.of_distance.bound(pairs, self._only)

    @property
    def _only(self) -> range:
        return range(self.head, self.head + 1)


def head_biases(
    of_distance: Bias, pairs: QueryKey, dtype: DType, heads: int, head: int | None
) -> BiasTable:
    """Give the table of all heads, (heads, query, key), or of the one wanted, (query, key)."""
    if head is None:
        return BiasTable(of_distance, pairs, dtype, heads)
    return BiasTable(OneHead(of_distance, head), pairs, dtype)


def bias_document(
    kind: str, parameters: dict[str, ParameterValue], table: RelativeTable, head: int | None
) -> Document:
    """Describe biases; the one head that was wanted is a parameter."""
    axes: tuple[str, ...] = ("query", "key")
    if head is None:
        return Document(kind, parameters, {"bias": table}, axes=("head", *axes), states_axes=True)
    parameters = {**parameters, "head": head}
    return Document(kind, parameters, {"bias": table}, axes=axes, states_axes=True)


_OF_DECODERS = " or queries are 0, 1, …: a decoder asks for key_len=query_start+query_len"


Heads = Annotated[Integer, about("Number of attention heads.", 8, ge=1, le=MAX_CHANNELS)]
Causal = Annotated[
    Boolean,
    about(
        "Whether keys after the query have the bias 0 of distance 0; they are not masked. "
        "Otherwise they have the bias of |d|.",
        False,
    ),
]


class QueryKeyParameters(Parameters):
    """Which queries and which keys: so many from a start on, or exactly these."""

    query_len: Integer | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Number of queries; required unless query_positions is given.",
        examples=[4],
    )
    query_start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="Position of the first query; 0 unless given. A decoder that has cached n keys "
        "asks for query_start=n, query_len=1 and key_len=n+1.",
        examples=[0],
    )
    query_positions: PositionList | None = Field(
        default=None,
        description="Position of each query, in place of query_len and query_start.",
        examples=["7"],
    )
    key_len: Integer | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Number of keys; as many as queries unless given, where those start at 0.",
        examples=[6],
    )
    key_start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="Position of the first key; 0 unless given.",
        examples=[0],
    )
    key_positions: PositionList | None = Field(
        default=None,
        description="Position of each key, in place of key_len and key_start.",
        examples=["0:6"],
    )

    def pairs(self) -> QueryKey:
        """Give queries and keys; raises InvalidParameters unless each is said in just one way."""
        queries = self._along("query", None)
        # Queries from elsewhere than 0 on are those of a decoder, which has more keys than them.
        is_square = queries == Positions.contiguous(0, queries.count)
        pairs = QueryKey(queries, self._along("key", queries.count if is_square else None))
        if pairs.farthest > MAX_POSITION:
            raise self.too_far("query", "key")
        return pairs

    def too_far(self, *axes: str) -> InvalidParameters:
        """Make the error of places along axes that are too far from each other."""
        said = ("start", "positions", "len")
        names = [f"{axis}_{what}" for axis in axes for what in said]
        name = next(name for name in names if getattr(self, name) is not None)
        rule = "queries and keys must lie within 2^62 of each other"
        return impossible(name, getattr(self, name), rule)

    def _along(self, axis: str, default_len: int | None) -> Positions:
        length, start = getattr(self, f"{axis}_len"), getattr(self, f"{axis}_start")
        listed: Positions | None = getattr(self, f"{axis}_positions")
        if listed is None:
            length = length or default_len
            if length is None:
                rule = f"{axis}_len is required, unless {axis}_positions is given"
                rule += _OF_DECODERS if axis == "key" else ""
                raise impossible(f"{axis}_len", None, rule)
            return contiguous(start or 0, length, name=f"{axis}_start")
        beside = {f"{axis}_len": length, f"{axis}_start": start}
        faults = [
            Fault(name, to_query(value), f"{name} does not go with {axis}_positions")
            for name, value in beside.items()
            if value is not None
        ]
        if faults:
            raise InvalidParameters(*faults)
        return listed


class HeadParameters(Parameters):
    """Which heads are wanted."""

    head: Integer | None = Field(
        default=None,
        ge=0,
        description="One head alone, counted from 0: shape (query, key). All unless given.",
        examples=[0],
    )

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the heads."""
        return {"head": "add head=0"}

    def checked_head(self, heads: int) -> int | None:
        """Give the head that is wanted alone; raises InvalidParameters where there is none."""
        if self.head is not None and self.head >= heads:
            raise impossible("head", self.head, f"head must be less than the {heads} there are")
        return self.head


class DistanceBias(TableFamily, QueryKeyParameters, HeadParameters):
    """Base of biases of heads that depend on key − query: (head, query, key), or one head alone.

    Subclasses declare ``num_heads`` and the three members below, which are those of ``Bias``.
    """

    array: ClassVar[str] = "bias"

    if TYPE_CHECKING:
        num_heads: int

    @property
    def work_per_element(self) -> int:
        """The cost of a distance for one head, in sines."""
        return 1

    def values(self, distances: Int64s, heads: range) -> Elements:
        """Evaluate distances (n,), each key − query, for heads counted from 0: (heads, n)."""
        raise NotImplementedError

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the absolute values of all pairs and heads, except for an intended −∞."""
        raise NotImplementedError

    @property
    def axes(self) -> tuple[str, ...]:
        """One head alone has no axis of heads."""
        return ("head", "query", "key") if self.head is None else ("query", "key")

    def table(self) -> Table:
        """Evaluate each distance once, for all heads or for one."""
        head = self.checked_head(self.num_heads)
        return head_biases(self, self.pairs(), self.element_type, self.num_heads, head)

    def canonical(self) -> dict[str, ParameterValue]:
        """Own parameters, then queries and keys, then the head."""
        head = {} if self.head is None else {"head": self.head}
        return {**super().canonical(), **self.pairs().parameters(), **head}


def causal_field() -> bool:
    """Make the field of biases that later keys do not have."""
    field: bool = Field(
        default=True,
        description="Whether keys after the query have the bias 0 of distance 0; they are not "
        "masked. Otherwise they have the bias of |d|.",
        examples=[False],
    )
    return field


_MAX_INT32 = 2**31 - 1


class GatheredParameters(HeadParameters):
    """Which heads of a table that is sent are wanted."""

    def of_heads(
        self,
        kind: str,
        described: dict[str, ParameterValue],
        weight: StoredTable,
        index: Table,
    ) -> Document:
        """Describe the biases of every head, or of the one that is wanted."""
        head = self.checked_head(weight.shape[1])
        axes: tuple[str, ...] = ("head", "query", "key")
        if head is not None:
            axes, described = axes[1:], {**described, "head": head}
        arrays = {"bias": gather_biases(weight, index, head)}
        return Document(kind, described, arrays, axes=axes, states_axes=True)


def agreed(name: str, said: int | None, found: int) -> int:
    """Give what an array says, which a parameter may say as well; raises InvalidParameters."""
    if said is not None and said != found:
        raise impossible(name, said, f"{name} is {found} by the rows of weight")
    return found


def wrong_rows(rows: int, rule: str) -> InvalidBody:
    """Make the error of a table of weights that has a number of rows that cannot be."""
    return InvalidBody(f"weight has {rows} rows, and must have {rule}", "/weight")


def check_fits(dtype: DType, largest: int) -> None:
    """Refuse int32 for numbers beyond it."""
    if dtype is INT32 and largest > _MAX_INT32:
        raise impossible("dtype", "int32", f"numbers up to {largest} need dtype=int64")
