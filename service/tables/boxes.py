"""Fourier features of boxes: sines and cosines of each coordinate times growing frequencies.

"GLIGEN" (Li et al. 2023); diffusers 0.42.1 ``get_fourier_embeds_from_boundingbox``. Every value is
within 5·2^-53 of the formula before it is rounded once to its element type.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from service.tables import scaling
from service.tables.angle import Float64s, exact_context
from service.tables.channels import Channels
from service.tables.document import Document
from service.tables.dtypes import FLOAT64, DType, Elements, round_into
from service.tables.real_positions import RealPhasorTable
from service.tables.scaling import Decimals
from service.tables.table import RowTable, steps

# Arrays of a row's width that one step goes through.
_ARRAYS = 6


@dataclass(frozen=True)
class BoxFrequencies:
    """The frequencies temperature^(k/count) for k = 0 … count − 1."""

    temperature: float
    count: int

    def exact(self) -> Decimals:
        """Evaluate them, in radians per unit of a coordinate."""
        context = exact_context()
        logarithm = context.ln(Decimal(self.temperature))
        ratio = context.exp(context.divide(logarithm, Decimal(self.count)))
        return scaling.powers(ratio, self.count)


_AXES = ("batch", "box", "channel")


def embedded(*, boxes: Float64s, embed_dim: int, temperature: float, dtype: DType) -> Document:
    """Describe the features of boxes (…, 4): a table (…, 8·embed_dim).

    Args:
        boxes: coordinates, none out of range, with up to two axes before the four of them.
        embed_dim: frequencies of each coordinate.
        temperature: the frequency that would come after the last.
        dtype: a real element type.
    """
    table = BoxTable(BoxFrequencies(temperature, embed_dim), boxes, dtype)
    parameters = {"embed_dim": embed_dim, "temperature": temperature}
    axes = _AXES[-boxes.ndim :]
    return Document("encoding-boxes", parameters, {"boxes": table}, axes=axes, states_axes=True)


@dataclass(frozen=True, eq=False)
class _Coordinates:
    values: Float64s

    def at(self, start: int, stop: int) -> Float64s:
        return self.values[start:stop]


@dataclass(frozen=True, eq=False)
class BoxTable(RowTable):
    """For each frequency in turn the sines of the four coordinates, then their cosines.

    Attributes:
        rule: the frequencies.
        boxes: coordinates, shape (…, 4).
        dtype: a real element type.
    """

    rule: BoxFrequencies
    boxes: Float64s
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the boxes, with channels in place of coordinates."""
        return *self.boxes.shape[:-1], self.row_width

    @property
    def work_per_element(self) -> int:
        """As much as that of real positions, and putting them in order."""
        return 4

    @property
    def setup_work(self) -> int:
        """That of real positions."""
        return self._pairs.setup_work

    @property
    def row_width(self) -> int:
        """Channels of a box."""
        return 8 * self.rule.count

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        for part in steps(len(rows), _ARRAYS * self.row_width):
            start, stop = first + part.start, first + part.stop
            by_coordinate = self._pairs.read(start * self.row_width, stop * self.row_width)
            exact = by_coordinate.reshape(stop - start, 4, -1).swapaxes(1, 2)
            round_into(exact.reshape(stop - start, -1), rows[part], self.dtype)

    @cached_property
    def _pairs(self) -> RealPhasorTable:
        """Sines and cosines in turn, a row for each coordinate."""
        width, values = 2 * self.rule.count, _Coordinates(self.boxes.reshape(-1))
        channels = Channels(("sin", "cos"), interleaved=True, width=width)
        shape = len(values.values), width
        return RealPhasorTable(self.rule, channels, values, FLOAT64, shape)
