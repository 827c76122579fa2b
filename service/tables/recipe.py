"""Sinusoidal encodings by convention: the same kernel, with frequencies and channels filled in."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from service.tables.axes import AxesTable, RowPositions
from service.tables.channels import Channels
from service.tables.coordinates import pixels
from service.tables.document import ParameterValue
from service.tables.dtypes import DType, Elements
from service.tables.frequencies import FrequencyRule
from service.tables.grid import GridAxis
from service.tables.phasor import PhasorTable
from service.tables.real_positions import AnyPositions, RealPhasorTable, RealPositions
from service.tables.sincos_grid import Along, Block, GridTable
from service.tables.table import RowTable, Table, setup_work


@dataclass(frozen=True, eq=False)
class Recipe:
    """A convention with its numbers filled in.

    Attributes:
        rule: the frequencies.
        channels: what a row holds.
        of_frequencies: the canonical parameters that fix the frequencies.
        of_channels: the others.
        scale: multiplies sines and cosines.
        offset: is added to positions before they turn; only to integers.
        padding_idx: the position, offset included, whose row is zero; none unless given.
    """

    rule: FrequencyRule
    channels: Channels
    of_frequencies: Mapping[str, ParameterValue]
    of_channels: Mapping[str, ParameterValue]
    scale: float = 1.0
    offset: int = 0
    padding_idx: int | None = None

    @property
    def is_spread(self) -> bool:
        """Tell whether rows have no positions but their place among all there are."""
        return False

    @property
    def width(self) -> int:
        """Channels of a row."""
        return self.channels.width

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it as canonical parameters."""
        return {**self.of_frequencies, **self.of_channels}

    def rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Spell positions as canonical parameters."""
        return positions.parameters()

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe the rows of positions, in any shape whose size is rows × channels."""
        if isinstance(positions, RealPositions):
            return RealPhasorTable(self.rule, self.channels, positions, dtype, shape, self.scale)
        turning = positions.moved(self.offset)
        table = PhasorTable(self.rule, self.channels, turning, dtype, shape, self.scale)
        if self.padding_idx is None:
            return table
        return ZeroRow(table, turning, self.padding_idx)


@dataclass(frozen=True, eq=False)
class SpreadRecipe(Recipe):
    """A convention whose n rows lie evenly from −1 to 1, whatever their number.

    Attributes:
        has_coordinates: whether each row begins with its place between the two.
    """

    has_coordinates: bool = False

    @property
    def is_spread(self) -> bool:
        """Tell that rows have no positions but their place among all there are."""
        return True

    @property
    def width(self) -> int:
        """Channels of a row."""
        return self.channels.width + self.has_coordinates

    def rows(self, positions: AnyPositions) -> Mapping[str, ParameterValue]:
        """Spell how many there are."""
        return {"seq_len": positions.count}

    def table(self, positions: AnyPositions, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe as many rows as there are positions, which are 0, 1, …."""
        count = positions.count
        places = pixels(count, Fraction(0))
        unit = places.unit
        axis = GridAxis(int(places.first / unit), int(places.step / unit), count, 1)
        coordinate = Block(("coordinate",), ("x",), int(self.has_coordinates))
        bands = [Block((name,), ("x",), self.rule.count) for name in self.channels.components]
        along = {"x": Along(axis, unit, self.rule)}
        return GridTable(along, (coordinate, *bands), self.width, 0, dtype, shape)


@dataclass(frozen=True, eq=False)
class ZeroRow(RowTable):
    """A table of positions in which the row of one of them is zero: that of padding.

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
        """The type of the other rows."""
        return self.table.dtype

    @property
    def work_per_element(self) -> int:
        """As much as the other rows."""
        return self.table.work_per_element

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        return self.table.shape

    @property
    def setup_work(self) -> int:
        """That of the other rows."""
        return setup_work(self.table)

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return self.table.row_width

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        self.table.fill(first, rows)
        rows[self.positions.at(first, first + len(rows)) == self.zero] = 0
