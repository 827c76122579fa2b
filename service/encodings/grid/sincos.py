"""Tables of the tokens of a grid: sines and cosines of each axis, coordinates, and zeros.

A channel depends on one axis, which has few positions: a small table is computed and rounded for
each axis, and its rows are copied into those of the grid.

Error, in units of 2^-53: a sine or a cosine is a product of phasors, within 3.9 (phasors.py);
fractional coordinates and scales are multiplied into the frequency, in 80 digits. A coordinate is
rounded to the nearest float64. Zeros are exact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from service.encodings.grid.grids import GridAxis, WithOtherRows, pixels
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.phase import Float64s, FrequencyRule, Int64s, Picked, ScaledFrequencies
from service.numerics.phasors import component, component_phasors
from service.numerics.repeated_rows import RepeatedPart, RepeatedRows, without_repeats
from service.numerics.setups import Setups
from service.numerics.tables import ELEMENT_SECONDS, DerivedTable, distinct_integers, read_blocks

Content: TypeAlias = Literal["sin", "cos", "coordinate"]

# Up to here every integer is a float64, and a quotient of two is rounded once.
_MAX_EXACT = 2**53

# The processor seconds of reading any part of a table, beside those of its elements.
_READ_SECONDS = 6e-4


@dataclass(frozen=True)
class Along:
    """One axis of a grid.

    Attributes:
        tokens: the integer position of each token.
        unit: the coordinate of position 1; a coordinate is position·unit.
        rule: the frequencies, in radians per coordinate 1.
    """

    tokens: GridAxis
    unit: Fraction
    rule: FrequencyRule

    @classmethod
    def end_to_end(cls, length: int, inner: int, rule: FrequencyRule) -> "Along":
        """Return an axis whose coordinates are evenly spaced from −1 to 1; inner as GridAxis."""
        places = pixels(length, Fraction(0))
        first, step = int(places.first / places.unit), int(places.step / places.unit)
        return cls(GridAxis(first, step, length, inner), places.unit, rule)

    @property
    def alone(self) -> "Along":
        """The axis of a grid that has no other."""
        return replace(self, tokens=self.tokens.alone)

    def distinct(self, start: int, stop: int) -> tuple[Int64s, Int64s]:
        """Return the distinct positions of tokens start to stop, and each token's index in them."""
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

    @property
    def scaled_rule(self) -> ScaledFrequencies:
        """The frequencies, in radians per position."""
        return ScaledFrequencies(self.rule, self.unit)

    def values(self, content: Content, frequencies: range, positions: Int64s) -> Float64s:
        """Return sines or cosines (m, n) at positions (m,), or coordinates (m, 1).

        n is the number of selected frequencies.
        """
        if content == "coordinate":
            return self._coordinates(positions)[:, np.newaxis]
        rule: FrequencyRule = self.scaled_rule
        if len(frequencies) < rule.count:
            rule = Picked(rule, tuple(frequencies))
        return component(rule, content, positions)

    def _coordinates(self, positions: Int64s) -> Float64s:
        numerator, denominator = self.unit.numerator, self.unit.denominator
        if max(self.tokens.farthest * numerator, denominator) <= _MAX_EXACT:
            return (positions * numerator) / np.float64(denominator)
        # Python rounds the quotient of two integers of any size once.
        return np.array([position * numerator / denominator for position in positions.tolist()])


@dataclass(frozen=True)
class ChannelBlock:
    """Contiguous channels, ordered by frequency, then axis, then content.

    Attributes:
        contents: what the channels hold for each axis and frequency; empty for zeros.
        axes: the names of the axes.
        count: the number of frequencies, or of channels of zeros.
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
        """Return a description of the channels, with ``|`` between alternating ones."""
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
        channels: the channel of each frequency.
    """

    axis: str
    content: Content
    channels: range

    def within(self, first: int, last: int) -> range:
        """Return the indices of the frequencies whose channels are from first to last − 1."""
        start, step, count = self.channels.start, self.channels.step, len(self.channels)
        begin = max(0, -((start - first) // step))
        return range(begin, max(begin, min(count, -((start - last) // step))))


def lanes(blocks: tuple[ChannelBlock, ...], width: int) -> Iterator[Lane]:
    """Yield the lanes of consecutive blocks, cut to width channels."""
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
    """The axes, channels and extra rows of a grid table.

    Attributes:
        along: the axes by name; token numbers run fastest along the last.
        blocks: the channels of a row.
        leading: how many leading grid axes stay separate axes of the table; the remaining ones are
            flattened into one token axis.
        zero_rows: the number of rows of zeros before those of the tokens.
    """

    along: Mapping[str, Along]
    blocks: tuple[ChannelBlock, ...]
    leading: int = 0
    zero_rows: int = 0


@dataclass(frozen=True, eq=False)
class GridTable:
    """The table of a grid: rows of zeros, then a row for each token.

    Attributes:
        layout: the axes and the channels; channels from width on are cut off.
        width: the number of channels in a row.
        dtype: the element type, real.
        shape: any shape whose size is rows × width.
    """

    layout: Layout
    width: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def element_seconds(self) -> float:
        return 3 * ELEMENT_SECONDS + _READ_SECONDS / prod(self.shape)

    @cached_property
    def setup(self) -> Setups:
        along = self.layout.along
        return Setups(
            tuple(
                component_phasors(along[lane.axis].scaled_rule, lane.content)
                for lane in self._lanes
                if lane.content != "coordinate"
            )
        )

    @cached_property
    def _lanes(self) -> tuple[Lane, ...]:
        every = lanes(self.layout.blocks, self.width)
        return tuple(lane for lane in every if lane.axis in self.layout.along)

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.width, self.dtype, self.fill)

    def fill(self, rows: range, channels: range, block: Elements) -> None:
        """Write consecutive channels of consecutive rows into block (rows, channels)."""
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


def copied_by_axis(table: GridTable) -> GridTable | RepeatedRows:
    """Return a table of the same bytes that computes the rows of each axis once if they are few."""
    layout, parts = table.layout, []
    tokens = prod(along.tokens.length for along in layout.along.values())
    for name, along in layout.along.items():
        # The first row is that of the rows of zeros.
        alone = replace(layout, along={name: along.alone}, leading=0, zero_rows=1)
        rows = replace(table, layout=alone, shape=(1 + along.tokens.length, table.width))
        index = WithOtherRows(along.tokens.index, tokens, layout.zero_rows, added=1)
        parts.append(RepeatedPart(rows, index))
    return without_repeats(table, table.width, parts)


def _rounded(values: Float64s, dtype: DType) -> Elements:
    rounded = np.empty(values.shape, dtype=dtype.storage)
    round_into(values, rounded, dtype)
    return rounded


@dataclass(frozen=True, eq=False)
class ChannelsFirstTable(DerivedTable):
    """The same elements with the channel axis first, as convolutions have them.

    Attributes:
        table: the table with the channel axis last.
        rows: the number of its rows.
    """

    table: GridTable | RepeatedRows
    rows: int

    @property
    def element_seconds(self) -> float:
        # The words of a channel are gathered one by one.
        return max(4e-9, self.table.element_seconds)

    @property
    def shape(self) -> tuple[int, ...]:
        *tokens, width = self.table.shape
        return width, *tokens

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.rows, self.dtype, self._fill)

    def _fill(self, channels: range, tokens: range, block: Elements) -> None:
        self.table.fill(tokens, channels, block.T)
