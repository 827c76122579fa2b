"""Rows of channels for the tokens of a grid: sines and cosines of each axis, coordinates, zeros.

A channel is about one axis, and there are few positions along it, so what is computed is a small
table for each axis, rounded, of which the rows of the whole are copied.

Error, in units of 2^-53: a sine or a cosine is a product of phasors, within 3.9 (phasor.py); the
fractions of coordinates and the scales that divide them are part of the frequency, in 80 digits. A
coordinate is the float64 nearest to it. Zeros are exact.

Sin-cos tables of grids as libraries lay them out: axes, frequencies, coordinates, channels.

The axes of a grid are depth (or time), height and width, the last ones where there are fewer; a
token's number grows along the last axis first unless a convention says otherwise.

Tables of grids with the channels before the tokens, as convolutions have them.

Fourier features of grids: coordinates from −1 to 1, sines and cosines of evenly spaced bands.

Band k of n along an axis is f_k = 1 + k·(max_resolution/2 − 1)/(n − 1), and turns by π·f_k·x. A
single token lies at −1, a single band is 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np

from service.encodings.grid.grids import GridAxis, Picked, pixels
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.frequencies import (
    FrequencyRule,
    Geometric,
    PixelBands,
    ScaledFrequencies,
    ScaledGeometric,
    TimesTwoPi,
)
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import component
from service.numerics.tables import (
    FREQUENCY_WORK,
    STEP_ELEMENTS,
    RowTable,
    distinct_integers,
    row_steps,
    setup_work,
)

Content: TypeAlias = Literal["sin", "cos", "coordinate"]

# Up to here every integer is a float64, and a quotient of two is rounded once.
_MAX_EXACT = 2**53


@dataclass(frozen=True)
class Along:
    """One axis of a grid.

    Attributes:
        tokens: the position of each token, in order, as an integer.
        unit: the coordinate of position 1.
        rule: frequencies per coordinate.
    """

    tokens: GridAxis
    unit: Fraction
    rule: FrequencyRule

    def distinct(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Give positions of the tokens start to stop, and which of them is each token's."""
        axis = self.tokens
        first, last = start // axis.inner, -(-stop // axis.inner)
        index = np.arange(last - first, dtype=np.int64) + first % axis.length
        if index[-1] >= axis.length:
            index %= axis.length
        some, place = distinct_integers(index)
        if axis.inner > 1:
            tokens = np.full(last - first, axis.inner, dtype=np.int64)
            tokens[0] -= start - first * axis.inner
            tokens[-1] -= last * axis.inner - stop
            place = np.repeat(place, tokens)
        return some * axis.step + axis.first, place

    def values(self, content: Content, frequencies: range, positions: Int64s) -> Float64s:
        """Evaluate positions (m,) for some of the frequencies (n,), shape (m, n)."""
        if content == "coordinate":
            return self._coordinates(positions)[:, np.newaxis]
        measured: FrequencyRule = ScaledFrequencies(self.rule, self.unit)
        if len(frequencies) < measured.count:
            measured = Picked(measured, tuple(frequencies))
        return component(measured, content, positions)

    def _coordinates(self, positions: Int64s) -> Float64s:
        above, below = self.unit.numerator, self.unit.denominator
        if max(self.tokens.farthest * above, below) <= _MAX_EXACT:
            return (positions * above) / np.float64(below)
        # The quotient of two integers of any size is rounded once, too.
        return np.array([position * above / below for position in positions.tolist()])


@dataclass(frozen=True)
class ChannelBlock:
    """Channels that lie together.

    Frequency by frequency, axis by axis, they hold what there is of it.

    Attributes:
        contents: what of each; nothing, for channels of zeros.
        axes: names of the axes.
        count: frequencies, or channels of zeros.
    """

    contents: tuple[Content, ...]
    axes: tuple[str, ...]
    count: int

    @property
    def width(self) -> int:
        """How many channels there are."""
        return self.count * max(1, self.turn)

    @property
    def turn(self) -> int:
        """Channels from one frequency to the next."""
        return len(self.contents) * len(self.axes)

    def __str__(self) -> str:
        """Say what the channels hold; what takes turns has a stroke between."""
        if not self.contents:
            return "0"
        contents = "|".join(content for content in self.contents if content != "coordinate")
        return f"{contents} {'|'.join(self.axes)}".lstrip()


@dataclass(frozen=True)
class Lane:
    """The channels that hold one thing of one axis, frequency after frequency.

    Attributes:
        axis: its name.
        content: what they hold.
        channels: which they are.
    """

    axis: str
    content: Content
    channels: range

    def within(self, first: int, last: int) -> range:
        """Say which of its frequencies the channels first to last hold."""
        start, step, count = self.channels.start, self.channels.step, len(self.channels)
        begin = max(0, -((start - first) // step))
        return range(begin, max(begin, min(count, -((start - last) // step))))


def lanes(blocks: tuple[ChannelBlock, ...], width: int) -> Iterator[Lane]:
    """Give the lanes of blocks that follow each other and are cut to so many channels."""
    first = 0
    for block in blocks:
        last = min(first + block.width, width)
        for place in range(block.turn):
            axis, content = divmod(place, len(block.contents))
            channels = range(min(first + place, last), last, block.turn)
            yield Lane(block.axes[axis], block.contents[content], channels)
        first = last


@dataclass(frozen=True, eq=False)
class GridTable(RowTable):
    """The rows of the tokens of a grid, after rows of zeros.

    Attributes:
        along: the axes by name.
        blocks: what a row holds; what is past its width is cut off.
        width: channels in a row.
        zero_rows: how many rows of zeros come first.
        dtype: a real element type.
        shape: any whose size is rows × width.
    """

    along: Mapping[str, Along]
    blocks: tuple[ChannelBlock, ...]
    width: int
    zero_rows: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def work_per_element(self) -> int:
        """As much as two sines, where each token has a position of its own along an axis."""
        return 2

    @property
    def setup_work(self) -> int:
        """The frequencies of all axes."""
        return FREQUENCY_WORK * sum(along.rule.count for along in self.along.values())

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return self.width

    @cached_property
    def _lanes(self) -> tuple[Lane, ...]:
        return tuple(lanes(self.blocks, self.width))

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        for part in row_steps(len(rows), self.width):
            rows[part] = self.part(first + part.start, first + part.stop, range(self.width))

    def part(self, start: int, stop: int, channels: range) -> Elements:
        """Compute channels that follow each other of the rows start to stop."""
        every = np.zeros((stop - start, len(channels)), dtype=self.dtype.storage)
        first, last = max(0, start - self.zero_rows), stop - self.zero_rows
        if first >= last:
            return every
        rows = every[first - last :]
        for name, along in self.along.items():
            positions, place = along.distinct(first, last)
            for lane in self._lanes:
                chosen = lane.within(channels.start, channels.stop)
                if lane.axis == name and chosen:
                    values = along.values(lane.content, chosen, positions)
                    target = lane.channels[chosen.start : chosen.stop]
                    begin, end = target[0] - channels.start, target[-1] + 1 - channels.start
                    rows[:, begin : end : target.step] = _rounded(values, self.dtype).take(
                        place, axis=0
                    )
        return every


def _rounded(values: Float64s, dtype: DType) -> Elements:
    rounded = np.empty(values.shape, dtype=dtype.storage)
    round_into(values, rounded, dtype)
    return rounded


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
    blocks: tuple[ChannelBlock, ...]
    leading: int = 0
    zero_rows: int = 0


_Rules: TypeAlias = FrequencyRule | Sequence[FrequencyRule]


def normalized(rule: FrequencyRule, scale: float | None) -> FrequencyRule:
    """Give the frequencies of DETR's normalized positions: times 2π where no scale is given."""
    return TimesTwoPi(rule) if scale is None else rule


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


def _halves(order: Sequence[str], count: int) -> tuple[ChannelBlock, ...]:
    """Give the sines, then the cosines, of one axis after the other."""
    return tuple(
        ChannelBlock((content,), (axis,), count) for axis in order for content in ("sin", "cos")
    )


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
    blocks = tuple(ChannelBlock(("sin", "cos"), (axis,), half // 2) for axis in grid.lengths)
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
    blocks = tuple(ChannelBlock(("sin", "cos"), (axis,), count) for axis in grid.lengths)
    rule = Geometric(grid.values["base"], 2 * count, count)
    return Layout(plain(grid, rule), blocks, leading=grid.axes)


def tensor2tensor(grid: Grid) -> Layout:
    """Give each axis the sines and cosines of ⌊d_model/2a⌋ timescales, and the rest zeros.

    tensor2tensor 1.15.7 ``add_timing_signal_nd``.
    """
    count = grid.d_model // (2 * grid.axes)
    shortest, longest = grid.values["min_timescale"], grid.values["max_timescale"]
    rule = ScaledGeometric(shortest, shortest, longest, 2 * max(count - 1, 1), count)
    rest = ChannelBlock((), (), grid.d_model - 2 * grid.axes * count)
    blocks = (*_halves(list(grid.lengths), count), rest)
    along = plain(grid, rule)
    return Layout(along, tuple(block for block in blocks if block.width), leading=grid.axes)


@dataclass(frozen=True, eq=False)
class ChannelsFirstTable:
    """The same elements with the channels before the tokens.

    Attributes:
        table: the rows of tokens.
        rows: how many there are.
        shape: any whose size is channels × rows.
    """

    table: GridTable
    rows: int
    shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.table.dtype

    @property
    def work_per_element(self) -> int:
        """As much as with the channels last."""
        return self.table.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the rows."""
        return setup_work(self.table)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        for channels, first, last in self._pieces(start, stop):
            piece = self.table.part(first, last, channels).T.reshape(-1)
            at = channels.start * self.rows + first - start
            begin, end = max(at, 0), min(at + len(piece), stop - start)
            elements[begin:end] = piece[begin - at : end - at]
        return elements

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[range, int, int]]:
        """Cut a range into whole channels, several at a time, or parts of one."""
        together = STEP_ELEMENTS // self.rows
        if together:
            channels = range(self.table.width)
            for group in range(start // self.rows // together, -(-stop // self.rows // together)):
                yield channels[group * together : (group + 1) * together], 0, self.rows
            return
        while start < stop:
            channel, first = divmod(start, self.rows)
            last = min(first + STEP_ELEMENTS, self.rows, first + stop - start)
            yield range(channel, channel + 1), first, last
            start += last - first


_SINE: tuple[Content, ...] = ("sin",)
_BOTH: tuple[Content, ...] = ("sin", "cos")


def _bands(grid: Grid) -> dict[str, Along]:
    """Place tokens evenly from −1 to 1 along each axis, the bands up to half its resolution."""
    resolutions, count = grid.values["max_resolution"], grid.values["num_bands"]
    rules = [PixelBands(each, count, is_linear=True) for each in resolutions]
    return {name: _pixels(along) for name, along in plain(grid, rules).items()}


def _pixels(along: Along) -> Along:
    tokens = along.tokens
    places = pixels(tokens.length, Fraction(0))
    first, step = int(places.first / places.unit), int(places.step / places.unit)
    return replace(along, tokens=replace(tokens, first=first, step=step), unit=places.unit)


def perceiver(grid: Grid) -> Layout:
    """Give the coordinates, sin(π·f·x) axis by axis, and the cosines.

    transformers 5.23.0 ``generate_fourier_features`` of Perceiver.
    """
    names, count = list(grid.lengths), grid.values["num_bands"]
    contents = _SINE if grid.values["sine_only"] else _BOTH
    blocks = [ChannelBlock((content,), (axis,), count) for content in contents for axis in names]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))


def timm_fourier(grid: Grid) -> Layout:
    """Give the coordinates, sin(π·f·x) band by band, and the cosines.

    timm 1.0.31 ``FourierEmbed``.
    """
    names, count = tuple(grid.lengths), grid.values["num_bands"]
    blocks = [ChannelBlock((content,), names, count) for content in _BOTH]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))


def _coordinates(grid: Grid) -> list[ChannelBlock]:
    names = grid.lengths if grid.values["concat_pos"] else ()
    return [ChannelBlock(("coordinate",), (name,), 1) for name in names]
