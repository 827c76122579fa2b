"""Tables whose rows repeat a few distinct ones: each of those is computed once, and copied."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from service.numerics.dtypes import DType, Elements
from service.numerics.setups import OwnSetup, Setup, Setups, Steps, setup_of
from service.numerics.tables import (
    Table,
    read_blocks,
    seconds,
    size,
    size_bytes,
    turn_elements,
)

MAX_KEPT_BYTES = 16 * 2**20
"""The most memory of the distinct rows of a table."""


# The processor seconds of a byte of copied rows, and of those whose columns are put in order.
_COPIED_SECONDS = 3e-10
_ORDERED_SECONDS = 8e-10


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """A table with copies of distinct rows, which are computed before the first element.

    Attributes:
        parts: the distinct rows of some of the columns, and the number of each row's (rows,).
        shape: any whose size is rows × columns.
        order: the column of each of the parts' columns, one part after the other; as they are
            unless given.
    """

    parts: tuple[tuple[Table, NDArray[np.intp]], ...]
    shape: tuple[int, ...]
    order: tuple[int, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.parts[0][0].dtype

    @property
    def element_seconds(self) -> float:
        return (_ORDERED_SECONDS if self.order else _COPIED_SECONDS) * self.dtype.itemsize_bytes

    @property
    def is_worthwhile(self) -> bool:
        """True if the distinct rows take little memory."""
        return sum(size_bytes(table) for table, _ in self.parts) <= MAX_KEPT_BYTES

    @cached_property
    def _width(self) -> int:
        return sum(table.shape[-1] for table, _ in self.parts)

    @cached_property
    def setup(self) -> Setup:
        own = (setup_of(table) for table, _ in self.parts)
        return Setups((*own, self._rows))

    @cached_property
    def _rows(self) -> OwnSetup[tuple[Elements, ...]]:
        return OwnSetup(self._computed, sum(seconds(table) for table, _ in self.parts))

    def _computed(self) -> Steps[tuple[Elements, ...]]:
        kept = []
        for table, _ in self.parts:
            elements = np.empty(size(table), dtype=self.dtype.storage)
            step = turn_elements(table)
            for start in range(0, len(elements), step):
                stop = min(start + step, len(elements))
                elements[start:stop] = table.read(start, stop)
                yield
            kept.append(elements.reshape(table.shape))
        return tuple(kept)

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self._width, self.dtype, self._fill)

    def _fill(self, rows: range, columns: range, block: Elements) -> None:
        kept = self._rows.get()
        indices = [index[rows.start : rows.stop] for _, index in self.parts]
        # The indices are in range: mode="clip" skips the check, and a copy of the block.
        if not self.order and len(columns) == self._width:
            kept[0].take(indices[0], axis=0, out=block, mode="clip")
            return
        whole = [part.take(index, axis=0) for part, index in zip(kept, indices, strict=True)]
        joined = np.concatenate(whole, axis=1)
        some = self._columns[columns.start : columns.stop]
        joined.take(some, axis=1, out=block, mode="clip")

    @cached_property
    def _columns(self) -> NDArray[np.intp]:
        """The column of the joined parts for each column."""
        return np.argsort(self.order) if self.order else np.arange(self._width)
