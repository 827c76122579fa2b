"""M-RoPE: one list of frequencies, each of which turns with one of the positions t, h and w.

"Qwen2-VL" (Wang et al. 2024), §2.1; transformers 5.23.0 ``apply_multimodal_rotary_pos_emb`` of
Qwen2-VL (chunked) and ``apply_interleaved_mrope`` of Qwen3-VL (interleaved).
"""

from dataclasses import dataclass

from service.tables.axes import AngleRounding, Axis
from service.tables.document import ParameterValue
from service.tables.grid import Picked, Tokens
from service.tables.rotary_rule import RotaryRule
from service.tables.turns import Turns, rounding_parameters

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
class MultimodalTurns(Turns):
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

    @property
    def scale(self) -> float:
        """The attention factor."""
        return self.rule.scale

    def along(self) -> tuple[Axis, ...]:
        """Let each frequency turn with the position of its axis."""
        named = axis_of_frequency(self.count, self.section, interleaved=self.interleaved)
        places = {axis: tuple(k for k, name in enumerate(named) if name == axis) for axis in AXES}
        return tuple(
            Axis(Picked(self.rule, places[axis]), self.tokens.axes[axis], places[axis])
            for axis in AXES
            if places[axis]
        )
