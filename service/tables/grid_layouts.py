"""Sin-cos tables of grids as libraries lay them out: axes, frequencies, coordinates, channels.

The axes of a grid are depth (or time), height and width, the last ones where there are fewer; a
token's number grows along the last axis first unless a convention says otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias

from service.tables.bands import InTurns
from service.tables.frequencies import FrequencyRule, Geometric, Spaced
from service.tables.grid import GridAxis
from service.tables.sincos_grid import Along, Block

EPSILON = Fraction(1, 10**6)
"""What DETR adds to the last position before it divides by it."""

_ONE = Fraction(1)


@dataclass(frozen=True)
class Grid:
    """What a convention makes a table of.

    Attributes:
        lengths: tokens along each axis, in the order of the axes.
        d_model: channels.
        values: the parameters of the convention's own.
    """

    lengths: Mapping[str, int]
    d_model: int
    values: Mapping[str, Any]

    @property
    def axes(self) -> int:
        """How many axes there are."""
        return len(self.lengths)


@dataclass(frozen=True)
class Layout:
    """A table of a grid.

    Attributes:
        along: the axes by name, in the order of the tokens.
        blocks: what a row holds.
        leading: how many of the axes of the grid the table has as axes; the others are one.
        zero_rows: rows before those of the tokens.
    """

    along: Mapping[str, Along]
    blocks: tuple[Block, ...]
    leading: int = 0
    zero_rows: int = 0


_Rules: TypeAlias = FrequencyRule | Sequence[FrequencyRule]


def normalized(rule: FrequencyRule, scale: float | None) -> FrequencyRule:
    """Give the frequencies of DETR's normalized positions: times 2π where no scale is given."""
    return InTurns(rule) if scale is None else rule


def _along(
    grid: Grid, rules: _Rules, units: Sequence[Fraction], first: int = 0
) -> dict[str, Along]:
    """Place tokens at first, first + 1, … along each axis, in units of its own."""
    names, lengths = list(grid.lengths), list(grid.lengths.values())
    listed = rules if isinstance(rules, Sequence) else [rules] * grid.axes
    return {
        name: Along(GridAxis(first, 1, lengths[i], prod(lengths[i + 1 :])), units[i], listed[i])
        for i, name in enumerate(names)
    }


def plain(grid: Grid, rules: _Rules) -> dict[str, Along]:
    """Place tokens at 0, 1, … along each axis; the frequencies are one rule for all, or each's."""
    return _along(grid, rules, [_ONE] * grid.axes)


def _reversed(grid: Grid) -> Grid:
    lengths = dict(reversed(list(grid.lengths.items())))
    return Grid(lengths, grid.d_model, grid.values)


def _halves(order: Sequence[str], count: int) -> tuple[Block, ...]:
    """Give the sines, then the cosines, of one axis after the other."""
    return tuple(Block((content,), (axis,), count) for axis in order for content in ("sin", "cos"))


def _quarter(grid: Grid) -> Geometric:
    """Give the frequencies base^(−k/n), n = d_model/4."""
    return Geometric(grid.values["base"], grid.d_model // 2, grid.d_model // 4)


def _class_rows(grid: Grid) -> int:
    return int(grid.values.get("cls_token", False))


def mae(grid: Grid) -> Layout:
    """Give the columns, then the rows: sines and cosines of each, base^(−k/(d_model/4)).

    facebookresearch/mae commit efb2a80 ``get_2d_sincos_pos_embed``, which calls emb_h what is of
    the columns, and makes square grids only.
    """
    blocks = _halves(("width", "height"), grid.d_model // 4)
    return Layout(plain(grid, _quarter(grid)), blocks, zero_rows=_class_rows(grid))


def transformers(grid: Grid) -> Layout:
    """Give the rows, then the columns: sines and cosines of each.

    transformers 5.23.0 ``build_2d_sinusoidal_position_embedding`` of ViT-MAE, AIMv2 and RT-DETR.
    """
    blocks = _halves(("height", "width"), grid.d_model // 4)
    return Layout(plain(grid, _quarter(grid)), blocks, zero_rows=_class_rows(grid))


def moco(grid: Grid) -> Layout:
    """Give the columns, then the rows, of tokens that are counted down each column first.

    facebookresearch/moco-v3 ``build_2d_sincos_position_embedding``; transformers 5.23.0,
    OmDet-Turbo.
    """
    return mae(_reversed(grid))


def simple_vit(grid: Grid) -> Layout:
    """Give the columns, then the rows: sines and cosines, base^(−k/(n − 1)), n = d_model/4.

    google-research/big_vision ``posemb_sincos_2d``; vit-pytorch, SimpleViT.
    """
    count = grid.d_model // 4
    rule = Geometric(grid.values["base"], 2 * (count - 1), count)
    return Layout(plain(grid, rule), _halves(("width", "height"), count))


def timm(grid: Grid) -> Layout:
    """Give the sines of both axes, then their cosines, or interleaved each axis by itself.

    timm 1.0.31 ``build_sincos2d_pos_embed``. With reverse_coord the grid itself is the other way
    round, its tokens too.
    """
    grid = _reversed(grid) if grid.values["reverse_coord"] else grid
    order, count = list(grid.lengths), grid.d_model // 4
    blocks = _halves(order, count)
    if not grid.values["interleave_sin_cos"]:
        blocks = (blocks[0], blocks[2], blocks[1], blocks[3])
    return Layout(plain(grid, _quarter(grid)), blocks)


def detr(grid: Grid) -> Layout:
    """Give the rows, then the columns, counted from 1: sine and cosine in turn.

    facebookresearch/detr commit 29901c5 ``PositionEmbeddingSine``; transformers 5.23.0
    ``DetrSinePositionEmbedding``. Channel i of N turns by pos/base^(2⌊i/2⌋/N).
    """
    half = grid.d_model // 2
    rule: FrequencyRule = Geometric(grid.values["base"], half, half // 2)
    units = [_ONE] * grid.axes
    if grid.values["normalize"]:
        scale = grid.values.get("scale")
        rule = normalized(rule, scale)
        units = [normalized_unit(length, scale) for length in grid.lengths.values()]
    blocks = tuple(Block(("sin", "cos"), (axis,), half // 2) for axis in grid.lengths)
    return Layout(_along(grid, rule, units, first=1), blocks, leading=2)


def normalized_unit(last: int, scale: float | None) -> Fraction:
    """Give what a position of DETR counts for: scale/(last + 10^-6), or the same in turns."""
    return Fraction(1 if scale is None else scale) / (last + EPSILON)


def diffusers(grid: Grid) -> Layout:
    """Give the columns, then the rows, of a grid that is stretched to base_size.

    diffusers 0.42.1 ``get_2d_sincos_pos_embed``: i/(length/base_size)/interpolation_scale. It adds
    rows of zeros where there is a class token and extra_tokens says how many.
    """
    values = grid.values
    stretch = Fraction(values["base_size"]) / Fraction(values["interpolation_scale"])
    units = [stretch / length for length in grid.lengths.values()]
    zero_rows = values.get("extra_tokens", 0) if values["cls_token"] else 0
    blocks = _halves(("width", "height"), grid.d_model // 4)
    return Layout(_along(grid, _quarter(grid), units), blocks, zero_rows=zero_rows)


def diffusers_video(grid: Grid) -> Layout:
    """Give a quarter of the channels to time, the others to the columns, then the rows.

    diffusers 0.42.1 ``get_3d_sincos_pos_embed``: i/interpolation_scale.
    """
    base, eighth = grid.values["base"], grid.d_model // 8
    spatial = Geometric(base, 3 * eighth, 3 * eighth // 2)
    rules = [Geometric(base, 2 * eighth, eighth), spatial, spatial]
    temporal, spatial_scale = (
        1 / Fraction(grid.values[f"{name}_interpolation_scale"]) for name in ("temporal", "spatial")
    )
    along = _along(grid, rules, [temporal, spatial_scale, spatial_scale])
    blocks = _halves(("depth",), eighth) + _halves(("width", "height"), spatial.count)
    return Layout(along, blocks, leading=1)


def positional_encodings(grid: Grid) -> Layout:
    """Give 2⌈d_model/2a⌉ channels to each of a axes, sine and cosine in turn; cut what is over.

    positional-encodings 6.0.3 ``PositionalEncoding1D`` to ``3D``.
    """
    count = -(-grid.d_model // (2 * grid.axes))
    blocks = tuple(Block(("sin", "cos"), (axis,), count) for axis in grid.lengths)
    rule = Geometric(grid.values["base"], 2 * count, count)
    return Layout(plain(grid, rule), blocks, leading=grid.axes)


def tensor2tensor(grid: Grid) -> Layout:
    """Give each axis the sines and cosines of ⌊d_model/2a⌋ timescales, and the rest zeros.

    tensor2tensor 1.15.7 ``add_timing_signal_nd``.
    """
    count = grid.d_model // (2 * grid.axes)
    shortest, longest = grid.values["min_timescale"], grid.values["max_timescale"]
    rule = Spaced(shortest, shortest, longest, 2 * max(count - 1, 1), count)
    rest = Block((), (), grid.d_model - 2 * grid.axes * count)
    blocks = (*_halves(list(grid.lengths), count), rest)
    along = plain(grid, rule)
    return Layout(along, tuple(block for block in blocks if block.width), leading=grid.axes)
