"""Columns of a table, and documents that say what is a curve."""

import numpy as np
import pytest

from service.tables.curves import ColumnsTable, curves
from service.tables.document import Document
from service.tables.dtypes import FLOAT32, INT64, Elements
from service.tables.positions import Positions, Run
from service.tables.table import StoredTable


class Flat:
    """A matrix of its own flat indices."""

    dtype = INT64
    work_per_element = 3
    shape = (9, 5)

    def read(self, start: int, stop: int) -> Elements:
        return np.arange(start, stop, dtype=np.int64)


COLUMNS = Positions.of_runs([Run(4, 1, 1), Run(0, 1, 2)])


@pytest.mark.parametrize(("start", "stop"), [(0, 27), (0, 1), (4, 20), (26, 27), (7, 8)])
def test_any_part_of_chosen_columns_has_their_elements(start: int, stop: int) -> None:
    table = ColumnsTable(Flat(), COLUMNS)

    whole = np.arange(45).reshape(9, 5)[:, [4, 0, 1]]
    assert table.shape == (9, 3)
    assert table.dtype is INT64
    assert table.read(start, stop).tolist() == whole.reshape(-1)[start:stop].tolist()


def test_an_element_takes_its_share_of_the_work_of_a_row() -> None:
    assert ColumnsTable(Flat(), COLUMNS).work_per_element == 5
    assert ColumnsTable(Flat(), Positions.contiguous(0, 1)).work_per_element == 15


def encoding() -> Document:
    table = StoredTable(np.arange(6, dtype="<f4").reshape(2, 3), FLOAT32)
    return Document("encoding", {"d_model": 3, "batch": False}, {"encoding": table})


def test_dimensions_are_curves_down_the_columns() -> None:
    document = curves(encoding(), Positions.contiguous(1, 2))

    (table,) = document.arrays.values()
    assert table.read(0, 4).tolist() == [1, 2, 4, 5]
    assert document.parameters == {"d_model": 3, "dimensions": "1,2"}
    assert (document.curves, document.axes) == ("columns", ("position", "dimension"))
    assert document.kind == "encoding-curves"


def test_positions_are_curves_along_the_rows() -> None:
    document = curves(encoding(), None)

    (table,) = document.arrays.values()
    assert table.read(0, 6).tolist() == [0, 1, 2, 3, 4, 5]
    assert document.parameters == {"d_model": 3}
    assert (document.curves, document.axes) == ("rows", ("position", "dimension"))
