"""The conventions of sin-cos tables of images and videos.

Each convention is one function, registered with its source, the numbers of axes it has and the
parameters it takes; its docstring has the sections Formula, Notes and Trap. The names that requests
may use, the documentation and the refusals follow from CONVENTIONS. The axes of a grid are depth
(or time), height and width, the last ones where there are fewer; a token's number grows along the
last axis first unless a convention says otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias

from service.encodings.grid.grids import GridAxis
from service.encodings.grid.sincos import Along, ChannelBlock, Content, Layout
from service.numerics.phase import FrequencyRule, Geometric, PixelBands, ScaledGeometric, TimesTwoPi
from service.numerics.tables import ParameterValue

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
    """The recipe of a library for the table of a grid.

    Attributes:
        source: library and version.
        axes: the possible numbers of axes.
        layout: returns the layout of a grid.
        defaults: parameters with a default.
        optional: parameters without a default.
        required: parameters that a request must have.
        multiple_of: d_model must be a multiple of this.
        is_spread: whether the exponents are k/(n − 1), so that one frequency for an axis divides
            by zero.
        gives_channels: whether d_model follows from the other parameters.
        channels_first: whether the channels come before the tokens by default.
        example: the rest of a query that works.
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
    example: str = "height=2&width=3&d_model=4"

    @property
    def takes(self) -> frozenset[str]:
        return frozenset((*self.defaults, *self.optional, *self.required))


CONVENTIONS: dict[str, list[GridConvention]] = {}
"""The conventions by name; those of one name differ in their number of axes."""


def convention_for(name: str, axes: int) -> GridConvention | None:
    """Return the convention of a name for a number of axes, or None."""
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
    """Return the columns, then the rows: the sines, then the cosines of each.

    Formula: [sin(w·ω) ‖ cos(w·ω) ‖ sin(h·ω) ‖ cos(h·ω)], ω_k = base^(−k/n), n = d_model/4; with
        cls_token a row of zeros comes first.
    Notes: ``get_2d_sincos_pos_embed`` makes square grids only, and uses ``np.float``, which NumPy
        1.24 and later do not have.
    Trap: the code calls the first half emb_h, and it is of the columns, which a square grid does
        not show. Weights named ``facebook/vit-mae-…`` were converted with this table, that of the
        encoder and of the decoder: request mae with cls_token=true for them, and not transformers.
        At another resolution transformers resizes that table; the one for the new grid is this one.
    """
    blocks = _halves(("width", "height"), grid.d_model // 4)
    zero_rows = int(grid.values.get("cls_token", False))
    return Layout(_along(grid, _quarter(grid)), blocks, zero_rows=zero_rows)


@_convention(
    "transformers", "transformers 5.23.0 ViT-MAE, AIMv2, RT-DETR", (2,), _CLASS_TOKEN, multiple_of=4
)
def transformers(grid: Grid) -> Layout:
    """Return the rows, then the columns: the sines, then the cosines of each.

    Formula: [sin(h·ω) ‖ cos(h·ω) ‖ sin(w·ω) ‖ cos(w·ω)], ω as mae; with cls_token a row of zeros
        comes first.
    Notes: ``build_2d_sinusoidal_position_embedding``.
    Trap: its ViT-MAE starts from this table, and published weights (``facebook/vit-mae-…``) replace
        it by that of mae: it is right for models trained from such a start only. Earlier RT-DETR
        had the tokens column by column.
    """
    blocks = _halves(("height", "width"), grid.d_model // 4)
    zero_rows = int(grid.values.get("cls_token", False))
    return Layout(_along(grid, _quarter(grid)), blocks, zero_rows=zero_rows)


@_convention("moco-v3", "facebookresearch/moco-v3", (2,), _CLASS_TOKEN, multiple_of=4)
def moco(grid: Grid) -> Layout:
    """Return the table of mae for tokens that are counted down each column first.

    Formula: as mae; the token of row h and column w is w·height + h. The class token is
        cls_token=true.
    Notes: ``build_2d_sincos_position_embedding``; transformers 5.23.0, OmDet-Turbo.
    Trap: patches of a convolution come row by row, and these do not: nearly every patch gets the
        row of another place.
    """
    return mae(_reversed(grid))


@_convention(
    "simple-vit",
    "big_vision, vit-pytorch SimpleViT",
    (2,),
    _BASE,
    multiple_of=4,
    is_spread=True,
    example="height=2&width=3&d_model=8",
)
def simple_vit(grid: Grid) -> Layout:
    """Return the columns, then the rows, of frequencies that reach 1/base.

    Formula: as mae, ω_k = base^(−k/(n − 1)), n = d_model/4.
    Notes: google-research/big_vision ``posemb_sincos_2d``.
    Trap: n − 1, not n: every frequency but the first differs from those of mae. d_model=4 divides
        by zero and is refused.
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
    """Return the sines of both axes, then their cosines.

    Formula: [sin(h·ω) ‖ sin(w·ω) ‖ cos(h·ω) ‖ cos(w·ω)], ω as mae; with interleave_sin_cos [sin h ‖
        cos h ‖ sin w ‖ cos w]; reverse_coord makes the table of the grid (width, height).
    Trap: interleave_sin_cos interleaves blocks, not channels. reverse_coord reorders the tokens as
        well as the channels.
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
    example="height=2&width=2&num_bands=1",
)
def timm_fourier(grid: Grid) -> Layout:
    """Return the coordinates, then sines and cosines of even bands, band by band.

    Formula: x_i = −1 + 2i/(length − 1), f_k = 1 + k·(max_resolution/2 − 1)/(num_bands − 1); [h, w ‖
        sin(π·f_0·h), sin(π·f_0·w), sin(π·f_1·h), … ‖ cosines]. concat_pos=false leaves out the
        coordinates.
    Notes: concat_pos is concat_grid there.
    Trap: the axes take turns within a band; Perceiver has all bands of one axis first.
    """
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
    example="height=2&width=2&d_model=4&normalize=true",
)
def detr(grid: Grid) -> Layout:
    """Return the rows, then the columns, counted from 1: sine and cosine in turn, channels first.

    Formula: N = d_model/2 channels of the row, then N of the column; channel i turns by
        pos·base^(−2⌊i/2⌋/N), sine where i is even, cosine where it is odd. With normalize pos is
        pos/(length + 10^-6)·scale, 2π unless given. The shape is (d_model, height, width).
    Notes: ``PositionEmbeddingSine``; ``DetrSinePositionEmbedding``, the same in SAM 2, Mask2Former
        and Conditional DETR.
    Trap: the first position is 1, not 0. Deformable DETR takes ½ off normalized positions, which is
        another table. In float16 the library's own numbers are wrong in the third digit.
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
    example="height=2&width=3&d_model=4&base_size=2",
)
def diffusers(grid: Grid) -> Layout:
    """Return the table of mae, of a grid that is stretched to base_size (PixArt, SD3 and others).

    Formula: coordinates i·base_size/(length·interpolation_scale), then as mae; with cls_token,
        extra_tokens rows of zeros come first.
    Notes: the library has its coordinates in float32.
    Trap: interpolation_scale=1 does not leave coordinates as they are: each axis is stretched to
        base_size by itself. In the library cls_token without extra_tokens adds nothing; it is
        refused here.
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
    example="depth=2&height=1&width=2&d_model=16",
)
def diffusers_video(grid: Grid) -> Layout:
    """Return a quarter of the channels for time, then columns and rows (CogVideoX).

    Formula: d_model/4 channels of t/temporal_interpolation_scale, then 3·d_model/8 each of the
        column and the row over spatial_interpolation_scale. The shape is (depth, height·width,
        d_model).
    Trap: the library's function takes (width, height).
    """
    base, eighth = grid.values["base"], grid.d_model // 8
    spatial = Geometric(base, 3 * eighth, 3 * eighth // 2)
    rules = [Geometric(base, 2 * eighth, eighth), spatial, spatial]
    in_time, in_space = (
        1 / Fraction(grid.values[f"{name}_interpolation_scale"]) for name in ("temporal", "spatial")
    )
    blocks = _halves(("depth",), eighth) + _halves(("width", "height"), spatial.count)
    return Layout(_along(grid, rules, [in_time, in_space, in_space]), blocks, leading=1)


@_convention(
    "positional-encodings",
    "positional-encodings 6.0.3",
    (1, 2, 3),
    _BASE,
    example="height=2&width=2&d_model=6",
)
def positional_encodings(grid: Grid) -> Layout:
    """Return a block of sine and cosine in turn for each axis, cut to d_model channels.

    Formula: a axes, c = 2⌈d_model/2a⌉ channels each, ω_k = base^(−2k/c). The shape is (…, d_model);
        channels_first=true is ``PositionalEncodingPermute…``.
    Notes: ``PositionalEncoding1D`` to ``3D``.
    Trap: the last axis is cut: of 10 channels in 2-D it has 4, and of 4 in 3-D none.
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
    example="height=2&width=2&d_model=9",
)
def tensor2tensor(grid: Grid) -> Layout:
    """Return sines ‖ cosines of timescales for each axis, then zeros.

    Formula: a axes, n = ⌊d_model/2a⌋, ω_k = min_timescale·(max_timescale/min_timescale)^(−k/(n −
        1)). The shape is (…, d_model).
    Notes: the library takes any number of axes; this is what it adds to its input.
    Trap: it multiplies by min_timescale: a longer shortest scale turns faster. One timescale an
        axis (n = 1) divides by zero, unlike the 1-D function.
    """
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
    example="height=2&width=2&num_bands=1&max_resolution=2",
)
def perceiver(grid: Grid) -> Layout:
    """Return the coordinates, then sines and cosines of even bands, axis by axis.

    Formula: x and f as timm-fourier, with a max_resolution for each axis; [x, y ‖ sin(π·f·x) ‖
        sin(π·f·y) ‖ cosines]. sine_only leaves out the cosines, concat_pos=false the coordinates.
    Notes: ``PerceiverFourierPositionEncoding``; the library takes any number of axes.
    Trap: both ends are included, so the spacing changes with the size, and a single token lies at
        −1. The highest band is half of max_resolution, which need not be the size of the grid.
    """
    count = grid.values["num_bands"]
    contents = _BOTH[:1] if grid.values["sine_only"] else _BOTH
    blocks = [
        ChannelBlock((content,), (axis,), count) for content in contents for axis in grid.lengths
    ]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))
