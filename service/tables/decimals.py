"""Exact numbers, one or a short list, as tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import prod

from service.tables.dtypes import FLOAT64, DType, Elements
from service.tables.table import FREQUENCY_WORK, RowTable


@dataclass(frozen=True, eq=False)
class DecimalTable(RowTable):
    """A short list of decimals, or one alone, each rounded once to float64.

    Attributes:
        shape: the length of the list; empty for a number alone.
        exact: evaluates them.
        dtype: float64.
    """

    shape: tuple[int, ...]
    exact: Callable[[], Sequence[Decimal]]
    dtype: DType = FLOAT64

    @property
    def setup_work(self) -> int:
        """All of them."""
        return FREQUENCY_WORK * self.row_width

    @property
    def row_width(self) -> int:
        """All of it is one row."""
        return prod(self.shape)

    def fill(self, first: int, rows: Elements) -> None:  # noqa: ARG002
        """Evaluate the list."""
        rows[0] = [float(value) for value in self.exact()]
