"""The conventions of sin-cos tables of images and videos.

Each convention is one function, registered with its source, its possible numbers of axes and its
parameters; its docstring has the sections Formula, Notes and Trap. The values of ``convention``,
the documentation and the refusals follow from CONVENTIONS. The axes of a 3-D grid are depth (or
time), height and width; tokens are numbered along the last axis first unless a convention says
otherwise.
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
"""The axes of a 3-D grid; a 2-D grid has the last two, a 1-D grid the last."""

EPSILON = Fraction(1, 10**6)
"""The number that DETR adds to the last position before it divides by it."""


@dataclass(frozen=True)
class Grid:
    """The grid of a request, with the parameters of its convention.

    Attributes:
        lengths: the number of tokens along each axis, in the order of AXES.
        d_model: the number of channels.
        values: the convention's own parameters.
    """

    lengths: Mapping[str, int]
    d_model: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class GridConvention:
    """The definition of a library's table of a grid.

    Attributes:
        source: the library and its version.
        axes: the possible numbers of axes.
        layout: returns the layout of a grid.
        defaults: the parameters that have a default, with it.
        optional: the optional parameters without a default.
        required: the parameters that a request must have.
        multiple_of: the number that d_model must be a multiple of.
        is_spread: whether the exponents are k/(n − 1), which divides by zero if an axis has one
            frequency.
        gives_channels: whether d_model follows from the other parameters.
        channels_first: whether the channel axis comes first by default.
        example: the query of an example, without the convention.
        models: names of models with such a table.
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
    models: str = ""

    @property
    def takes(self) -> frozenset[str]:
        return frozenset((*self.defaults, *self.optional, *self.required))


CONVENTIONS: dict[str, list[GridConvention]] = {}
"""The conventions by name; several conventions of one name differ in their numbers of axes."""


def convention_for(name: str, axes: int) -> GridConvention | None:
    """Return the convention with this name and this number of axes, or None."""
    return next((known for known in CONVENTIONS[name] if axes in known.axes), None)


_LayoutFunction: TypeAlias = Callable[[Grid], Layout]


def _convention(
    name: str,
    source: str,
    axes: tuple[int, ...],
    defaults: Mapping[str, ParameterValue],
    **traits: Any,
) -> Callable[[_LayoutFunction], _LayoutFunction]:
    """Register a layout function as a convention; traits are further fields of GridConvention."""

    def register(layout: _LayoutFunction) -> _LayoutFunction:
        known = GridConvention(source, axes, layout, defaults, **traits)
        CONVENTIONS.setdefault(name, []).append(known)
        return layout

    return register


_Rules: TypeAlias = FrequencyRule | Sequence[FrequencyRule]


def _along(
    grid: Grid, rules: _Rules, units: Sequence[Fraction] = (), first: int = 0, step: int = 1
) -> dict[str, Along]:
    """Return the axes of a grid with its tokens at positions first, first + step, etc.

    Args:
        grid: the grid.
        rules: the frequencies of each axis, or the same frequencies for all.
        units: the coordinate of position 1 on each axis; 1 unless given.
        first: the position of the first token.
        step: the difference between positions of neighbours.
    """
    names, lengths = list(grid.lengths), list(grid.lengths.values())
    listed = rules if isinstance(rules, Sequence) else [rules] * len(names)
    each = units or [Fraction(1)] * len(names)
    return {
        name: Along(GridAxis(first, step, lengths[i], prod(lengths[i + 1 :])), each[i], listed[i])
        for i, name in enumerate(names)
    }


def _reversed(grid: Grid) -> Grid:
    lengths = dict(reversed(list(grid.lengths.items())))
    return Grid(lengths, grid.d_model, grid.values)


def _halves(order: Sequence[str], count: int) -> tuple[ChannelBlock, ...]:
    """Return blocks with the sines, then the cosines, of one axis after the other."""
    return tuple(
        ChannelBlock((content,), (axis,), count) for axis in order for content in ("sin", "cos")
    )


def _quarter(grid: Grid) -> Geometric:
    """Return the frequencies base^(−k/n), n = d_model/4."""
    return Geometric(grid.values["base"], grid.d_model // 2, grid.d_model // 4)


_BOTH: tuple[Content, ...] = ("sin", "cos")
_BASE: Mapping[str, ParameterValue] = {"base": 10000.0}
_CLASS_TOKEN: Mapping[str, ParameterValue] = {**_BASE, "cls_token": False}


@_convention(
    "mae",
    "facebookresearch/mae efb2a80",
    (2,),
    _CLASS_TOKEN,
    multiple_of=4,
    models="vit_mae",
)
def mae(grid: Grid) -> Layout:
    """Return sines, then cosines of the column; then sines and cosines of the row.

    Formula: [sin(w·ω) ‖ cos(w·ω) ‖ sin(h·ω) ‖ cos(h·ω)], ω_k = base^(−k/n), n = d_model/4; with
        cls_token a row of zeros comes first.
    Notes: ``get_2d_sincos_pos_embed`` makes only square grids, and uses ``np.float``, which NumPy
        1.24 and later do not have.
    Trap: the code names the first half emb_h, but it encodes the columns, which a square grid does
        not show. ViT-MAE (``facebook/vit-mae-…``; cls_token=true), AIMv2 and Granite Docling in
        transformers 5.23.0 have this table, although they call the function of transformers. At
        another resolution ViT-MAE resizes its table; this service computes that of the new grid.
    """
    blocks = _halves(("width", "height"), grid.d_model // 4)
    zero_rows = int(grid.values.get("cls_token", False))
    return Layout(_along(grid, _quarter(grid)), blocks, zero_rows=zero_rows)


@_convention(
    "transformers",
    "transformers 5.23.0 RT-DETR",
    (2,),
    _CLASS_TOKEN,
    multiple_of=4,
    models="rt_detr",
)
def transformers(grid: Grid) -> Layout:
    """Return sines, then cosines of the row; then sines and cosines of the column.

    Formula: [sin(h·ω) ‖ cos(h·ω) ‖ sin(w·ω) ‖ cos(w·ω)], with mae's ω; with cls_token a row of
        zeros comes first.
    Notes: ``build_2d_sinusoidal_position_embedding``; also D-FINE, DEIMv2 and PP-DocLayout.
    Trap: ViT-MAE, AIMv2 and Granite Docling call the same function and then exchange the halves of
        the channels: their table is mae's. Earlier versions of RT-DETR numbered the tokens column
        by column.
    """
    blocks = _halves(("height", "width"), grid.d_model // 4)
    zero_rows = int(grid.values.get("cls_token", False))
    return Layout(_along(grid, _quarter(grid)), blocks, zero_rows=zero_rows)


@_convention("moco-v3", "facebookresearch/moco-v3", (2,), _CLASS_TOKEN, multiple_of=4)
def moco(grid: Grid) -> Layout:
    """Return mae's channels for tokens that are numbered column by column.

    Formula: that of mae; the token in row h and column w is w·height + h. With cls_token a row of
        zeros comes first.
    Notes: ``build_2d_sincos_position_embedding``; transformers 5.23.0, OmDet-Turbo.
    Trap: the patches of a convolution are numbered row by row: with this table nearly every patch
        gets the encoding of another place.
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
    """Return mae's channels with frequencies from 1 to 1/base, both included.

    Formula: that of mae with ω_k = base^(−k/(n − 1)), n = d_model/4.
    Notes: google-research/big_vision ``posemb_sincos_2d``.
    Trap: the exponent has n − 1, not n: every frequency but the first differs from mae's.
        d_model=4 divides by zero and is refused.
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
    """Return the sines of row and column, then their cosines.

    Formula: [sin(h·ω) ‖ sin(w·ω) ‖ cos(h·ω) ‖ cos(w·ω)], with mae's ω; interleave_sin_cos=true
        gives [sin(h·ω) ‖ cos(h·ω) ‖ sin(w·ω) ‖ cos(w·ω)]; reverse_coord=true exchanges height and
        width, in the channels and in the numbering of tokens.
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
    """Return the coordinates, then sines and cosines of evenly spaced bands, band by band.

    Formula: with the coordinates x_i = −1 + 2i/(length − 1) of h and w and the bands
        f_k = 1 + k·(max_resolution/2 − 1)/(num_bands − 1), [h, w ‖ sin(π·f_0·h), sin(π·f_0·w),
        sin(π·f_1·h), … ‖ cosines]. concat_pos=false leaves out the coordinates.
    Notes: concat_pos is concat_grid in timm.
    Trap: the axes alternate within a band; Perceiver has all bands of one axis first.
    """
    names, count = tuple(grid.lengths), grid.values["num_bands"]
    blocks = [ChannelBlock((content,), names, count) for content in _BOTH]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))


def _bands(grid: Grid) -> dict[str, Along]:
    """Return the axes with evenly spaced coordinates x from −1 to 1; a single token is at −1.

    Band k of n is f_k = 1 + k·(max_resolution/2 − 1)/(n − 1), a single band is 1, and the angle is
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
    models="sam2 sam3",
)
def detr(grid: Grid) -> Layout:
    """Return alternating sines and cosines of the row, then of the column, counted from 1.

    Formula: N = d_model/2 channels for the row, then N for the column; channel i of N is the sine
        of pos·base^(−2⌊i/2⌋/N) if i is even, the cosine if i is odd. With normalize=true
        pos/(length + 10^-6)·scale replaces pos; scale is 2π unless given. The shape is (d_model,
        height, width).
    Notes: ``PositionEmbeddingSine``; ``DetrSinePositionEmbedding``, the same in SAM 2, Mask2Former
        and Conditional DETR.
    Trap: the first position is 1, not 0. Deformable DETR subtracts ½ from positions before it
        normalizes them: deformable-detr. In float16 the library's own numbers are wrong
        in the third digit.
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


@_convention(
    "deformable-detr",
    "transformers 5.23.0 Deformable DETR",
    (2,),
    _BASE,
    multiple_of=4,
    channels_first=True,
    example="height=2&width=2&d_model=4",
)
def deformable_detr(grid: Grid) -> Layout:
    """Return detr's channels for the centres of rows and columns.

    Formula: that of detr with normalize=true and the positions pos − ½. The shape is (d_model,
        height, width).
    Notes: ``DeformableDetrSinePositionEmbedding``.
    Trap: DETR's positions are half a row and half a column more.
    """
    half = grid.d_model // 2
    rule = normalized(Geometric(grid.values["base"], half, half // 2), None)
    units = [normalized_unit(length, None) / 2 for length in grid.lengths.values()]
    blocks = tuple(ChannelBlock(_BOTH, (axis,), half // 2) for axis in grid.lengths)
    return Layout(_along(grid, rule, units, first=1, step=2), blocks, leading=2)


def normalized(rule: FrequencyRule, scale: float | None) -> FrequencyRule:
    """Return the frequencies for DETR's normalized positions: times 2π if there is no scale."""
    return TimesTwoPi(rule) if scale is None else rule


def normalized_unit(last: int, scale: float | None) -> Fraction:
    """Return the coordinate of DETR's position 1: scale/(last + 10^-6); no scale counts as 1."""
    return Fraction(1 if scale is None else scale) / (last + EPSILON)


@_convention(
    "diffusers",
    "diffusers 0.42.1 get_2d_sincos_pos_embed, as in Stable Diffusion 3",
    (2,),
    {**_CLASS_TOKEN, "interpolation_scale": 1.0, "base_size": 16},
    optional=("extra_tokens",),
    multiple_of=4,
    example="height=2&width=3&d_model=4&base_size=2",
    models="SD3 PixArt",
)
def diffusers(grid: Grid) -> Layout:
    """Return mae's channels for a grid stretched to base_size (PixArt, SD3 and others).

    Formula: that of mae with the coordinates i·base_size/(length·interpolation_scale); with
        cls_token, extra_tokens rows of zeros come first.
    Notes: the library computes coordinates in float32.
    Trap: with interpolation_scale=1 coordinates still change: each axis is stretched to base_size.
        In the library cls_token without extra_tokens has no effect; it is refused here.
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
    """Return a quarter of the channels for time, the others for column and row (CogVideoX).

    Formula: d_model/4 channels for t/temporal_interpolation_scale, then 3·d_model/8 channels for
        w/spatial_interpolation_scale, then 3·d_model/8 for h/spatial_interpolation_scale; of each,
        the sines come first. The shape is (depth, height·width, d_model).
    Trap: the library's function takes the size as (width, height).
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
    """Return alternating sines and cosines of each axis, cut to d_model channels.

    Formula: A axes have c = 2⌈d_model/(2A)⌉ channels each, ω_k = base^(−2k/c). The shape is
        (…, d_model); channels_first=true gives the table of ``PositionalEncodingPermute…``.
    Notes: ``PositionalEncoding1D`` to ``3D``.
    Trap: the channels of the last axis are cut: with d_model=10 in 2-D it has 4 of 6, with
        d_model=4 in 3-D it has none.
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
    """Return the sines, then the cosines of each axis, then channels of zeros.

    Formula: A axes have n = ⌊d_model/(2A)⌋ frequencies each,
        ω_k = min_timescale·(max_timescale/min_timescale)^(−k/(n − 1)). The shape is (…, d_model).
    Notes: the library takes any number of axes; it adds this table to its input.
    Trap: a larger min_timescale makes every frequency higher. n = 1 divides by zero, unlike in the
        library's 1-D function.
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
    """Return the coordinates, then sines and cosines of evenly spaced bands, axis by axis.

    Formula: [h, w ‖ sin(π·f·h) ‖ sin(π·f·w) ‖ cosines], with coordinates and bands f as in
        timm-fourier and a max_resolution for each axis. sine_only=true leaves out the cosines,
        concat_pos=false the coordinates.
    Notes: ``PerceiverFourierPositionEncoding``; the library takes any number of axes.
    Trap: coordinates include both −1 and 1, so their spacing depends on the size of the grid, and a
        single token is at −1. The highest band is max_resolution/2, whatever the size of the grid.
    """
    count = grid.values["num_bands"]
    contents = _BOTH[:1] if grid.values["sine_only"] else _BOTH
    blocks = [
        ChannelBlock((content,), (axis,), count) for content in contents for axis in grid.lengths
    ]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))
