"""Tables, whose elements are computed range by range, and documents of them.

A table has a shape and an element type and no stored elements. A formula of rows and columns is a
``FormulaTable``; tables that copy rounded elements read with ``read_blocks``. A document has tables
by name, with the parameters that determine their numbers. What a table computes before its first
element is its setup (``setups``).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from math import prod
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.numerics.dtypes import (
    COMPLEX_DTYPES,
    FLOAT64,
    DType,
    Elements,
    all_finite,
    round_numbers_into,
)
from service.numerics.phase import FREQUENCY_SECONDS, Float64s, Int64s
from service.numerics.positions import AnyPositions, Positions
from service.numerics.setups import (
    NO_SETUP,
    TURN_SECONDS,
    OwnSetup,
    Setup,
    Steps,
    convert_decimals,
    setup_of,
)

Result = TypeVar("Result")


class Table(Protocol):
    """An array that is not stored: its shape and element type are known, its elements are computed.

    Making one costs nothing, whatever its size; ``read`` may be called from any thread.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def element_seconds(self) -> float:
        """The processor seconds that an element takes (see ELEMENT_SECONDS)."""

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop, in C order: shape (stop - start,).

        An element has the same bytes whichever range it is read with.
        """


ELEMENT_SECONDS = 2.5e-9
"""The processor seconds of an element of a plain table of sines.

All costs are seconds of one core of the machine on which they were calibrated. On another one they
keep their ratios: tests hold each of them against measured time.
"""


def overflows(table: object) -> bool:
    """Return whether numbers of a table may exceed its element type, without computing any.

    Only numbers of a table with a true attribute ``overflows`` may; they become infinite.
    """
    may_overflow: bool = getattr(table, "overflows", False)
    return may_overflow


def is_finite(table: object) -> bool:
    """Return whether all numbers of a table computed from a client's array are finite.

    It is the attribute ``is_finite`` of the table, which reads the array; True if it has none:
    other tables have infinities only where they overflow.
    """
    finite: bool = getattr(table, "is_finite", True)
    return finite


def size(table: Table) -> int:
    """Return the number of elements."""
    return prod(table.shape)


def size_bytes(table: Table) -> int:
    """Return the number of bytes of the elements."""
    return size(table) * table.dtype.itemsize_bytes


def seconds(table: Table) -> float:
    """Return the processor seconds of computing all of a table, without its setup."""
    return size(table) * table.element_seconds


def turn_elements(table: Table, number_seconds: float = 0.0, most: int = sys.maxsize) -> int:
    """Return how many elements of a table a turn computes.

    The number is a multiple of the table's ``least_elements``, because a part of those takes as
    long as all of them.

    Args:
        table: the table.
        number_seconds: the processor seconds that each element takes once it is computed.
        most: the most elements, where that is a multiple.
    """
    least: int = getattr(table, "least_elements", 1)
    elements = min(most, int(TURN_SECONDS / (table.element_seconds + number_seconds)))
    return max(least, elements - elements % least)


STEP_ELEMENTS = 2**17
"""Elements of one step of a computation: few enough to stay in a core's own cache."""


def row_steps(rows: int, row_elements: int) -> Iterator[slice]:
    """Yield slices that cover range(rows), each of bounded size but at least one row."""
    step = max(1, STEP_ELEMENTS // row_elements)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def row_ranges(start: int, stop: int, row_elements: int) -> Iterator[tuple[range, range]]:
    """Split a flat range over rows into blocks of bounded size: whole rows, or a part of one.

    Each block is the range of rows, and the range of elements in each of them.
    """
    while start < stop:
        row, first = divmod(start, row_elements)
        most = min(stop - start, STEP_ELEMENTS)
        whole = 0 if first else most // row_elements
        last = row_elements if whole else min(first + most, row_elements)
        yield range(row, row + max(whole, 1)), range(first, last)
        start += max(whole, 1) * (last - first)


def read_blocks(
    start: int,
    stop: int,
    row_elements: int,
    dtype: DType,
    fill: Callable[[range, range, Elements], None],
) -> Elements:
    """Return the flat elements start to stop of rows, filled block by block as ``row_ranges`` says.

    Args:
        start: the first element.
        stop: the end.
        row_elements: the number of elements in a row.
        dtype: of the elements.
        fill: fills a block, (rows, columns), of some rows and some columns.
    """
    elements = np.empty(stop - start, dtype=dtype.storage)
    done = 0
    for rows, columns in row_ranges(start, stop, row_elements):
        block = elements[done : done + len(rows) * len(columns)]
        fill(rows, columns, block.reshape(len(rows), len(columns)))
        done += len(block)
    return elements


def all_read_finite(table: Table) -> bool:
    """Return whether all numbers are finite; computes them, up to the first that is not."""
    steps = row_steps(size(table), 1)
    return all(all_finite(table.read(step.start, step.stop), table.dtype) for step in steps)


@dataclass(frozen=True, eq=False)
class FormulaTable:
    """A table of rows that a function evaluates, block by block.

    Attributes:
        shape: the length of each axis.
        dtype: the type to which each number is rounded once.
        row_elements: the number of elements in a row.
        evaluate: returns some columns of some rows, float64 or int64 (rows, columns).
        element_seconds: the processor seconds of an element.
        setup: what the function needs.
        overflows: whether a number may be too large for the type.
        least_elements: those that the function only computes together.
    """

    shape: tuple[int, ...]
    dtype: DType
    row_elements: int
    evaluate: Callable[[range, range], Elements]
    element_seconds: float = ELEMENT_SECONDS
    setup: Setup = NO_SETUP
    overflows: bool = False
    least_elements: int = 1

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.row_elements, self.dtype, self._fill)

    def _fill(self, rows: range, columns: range, block: Elements) -> None:
        round_numbers_into(self.evaluate(rows, columns), block, self.dtype)


def _floats(numbers: list[Decimal]) -> Float64s:
    return np.array([float(number) for number in numbers])


@dataclass(frozen=True, eq=False)
class DecimalTable:
    """A list of decimals, or a single one of shape (), each rounded to float64.

    Attributes:
        shape: (n,) or ().
        exact: computes the decimals.
        number_seconds: the processor seconds of computing and rounding one.
    """

    shape: tuple[int, ...]
    exact: Callable[[], Iterable[Decimal]]
    number_seconds: float = FREQUENCY_SECONDS

    dtype = FLOAT64
    element_seconds = ELEMENT_SECONDS

    @cached_property
    def setup(self) -> OwnSetup[Float64s]:
        return OwnSetup(self._rounded, self.number_seconds * prod(self.shape))

    def _rounded(self) -> Steps[Float64s]:
        parts = yield from convert_decimals(self.exact(), _floats, self.number_seconds)
        return np.concatenate(parts)

    def read(self, start: int, stop: int) -> Elements:
        return self.setup.get()[start:stop]


@dataclass(frozen=True, eq=False)
class DerivedTable:
    """A base of tables that read the elements of another one, at the same cost."""

    table: Table

    @property
    def dtype(self) -> DType:
        return self.table.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape

    @property
    def element_seconds(self) -> float:
        return self.table.element_seconds

    @property
    def setup(self) -> Setup:
        return setup_of(self.table)


# The processor seconds of copying an element of a column, and of reading one column alone.
_COPIED_SECONDS = 1e-9
_READ_SECONDS = 8e-5


@dataclass(frozen=True, eq=False)
class ColumnsTable(DerivedTable):
    """Selected places along an axis of a table, in any order, copied bit for bit."""

    axis: int
    places: AnyPositions

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.table.shape
        return (*shape[: self.axis], self.places.count, *shape[self.axis + 1 :])

    @cached_property
    def _row(self) -> tuple[int, int]:
        """The places along the axis, and the elements at each of them."""
        return self.table.shape[self.axis], prod(self.table.shape[self.axis + 1 :])

    @property
    def _has_long_rows(self) -> bool:
        """True if each place is read alone; those of a short row are copied out of all of it."""
        return prod(self._row) > STEP_ELEMENTS

    @property
    def element_seconds(self) -> float:
        width, inner = self._row
        if self._has_long_rows:
            return self.table.element_seconds + _READ_SECONDS / inner
        return self.table.element_seconds * width / self.places.count + _COPIED_SECONDS

    @property
    def least_elements(self) -> int:
        return 1 if self._has_long_rows else prod(self.shape[self.axis :])

    @property
    def overflows(self) -> bool:
        return overflows(self.table)

    def read(self, start: int, stop: int) -> Elements:
        inner, count = self._row[1], self.places.count
        if self._has_long_rows:
            return read_blocks(start, stop, inner, self.dtype, self._fill_places)
        return read_blocks(start, stop, count * inner, self.dtype, self._fill_rows)

    def _fill_rows(self, rows: range, columns: range, block: Elements) -> None:
        elements, chosen = prod(self._row), self.places.at(0, self.places.count)
        for part in row_steps(len(rows), elements):
            start, stop = rows.start + part.start, rows.start + part.stop
            whole = self.table.read(start * elements, stop * elements).reshape(-1, *self._row)
            kept = whole[:, chosen].reshape(stop - start, -1)
            block[part] = kept[:, columns.start : columns.stop]

    def _fill_places(self, places: range, inner: range, block: Elements) -> None:
        width, length = self._row
        for number, place in enumerate(places):
            outer, chosen = divmod(place, self.places.count)
            first = (outer * width + int(self.places.at(chosen, chosen + 1)[0])) * length
            block[number] = self.table.read(first + inner.start, first + inner.stop)


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table over elements in memory: an array that a client sent.

    Attributes:
        elements: an array with one axis at least, in any memory order; that of an integer table
            may have any integer type.
    """

    elements: Elements
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    @property
    def element_seconds(self) -> float:
        return ELEMENT_SECONDS

    def read(self, start: int, stop: int) -> Elements:
        if self.elements.flags.c_contiguous:
            return np.asarray(self.elements.reshape(-1)[start:stop], dtype=self.dtype.storage)

        def fill(rows: range, columns: range, block: Elements) -> None:
            block[...] = self.part(rows, columns)

        return read_blocks(start, stop, self.shape[-1], self.dtype, fill)

    def part(self, rows: range, columns: range) -> Elements:
        """Return columns (last axis) of rows, counted along all other axes: (rows, columns)."""
        leading, some = self.shape[:-1], self.elements[..., columns.start : columns.stop]
        if self.elements.flags.c_contiguous:
            return some.reshape(prod(leading), len(columns))[rows.start : rows.stop]
        # Reshaped, an array in another memory order would be copied whole.
        return some[np.unravel_index(np.arange(rows.start, rows.stop), leading)]

    def in_order(self) -> "StoredTable":
        """Return the same table with elements of its type in C order, copied if they are not."""
        elements = np.ascontiguousarray(self.elements, dtype=self.dtype.storage)
        return StoredTable(elements, self.dtype)


# Whole parts of rows of this many elements are counted once.
_COUNTED = 2**15


@dataclass(frozen=True, eq=False)
class RunningCount:
    """The tokens so far in each row of an array, counted without reading rows from their start.

    Attributes:
        source: integers, (…, length).
        excluded: the integer that is no token.
    """

    source: StoredTable
    excluded: int
    _known: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def at(self, start: int, stop: int) -> tuple[Int64s, NDArray[np.bool_]]:
        """Return, for flat elements, how many tokens their row has up to each; and the tokens."""
        length = self.source.shape[-1]
        is_token = self.source.read(start, stop) != self.excluded
        counts = np.cumsum(is_token, dtype=np.int64)
        ends = np.arange(length - start % length, len(counts), length)
        before = np.concatenate([[-self._before(start)], counts[ends - 1]])
        each = np.diff(ends, prepend=0, append=len(counts))
        return counts - np.repeat(before, each), is_token

    def _before(self, stop: int) -> int:
        """Return how many tokens lie before an element in its row."""
        total, first = 0, stop - stop % self.source.shape[-1]
        while first < stop:
            last = min(first + _COUNTED, stop)
            count = self._known.get(first) if last < stop else None
            if count is None:
                count = int(np.count_nonzero(self.source.read(first, last) != self.excluded))
                if last == first + _COUNTED:
                    self._known[first] = count
            total, first = total + count, last
        return total


# Integers whose range is less than this many times their count are not sorted: the whole range
# is used.
_DENSE = 2


def distinct_integers(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return integers (m,) that include all of numbers (n,), and the index of each number there.

    The integers are sorted, and at most twice as many as the numbers.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _DENSE * len(numbers):
        return np.arange(low, high + 1, dtype=np.int64), numbers - low
    return np.unique(numbers, return_inverse=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class GatheredTable(StoredTable):
    """A row of an array for each integer of an index table, copied bit for bit.

    Attributes:
        index: the row of each query and key, int64.
        heads_lead: whether the columns of the array, one for each head, come before the axes of
            the index, or after them.
    """

    index: Table
    heads_lead: bool

    @property
    def shape(self) -> tuple[int, ...]:
        columns = self.elements.shape[1:]
        return (*columns, *self.index.shape) if self.heads_lead else (*self.index.shape, *columns)

    @property
    def is_finite(self) -> bool:
        """True if the array is finite, of which the table may have some rows only."""
        return all_finite(self.elements, self.dtype)

    @property
    def element_seconds(self) -> float:
        # Every head reads the index anew.
        return self.index.element_seconds

    def read(self, start: int, stop: int) -> Elements:
        if self.heads_lead:
            return read_blocks(start, stop, size(self.index), self.dtype, self._fill_heads)
        width = prod(self.elements.shape[1:])
        first, last = start // width, -(-stop // width)
        rows = self.elements[self.index.read(first, last)].reshape(-1)
        return np.asarray(rows[start - first * width : stop - first * width])

    def _fill_heads(self, heads: range, places: range, found: Elements) -> None:
        index = self.index.read(places.start, places.stop)
        columns = self.elements.reshape(len(self.elements), -1)
        columns = columns[:, heads.start : heads.stop]
        if len(found) > len(index):
            found[...] = columns[index].T
            return
        # Each column is indexed in place: take() would copy all columns first.
        for number, row in enumerate(found):
            row[...] = columns[:, number][index]


def gather_biases(weight: StoredTable, index: Table, head: int | None) -> GatheredTable:
    """Return what a table of biases adds to the scores of each head, (heads, …), or of one head.

    Args:
        weight: a row for each number, a column for each head.
        index: the number of every query and key.
        head: one column, counted from 0; all of them unless given.
    """
    elements = weight.elements if head is None else weight.elements[:, head]
    return GatheredTable(elements, weight.dtype, index=index, heads_lead=True)


def gather_rows(weight: StoredTable, index: Table) -> GatheredTable:
    """Return the row of a table for every query and key, (…, channels)."""
    return GatheredTable(weight.elements, weight.dtype, index=index, heads_lead=False)


def axis_names(known: Sequence[str], rank: int) -> tuple[str, ...]:
    """Return the names of so many axes: those known if they are as many, else row, column, …."""
    others = (f"axis {axis}" for axis in range(3, rank))
    return (*known,) if len(known) == rank else ("row", "column", "value", *others)[:rank]


ParameterValue: TypeAlias = str | int | float | bool | tuple[float, ...]
Curves: TypeAlias = Literal["rows", "columns"]


@dataclass(frozen=True)
class Caution:
    """A warning about the numbers of a document: a code, and a sentence."""

    code: str
    detail: str


@dataclass(frozen=True)
class Document:
    """Tables that are served together, described before any number of them is computed.

    Attributes:
        kind: the kind of table: the path of its family, with hyphens.
        parameters: every parameter that affects these numbers, in canonical form and order. Two
            documents of a kind with equal parameters are equal to the last bit.
        arrays: the tables by name; most documents have one.
        layout: the order of channels that the rows go with, or ``any``; None if they have none.
        pack: the name of the packing of a rotary table.
        has_parts: whether a client may request one of several arrays alone.
        error_bound: a bound of the distance from the formula, where the numbers are not its
            nearest values.
        axes: what the axes of the single table count, in order.
        states_axes: whether the order of the axes is part of a convention, so that the response
            names them.
        curves: whether rows or columns are the curves of a picture; None for a heat map.
        places: the positions along an axis, by its name, if the parameters do not contain them.
        removable: the parameter that removes an axis from the table, by the name of the axis.
        revision: the revision of the bytes of this kind of table.
        warnings: what a client should know of these numbers.
        details: further members of the JSON, which no other format holds.
    """

    kind: str
    parameters: Mapping[str, ParameterValue]
    arrays: Mapping[str, Table]
    has_parts: bool = False
    layout: str | None = None
    pack: str | None = None
    error_bound: float | None = None
    axes: tuple[str, ...] = ()
    states_axes: bool = False
    curves: Curves | None = None
    places: Mapping[str, Positions] = field(default_factory=dict)
    removable: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1
    warnings: tuple[Caution, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the tables, or None where they differ."""
        shapes = {table.shape for table in self.arrays.values()}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def dtype(self) -> str | None:
        """The name of the tables' element type, or None where they differ."""
        names = {table.dtype.name for table in self.arrays.values()}
        return names.pop() if len(names) == 1 else None

    @property
    def channel_axis(self) -> int | None:
        """The index of the axis of channels, or of pairs that have one real number each."""
        names = [axis.partition("(")[0] for axis in self.axes]
        if "channel" in names:
            return names.index("channel")
        is_real = self.dtype not in {each.name for each in COMPLEX_DTYPES}
        return len(names) - 1 if names[-1:] == ["pair"] and is_real else None

    @property
    def seconds(self) -> float:
        """The processor seconds of computing all of it, without the setup."""
        return sum(seconds(table) for table in self.arrays.values())

    @property
    def setup_seconds(self) -> float:
        """The processor seconds of what is computed before the first number."""
        return sum(setup_of(table).seconds for table in self.arrays.values())

    def part(self, name: str) -> "Document":
        """Return the document of one of several tables; its name becomes a parameter."""
        parameters, arrays = {**self.parameters, "part": name}, {name: self.arrays[name]}
        return replace(self, parameters=parameters, arrays=arrays, has_parts=False)
