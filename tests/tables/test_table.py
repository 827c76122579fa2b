"""The waist: any range of flat elements, whatever the rows."""

from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.channels import Channels
from service.tables.curves import ColumnsTable
from service.tables.dtypes import FLOAT32, FLOAT64, DType, Elements
from service.tables.frequencies import Geometric
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions
from service.tables.recipe import ZeroRow
from service.tables.table import (
    FREQUENCY_WORK,
    RowTable,
    StoredTable,
    Table,
    overflows,
    rounds,
    setup_work,
    size,
    size_bytes,
)


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


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 12), st.integers(1, 9))
def test_rounds_are_whole_rows_or_parts_of_one(
    start: int, length: int, width: int, step: int
) -> None:
    with mock.patch("service.tables.table.STEP_ELEMENTS", step):
        found = list(rounds(start, start + length, width))

    flat = [row * width + item for rows, items in found for row in rows for item in items]
    assert flat == list(range(start, start + length))
    for rows, items in found:
        assert len(rows) * len(items) <= step
        assert len(rows) == 1 or items == range(width)


def test_many_short_rows_are_few_rounds() -> None:
    assert len(list(rounds(1, 3 * 2**18 - 1, 3))) <= 9


def test_a_table_overflows_only_where_it_says_so() -> None:
    class Overflowing(Counting):
        @property
        def overflows(self) -> bool:
            return True

    assert overflows(Overflowing())
    assert not overflows(Counting())


def test_what_comes_first_is_nothing_unless_a_table_says_so() -> None:
    rule = Geometric(10000.0, 8, 4)
    channels = Channels(("sin", "cos"), interleaved=True, width=8)
    rows = PhasorTable(rule, channels, Positions.contiguous(0, 2), FLOAT64, (2, 8))

    assert setup_work(Counting()) == setup_work(StoredTable(np.zeros(3), FLOAT64)) == 0
    assert setup_work(rows) == 4 * FREQUENCY_WORK
    assert setup_work(ZeroRow(rows, rows.positions, 1)) == 4 * FREQUENCY_WORK
    assert setup_work(ColumnsTable(rows, Positions.contiguous(1, 2))) == 4 * FREQUENCY_WORK
