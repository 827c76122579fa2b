"""The conventions of sin-cos tables of images and videos: what libraries lay out, and how.

Each convention is one function, registered with its source, the numbers of axes it has and the
parameters it takes: the names that requests may use, the documentation and the refusals follow from
CONVENTIONS. The axes of a grid are depth (or time), height and width, the last ones where there are
fewer; a token's number grows along the last axis first unless a convention says otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias

from service.encodings.grid.grids import GridAxis
from service.encodings.grid.sincos import Along, ChannelBlock, Content, Layout
from service.numerics.document import ParameterValue
from service.numerics.frequencies import (
    FrequencyRule,
    Geometric,
    PixelBands,
    ScaledGeometric,
    TimesTwoPi,
)

AXES = ("depth", "height", "width")
"""The axes of a grid; one of fewer has the last."""

EPSILON = Fraction(1, 10**6)
"""The number that DETR adds to the last position before it divides by it."""


@dataclass(frozen=True)
class Grid:
    """A grid that a convention lays out.

    Attributes:
        lengths: tokens along each axis, in the order of AXES.
        d_model: channels.
        values: the convention's own parameters.
    """

    lengths: Mapping[str, int]
    d_model: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class GridConvention:
    """The recipe by which a library makes the table of a grid.

    Attributes:
        source: library and version.
        axes: how many axes a grid may have.
        layout: lays the table out.
        defaults: the parameters it takes, and their defaults.
        optional: parameters it takes that have no default.
        required: parameters that a request must give.
        multiple_of: what d_model must be a multiple of.
        is_spread: whether the exponents are k/(n − 1), so that one frequency for an axis divides
            by zero.
        gives_channels: whether d_model follows from the other parameters.
        channels_first: whether the channels come before the tokens by default.
    """

    source: str
    axes: tuple[int, ...]
    layout: Callable[[Grid], Layout]
    defaults: Mapping[str, ParameterValue]
    optional: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    multiple_of: int = 1
    is_spread: bool = False
    gives_channels: bool = False
    channels_first: bool = False

    @property
    def takes(self) -> frozenset[str]:
        """The names of its parameters."""
        return frozenset((*self.defaults, *self.optional, *self.required))


CONVENTIONS: dict[str, list[GridConvention]] = {}
"""The conventions by name; those of one name differ in their number of axes."""


def convention_for(name: str, axes: int) -> GridConvention | None:
    """Return the convention of a name for so many axes, or None."""
    return next((known for known in CONVENTIONS[name] if axes in known.axes), None)


_LayoutFunction: TypeAlias = Callable[[Grid], Layout]


def _convention(
    name: str,
    source: str,
    axes: tuple[int, ...],
    defaults: Mapping[str, ParameterValue],
    **traits: Any,
) -> Callable[[_LayoutFunction], _LayoutFunction]:
    """Register a layout as the convention of a name; the arguments are those of GridConvention."""

    def register(layout: _LayoutFunction) -> _LayoutFunction:
        known = GridConvention(source, axes, layout, defaults, **traits)
        CONVENTIONS.setdefault(name, []).append(known)
        return layout

    return register


_Rules: TypeAlias = FrequencyRule | Sequence[FrequencyRule]


def _along(
    grid: Grid, rules: _Rules, units: Sequence[Fraction] = (), first: int = 0
) -> dict[str, Along]:
    """Place tokens at first, first + 1, … along each axis, in units of its own, or of 1.

    The frequencies are one rule for all axes, or one for each.
    """
    names, lengths = list(grid.lengths), list(grid.lengths.values())
    listed = rules if isinstance(rules, Sequence) else [rules] * len(names)
    each = units or [Fraction(1)] * len(names)
    return {
        name: Along(GridAxis(first, 1, lengths[i], prod(lengths[i + 1 :])), each[i], listed[i])
        for i, name in enumerate(names)
    }


def _reversed(grid: Grid) -> Grid:
    lengths = dict(reversed(list(grid.lengths.items())))
    return Grid(lengths, grid.d_model, grid.values)


def _halves(order: Sequence[str], count: int) -> tuple[ChannelBlock, ...]:
    """Return the sines, then the cosines, of one axis after the other."""
    return tuple(
        ChannelBlock((content,), (axis,), count) for axis in order for content in ("sin", "cos")
    )


def _quarter(grid: Grid) -> Geometric:
    """Return the frequencies base^(−k/n), n = d_model/4."""
    return Geometric(grid.values["base"], grid.d_model // 2, grid.d_model // 4)


_BOTH: tuple[Content, ...] = ("sin", "cos")
_BASE: Mapping[str, ParameterValue] = {"base": 10000.0}
_CLASS_TOKEN: Mapping[str, ParameterValue] = {**_BASE, "cls_token": False}


@_convention("mae", "facebookresearch/mae efb2a80", (2,), _CLASS_TOKEN, multiple_of=4)
def mae(grid: Grid) -> Layout:
    """Return the columns, then the rows: sines and cosines of each, base^(−k/(d_model/4)).

    ``get_2d_sincos_pos_embed``, which calls emb_h what is of the columns, and makes square grids
    only.
    """
    blocks = _halves(("width", "height"), grid.d_model // 4)
    zero_rows = int(grid.values.get("cls_token", False))
    return Layout(_along(grid, _quarter(grid)), blocks, zero_rows=zero_rows)


@_convention(
    "transformers", "transformers 5.23.0 ViT-MAE, AIMv2, RT-DETR", (2,), _CLASS_TOKEN, multiple_of=4
)
def transformers(grid: Grid) -> Layout:
    """Return the rows, then the columns: sines and cosines of each.

    ``build_2d_sinusoidal_position_embedding``.
    """
    blocks = _halves(("height", "width"), grid.d_model // 4)
    zero_rows = int(grid.values.get("cls_token", False))
    return Layout(_along(grid, _quarter(grid)), blocks, zero_rows=zero_rows)


@_convention("moco-v3", "facebookresearch/moco-v3", (2,), _CLASS_TOKEN, multiple_of=4)
def moco(grid: Grid) -> Layout:
    """Return the columns, then the rows, of tokens that are counted down each column first.

    ``build_2d_sincos_position_embedding``; transformers 5.23.0, OmDet-Turbo.
    """
    return mae(_reversed(grid))


@_convention(
    "simple-vit", "big_vision, vit-pytorch SimpleViT", (2,), _BASE, multiple_of=4, is_spread=True
)
def simple_vit(grid: Grid) -> Layout:
    """Return the columns, then the rows: sines and cosines, base^(−k/(n − 1)), n = d_model/4.

    google-research/big_vision ``posemb_sincos_2d``.
    """
    count = grid.d_model // 4
    rule = Geometric(grid.values["base"], 2 * (count - 1), count)
    return Layout(_along(grid, rule), _halves(("width", "height"), count))


@_convention(
    "timm",
    "timm 1.0.31 build_sincos2d_pos_embed",
    (2,),
    {**_BASE, "reverse_coord": False, "interleave_sin_cos": False},
    multiple_of=4,
)
def timm(grid: Grid) -> Layout:
    """Return the sines of both axes, then their cosines, or interleaved each axis by itself.

    With reverse_coord the grid itself is the other way round, its tokens too.
    """
    grid = _reversed(grid) if grid.values["reverse_coord"] else grid
    blocks = _halves(list(grid.lengths), grid.d_model // 4)
    if not grid.values["interleave_sin_cos"]:
        blocks = (blocks[0], blocks[2], blocks[1], blocks[3])
    return Layout(_along(grid, _quarter(grid)), blocks)


@_convention(
    "timm-fourier",
    "timm 1.0.31 FourierEmbed",
    (2,),
    {"num_bands": 64, "max_resolution": (224, 224), "concat_pos": True},
    gives_channels=True,
)
def timm_fourier(grid: Grid) -> Layout:
    """Return the coordinates, sin(π·f·x) band by band, and the cosines."""
    names, count = tuple(grid.lengths), grid.values["num_bands"]
    blocks = [ChannelBlock((content,), names, count) for content in _BOTH]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))


def _bands(grid: Grid) -> dict[str, Along]:
    """Place tokens evenly from −1 to 1, or at −1 alone, with the bands of each axis.

    Band k of n is f_k = 1 + k·(max_resolution/2 − 1)/(n − 1), a single band 1, and its angle is
    π·f_k·x.
    """
    resolutions, count = grid.values["max_resolution"], grid.values["num_bands"]
    rules = [PixelBands(each, count, is_linear=True) for each in resolutions]
    return {
        name: Along.end_to_end(along.tokens.length, along.tokens.inner, along.rule)
        for name, along in _along(grid, rules).items()
    }


def _coordinates(grid: Grid) -> list[ChannelBlock]:
    names = grid.lengths if grid.values["concat_pos"] else ()
    return [ChannelBlock(("coordinate",), (name,), 1) for name in names]


@_convention(
    "detr",
    "facebookresearch/detr 29901c5, transformers 5.23.0 DETR",
    (2,),
    {**_BASE, "normalize": False},
    optional=("scale",),
    multiple_of=4,
    channels_first=True,
)
def detr(grid: Grid) -> Layout:
    """Return the rows, then the columns, counted from 1: sine and cosine in turn.

    ``PositionEmbeddingSine``; ``DetrSinePositionEmbedding``. Channel i of N turns by
    pos/base^(2⌊i/2⌋/N).
    """
    half = grid.d_model // 2
    rule: FrequencyRule = Geometric(grid.values["base"], half, half // 2)
    units: list[Fraction] = []
    if grid.values["normalize"]:
        scale = grid.values.get("scale")
        rule = normalized(rule, scale)
        units = [normalized_unit(length, scale) for length in grid.lengths.values()]
    blocks = tuple(ChannelBlock(_BOTH, (axis,), half // 2) for axis in grid.lengths)
    return Layout(_along(grid, rule, units, first=1), blocks, leading=2)


def normalized(rule: FrequencyRule, scale: float | None) -> FrequencyRule:
    """Return the frequencies of DETR's normalized positions: times 2π where no scale is given."""
    return TimesTwoPi(rule) if scale is None else rule


def normalized_unit(last: int, scale: float | None) -> Fraction:
    """Return the coordinate of DETR's position 1: scale/(last + 10^-6), or the same in turns."""
    return Fraction(1 if scale is None else scale) / (last + EPSILON)


@_convention(
    "diffusers",
    "diffusers 0.42.1 get_2d_sincos_pos_embed",
    (2,),
    {**_CLASS_TOKEN, "interpolation_scale": 1.0, "base_size": 16},
    optional=("extra_tokens",),
    multiple_of=4,
)
def diffusers(grid: Grid) -> Layout:
    """Return the columns, then the rows, of a grid that is stretched to base_size.

    The coordinates are i/(length/base_size)/interpolation_scale. The library adds rows of zeros
    where there is a class token and extra_tokens says how many.
    """
    values = grid.values
    stretch = Fraction(values["base_size"]) / Fraction(values["interpolation_scale"])
    units = [stretch / length for length in grid.lengths.values()]
    zero_rows = values.get("extra_tokens", 0) if values["cls_token"] else 0
    blocks = _halves(("width", "height"), grid.d_model // 4)
    return Layout(_along(grid, _quarter(grid), units), blocks, zero_rows=zero_rows)


@_convention(
    "diffusers",
    "get_3d_sincos_pos_embed",
    (3,),
    {**_BASE, "spatial_interpolation_scale": 1.0, "temporal_interpolation_scale": 1.0},
    multiple_of=16,
)
def diffusers_video(grid: Grid) -> Layout:
    """Return a quarter of the channels for time, the others for the columns, then the rows.

    The coordinates are i/interpolation_scale.
    """
    base, eighth = grid.values["base"], grid.d_model // 8
    spatial = Geometric(base, 3 * eighth, 3 * eighth // 2)
    rules = [Geometric(base, 2 * eighth, eighth), spatial, spatial]
    in_time, in_space = (
        1 / Fraction(grid.values[f"{name}_interpolation_scale"]) for name in ("temporal", "spatial")
    )
    blocks = _halves(("depth",), eighth) + _halves(("width", "height"), spatial.count)
    return Layout(_along(grid, rules, [in_time, in_space, in_space]), blocks, leading=1)


@_convention("positional-encodings", "positional-encodings 6.0.3", (1, 2, 3), _BASE)
def positional_encodings(grid: Grid) -> Layout:
    """Return 2⌈d_model/2a⌉ channels for each of a axes, sine and cosine in turn; cut the rest off.

    ``PositionalEncoding1D`` to ``3D``.
    """
    count = -(-grid.d_model // (2 * len(grid.lengths)))
    blocks = tuple(ChannelBlock(_BOTH, (axis,), count) for axis in grid.lengths)
    rule = Geometric(grid.values["base"], 2 * count, count)
    return Layout(_along(grid, rule), blocks, leading=len(grid.lengths))


@_convention(
    "tensor2tensor",
    "tensor2tensor 1.15.7 add_timing_signal_nd",
    (1, 2, 3),
    {"min_timescale": 1.0, "max_timescale": 10000.0},
    is_spread=True,
)
def tensor2tensor(grid: Grid) -> Layout:
    """Return the sines and cosines of ⌊d_model/2a⌋ timescales for each of a axes, then zeros."""
    axes = len(grid.lengths)
    count = grid.d_model // (2 * axes)
    shortest, longest = grid.values["min_timescale"], grid.values["max_timescale"]
    rule = ScaledGeometric(shortest, shortest, longest, 2 * max(count - 1, 1), count)
    rest = ChannelBlock((), (), grid.d_model - 2 * axes * count)
    blocks = (*_halves(list(grid.lengths), count), rest)
    filled = tuple(block for block in blocks if block.width)
    return Layout(_along(grid, rule), filled, leading=axes)


@_convention(
    "perceiver",
    "transformers 5.23.0 Perceiver generate_fourier_features",
    (1, 2, 3),
    {"concat_pos": True, "sine_only": False},
    required=("num_bands", "max_resolution"),
    gives_channels=True,
)
def perceiver(grid: Grid) -> Layout:
    """Return the coordinates, sin(π·f·x) axis by axis, and the cosines."""
    count = grid.values["num_bands"]
    contents = _BOTH[:1] if grid.values["sine_only"] else _BOTH
    blocks = [
        ChannelBlock((content,), (axis,), count) for content in contents for axis in grid.lengths
    ]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))
