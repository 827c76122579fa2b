"""The narrow waist of the whole system: arrays that are described at once, computed by parts.

Exact numbers, one or a short list, as tables.

Integers of which many are equal, so that what they are worth is evaluated once.

Rows of an array that was sent, looked up by the numbers of a table: the biases of attention.

What a request names: tables under their names, with everything that fixes their numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import prod
from typing import Protocol

import numpy as np

from service.numerics.dtypes import FLOAT64, DType, Elements, all_finite
from service.numerics.phase import Int64s


class Table(Protocol):
    """An array that nothing stores: its shape and type are known, its elements are computed.

    Making one costs nothing, whatever its size; ``read`` may be called from any thread.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> DType:
        """Type of the elements."""

    @property
    def work_per_element(self) -> int:
        """How many sines, or as much work, an element takes."""

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop, in C order: shape (stop - start,).

        An element has the same bytes whichever range asks for it.
        """


def setup_work(table: object) -> int:
    """Count what comes before the first element of a table where nobody has asked for it before.

    That is nothing, unless the table has a ``setup_work`` that says how much at most: numbers of
    many digits that are evaluated first, each as FREQUENCY_WORK.
    """
    # Every answer asks: to test for a protocol takes ten times as long.
    work: int = getattr(table, "setup_work", 0)
    return work


def overflows(table: object) -> bool:
    """Tell, before any is computed, whether numbers of a table may be too large for its type.

    They are not, unless the table has an ``overflows`` that says so: they are infinite then.
    """
    says: bool = getattr(table, "overflows", False)
    return says


FREQUENCY_WORK = 2**8
"""What a frequency counts for before the first element.

It takes ten times as much in sines, or more; but it is kept, and the widths of models, up to 1024
frequencies, are not to wait behind long work for these some 20 ms.
"""


def size(table: Table) -> int:
    """Count the elements of a table."""
    return prod(table.shape)


def size_bytes(table: Table) -> int:
    """Count the bytes of a table."""
    return size(table) * table.dtype.itemsize_bytes


def work(table: Table) -> int:
    """Count what computing all of a table takes, in sines."""
    return size(table) * table.work_per_element


STEP_ELEMENTS = 2**17
"""How many a computation goes through at a time: few enough to stay in a core's own cache."""


def row_steps(rows: int, row_elements: int) -> Iterator[slice]:
    """Cut a number of rows into steps of bounded size, each a slice of one row at least."""
    step = max(1, STEP_ELEMENTS // row_elements)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def row_ranges(start: int, stop: int, row_elements: int) -> Iterator[tuple[range, range]]:
    """Cut a flat range over rows into steps of bounded size: whole rows, or a part of one.

    Each is the rows, and the elements that it takes of each.
    """
    while start < stop:
        row, first = divmod(start, row_elements)
        most = min(stop - start, STEP_ELEMENTS)
        whole = 0 if first else most // row_elements
        last = row_elements if whole else min(first + most, row_elements)
        yield range(row, row + max(whole, 1)), range(first, last)
        start += max(whole, 1) * (last - first)


class RowTable(ABC):
    """A table that is filled by rows, the unit in which its numbers are cheapest to make."""

    dtype: DType

    @property
    def work_per_element(self) -> int:
        """As much as a sine."""
        return 1

    @property
    @abstractmethod
    def row_width(self) -> int:
        """Elements in one row."""

    @abstractmethod
    def fill(self, first: int, rows: Elements) -> None:
        """Fill rows with the table's from the one numbered first on; rows is (n, row_width)."""

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        width = self.row_width
        first, last = start // width, -(-stop // width)
        rows = np.empty((last - first, width), dtype=self.dtype.storage)
        self.fill(first, rows)
        return rows.reshape(-1)[start - first * width : stop - first * width]


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table over elements that exist: an array that somebody sent, or a result computed from it.

    Attributes:
        elements: the array.
        dtype: its element type.
        is_finite: False where an element is known to be infinite or NaN.
    """

    elements: Elements
    dtype: DType
    is_finite: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.elements.shape

    @property
    def work_per_element(self) -> int:
        """As little as a copy."""
        return 1

    def read(self, start: int, stop: int) -> Elements:
        """Give the flat elements start to stop."""
        return self.elements.reshape(-1)[start:stop]


@dataclass(frozen=True, eq=False)
class DecimalTable(RowTable):
    """A short list of decimals, or one alone, each rounded once to float64.

    Attributes:
        shape: the length of the list; empty for a number alone.
        exact: evaluates them.
        dtype: float64.
    """

    shape: tuple[int, ...]
    exact: Callable[[], Sequence[Decimal]]
    dtype: DType = FLOAT64

    @property
    def setup_work(self) -> int:
        """All of them."""
        return FREQUENCY_WORK * self.row_width

    @property
    def row_width(self) -> int:
        """All of it is one row."""
        return prod(self.shape)

    def fill(self, first: int, rows: Elements) -> None:  # noqa: ARG002
        """Evaluate the list."""
        rows[0] = [float(value) for value in self.exact()]


# Of integers spread no wider than this many times their number, all between are given: that takes
# no sorting.
_DENSE = 2


def distinct_integers(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Give integers (m,) among which all of numbers (n,) are, and the place of each there (n,).

    The integers rise, and are at most twice as many as the numbers.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _DENSE * len(numbers):
        return np.arange(low, high + 1, dtype=np.int64), numbers - low
    return np.unique(numbers, return_inverse=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class GatheredTable(StoredTable):
    """The row of an array for each number of a table, copied bit for bit.

    Attributes:
        index: the numbers, int64, each of a row of the array.
        heads_lead: whether the columns of the array, one for each head, come before the axes of
            the index; after them unless so.
    """

    index: Table
    heads_lead: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the index, with the columns before or after it."""
        columns = self.elements.shape[1:]
        return (*columns, *self.index.shape) if self.heads_lead else (*self.index.shape, *columns)

    @property
    def work_per_element(self) -> int:
        """As much as the index, where every head reads it anew."""
        return self.index.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the index."""
        return setup_work(self.index)

    def read(self, start: int, stop: int) -> Elements:
        """Look up the flat elements start to stop."""
        if self.heads_lead:
            return self._of_heads(start, stop)
        width = prod(self.elements.shape[1:])
        first, last = start // width, -(-stop // width)
        rows = self.elements[self.index.read(first, last)].reshape(-1)
        return np.asarray(rows[start - first * width : stop - first * width])

    def _of_heads(self, start: int, stop: int) -> Elements:
        columns = self.elements.reshape(len(self.elements), -1)
        found = np.empty(stop - start, dtype=self.dtype.storage)
        done = 0
        for heads, pairs in row_ranges(start, stop, size(self.index)):
            index = self.index.read(pairs.start, pairs.stop)
            room = found[done : done + len(heads) * len(pairs)]
            _look_up(columns[:, heads.start : heads.stop], index, room.reshape(len(heads), -1))
            done += len(room)
        return found


def _look_up(columns: Elements, index: Elements, found: Elements) -> None:
    """Give the columns of rows (n,), one below the other: found is (columns, n).

    They are looked up in place: take() would copy whole columns.
    """
    if len(found) > len(index):
        found[...] = columns[index].T
        return
    for number, row in enumerate(found):
        row[...] = columns[:, number][index]


def gather_biases(weight: StoredTable, index: Table, head: int | None) -> GatheredTable:
    """Give what a table adds to the scores of each head, (heads, …), or of one head alone.

    Args:
        weight: a row for each number, a column for each head.
        index: the number of every query and key.
        head: one column, counted from 0; all of them unless given.
    """
    elements = weight.elements if head is None else weight.elements[:, head]
    return _gathered(elements, weight.dtype, index, heads_lead=True)


def gather_rows(weight: StoredTable, index: Table) -> GatheredTable:
    """Give the row of a table for every query and key, (…, channels).

    Args:
        weight: a row for each number.
        index: the number of every query and key.
    """
    return _gathered(weight.elements, weight.dtype, index, heads_lead=False)


def _gathered(elements: Elements, dtype: DType, index: Table, *, heads_lead: bool) -> GatheredTable:
    is_finite = all_finite(elements, dtype)
    return GatheredTable(elements, dtype, is_finite, index=index, heads_lead=heads_lead)
