"""Tables of grids with the channels before the tokens, as convolutions have them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.tables.dtypes import DType, Elements
from service.tables.sincos_grid import GridTable
from service.tables.table import STEP_ELEMENTS, setup_work


@dataclass(frozen=True, eq=False)
class ChannelsFirstTable:
    """The same elements with the channels before the tokens.

    Attributes:
        table: the rows of tokens.
        rows: how many there are.
        shape: any whose size is channels × rows.
    """

    table: GridTable
    rows: int
    shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.table.dtype

    @property
    def work_per_element(self) -> int:
        """As much as with the channels last."""
        return self.table.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the rows."""
        return setup_work(self.table)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        for channels, first, last in self._pieces(start, stop):
            piece = self.table.part(first, last, channels).T.reshape(-1)
            at = channels.start * self.rows + first - start
            begin, end = max(at, 0), min(at + len(piece), stop - start)
            elements[begin:end] = piece[begin - at : end - at]
        return elements

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[range, int, int]]:
        """Cut a range into whole channels, several at a time, or parts of one."""
        together = STEP_ELEMENTS // self.rows
        if together:
            channels = range(self.table.width)
            for group in range(start // self.rows // together, -(-stop // self.rows // together)):
                yield channels[group * together : (group + 1) * together], 0, self.rows
            return
        while start < stop:
            channel, first = divmod(start, self.rows)
            last = min(first + STEP_ELEMENTS, self.rows, first + stop - start)
            yield range(channel, channel + 1), first, last
            start += last - first
