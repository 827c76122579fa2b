"""Axial rotary tables: tokens of images and videos, whose channels are shared out to axes.

A convention states the order of the axes in the channels, the frequencies of each and their order,
and the coordinates of tokens on an axis. The class ``Axial`` stands last: its parameters, then how
they become angles.

This module is long because the conventions and the parameters that depend on them stand together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field

from service.encodings.fields import Integers, Reals, impossible
from service.encodings.grid.grids import (
    Coordinates,
    GridAxis,
    Picked,
    centred,
    counted,
    pixels,
    spread,
)
from service.encodings.rotary.angles import (
    AxisParameters,
    RotaryAngles,
    check_grid,
    check_rounding,
    rounding_parameters,
)
from service.encodings.rotary.packs import PackedTable
from service.encodings.rotary.rule_parameters import check_frequencies
from service.encodings.rotary.rules import GivenFrequencies
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.axes import AngleRounding, Axis, RowPositions
from service.numerics.document import ParameterValue
from service.numerics.frequencies import (
    ConstantFrequencies,
    FrequencyRule,
    Geometric,
    PeriodFrequencies,
    PixelBands,
    ScaledFrequencies,
)
from service.numerics.limits import (
    MAX_AXES_CHANNELS,
    MAX_FACTOR,
    MAX_SCALED_BASE,
    MIN_FACTOR,
    MIN_SCALE,
    MIN_UNIT,
)
from service.numerics.phase import Int64s

Share: TypeAlias = Literal["equal", "video", "thirds"]
Placing: TypeAlias = Literal["blocks", "alternating", "dealt"]
Series: TypeAlias = Literal["geometric", "periods", "pixels", "ones"]
Places: TypeAlias = Literal["counted", "spread", "pixels", "centred"]


# Which parameters go with which places of tokens, and which series of frequencies.
_OF_PLACES = {
    "counted": ("grid_offset", "reference_grid"),
    "spread": ("grid_start", "grid_stop"),
    "pixels": ("grid_offset",),
    "centred": ("grid_offset", "normalize_coords"),
}

_OF_SERIES = {
    "geometric": ("rope_theta",),
    "periods": ("rope_theta", "min_period", "max_period"),
    "pixels": ("max_freq", "linear_bands"),
    "ones": (),
}


@dataclass(frozen=True)
class AxialConvention:
    """How a library or a model makes an axial table.

    Attributes:
        axes: how many axes the grid may have.
        series: which frequencies an axis has.
        places: where on an axis the tokens are.
        source: library and version.
        formula: the axes in the channels, the frequencies of an axis with w channels, k = 0, 1, …,
            b = rope_theta, and the coordinates of tokens.
        is_reversed: whether the last axis of the grid comes first in the channels.
        share: how the channels are shared out.
        placing: whether the frequencies of an axis lie together, take turns with those of the
            others, or lie together and were dealt in turn from one series for all.
        rope_theta: the base unless given.
        offset: what is added to the coordinates unless given.
        max_freq: twice the highest band of pixels unless given.
        linear_bands: whether bands of pixels are evenly spaced unless given.
        repeats_frames: whether a third axis, of time, repeats the table of one frame.
        example: the rest of a query that works.
    """

    axes: tuple[int, ...]
    series: Series
    places: Places
    source: str
    formula: str
    is_reversed: bool = False
    share: Share = "equal"
    placing: Placing = "blocks"
    rope_theta: float = 10000.0
    offset: int = 0
    max_freq: float = 224.0
    linear_bands: bool = False
    repeats_frames: bool = False
    example: str = "head_dim=8&grid=2,3"

    @property
    def takes(self) -> tuple[str, ...]:
        """The parameters of its places and of its series."""
        return *_OF_PLACES[self.places], *_OF_SERIES[self.series]

    def widths(self, head_dim: int, axes: int) -> tuple[int, ...]:
        """Return the channels of each axis, in the order of the channels."""
        if self.share == "video":
            return head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3
        if self.share == "thirds":
            return (2 * (head_dim // axes // 2),) * axes
        return (head_dim // axes,) * axes


CONVENTIONS: Mapping[str, AxialConvention] = MappingProxyType(
    {
        "qwen2_vl": AxialConvention(
            (2,),
            "geometric",
            "counted",
            "transformers 5.23.0 Qwen2-VL vision and its kin",
            "axes h, w; ω_k = b^(−2k/w); coordinates 0, 1, …; a third axis of grid, of "
            "frames, repeats them",
            repeats_frames=True,
        ),
        "pixtral": AxialConvention(
            (2,),
            "geometric",
            "counted",
            "transformers 5.23.0 Pixtral",
            "axes h, w; frequencies of one series b^(−2k/head_dim) over the head, dealt to "
            "the axes in turn; coordinates 0, 1, …",
            placing="dealt",
        ),
        "llama4": AxialConvention(
            (2,),
            "geometric",
            "counted",
            "vLLM 0.33.0 llama4_vision_rope.py",
            "axes w, h; ω_k = b^(−2k/w); coordinates 1, 2, …; class_token=last adds a token at 0",
            is_reversed=True,
            offset=1,
        ),
        "dinov3": AxialConvention(
            (2,),
            "periods",
            "centred",
            "dinov3 commit 6876159, timm 1.0.31",
            "axes h, w; ω_k = 2π/period, periods b^(2k/w) with b = 100, or min_period to "
            "max_period; coordinates the centres of patches within ±1, by normalize_coords",
            rope_theta=100.0,
        ),
        "timm": AxialConvention(
            (2, 1, 3),
            "geometric",
            "counted",
            "timm 1.0.31, in_pixels=False",
            "axes h, w; ω_k = b^(−2k/w); coordinates 0, 1, …, or scaled to a reference_grid "
            "(EVA-02)",
        ),
        "timm_pixels": AxialConvention(
            (2, 1, 3),
            "pixels",
            "pixels",
            "timm 1.0.31, in_pixels=True",
            "axes h, w; ω_k from π·1 to π·max_freq/2 in equal ratios, or evenly with "
            "linear_bands=true; coordinates −1 to 1",
        ),
        "rotary_embedding_torch": AxialConvention(
            (2, 1, 3, 4),
            "geometric",
            "counted",
            "rotary-embedding-torch 0.9.1, freqs_for=lang",
            "axes as in the grid; ω_k = b^(−2k/w); coordinates 0, 1, …",
        ),
        "rotary_embedding_torch_pixel": AxialConvention(
            (2, 1, 3, 4),
            "pixels",
            "pixels",
            "rotary-embedding-torch 0.9.1, freqs_for=pixel",
            "axes as in the grid; ω_k evenly from π·1 to π·max_freq/2; coordinates −1 to 1",
            max_freq=10.0,
            linear_bands=True,
        ),
        "rotary_embedding_torch_constant": AxialConvention(
            (2, 1, 3, 4),
            "ones",
            "counted",
            "rotary-embedding-torch 0.9.1, freqs_for=constant",
            "axes as in the grid; ω_k = 1; coordinates 0, 1, …",
        ),
        "diffusers_2d": AxialConvention(
            (2,),
            "geometric",
            "spread",
            "diffusers 0.42.1 get_2d_rotary_pos_embed",
            "axes w, h; ω_k = b^(−2k/w); n coordinates evenly from grid_start to grid_stop·(n"
            " − 1)/n",
            is_reversed=True,
        ),
        "lumina": AxialConvention(
            (2,),
            "geometric",
            "counted",
            "diffusers 0.42.1 get_2d_rotary_pos_embed_lumina",
            "axes h, w, frequency by frequency; ω_k = b^(−2k/w); coordinates 0, 1, …",
            placing="alternating",
        ),
        "cogvideox": AxialConvention(
            (3,),
            "geometric",
            "spread",
            "diffusers 0.42.1 get_3d_rotary_pos_embed",
            "axes t, h, w with 1/4, 3/8 and 3/8 of the channels; ω_k = b^(−2k/w); coordinates"
            " as diffusers_2d",
            share="video",
            example="head_dim=16&grid=1,2,2",
        ),
        "allegro": AxialConvention(
            (3, 1),
            "geometric",
            "spread",
            "diffusers 0.42.1 get_3d_rotary_pos_embed_allegro",
            "axes t, h, w, or a single one; ω_k = b^(−2k/w); coordinates as diffusers_2d, "
            "over interpolation_scale",
            example="head_dim=12&grid=1,2,2",
        ),
        "flux": AxialConvention(
            (3, 2, 1, 4),
            "geometric",
            "counted",
            "diffusers 0.42.1 FluxPosEmbed",
            "axes as in axes_dim; ω_k = b^(−2k/w); coordinates are the positions given",
            example="axes_dim=2,4,4&positions_t=0,0&positions_h=0,1&positions_w=0,2",
        ),
        "minimax_m3": AxialConvention(
            (3,),
            "geometric",
            "counted",
            "transformers 5.23.0 MiniMax-M3 vision",
            "axes t, h, w with 2·⌊head_dim/6⌋ channels each; ω_k = b^(−2k/w); coordinates 0, 1, …",
            share="thirds",
            example="head_dim=14&grid=1,2,2",
        ),
    }
)


@dataclass(frozen=True)
class AxialAngles(RotaryAngles):
    """Frequencies shared out to the axes of a grid.

    Attributes:
        axes: frequencies and positions of each axis.
        tokens: their number.
        canonical: the canonical parameters.
        rounding: of the angles.
    """

    axes: tuple[Axis, ...]
    tokens: int
    canonical: Mapping[str, ParameterValue]
    rounding: AngleRounding = "exact"

    @property
    def count(self) -> int:
        return sum(len(axis.places) for axis in self.axes)

    @property
    def rows(self) -> int:
        return self.tokens

    @property
    def scale(self) -> float:
        return 1.0

    def parameters(self) -> dict[str, ParameterValue]:
        return {**self.canonical, **rounding_parameters(self.rounding)}

    def along(self) -> tuple[Axis, ...]:
        return self.axes


def placed(
    rules: Sequence[FrequencyRule], positions: Sequence[RowPositions], placing: Placing
) -> tuple[Axis, ...]:
    """Return the axes with the columns of their frequencies: in blocks, or alternating."""
    axes, first = [], 0
    for index, (rule, along) in enumerate(zip(rules, positions, strict=True)):
        places = range(first, first + rule.count)
        if placing == "alternating":
            places = range(index, index + rule.count * len(rules), len(rules))
        axes.append(Axis(rule, along, tuple(places)))
        first += rule.count
    return tuple(axes)


def dealt(rope_theta: float, head_dim: int, axes: int) -> tuple[FrequencyRule, ...]:
    """Return every axes-th frequency of one series over the whole head, for each axis."""
    count = head_dim // 2
    series = Geometric(rope_theta, head_dim, count)
    return tuple(Picked(series, tuple(range(axis, count, axes))) for axis in range(axes))


@dataclass(frozen=True)
class WithClassToken:
    """Positions of tokens and of a class token before or after them, which is at 0.

    Attributes:
        positions: those of the other tokens.
        rows: how many of them there are.
        is_first: whether it comes before them.
    """

    positions: RowPositions
    rows: int
    is_first: bool

    @property
    def farthest(self) -> int:
        return self.positions.farthest

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions of the rows start to stop, shape (stop - start,)."""
        shift = 1 if self.is_first else 0
        first, last = max(start - shift, 0), min(stop - shift, self.rows)
        others = self.positions.at(first, max(first, last))
        before = np.zeros(max(0, min(shift, stop) - start), dtype=np.int64)
        after = np.zeros(stop - start - len(before) - len(others), dtype=np.int64)
        return np.concatenate([before, others, after])


AXES = "nthw"
"""The axes of a grid, of which one of fewer has the last."""


def _each(description: str, example: str) -> Any:
    return Field(
        default=None,
        max_length=len(AXES),
        description=f"{description} One number for every axis, or one for all.",
        examples=[example],
    )


# Values that are the default of their parameter.
_DEFAULT_VALUES = ("ij", "separate")


def _given(inv_freq: tuple[float, ...], width: int) -> FrequencyRule:
    if len(inv_freq) != width // 2:
        rule = f"inv_freq must have {width // 2} numbers, one for each pair of an axis"
        raise impossible("inv_freq", len(inv_freq), f"{rule}, and has {len(inv_freq)}")
    check_frequencies(inv_freq)
    return GivenFrequencies(inv_freq)


@dataclass(frozen=True)
class _Along:
    """The positions of tokens along an axis, and the coordinate that position 1 stands for."""

    positions: RowPositions
    unit: Fraction


def _check_positive(name: str, numbers: Sequence[float]) -> None:
    if not all(MIN_SCALE <= number <= MAX_FACTOR for number in numbers):
        rule = f"{name} must be numbers from {MIN_SCALE:g} to {MAX_FACTOR:g}"
        raise impossible(name, numbers, rule)


if TYPE_CHECKING:
    ConventionName: TypeAlias = str
else:
    ConventionName: TypeAlias = Literal[tuple(CONVENTIONS)]


class Axial(PackedTable, AxisParameters, path="/rope/axial"):
    """Axial rotary tables, by the conventions of libraries and models.

    Channels are shared out to the axes of a grid: height and width, or time, height and width; w is
    the number of channels of an axis. Tokens come row by row, or with spatial_merge_size=2 in the
    blocks of 2 by 2 that Qwen-VL merges. grid_offset is added to coordinates, and grid_indexing=xy
    swaps the first two axes in the channels. inv_freq replaces the frequencies of every axis
    (DINOv3 weights hold rounded periods). positions_t, positions_h and positions_w replace the grid
    where coordinates are counted. pack and part are as of /rope; angle=float32 is for whole
    coordinates; all other coordinates are exact fractions.

    Formula: cos(c·ω) and sin(c·ω) for the coordinate c of a token on the axis of each frequency.
    Source: that of each convention.
    Bound: every cosine and sine is within 4·2^-53 of the formula, rounded once to its element type.
    Trap: libraries differ in the order of the axes, in coordinates, and in the series: name the
        convention of the one that runs the model.
    """

    operation: ClassVar[str] = "RopeAxial"
    summary: ClassVar[str] = (
        "The rotary table of an image or a video, by the convention of a library or a model"
    )
    example: ClassVar[str] = "convention=qwen2_vl&head_dim=8&grid=2,3"

    convention: ConventionName = Field(
        description="Whose table it is: "
        + "; ".join(f"{name} ({convention.source})" for name, convention in CONVENTIONS.items()),
        examples=["qwen2_vl"],
    )
    head_dim: Integer | None = Field(
        default=None,
        ge=2,
        le=MAX_AXES_CHANNELS,
        multiple_of=2,
        description="Channels that turn, of all axes together; the sum of axes_dim unless given.",
        examples=[64],
    )
    axes_dim: Integers | None = Field(
        default=None,
        max_length=len(AXES),
        description="Channels of each axis, in the order of the channels; by the convention "
        "unless given.",
        examples=["16,56,56"],
    )
    grid: Integers | None = Field(
        default=None,
        max_length=len(AXES),
        description="Tokens along each axis, as height and width or time, height and width; the "
        "last runs fastest. Required unless positions are given.",
        examples=["4,6"],
    )
    spatial_merge_size: Integer | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Tokens come in blocks of so many rows and columns, as vision towers that "
        "merge patches have them (Qwen-VL: 2); row by row unless given.",
        examples=[2],
    )
    grid_indexing: Literal["ij", "xy"] | None = Field(
        default=None,
        description="xy has the first two axes change places in the channels, where ij leaves "
        "them in the order of the grid.",
        examples=["xy"],
    )
    rope_theta: Real | None = Field(
        default=None,
        gt=1,
        le=MAX_SCALED_BASE,
        description="Base of the frequencies, or of the periods; by the convention unless given.",
        examples=[10000],
    )
    inv_freq: Reals | None = Field(
        default=None,
        max_length=MAX_AXES_CHANNELS // 2,
        description="The frequencies of every axis outright, in radians per coordinate: an "
        "engine's own, as of weights that hold rounded periods.",
        examples=["1,0.1"],
    )
    grid_offset: Reals | None = _each("What is added to coordinates.", "0.5")
    reference_grid: Reals | None = _each("The grid that coordinates are scaled to.", "16,16")
    grid_start: Reals | None = _each("The first coordinate; 0 unless given.", "0,0")
    grid_stop: Reals | None = _each(
        "Where coordinates end, itself left out; the number of tokens unless given.", "30,45"
    )
    interpolation_scale: Reals | None = _each("What coordinates are divided by.", "1,2,2")
    normalize_coords: Literal["separate", "max", "min"] | None = Field(
        default=None,
        description="The side that is 2 long: each its own, the longer or the shorter.",
        examples=["max"],
    )
    min_period: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="The shortest period, with max_period in place of rope_theta.",
        examples=[0.5],
    )
    max_period: Real | None = Field(
        default=None, ge=MIN_FACTOR, le=MAX_FACTOR, description="The longest period.", examples=[20]
    )
    max_freq: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="Twice the highest band (max_res of timm); by the convention unless given.",
        examples=[256],
    )
    linear_bands: Boolean | None = Field(
        default=None,
        description="Whether bands are evenly spaced, not in equal ratios; by the convention "
        "unless given.",
        examples=[True],
    )
    class_token: Literal["first", "last"] | None = Field(
        default=None,
        description="Where there is one more token, at position 0 of every axis.",
        examples=["last"],
    )
    angle: AngleRounding = Field(
        default="exact",
        description="exact, or float32: frequencies and angles rounded as engines do.",
        examples=["float32"],
    )

    @property
    def recipe(self) -> AxialConvention:
        """What the convention states."""
        return CONVENTIONS[self.convention]

    @property
    def channels(self) -> int:
        """The number of channels that turn, of all axes together."""
        if self.head_dim is not None:
            return self.head_dim
        if self.axes_dim is None:
            raise impossible("head_dim", None, "head_dim is required, unless axes_dim is given")
        return sum(self.axes_dim)

    def canonical(self) -> dict[str, ParameterValue]:
        """Return the parameters that fix the angles, with the defaults of the convention."""
        canonical: dict[str, ParameterValue] = {
            "convention": self.convention,
            "head_dim": self.channels,
        }
        defaults: dict[str, ParameterValue] = {}
        series = None if self.inv_freq is not None else self.recipe.series
        if series in {"geometric", "periods"} and self.min_period is None:
            defaults["rope_theta"] = self.recipe.rope_theta
        if series == "pixels":
            defaults["max_freq"] = self.recipe.max_freq
            defaults["linear_bands"] = self.recipe.linear_bands
        if self.recipe.offset and self.grid is not None:
            defaults["grid_offset"] = (float(self.recipe.offset),)
        names = (
            "axes_dim",
            "grid",
            *(f"positions_{axis}" for axis in AXES[1:]),
            "spatial_merge_size",
            "grid_indexing",
            "rope_theta",
            "inv_freq",
            "min_period",
            "max_period",
            "max_freq",
            "linear_bands",
            "grid_offset",
            "reference_grid",
            "grid_start",
            "grid_stop",
            "interpolation_scale",
            "normalize_coords",
            "class_token",
        )
        for name in names:
            value: Any = getattr(self, name)
            value = defaults.get(name) if value is None else value
            if value not in {None, *_DEFAULT_VALUES}:
                canonical[name] = str(value) if name.startswith("positions") else value
        return canonical

    def frequency_rules(self, axes: int) -> Sequence[FrequencyRule]:
        """Return the frequencies of each axis, in the order of the channels."""
        head_dim = self.channels
        theta = self.rope_theta or self.recipe.rope_theta
        if self.recipe.placing == "dealt":
            for name in ("axes_dim", "inv_freq"):
                value = getattr(self, name)
                if value is not None:
                    rule = f"{name} does not go with convention={self.convention}"
                    raise impossible(name, value, rule)
            if head_dim < 2 * axes:
                rule = f"head_dim must be at least {2 * axes}, a pair for each axis"
                raise impossible("head_dim", head_dim, rule)
            return dealt(theta, head_dim, axes)
        widths = self._widths(axes)
        if self.inv_freq is not None:
            return [_given(self.inv_freq, width) for width in widths]
        return [self._series(theta, width) for width in widths]

    def _widths(self, axes: int) -> tuple[int, ...]:
        head_dim, widths = self.channels, self.axes_dim
        if widths is None:
            widths = self.recipe.widths(head_dim, axes)
            is_whole = self.recipe.share == "thirds" or sum(widths) == head_dim
            if not is_whole or any(width < 2 or width % 2 for width in widths):
                rule = f"head_dim {head_dim} does not divide into channels of {axes} axes in pairs"
                raise impossible("head_dim", head_dim, f"{rule} as {self.convention} has them")
            return widths
        is_even = all(width >= 2 and width % 2 == 0 for width in widths)
        if len(widths) != axes or not is_even or sum(widths) != head_dim:
            rule = (
                f"axes_dim must be {axes} even numbers from 2 on with a sum of head_dim, {head_dim}"
            )
            raise impossible("axes_dim", widths, rule)
        if self.recipe.placing == "alternating" and len(set(widths)) > 1:
            rule = f"the axes of convention={self.convention} alternate: as many channels each"
            raise impossible("axes_dim", widths, rule)
        return widths

    def _series(self, theta: float, width: int) -> FrequencyRule:
        """Return the frequencies of one axis, per coordinate."""
        count = width // 2
        if self.recipe.series == "geometric":
            return Geometric(theta, width, count)
        if self.recipe.series == "ones":
            return ConstantFrequencies(count)
        if self.recipe.series == "pixels":
            is_linear = self.linear_bands
            chosen = self.recipe.linear_bands if is_linear is None else is_linear
            return PixelBands(self.max_freq or self.recipe.max_freq, count, chosen)
        shortest, longest = self.min_period, self.max_period
        if shortest is None and longest is None:
            return PeriodFrequencies(1.0, theta, count, count)
        rule = "min_period and max_period go together, in place of rope_theta"
        if shortest is None or longest is None:
            raise impossible("min_period" if shortest is None else "max_period", None, rule)
        if self.rope_theta is not None:
            raise impossible("rope_theta", self.rope_theta, rule)
        return PeriodFrequencies(shortest, longest, count - 1, count)

    def rotary_angles(self) -> RotaryAngles:
        check_rounding(self.angle, self.channels)
        self._refuse_others()
        along, rows = self._from_grid() if self.grid else self._listed()
        self._check_axes(len(along))
        if self.angle == "float32" and any(a.unit != 1 for a in along):
            rule = (
                "angle=float32 is for whole coordinates: engines round others before they multiply"
            )
            raise impossible("angle", self.angle, rule)
        if self.class_token is not None:
            is_first = {"first": True, "last": False}[self.class_token]
            along = [_Along(WithClassToken(a.positions, rows, is_first), a.unit) for a in along]
            rows += 1
        if self.recipe.is_reversed != (self.grid_indexing == "xy"):
            # As meshgrid's indexing="xy" has it, which leaves a third axis where it is.
            along = [*along[1::-1], *along[2:]]
        rules = self.frequency_rules(len(along))
        measured = [ScaledFrequencies(rule, a.unit) for rule, a in zip(rules, along, strict=True)]
        axes = placed(measured, [a.positions for a in along], self.recipe.placing)
        return AxialAngles(axes, rows, self.canonical(), self.angle)

    def _refuse_others(self) -> None:
        """Refuse parameters that do not go with the convention, positions or inv_freq."""
        of_series = _OF_SERIES[self.recipe.series]
        known = {name for names in (*_OF_PLACES.values(), *_OF_SERIES.values()) for name in names}
        whose = dict.fromkeys(known - {*self.recipe.takes}, f"convention={self.convention}")
        if self.inv_freq is not None:
            whose |= dict.fromkeys(of_series, "inv_freq")
        if self.grid is not None:
            whose |= {f"positions_{axis}": "grid" for axis in AXES[1:]}
        else:
            whose |= dict.fromkeys(
                (*_OF_PLACES[self.recipe.places], "grid_indexing", "spatial_merge_size"),
                "positions",
            )
        faults = [
            Fault(name, to_query(value), f"{name} does not go with {other}")
            for name, other in whose.items()
            if (value := getattr(self, name)) is not None
        ]
        if faults:
            raise InvalidParameters(*faults)

    def _check_axes(self, axes: int) -> None:
        if axes not in self.recipe.axes:
            counts = " or ".join(map(str, sorted(self.recipe.axes)))
            rule = f"convention={self.convention} has {counts} axes, not {axes}"
            name = "grid" if self.grid else "positions_w"
            raise impossible(name, getattr(self, name), rule)

    def _listed(self) -> tuple[list[_Along], int]:
        """Return the listed positions along each axis, and the number of tokens."""
        given = self.positions_by_axis(every=False)
        if not given:
            raise impossible("grid", None, "grid is required, unless positions are given")
        if self.recipe.places != "counted":
            rule = f"positions do not go with convention={self.convention}: give a grid"
            raise impossible("positions_w", given["w"], rule)
        scales = self._each_axis("interpolation_scale", len(given), [1.0] * len(given))
        along = [
            _Along(each, 1 / scale) for each, scale in zip(given.values(), scales, strict=True)
        ]
        return along, given["w"].count

    def _from_grid(self) -> tuple[list[_Along], int]:
        """Return the positions of the tokens of a grid along each axis, and their number."""
        grid = self.grid or ()
        check_grid(grid)
        scales = self._each_axis("interpolation_scale", len(grid), [1.0] * len(grid))
        along = []
        for axis, coordinates in enumerate(self._coordinates(grid)):
            unit = coordinates.unit
            if not coordinates.is_countable or unit < MIN_UNIT:
                raise self._coordinate_error()
            first, step = int(coordinates.first / unit), int(coordinates.step / unit)
            positions = GridAxis(first, step, grid[axis], prod(grid[axis + 1 :]))
            along.append(_Along(self._in_blocks(positions, axis, grid), unit / scales[axis]))
        if self.recipe.repeats_frames and len(grid) == 3:
            along = along[1:]
        return along, prod(grid)

    def _in_blocks(self, positions: GridAxis, axis: int, grid: Sequence[int]) -> RowPositions:
        """Return positions in the order of tokens: row by row, or in blocks of merged patches."""
        size, columns = self.spatial_merge_size, len(grid) - 1
        if size is None or axis < columns - 1:
            return positions
        if columns == 0 or positions.length % size:
            rule = f"spatial_merge_size must divide the last two of grid, {to_query(grid)}"
            raise impossible("spatial_merge_size", size, rule)
        return positions.in_blocks(size, grid[-1], is_column=axis == columns)

    def _coordinate_error(self) -> InvalidParameters:
        """Return the error of coordinates that are no multiples of a unit."""
        names = _OF_PLACES[self.recipe.places]
        given = [name for name in names if getattr(self, name) is not None] or ["grid"]
        rule = "leads to coordinates with too many digits: give shorter numbers"
        return InvalidParameters(
            *(Fault(name, to_query(getattr(self, name)), f"{name} {rule}") for name in given)
        )

    def _coordinates(self, grid: Sequence[int]) -> list[Coordinates]:
        axes = len(grid)
        if self.recipe.places == "spread":
            starts = self._each_axis("grid_start", axes, [0.0] * axes)
            stops = self._each_axis("grid_stop", axes, grid)
            return [spread(*each) for each in zip(grid, starts, stops, strict=True)]
        offsets = self._each_axis("grid_offset", axes, [self.recipe.offset] * axes)
        if self.recipe.places == "pixels":
            return [pixels(*each) for each in zip(grid, offsets, strict=True)]
        if self.recipe.places == "centred":
            sides = {"max": [max(grid)] * axes, "min": [min(grid)] * axes}
            chosen = sides.get(self.normalize_coords or "separate", grid)
            return [centred(*each) for each in zip(grid, offsets, chosen, strict=True)]
        if self.reference_grid is None:
            return [counted(*each) for each in zip(grid, offsets, strict=True)]
        references = self._each_axis("reference_grid", axes, ())
        return [counted(*each) for each in zip(grid, offsets, references, strict=True)]

    def _each_axis(self, name: str, axes: int, default: Sequence[float]) -> list[Fraction]:
        """Return a number for every axis, in the order of the grid."""
        numbers = getattr(self, name)
        if numbers is not None and len(numbers) not in {1, axes}:
            rule = f"{name} must be one number, or {axes}, one for each axis"
            raise impossible(name, numbers, rule)
        if numbers is not None and name in {"interpolation_scale", "reference_grid"}:
            _check_positive(name, numbers)
        listed = default if numbers is None else numbers * (axes // len(numbers))
        return [Fraction(number) for number in listed]
