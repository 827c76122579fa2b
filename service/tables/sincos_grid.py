"""Rows of channels for the tokens of a grid: sines and cosines of each axis, coordinates, zeros.

A channel is about one axis, and there are few positions along it, so what is computed is a small
table for each axis, rounded, of which the rows of the whole are copied.

Error, in units of 2^-53: a sine or a cosine is a product of phasors, within 3.9 (phasor.py); the
fractions of coordinates and the scales that divide them are part of the frequency, in 80 digits. A
coordinate is the float64 nearest to it. Zeros are exact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.bands import Measured
from service.tables.distinct import distinct
from service.tables.dtypes import DType, Elements, round_into
from service.tables.frequencies import FrequencyRule
from service.tables.grid import GridAxis, Picked
from service.tables.phasor import component
from service.tables.table import FREQUENCY_WORK, RowTable, steps

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
        some, place = distinct(index)
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
        measured: FrequencyRule = Measured(self.rule, self.unit)
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
class Block:
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


def lanes(blocks: tuple[Block, ...], width: int) -> Iterator[Lane]:
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
    blocks: tuple[Block, ...]
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
        for part in steps(len(rows), self.width):
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
