"""What turns in each row of a rotary table, before it is packed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, nextafter

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


class Turns(ABC):
    """Rows of angles: one for each frequency of each token.

    Attributes:
        rounding: of the angles.
    """

    rounding: AngleRounding

    @property
    @abstractmethod
    def count(self) -> int:
        """Frequencies in a row: half of the channels that turn."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows: one for each token."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """What multiplies sines and cosines: the attention factor."""

    @property
    def peak(self) -> float:
        """A size that sines and cosines do not exceed."""
        return self.scale

    @abstractmethod
    def parameters(self) -> dict[str, ParameterValue]:
        """Spell what fixes them as canonical parameters."""

    @abstractmethod
    def along(self) -> tuple[Axis, ...]:
        """Say what turns with what."""

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe their sines and cosines in a layout."""
        return AxesTable(self.along(), self.rounding, channels, dtype, shape, self.scale)

    def angles(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe the angles, in radians."""
        return AnglesTable(self.along(), self.rounding, dtype, shape)

    def distance(self) -> float | None:
        """Bound how far sines and cosines are from the exact ones, where they are not those.

        They move by no more than their angle, nor by more than 2, times the scale; either is
        computed to within 6·2^-53 of its size.
        """
        if self.rounding == "exact":
            return None
        return nextafter((min(self._moved(), 2.0) + 12 * 2.0**-53) * self.scale, inf)

    def angle_distance(self) -> float | None:
        """Bound how far angles are from the exact ones, where they are not those."""
        if self.rounding == "exact":
            return None
        return nextafter(self._moved(), inf)

    @property
    def reach(self) -> float:
        """A size that angles do not exceed, rounded to float32 or not."""
        sizes = (max(axis.rule.exact()) * axis.positions.farthest for axis in self.along())
        return float(max(sizes)) * (1 + 2.0**-22)

    def _moved(self) -> float:
        distances = (
            float32_distance(axis.rule.exact(), axis.positions.farthest) for axis in self.along()
        )
        return nextafter(float(max(distances)), inf)


@dataclass(frozen=True)
class AlongSequence(Turns):
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

    @property
    def scale(self) -> float:
        """The attention factor."""
        return self.rule.scale

    @property
    def peak(self) -> float:
        """A size that sines and cosines do not exceed."""
        if self.xpos is None:
            return self.scale
        return self.scale * self.xpos.peak(self.positions.farthest_from(self.xpos.centre))

    def along(self) -> tuple[Axis, ...]:
        """Let every frequency turn with the one position."""
        return (Axis(self.rule, self.positions, tuple(range(self.count))),)

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe sines and cosines in a layout."""
        if self.rounding == "exact" and self.xpos is None:
            return PhasorTable(self.rule, channels, self.positions, dtype, shape, self.scale)
        axes, scale = self.along(), self.scale
        return AxesTable(axes, self.rounding, channels, dtype, shape, scale, self.xpos)


def rounding_parameters(rounding: AngleRounding) -> dict[str, ParameterValue]:
    """Spell a rounding of angles, unless there is none."""
    return {} if rounding == "exact" else {"angle": rounding}
