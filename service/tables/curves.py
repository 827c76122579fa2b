"""Some rows, or some columns, of an encoding: the curves it is known by."""

from dataclasses import dataclass
from functools import cached_property

from service.tables.angle import Int64s
from service.tables.document import Document
from service.tables.dtypes import DType, Elements
from service.tables.positions import Positions
from service.tables.table import RowTable, Table, setup_work, steps

MAX_CURVES = 64
"""Curves that are shown together."""


def curves(encoding: Document, dimensions: Positions | None) -> Document:
    """Describe curves of an encoding, with the numbers and the error of its table.

    Args:
        encoding: a document of one table of positions by channels, without a leading axis.
        dimensions: the channels that are a curve over the positions each, shape (positions,
            dimensions); without them each position is a curve over all channels.
    """
    (table,) = encoding.arrays.values()
    parameters = {name: value for name, value in encoding.parameters.items() if name != "batch"}
    axes = ("position", "dimension")
    if dimensions is None:
        arrays = {"curves": table}
        return Document(
            "encoding-curves", parameters, arrays, axes=axes, states_axes=True, curves="rows"
        )
    parameters["dimensions"] = str(dimensions)
    return Document(
        "encoding-curves",
        parameters,
        {"curves": ColumnsTable(table, dimensions)},
        axes=axes,
        states_axes=True,
        curves="columns",
    )


@dataclass(frozen=True, eq=False)
class ColumnsTable(RowTable):
    """Chosen columns of a matrix, the bytes of each element unchanged.

    Attributes:
        table: the matrix.
        columns: the numbers of the columns, in any order.
    """

    table: Table
    columns: Positions

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """That of the matrix."""
        return self.table.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As many rows as the matrix has, and the columns chosen."""
        return self.table.shape[0], self.row_width

    @property
    def work_per_element(self) -> int:
        """Its share of a whole row, which is read for it."""
        return -(-self.table.work_per_element * self.table.shape[1] // self.row_width)

    @property
    def setup_work(self) -> int:
        """That of the matrix."""
        return setup_work(self.table)

    @property
    def row_width(self) -> int:
        """Columns chosen."""
        return self.columns.count

    def fill(self, first: int, rows: Elements) -> None:
        """Pick the elements of rows from the one numbered first on."""
        width = self.table.shape[1]
        for part in steps(len(rows), width):
            start, stop = (first + edge for edge in (part.start, part.stop))
            whole = self.table.read(start * width, stop * width).reshape(-1, width)
            rows[part] = whole[:, self._numbers]

    @cached_property
    def _numbers(self) -> Int64s:
        return self.columns.at(0, self.columns.count)
