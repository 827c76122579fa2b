"""Rows of an array that was sent, looked up by the numbers of a table: the biases of attention."""

from dataclasses import dataclass
from math import prod

import numpy as np

from service.tables.dtypes import DType, Elements, all_finite
from service.tables.table import StoredTable, Table, rounds, setup_work, size


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
        for heads, pairs in rounds(start, stop, size(self.index)):
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


def biases(weight: StoredTable, index: Table, head: int | None) -> GatheredTable:
    """Give what a table adds to the scores of each head, (heads, …), or of one head alone.

    Args:
        weight: a row for each number, a column for each head.
        index: the number of every query and key.
        head: one column, counted from 0; all of them unless given.
    """
    elements = weight.elements if head is None else weight.elements[:, head]
    return _gathered(elements, weight.dtype, index, heads_lead=True)


def embeddings(weight: StoredTable, index: Table) -> GatheredTable:
    """Give the row of a table for every query and key, (…, channels).

    Args:
        weight: a row for each number.
        index: the number of every query and key.
    """
    return _gathered(weight.elements, weight.dtype, index, heads_lead=False)


def _gathered(elements: Elements, dtype: DType, index: Table, *, heads_lead: bool) -> GatheredTable:
    is_finite = all_finite(elements, dtype)
    return GatheredTable(elements, dtype, is_finite, index=index, heads_lead=heads_lead)
