"""Rows of sinusoids whose convention and parameters are known: the tables of absolute encodings."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.encodings.grid.sincos import Along, ChannelBlock, GridTable, Layout
from service.numerics.axes import AxesTable, RowPositions
from service.numerics.document import ParameterValue
from service.numerics.dtypes import DType, Elements
from service.numerics.frequencies import FrequencyRule
from service.numerics.phasors import Channels, PhasorTable
from service.numerics.real_positions import AnyPositions, RealPhasorTable, RealPositions
from service.numerics.tables import RowTable, Table, setup_work


@dataclass(frozen=True, eq=False)
class Sinusoids:
    """The rows of a convention whose parameters are known.

    Attributes:
        rule: the frequencies.
        channels: the sines and cosines of a row.
        canonical: the canonical parameters, positions left out.
        scale: multiplies sines and cosines.
        offset: added to positions, which are integers unless it is 0.
        padding_idx: the position, offset included, whose row is zero.
    """

    rule: FrequencyRule
    channels: Channels
    canonical: Mapping[str, ParameterValue]
    scale: float = 1.0
    offset: int = 0
    padding_idx: int | None = None

    @property
    def width(self) -> int:
        """Channels of a row."""
        return self.channels.width

    def canonical_rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Return the canonical parameters of the positions."""
        return positions.parameters()

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the rows of positions, in any shape whose size is rows × channels."""
        if isinstance(positions, RealPositions):
            return RealPhasorTable(self.rule, self.channels, positions, dtype, shape, self.scale)
        rows = positions.moved(self.offset)
        table = PhasorTable(self.rule, self.channels, rows, dtype, shape, self.scale)
        return table if self.padding_idx is None else ZeroRow(table, rows, self.padding_idx)


@dataclass(frozen=True, eq=False)
class SpreadSinusoids(Sinusoids):
    """Rows that have no positions: n of them lie evenly from −1 to 1.

    Attributes:
        has_coordinates: whether each row begins with its place between −1 and 1.
    """

    has_coordinates: bool = False

    @property
    def width(self) -> int:
        """Channels of a row."""
        return self.channels.width + self.has_coordinates

    def canonical_rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Return the number of rows."""
        return {"seq_len": positions.count}

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return as many rows as there are positions."""
        coordinate = ChannelBlock(("coordinate",), ("x",), int(self.has_coordinates))
        bands = [
            ChannelBlock((name,), ("x",), self.rule.count) for name in self.channels.components
        ]
        along = {"x": Along.end_to_end(positions.count, 1, self.rule)}
        return GridTable(Layout(along, (coordinate, *bands)), self.width, dtype, shape)


@dataclass(frozen=True, eq=False)
class ZeroRow(RowTable):
    """A table of positions in which the row of one of them, that of padding, is zero.

    Attributes:
        table: the other rows.
        positions: the position of each row.
        zero: the position whose row is zero.
    """

    table: PhasorTable | AxesTable
    positions: RowPositions
    zero: int

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.table.dtype

    @property
    def work_per_element(self) -> int:
        return self.table.work_per_element

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape

    @property
    def setup_work(self) -> int:
        return setup_work(self.table)

    @property
    def row_width(self) -> int:
        return self.table.row_width

    def fill(self, first: int, rows: Elements) -> None:
        self.table.fill(first, rows)
        rows[self.positions.at(first, first + len(rows)) == self.zero] = 0
