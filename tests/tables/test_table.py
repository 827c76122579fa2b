"""The waist: any range of flat elements, whatever the rows."""

from dataclasses import dataclass

import numpy as np
import pytest

from service.tables.dtypes import FLOAT32, FLOAT64, DType, Elements
from service.tables.table import RowTable, StoredTable, Table, size, size_bytes


@dataclass(frozen=True)
class Counting(RowTable):
    """Every element is its own number."""

    shape: tuple[int, ...] = (4, 3)
    dtype: DType = FLOAT64

    @property
    def row_width(self) -> int:
        return 3

    def fill(self, first: int, rows: Elements) -> None:
        rows[...] = np.arange(3 * first, 3 * first + rows.size).reshape(rows.shape)


@pytest.mark.parametrize("table", [Counting(), StoredTable(np.arange(12.0).reshape(4, 3), FLOAT64)])
def test_every_range_is_read_in_order(table: Table) -> None:
    for start in range(12):
        for stop in range(start, 13):
            assert list(range(start, stop)) == table.read(start, stop).tolist()


def test_sizes_are_counted_from_the_shape() -> None:
    table = StoredTable(np.zeros((2, 3, 5), dtype="<f4"), FLOAT32)

    assert (size(table), size_bytes(table)) == (30, 120)
