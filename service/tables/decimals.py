"""Short lists of exact numbers as tables."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from service.tables.dtypes import FLOAT64, DType, Elements
from service.tables.table import RowTable


@dataclass(frozen=True, eq=False)
class DecimalTable(RowTable):
    """A short list of decimals, each rounded once to float64."""

    count: int
    exact: Callable[[], list[Decimal]]
    dtype: DType = FLOAT64

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of the list."""
        return (self.count,)

    @property
    def row_width(self) -> int:
        """The whole list is one row."""
        return self.count

    def fill(self, first: int, rows: Elements) -> None:  # noqa: ARG002
        """Evaluate the list."""
        rows[0] = [float(value) for value in self.exact()]
