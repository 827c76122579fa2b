"""What turns in each row of a rotary table, before it is packed."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter
from typing import Protocol

from service.tables.axes import AngleRounding, AnglesTable, AxesTable, Axis
from service.tables.channels import Channels
from service.tables.document import ParameterValue
from service.tables.dtypes import DType
from service.tables.float32_angle import float32_distance
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions
from service.tables.rotary_rule import RotaryRule
from service.tables.table import Table
from service.tables.xpos import XPos


class Turns(Protocol):
    """Rows of angles: one for each frequency of each token."""

    @property
    def count(self) -> int:
        """Frequencies in a row: half of the channels that turn."""

    @property
    def rows(self) -> int:
        """Rows: one for each token."""

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell what fixes them as canonical parameters."""

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe their sines and cosines in a layout."""

    def angles(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe the angles, in radians."""

    def distance(self) -> float | None:
        """Bound how far sines and cosines are from the exact ones, where they are not those."""

    @property
    def peak(self) -> float:
        """A size that sines and cosines do not exceed."""


@dataclass(frozen=True)
class AlongSequence:
    """Every frequency turns with the one position of a row.

    Attributes:
        rule: the frequencies.
        positions: the position of each row.
        rounding: of the angles.
        xpos: what else multiplies sines and cosines.
    """

    rule: RotaryRule
    positions: Positions
    rounding: AngleRounding = "exact"
    xpos: XPos | None = None

    @property
    def count(self) -> int:
        """Frequencies in a row."""
        return self.rule.count

    @property
    def rows(self) -> int:
        """Rows: one for each position."""
        return self.positions.count

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell rule, positions and what was done to them."""
        spelled = {**self.rule.parameters(), **self.positions.parameters()}
        if self.xpos is not None:
            spelled["xpos"] = "key" if self.xpos.inverse else "query"
            spelled["xpos_scale_base"] = self.xpos.scale_base
            spelled["xpos_centre"] = self.xpos.centre
        return spelled | rounding_parameters(self.rounding)

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe sines and cosines in a layout."""
        scale = self.rule.scale
        if self.rounding == "exact" and self.xpos is None:
            return PhasorTable(self.rule, channels, self.positions, dtype, shape, scale)
        return AxesTable(self._axes(), self.rounding, channels, dtype, shape, scale, self.xpos)

    def angles(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe the angles, in radians."""
        return AnglesTable(self._axes(), self.rounding, dtype, shape)

    def distance(self) -> float | None:
        """Bound how far sines and cosines are from the exact ones, where they are not those."""
        if self.rounding == "exact":
            return None
        return distance_of([(self.rule.exact(), self.positions.farthest)], self.rule.scale)

    @property
    def peak(self) -> float:
        """A size that sines and cosines do not exceed."""
        if self.xpos is None:
            return self.rule.scale
        return self.rule.scale * self.xpos.peak(self.positions.farthest_from(self.xpos.centre))

    def _axes(self) -> tuple[Axis, ...]:
        return (Axis(self.rule, self.positions, tuple(range(self.count))),)


def rounding_parameters(rounding: AngleRounding) -> dict[str, ParameterValue]:
    """Spell a rounding of angles, unless there is none."""
    return {} if rounding == "exact" else {"angle": rounding}


def distance_of(turning: Iterable[tuple[list[Decimal], int]], scale: float) -> float:
    """Bound how far scaled sines and cosines of float32 angles are from the exact ones.

    Args:
        turning: frequencies, and the largest magnitude of the positions that they turn with.
        scale: the attention factor.
    """
    moved = max(float32_distance(frequencies, farthest) for frequencies, farthest in turning)
    # Either is computed to within 6·2^-53 of its size.
    return nextafter((float(moved) + 12 * 2.0**-53) * scale, inf)
