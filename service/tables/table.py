"""The narrow waist of the whole system: arrays that are described at once, computed by parts."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np

from service.tables.dtypes import DType, Elements


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


def steps(rows: int, row_elements: int) -> Iterator[slice]:
    """Cut a number of rows into steps of bounded size, each a slice of one row at least."""
    step = max(1, STEP_ELEMENTS // row_elements)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def rounds(start: int, stop: int, row_elements: int) -> Iterator[tuple[range, range]]:
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
