"""The narrow waist of the whole system: arrays that are described at once, computed by parts."""

from abc import ABC, abstractmethod
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

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop, in C order: shape (stop - start,).

        An element has the same bytes whichever range asks for it.
        """


def size(table: Table) -> int:
    """Count the elements of a table."""
    return prod(table.shape)


def size_bytes(table: Table) -> int:
    """Count the bytes of a table."""
    return size(table) * table.dtype.itemsize_bytes


class RowTable(ABC):
    """A table that is filled by rows, the unit in which its numbers are cheapest to make."""

    dtype: DType

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
    """A table over elements that exist: results computed from an array somebody sent."""

    elements: Elements
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.elements.shape

    def read(self, start: int, stop: int) -> Elements:
        """Give the flat elements start to stop."""
        return self.elements.reshape(-1)[start:stop]
