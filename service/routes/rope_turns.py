"""Parameters that say what turns with which position, and how angles are rounded."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import Field

from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, spelled
from service.routes.axis_positions import AxisParameters, check_grid
from service.routes.parameters import Integers, impossible
from service.routes.rope_parameters import RuleParameters
from service.tables.angle import MAX_POSITION
from service.tables.axes import AngleRounding
from service.tables.dtypes import FLOAT64, largest
from service.tables.grid import Tokens
from service.tables.limits import MAX_AXES_CHANNELS, MAX_FACTOR, MAX_GROWN_CHANNELS
from service.tables.mrope import AXES, MultimodalTurns
from service.tables.positions import Positions
from service.tables.rotary_rule import RotaryRule
from service.tables.turns import AlongSequence, Turns
from service.tables.xpos import XPos

Sequence: TypeAlias = Callable[[], Positions]
"""What makes the one sequence of positions, where there is only one."""

_XPOS_SCALE_BASE = 512.0

# The bound is worked out before anything else: for so many frequencies in some milliseconds.
_MAX_ROUNDED_CHANNELS = 1024


def check_rounding(angle: AngleRounding, channels: int) -> None:
    """Refuse to bound what rounding does to more frequencies than an engine ever has."""
    if angle == "float32" and channels > _MAX_ROUNDED_CHANNELS:
        rule = f"angle=float32 is for at most {_MAX_ROUNDED_CHANNELS} rotary channels"
        raise impossible("angle", angle, rule)


class TurnParameters(AxisParameters, RuleParameters):
    """Parameters of the angles by which channels turn."""

    mrope_section: Integers | None = Field(
        default=None,
        min_length=3,
        max_length=3,
        description="M-RoPE: how many frequencies turn with the positions t, h and w.",
        examples=["16,24,24"],
    )
    mrope_interleaved: Boolean | None = Field(
        default=None,
        description="Whether the axes of M-RoPE alternate frequency by frequency (Qwen3-VL) "
        "instead of coming one after the other (Qwen2-VL); false unless given.",
        examples=[True],
    )
    grid: Integers | None = Field(
        default=None,
        min_length=3,
        max_length=3,
        description="With mrope_section: the tokens of a grid of t by h by w, w running fastest.",
        examples=["2,3,4"],
    )
    angle: AngleRounding = Field(
        default="exact",
        description="exact, or float32: frequencies, and their products with positions, rounded to "
        "float32 as engines do, and exact sines and cosines of that.",
        examples=["float32"],
    )
    xpos: Literal["query", "key"] | None = Field(
        default=None,
        description="xPos: multiply cosines and sines by what queries, or keys, are scaled by.",
        examples=["query"],
    )
    xpos_scale_base: Real | None = Field(
        default=None,
        ge=1,
        le=MAX_FACTOR,
        description="With xpos: positions after which the scale is reached; 512 unless given.",
        examples=[512],
    )
    xpos_centre: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="With xpos: the position with a scale of 1; half the rows unless given.",
        examples=[4],
    )

    def turns(self, head_dim: int | None, sequence: Sequence) -> Turns:
        """Give the angles, for heads of a known width or of that which is asked for."""
        rule = self.rule(head_dim)
        check_rounding(self.angle, 2 * rule.count)
        if self.xpos is None:
            self._refuse_set("xpos", "xpos_scale_base", "xpos_centre")
        if self.mrope_section is None:
            self._refuse_set(
                "mrope_section", "mrope_interleaved", "grid", *(f"positions_{a}" for a in AXES)
            )
            return self._along_sequence(rule, sequence())
        self._check_section(self.mrope_section, rule.count)
        if 2 * rule.count > MAX_AXES_CHANNELS:
            explained = f"mrope_section is for at most {MAX_AXES_CHANNELS} rotary channels"
            raise impossible("mrope_section", self.mrope_section, explained)
        if self.xpos is not None:
            raise impossible("xpos", self.xpos, "xpos does not go with mrope_section")
        return self._along_axes(rule, self.mrope_section, sequence)

    def _refuse_set(self, missing: str, *names: str) -> None:
        faults = [
            Fault(name, spelled(value), f"{name} goes with {missing} only")
            for name in names
            if (value := getattr(self, name)) is not None
        ]
        if faults:
            raise InvalidParameters(*faults)

    def _along_sequence(self, rule: RotaryRule, positions: Positions) -> Turns:
        if self.xpos is None:
            return AlongSequence(rule, positions, self.angle)
        if self.angle != "exact":
            raise impossible("angle", self.angle, "angle=float32 does not go with xpos")
        if 2 * rule.count > MAX_GROWN_CHANNELS:
            explained = f"xpos is for at most {MAX_GROWN_CHANNELS} rotary channels"
            raise impossible("xpos", self.xpos, explained)
        centre = positions.count // 2 if self.xpos_centre is None else self.xpos_centre
        scale_base = self.xpos_scale_base or _XPOS_SCALE_BASE
        xpos = XPos(2 * rule.count, scale_base, centre, self.xpos == "key")
        turns = AlongSequence(rule, positions, "exact", xpos)
        if turns.peak > largest(FLOAT64):
            explained = "positions are so far from xpos_centre that no number is large enough"
            raise impossible("xpos_scale_base", self.xpos_scale_base, explained)
        return turns

    def _check_section(self, section: tuple[int, ...], count: int) -> None:
        if min(section) < 0 or sum(section) != count:
            rule = f"mrope_section must be three numbers, none below 0, with a sum of {count}"
            raise impossible("mrope_section", section, rule)

    def _along_axes(
        self, rule: RotaryRule, section: tuple[int, ...], sequence: Sequence
    ) -> MultimodalTurns:
        tokens = self._tokens() or Tokens.of_sequence(sequence(), AXES)
        return MultimodalTurns(rule, section, self.mrope_interleaved or False, tokens, self.angle)

    def _tokens(self) -> Tokens | None:
        """Give the positions along three axes, where they are said."""
        if self.grid is not None:
            self._refuse_beside("grid")
            check_grid(self.grid)
            return Tokens.of_grid(self.grid, AXES)
        given = self.positions_by_axis(every=True)
        if not given:
            return None
        self._refuse_beside(*(f"positions_{axis}" for axis in given))
        return Tokens.of_lists(given)

    def _refuse_beside(self, *chosen: str) -> None:
        """Refuse every other way to say positions."""
        ways = ("seq_len", "start", "positions", "grid", *(f"positions_{axis}" for axis in AXES))
        faults = [
            Fault(name, spelled(value), f"{name} does not go with {chosen[0]}")
            for name in ways
            if name not in chosen and (value := getattr(self, name, None)) is not None
        ]
        if faults:
            raise InvalidParameters(*faults)
