"""Tables of the tokens of a grid: sines and cosines of each axis, coordinates, zeros.

A channel depends on one axis, and there are few positions along it: a small table for each axis is
computed and rounded, and its rows are copied into those of the grid.

Error, in units of 2^-53: a sine or a cosine is a product of phasors, within 3.9 (phasors.py); the
fractions of coordinates and the scales that divide them are part of the frequency, in 80 digits. A
coordinate is the float64 nearest to it. Zeros are exact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from service.encodings.grid.grids import GridAxis, Picked, pixels
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.phase import Float64s, FrequencyRule, Int64s, ScaledFrequencies
from service.numerics.phasors import component
from service.numerics.tables import (
    FREQUENCY_WORK,
    DerivedTable,
    distinct_integers,
    read_blocks,
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

    @classmethod
    def end_to_end(cls, length: int, inner: int, rule: FrequencyRule) -> "Along":
        """Place tokens evenly from −1 to 1; inner is that of GridAxis."""
        places = pixels(length, Fraction(0))
        first, step = int(places.first / places.unit), int(places.step / places.unit)
        return cls(GridAxis(first, step, length, inner), places.unit, rule)

    def distinct(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Return the distinct positions of the tokens start to stop, and each token's index."""
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
        """Compute sines, cosines or the coordinate at positions (m,) for n selected frequencies."""
        if content == "coordinate":
            return self._coordinates(positions)[:, np.newaxis]
        rule: FrequencyRule = ScaledFrequencies(self.rule, self.unit)
        if len(frequencies) < rule.count:
            rule = Picked(rule, tuple(frequencies))
        return component(rule, content, positions)

    def _coordinates(self, positions: Int64s) -> Float64s:
        above, below = self.unit.numerator, self.unit.denominator
        if max(self.tokens.farthest * above, below) <= _MAX_EXACT:
            return (positions * above) / np.float64(below)
        # The quotient of two integers of any size is rounded once, too.
        return np.array([position * above / below for position in positions.tolist()])


@dataclass(frozen=True)
class ChannelBlock:
    """Contiguous channels, ordered by frequency, then axis, then content.

    Attributes:
        contents: sine, cosine or coordinate of each axis; nothing, for channels of zeros.
        axes: names of the axes.
        count: frequencies, or channels of zeros.
    """

    contents: tuple[Content, ...]
    axes: tuple[str, ...]
    count: int

    @property
    def width(self) -> int:
        return self.count * max(1, self.channels_per_frequency)

    @property
    def channels_per_frequency(self) -> int:
        return len(self.contents) * len(self.axes)

    def __str__(self) -> str:
        """Describe the channels, with ``|`` between what alternates."""
        if not self.contents:
            return "0"
        contents = "|".join(content for content in self.contents if content != "coordinate")
        return f"{contents} {'|'.join(self.axes)}".lstrip()


@dataclass(frozen=True)
class Lane:
    """The channels that hold one content of one axis, frequency after frequency.

    Attributes:
        axis: the name of the axis.
        content: sine, cosine or coordinate.
        channels: their numbers.
    """

    axis: str
    content: Content
    channels: range

    def within(self, first: int, last: int) -> range:
        """Return the indices of its frequencies in the channels first to last."""
        start, step, count = self.channels.start, self.channels.step, len(self.channels)
        begin = max(0, -((start - first) // step))
        return range(begin, max(begin, min(count, -((start - last) // step))))


def lanes(blocks: tuple[ChannelBlock, ...], width: int) -> Iterator[Lane]:
    """Return the lanes of consecutive blocks, cut to a width in channels."""
    first = 0
    for block in blocks:
        last = min(first + block.width, width)
        stride = block.channels_per_frequency
        for place in range(stride):
            axis, content = divmod(place, len(block.contents))
            channels = range(min(first + place, last), last, stride)
            yield Lane(block.axes[axis], block.contents[content], channels)
        first = last


@dataclass(frozen=True)
class Layout:
    """The rows of a grid.

    Attributes:
        along: the axes by name, in the order of the tokens.
        blocks: the channels of a row.
        leading: how many axes of the grid are axes of the table; the others make one.
        zero_rows: rows of zeros before those of the tokens.
    """

    along: Mapping[str, Along]
    blocks: tuple[ChannelBlock, ...]
    leading: int = 0
    zero_rows: int = 0


@dataclass(frozen=True, eq=False)
class GridTable:
    """The rows of the tokens of a grid, after rows of zeros.

    Attributes:
        layout: the axes and the channels; channels past the width are cut off.
        width: channels in a row.
        dtype: a real element type.
        shape: any whose size is rows × width.
    """

    layout: Layout
    width: int
    dtype: DType
    shape: tuple[int, ...]

    work_per_element = 2

    @property
    def setup_work(self) -> int:
        return FREQUENCY_WORK * sum(along.rule.count for along in self.layout.along.values())

    @cached_property
    def _lanes(self) -> tuple[Lane, ...]:
        return tuple(lanes(self.layout.blocks, self.width))

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.width, self.dtype, self.fill)

    def fill(self, rows: range, channels: range, block: Elements) -> None:
        """Compute consecutive channels of consecutive rows, (rows, channels)."""
        block[...] = 0
        zero_rows = self.layout.zero_rows
        first, last = max(0, rows.start - zero_rows), rows.stop - zero_rows
        if first >= last:
            return
        tokens = block[first - last :]
        for name, along in self.layout.along.items():
            positions, place = along.distinct(first, last)
            for lane in self._lanes:
                chosen = lane.within(channels.start, channels.stop)
                if lane.axis == name and chosen:
                    values = along.values(lane.content, chosen, positions)
                    target = lane.channels[chosen.start : chosen.stop]
                    begin, end = target[0] - channels.start, target[-1] + 1 - channels.start
                    rounded = _rounded(values, self.dtype)
                    tokens[:, begin : end : target.step] = rounded.take(place, axis=0)


def _rounded(values: Float64s, dtype: DType) -> Elements:
    rounded = np.empty(values.shape, dtype=dtype.storage)
    round_into(values, rounded, dtype)
    return rounded


@dataclass(frozen=True, eq=False)
class ChannelsFirstTable(DerivedTable):
    """The same elements with the channels before the tokens, as convolutions have them.

    Attributes:
        table: the rows of tokens.
        rows: how many there are.
    """

    table: GridTable
    rows: int

    @property
    def shape(self) -> tuple[int, ...]:
        *tokens, width = self.table.shape
        return width, *tokens

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.rows, self.dtype, self._fill)

    def _fill(self, channels: range, tokens: range, block: Elements) -> None:
        self.table.fill(tokens, channels, block.T)
