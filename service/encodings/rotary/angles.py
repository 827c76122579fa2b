"""The angles of a rotary table: along one sequence, along three axes (M-RoPE), with xPos.

M-RoPE: "Qwen2-VL" (Wang et al. 2024), §2.1; transformers 5.23.0
``apply_multimodal_rotary_pos_emb`` of Qwen2-VL (chunked) and ``apply_interleaved_mrope`` of
Qwen3-VL (interleaved). xPos: "A Length-Extrapolatable Transformer" (Sun et al. 2023), §3.3.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter, prod
from typing import Any, Literal, TypeAlias

import numpy as np

from service.encodings.family import Integers, Parameters, PositionList, about, impossible, optional
from service.encodings.grid.grids import Picked, Tokens
from service.encodings.rotary.rule_parameters import RuleParameters
from service.encodings.rotary.rules import RotaryFrequencies
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, to_query
from service.lru import ByteBoundedLRU
from service.numerics.axes import AngleRounding, AnglesTable, AxesTable, Axis, float32_distance
from service.numerics.dtypes import FLOAT64, DType, largest_finite
from service.numerics.limits import MAX_AXES_CHANNELS, MAX_FACTOR, MAX_GROWN_CHANNELS, MAX_LENGTH
from service.numerics.phase import MAX_POSITION, Decimals, Float64s, Int64s, exact_context
from service.numerics.phasors import Channels, PhasorTable
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue, Table

# 3.5 to this power is the last within the range of float64.
_MAX_POWER = 566

_SQUARINGS = 6
_RADIX = 2**_SQUARINGS


@dataclass(frozen=True)
class XPos:
    """The multipliers ζ_k^((p − centre)/scale_base) with ζ_k = (2k + 0.4·r)/(1.4·r).

    torchscale ``XPOS`` at commit 4d1e0e8, flash-attn 2.8.3, rotary-embedding-torch 0.9.1,
    x-transformers 2.31.10. Each is within (2d − 1)·2^-53 of its own size, where p − centre has d
    digits to the base of 64: a factor for each, rounded once, and d − 1 products.

    Attributes:
        rotary_dim: rotary channels, r.
        scale_base: positions after which ζ_k itself is reached.
        centre: the position where all are 1.
        inverse: whether keys are multiplied, by the reciprocals.
    """

    rotary_dim: int
    scale_base: float
    centre: int
    inverse: bool

    def at(self, positions: Int64s) -> Float64s:
        """Return the multipliers of positions (m,), shape (m, r/2)."""
        rest = positions - np.int64(self.centre)
        if self.inverse:
            rest = -rest
        total = np.ones((len(positions), self.rotary_dim // 2))
        place = 0
        while rest.any():
            digits = np.fmod(rest, np.int64(_RADIX))
            if digits.any():
                total *= _factors(self.rotary_dim, self.scale_base, place)[digits + _RADIX - 1]
            rest = (rest - digits) // _RADIX
            place += 1
        return total

    def peak(self, distance: int) -> float:
        """Return an upper bound of the multipliers up to a distance from the centre."""
        power = distance / self.scale_base
        # The smallest ζ is 0.4/1.4; the rest makes up for the roundings of both.
        return 3.5 ** nextafter(power, inf) * (1 + 2.0**-48) if power < _MAX_POWER else inf


_kept: ByteBoundedLRU[tuple[int, float, int], Float64s] = ByteBoundedLRU(32 * 1024 * 1024)


def _factors(rotary_dim: int, scale_base: float, place: int) -> Float64s:
    """Return the multipliers of the offsets d·64^place for d = −63 … 63, shape (127, r/2)."""
    key = rotary_dim, scale_base, place
    found = _kept.get(key)
    if found is None:
        ones = _digit_factors(rotary_dim, scale_base, place)
        found = np.array([*reversed(ones[1]), [1.0] * (rotary_dim // 2), *ones[0]])
        _kept.put(key, found, found.nbytes + 256)
    return found


def _digit_factors(rotary_dim: int, scale_base: float, place: int) -> tuple[list[list[float]], ...]:
    """Return the multipliers of the digits 1 … 63, and of −1 … −63."""
    context = exact_context()
    ahead = [_at_place(k, rotary_dim, scale_base, place) for k in range(rotary_dim // 2)]
    back: Decimals = [context.divide(Decimal(1), step) for step in ahead]
    sides = []
    for step in (ahead, back):
        powers, rows = step, [[float(power) for power in step]]
        for _ in range(_RADIX - 2):
            powers = list(map(context.multiply, powers, step))
            rows.append([float(power) for power in powers])
        sides.append(rows)
    return tuple(sides)


def _at_place(k: int, rotary_dim: int, scale_base: float, place: int) -> Decimal:
    """Return ζ_k^(64^place/scale_base)."""
    context = exact_context()
    zeta = context.divide(Decimal(10 * k + 2 * rotary_dim), Decimal(7 * rotary_dim))
    power = context.exp(context.divide(context.ln(zeta), Decimal(scale_base)))
    for _ in range(_SQUARINGS * place):
        power = context.multiply(power, power)
    return power


class RotaryAngles(ABC):
    """Rows of angles: one for each frequency of each token.

    Attributes:
        rounding: of the angles.
    """

    rounding: AngleRounding

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of angles in a row: half of the rotary channels."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows: one for each token."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The attention factor, which multiplies sines and cosines."""

    @property
    def peak(self) -> float:
        """An upper bound of sines and cosines."""
        return self.scale

    @abstractmethod
    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""

    @abstractmethod
    def along(self) -> tuple[Axis, ...]:
        """Return the frequencies and positions of each axis."""

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of sines and cosines in a layout of channels."""
        return AxesTable(self.along(), self.rounding, channels, dtype, shape, self.scale)

    def angle_table(self, dtype: DType, shape: tuple[int, ...]) -> Table:
        """Return the table of angles, in radians."""
        return AnglesTable(self.along(), self.rounding, dtype, shape)

    def distance(self) -> float | None:
        """Return the bound on the error of sines and cosines; None where angles are exact.

        They move by no more than their angle, nor by more than 2, times the scale; either is
        computed to within 6·2^-53 of its size.
        """
        if self.rounding == "exact":
            return None
        return nextafter((min(self._moved(), 2.0) + 12 * 2.0**-53) * self.scale, inf)

    def angle_distance(self) -> float | None:
        """Return the bound on the error of angles; None where they are exact."""
        if self.rounding == "exact":
            return None
        return nextafter(self._moved(), inf)

    @property
    def reach(self) -> float:
        """An upper bound on the angles; it also holds after rounding to float32."""
        sizes = (max(axis.rule.exact()) * axis.positions.farthest for axis in self.along())
        return float(max(sizes)) * (1 + 2.0**-22)

    def _moved(self) -> float:
        distances = (
            float32_distance(axis.rule.exact(), axis.positions.farthest) for axis in self.along()
        )
        return nextafter(float(max(distances)), inf)


@dataclass(frozen=True)
class SequenceAngles(RotaryAngles):
    """Angles by the one position of each row.

    Attributes:
        rule: the frequencies.
        positions: the position of each row.
        rounding: of the angles.
        xpos: multipliers of sines and cosines, if any.
    """

    rule: RotaryFrequencies
    positions: Positions
    rounding: AngleRounding = "exact"
    xpos: XPos | None = None

    @property
    def count(self) -> int:
        return self.rule.count

    @property
    def rows(self) -> int:
        return self.positions.count

    def parameters(self) -> dict[str, ParameterValue]:
        parameters = {**self.rule.parameters(), **self.positions.parameters()}
        if self.xpos is not None:
            parameters["xpos"] = "key" if self.xpos.inverse else "query"
            parameters["xpos_scale_base"] = self.xpos.scale_base
            parameters["xpos_centre"] = self.xpos.centre
        return parameters | rounding_parameters(self.rounding)

    @property
    def scale(self) -> float:
        return self.rule.scale

    @property
    def peak(self) -> float:
        if self.xpos is None:
            return self.scale
        return self.scale * self.xpos.peak(self.positions.farthest_from(self.xpos.centre))

    def along(self) -> tuple[Axis, ...]:
        return (Axis(self.rule, self.positions, tuple(range(self.count))),)

    def table(self, channels: Channels, dtype: DType, shape: tuple[int, ...]) -> Table:
        if self.rounding == "exact" and self.xpos is None:
            return PhasorTable(self.rule, channels, self.positions, dtype, shape, self.scale)
        axes, scale = self.along(), self.scale
        return AxesTable(axes, self.rounding, channels, dtype, shape, scale, self.xpos)


def rounding_parameters(rounding: AngleRounding) -> dict[str, ParameterValue]:
    """Return the canonical parameter of a rounding; exact is none."""
    return {} if rounding == "exact" else {"angle": rounding}


AXES = ("t", "h", "w")


def axis_of_frequency(count: int, section: tuple[int, ...], *, interleaved: bool) -> str:
    """Return the axis of each frequency, a letter each.

    Chunked: the first section of frequencies is of t, the next of h, the rest of w.
    Interleaved: frequency k is of h where k mod 3 is 1 and k < 3·section[1], of w where k mod 3
    is 2 and k < 3·section[2], else of t.

    Args:
        count: r/2.
        section: the number of frequencies of t, h and w.
        interleaved: whether the axes alternate.
    """
    if not interleaved:
        return "".join(axis * length for axis, length in zip(AXES, section, strict=True))
    cycle = (AXES[k % 3] if k < 3 * section[k % 3] else AXES[0] for k in range(count))
    return "".join(cycle)


@dataclass(frozen=True)
class MropeAngles(RotaryAngles):
    """M-RoPE: angles by one of three positions of each row, chosen by frequency.

    Attributes:
        rule: the frequencies.
        section: the number of frequencies of t, h and w, which sum to the count.
        interleaved: whether the axes alternate frequency by frequency.
        tokens: the positions.
        rounding: of the angles.
    """

    rule: RotaryFrequencies
    section: tuple[int, ...]
    interleaved: bool
    tokens: Tokens
    rounding: AngleRounding = "exact"

    @property
    def count(self) -> int:
        return self.rule.count

    @property
    def rows(self) -> int:
        return self.tokens.rows

    def parameters(self) -> dict[str, ParameterValue]:
        sections: dict[str, ParameterValue] = {
            "mrope_section": self.section,
            "mrope_interleaved": self.interleaved,
        }
        rounding = rounding_parameters(self.rounding)
        return {**self.rule.parameters(), **sections, **self.tokens.spelled, **rounding}

    @property
    def scale(self) -> float:
        return self.rule.scale

    def along(self) -> tuple[Axis, ...]:
        named = axis_of_frequency(self.count, self.section, interleaved=self.interleaved)
        places = {axis: tuple(k for k, name in enumerate(named) if name == axis) for axis in AXES}
        return tuple(
            Axis(Picked(self.rule, places[axis]), self.tokens.axes[axis], places[axis])
            for axis in AXES
            if places[axis]
        )


def _along(axis: str) -> Any:
    text = f"The position {axis} of each token, beside those of other axes; in place of grid."
    return optional(text, "0,1,1,2")


class AxisParameters(Parameters):
    """Positions along time, height and width."""

    positions_t: PositionList | None = _along("t")
    positions_h: PositionList | None = _along("h")
    positions_w: PositionList | None = _along("w")

    def positions_by_axis(self, *, every: bool) -> dict[str, Positions]:
        """Return the listed positions along each axis, all of one length; none if none are listed.

        Args:
            every: whether all axes are required, or only the last ones.
        """
        lists = {axis: getattr(self, f"positions_{axis}") for axis in AXES}
        given = {axis: positions for axis, positions in lists.items() if positions is not None}
        if not given:
            return {}
        for axis in AXES if every else AXES[-len(given) :]:
            if axis not in given:
                name = f"positions_{axis}"
                raise impossible(name, None, f"{name} is required, beside those of other axes")
        counts = [positions.count for positions in given.values()]
        for axis, positions in given.items():
            if positions.count != counts[0]:
                rule = f"the positions along every axis must be as many, not {counts}"
                raise impossible(f"positions_{axis}", positions, rule)
        return given


def check_grid(grid: tuple[int, ...]) -> None:
    """Refuse a grid without tokens, or of more than MAX_LENGTH."""
    if min(grid) < 1 or prod(grid) > MAX_LENGTH:
        rule = "grid must be lengths from 1 on, of at most 2^62 tokens"
        raise impossible("grid", grid, rule)


Sequence: TypeAlias = Callable[[], Positions]
"""Returns the positions of tables along one sequence."""

_XPOS_SCALE_BASE = 512.0

# The bound is worked out before anything else: for so many frequencies in some milliseconds.
_MAX_ROUNDED_CHANNELS = 1024


def check_rounding(angle: AngleRounding, channels: int) -> None:
    """Refuse float32 angles of more frequencies than engines have: their bound is costly."""
    if angle == "float32" and channels > _MAX_ROUNDED_CHANNELS:
        rule = f"angle=float32 is for at most {_MAX_ROUNDED_CHANNELS} rotary channels"
        raise impossible("angle", angle, rule)


class AngleParameters(AxisParameters, RuleParameters):
    """The rule of the frequencies, positions along axes, rounding and xPos."""

    mrope_section: Integers | None = optional(
        "M-RoPE: the number of frequencies rotated by each of the positions t, h and w.",
        "16,24,24",
        min_length=3,
        max_length=3,
    )
    mrope_interleaved: Boolean | None = optional(
        "Whether the axes of M-RoPE alternate frequency by frequency (Qwen3-VL) instead of coming "
        "one after the other (Qwen2-VL); false unless given.",
        example=True,
    )
    grid: Integers | None = optional(
        "With mrope_section: the tokens of a grid of t by h by w, w running fastest.",
        "2,3,4",
        min_length=3,
        max_length=3,
    )
    angle: AngleRounding = about(
        "exact, or float32: frequencies, and their products with positions, rounded to float32 as "
        "engines do, and exact sines and cosines of that.",
        "float32",
        default="exact",
    )
    xpos: Literal["query", "key"] | None = optional(
        "xPos: multiplies cosines and sines by the scale of queries, or of keys.", "query"
    )
    xpos_scale_base: Real | None = optional(
        "With xpos: positions after which the scale is reached; 512 unless given.",
        512,
        ge=1,
        le=MAX_FACTOR,
    )
    xpos_centre: Integer | None = optional(
        "With xpos: the position with a scale of 1; half the rows unless given.",
        4,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
    )

    def angles(self, head_dim: int | None, sequence: Sequence) -> RotaryAngles:
        """Return the angles for heads of a width, which may be unknown."""
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
            Fault(name, to_query(value), f"{name} goes with {missing} only")
            for name in names
            if (value := getattr(self, name)) is not None
        ]
        if faults:
            raise InvalidParameters(*faults)

    def _along_sequence(self, rule: RotaryFrequencies, positions: Positions) -> RotaryAngles:
        if self.xpos is None:
            return SequenceAngles(rule, positions, self.angle)
        if self.angle != "exact":
            raise impossible("angle", self.angle, "angle=float32 does not go with xpos")
        if 2 * rule.count > MAX_GROWN_CHANNELS:
            explained = f"xpos is for at most {MAX_GROWN_CHANNELS} rotary channels"
            raise impossible("xpos", self.xpos, explained)
        centre = positions.count // 2 if self.xpos_centre is None else self.xpos_centre
        scale_base = self.xpos_scale_base or _XPOS_SCALE_BASE
        xpos = XPos(2 * rule.count, scale_base, centre, self.xpos == "key")
        angles = SequenceAngles(rule, positions, "exact", xpos)
        if angles.peak > largest_finite(FLOAT64):
            explained = "positions are so far from xpos_centre that no number is large enough"
            raise impossible("xpos_scale_base", self.xpos_scale_base, explained)
        return angles

    def _check_section(self, section: tuple[int, ...], count: int) -> None:
        if min(section) < 0 or sum(section) != count:
            rule = f"mrope_section must be three numbers, none below 0, with a sum of {count}"
            raise impossible("mrope_section", section, rule)

    def _along_axes(
        self, rule: RotaryFrequencies, section: tuple[int, ...], sequence: Sequence
    ) -> MropeAngles:
        tokens = self._tokens() or Tokens.of_sequence(sequence(), AXES)
        return MropeAngles(rule, section, self.mrope_interleaved or False, tokens, self.angle)

    def _tokens(self) -> Tokens | None:
        """Return the positions along three axes, None if they are not given."""
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
        """Refuse every other parameter of positions."""
        ways = ("seq_len", "start", "positions", "grid", *(f"positions_{axis}" for axis in AXES))
        faults = [
            Fault(name, to_query(value), f"{name} does not go with {chosen[0]}")
            for name in ways
            if name not in chosen and (value := getattr(self, name, None)) is not None
        ]
        if faults:
            raise InvalidParameters(*faults)
