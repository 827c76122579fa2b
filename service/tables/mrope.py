"""M-RoPE: one list of frequencies, each of which turns with one of the positions t, h and w.

"Qwen2-VL" (Wang et al. 2024), §2.1; transformers 5.23.0 ``apply_multimodal_rotary_pos_emb`` of
Qwen2-VL (chunked) and ``apply_interleaved_mrope`` of Qwen3-VL (interleaved).
"""

from dataclasses import dataclass

from service.tables.axes import AngleRounding, AnglesTable, AxesTable, Axis
from service.tables.channels import Channels
from service.tables.document import ParameterValue
from service.tables.dtypes import DType
from service.tables.grid import Picked, Tokens
from service.tables.rotary_rule import RotaryRule
from service.tables.table import Table
from service.tables.turns import distance_of, rounding_parameters

AXES = ("t", "h", "w")


def axis_of_frequency(count: int, section: tuple[int, ...], *, interleaved: bool) -> str:
    """Name the axis of each frequency, one letter each.

    Chunked: the first section of frequencies turns with t, the next with h, the rest with w.
    Interleaved: frequency k with h where k mod 3 is 1 and k < 3·section[1], with w where k mod 3 is
    2 and k < 3·section[2], else with t.

    Args:
        count: r/2.
        section: how many frequencies turn with t, h and w.
        interleaved: which of the two it is.
    """
    if not interleaved:
        return "".join(axis * length for axis, length in zip(AXES, section, strict=True))
    cycle = (AXES[k % 3] if k < 3 * section[k % 3] else AXES[0] for k in range(count))
    return "".join(cycle)


@dataclass(frozen=True)
class MultimodalTurns:
    """Each frequency turns with one of three positions of a row.

    Attributes:
        rule: the frequencies.
        section: how many of them turn with t, h and w; their sum is the number of frequencies.
        interleaved: whether the axes alternate frequency by frequency.
        tokens: the positions.
        rounding: of the angles.
    """

    rule: RotaryRule
    section: tuple[int, ...]
    interleaved: bool
    tokens: Tokens
    rounding: AngleRounding = "exact"

    @property
    def count(self) -> int:
        """Frequencies in a row."""
        return self.rule.count

    @property
    def rows(self) -> int:
        """Rows: one for each token."""
        return self.tokens.rows

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell rule, sections and positions."""
        sections: dict[str, ParameterValue] = {
            "mrope_section": self.section,
            "mrope_interleaved": self.interleaved,
        }
        rounding = rounding_parameters(self.rounding)
        return {**self.rule.parameters(), **sections, **self.tokens.spelled, **rounding}

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe sines and cosines in a layout."""
        return AxesTable(self._axes(), self.rounding, channels, dtype, shape, self.rule.scale)

    def angles(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Describe the angles, in radians."""
        return AnglesTable(self._axes(), self.rounding, dtype, shape)

    def distance(self) -> float | None:
        """Bound how far sines and cosines are from the exact ones, where they are not those."""
        if self.rounding == "exact":
            return None
        turning = [(axis.rule.exact(), axis.positions.farthest) for axis in self._axes()]
        return distance_of(turning, self.rule.scale)

    @property
    def peak(self) -> float:
        """A size that sines and cosines do not exceed."""
        return self.rule.scale

    def _axes(self) -> tuple[Axis, ...]:
        named = axis_of_frequency(self.count, self.section, interleaved=self.interleaved)
        places = {axis: tuple(k for k, name in enumerate(named) if name == axis) for axis in AXES}
        return tuple(
            Axis(Picked(self.rule, places[axis]), self.tokens.axes[axis], places[axis])
            for axis in AXES
            if places[axis]
        )
