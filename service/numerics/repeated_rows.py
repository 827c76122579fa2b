"""Tables whose rows repeat a few distinct ones: each of those is computed and rounded once.

A row of a grid consists of one row for each axis: with zero bits in the channels of the other
axes, it is their bitwise OR, whatever the element type and the order of channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.numerics.dtypes import Elements
from service.numerics.positions import RowPositions
from service.numerics.setups import OwnSetup, Setup, Setups, Steps, setup_of
from service.numerics.tables import (
    DerivedTable,
    Table,
    read_blocks,
    seconds,
    size,
    turn_elements,
)

MAX_KEPT_BYTES = 16 * 2**20
"""The most memory of the distinct rows of a table."""

# The processor seconds of a byte of a row that is copied, or combined with another one.
_COPIED_SECONDS = 1.5e-10

# The processor seconds of finding the distinct row of a row.
_INDEX_SECONDS = 3e-9

# The bytes of rows that are combined together: they stay in a core's cache.
_STEP_BYTES = 2**17


RowTable = TypeVar("RowTable", bound=Table)


@dataclass(frozen=True, eq=False)
class RepeatedPart:
    """The distinct rows of some of the columns of a table, and which of them each row has.

    Attributes:
        rows: the distinct rows, (n, columns).
        index: the number of the distinct row for each row.
        columns: the columns in the whole row; all of them unless given.
    """

    rows: Table
    index: RowPositions
    columns: NDArray[np.intp] | None = None


@dataclass(frozen=True, eq=False)
class RepeatedRows(DerivedTable):
    """A table of the bytes of another one whose distinct rows are computed before the first one.

    Attributes:
        table: the other one, which computes every row.
        width: the number of elements in a row.
        parts: the distinct rows; each column is in one of the parts, or is zero.
    """

    width: int
    parts: tuple[RepeatedPart, ...]

    @property
    def element_seconds(self) -> float:
        copied = _COPIED_SECONDS * self.dtype.itemsize_bytes
        return len(self.parts) * (copied + _INDEX_SECONDS / self.width)

    @cached_property
    def setup(self) -> Setup:
        own = (setup_of(part.rows) for part in self.parts)
        return Setups((*own, self._kept))

    @cached_property
    def _kept(self) -> OwnSetup[tuple[Elements, ...]]:
        return OwnSetup(self._computed, sum(seconds(part.rows) for part in self.parts))

    def _computed(self) -> Steps[tuple[Elements, ...]]:
        """Return the distinct rows of each part, (n, width), with zeros in other columns."""
        kept = []
        for part in self.parts:
            elements = np.empty(size(part.rows), dtype=self.dtype.storage)
            step = turn_elements(part.rows)
            for start in range(0, len(elements), step):
                stop = min(start + step, len(elements))
                elements[start:stop] = part.rows.read(start, stop)
                yield
            rows = elements.reshape(part.rows.shape)
            if part.columns is not None:
                rows = np.zeros((len(rows), self.width), dtype=self.dtype.storage)
                rows[:, part.columns] = elements.reshape(part.rows.shape)
            kept.append(rows)
        return tuple(kept)

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.width, self.dtype, self.fill)

    def fill(self, rows: range, columns: range, block: Elements) -> None:
        """Write consecutive columns of consecutive rows into block (rows, columns)."""
        if block.flags.c_contiguous and len(columns) == self.width:
            # Whole rows are combined in the longest words that they consist of.
            word = np.dtype(f"u{gcd(8, self.width * self.dtype.itemsize_bytes)}")
            self._combine(rows, [kept.view(word) for kept in self._kept.get()], block.view(word))
            return
        word = np.dtype(f"u{self.dtype.itemsize_bytes}")
        block = block.view(word)
        block[...] = 0
        for part, kept in zip(self.parts, self._kept.get(), strict=True):
            some = kept[:, columns.start : columns.stop].view(word)
            if some.any():
                index = part.index.at(rows.start, rows.stop)
                block |= some.T.take(index, axis=1, mode="clip").T

    def _combine(self, rows: range, kept: list[NDArray[Any]], block: NDArray[Any]) -> None:
        indices = [part.index.at(rows.start, rows.stop) for part in self.parts]
        step = max(1, _STEP_BYTES // (block.shape[1] * block.itemsize))
        for first in range(0, len(rows), step):
            some = block[first : first + step]
            # The indices are in range: mode="clip" skips the check.
            kept[0].take(indices[0][first : first + step], axis=0, out=some, mode="clip")
            for distinct, index in zip(kept[1:], indices[1:], strict=True):
                some |= distinct.take(index[first : first + step], axis=0, mode="clip")


def without_repeats(
    table: RowTable, width: int, parts: Sequence[RepeatedPart]
) -> RowTable | RepeatedRows:
    """Return a table of the same bytes that computes distinct rows once, if they are few.

    They are if they are at most half of all rows, and take little memory.
    """
    distinct = sum(part.rows.shape[0] for part in parts) * width
    is_little = distinct * table.dtype.itemsize_bytes <= MAX_KEPT_BYTES
    is_worthwhile = parts and 2 * distinct <= size(table) and is_little
    return RepeatedRows(table, width, tuple(parts)) if is_worthwhile else table
