"""The positions of the tokens of a grid along each axis, and exact coordinates.

Libraries give the n tokens of an axis fractional coordinates: evenly spaced between two ends, at
the centres of patches, or scaled to another grid. All of these are first + step·i with rational
numbers; so the position stays an integer, and its unit is multiplied into the frequency.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm, prod

import numpy as np

from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.positions import (
    AnyPositions,
    Distinct,
    PositionArray,
    Positions,
    RowPositions,
    distinct_of,
)
from service.numerics.tables import ParameterValue


class AxisTokens(ABC):
    """Positions along an axis that follow from the numbers of tokens."""

    @property
    @abstractmethod
    def farthest(self) -> int:
        """An upper bound of |position|."""

    @abstractmethod
    def of(self, tokens: Int64s) -> Int64s:
        """Return the positions of the tokens with these numbers (m,)."""

    def at(self, start: int, stop: int) -> Int64s:
        """Return the positions of the tokens start to stop, shape (stop - start,)."""
        return self.of(np.arange(start, stop, dtype=np.int64))


@dataclass(frozen=True)
class GridAxis(AxisTokens):
    """The positions first, first + step, … of a grid's tokens along one of its axes.

    Attributes:
        first: the position of the first token.
        step: the difference between a position and the next.
        length: the number of positions along the axis.
        inner: the number of consecutive tokens with the same position: the product of the lengths
            of the axes after this one.
    """

    first: int
    step: int
    length: int
    inner: int

    @property
    def farthest(self) -> int:
        return max(abs(self.first), abs(self.first + self.step * (self.length - 1)))

    def of(self, tokens: Int64s) -> Int64s:
        return tokens // self.inner % self.length * self.step + self.first

    def at(self, start: int, stop: int) -> Int64s:
        # Each position is found once, and repeated: a division takes as long as ten copies.
        first, last = start // self.inner, -(-stop // self.inner)
        begin, count = first % self.length, last - first
        places = np.arange(begin, min(begin + count, self.length), dtype=np.int64)
        if len(places) < count:
            turns = -(-(begin + count) // self.length)
            places = np.tile(np.arange(self.length), turns)[begin : begin + count]
        positions = places * self.step + self.first
        if self.inner == 1:
            return positions
        tokens = np.full(count, self.inner, dtype=np.int64)
        if count:
            tokens[0] -= start - first * self.inner
            tokens[-1] -= last * self.inner - stop
        return np.repeat(positions, tokens)

    @property
    def alone(self) -> "GridAxis":
        """The positions of a grid with this axis only."""
        return replace(self, inner=1)

    @property
    def index(self) -> "GridAxis":
        """The number of each token's position along the axis."""
        return replace(self, first=0, step=1)

    @property
    def distinct(self) -> Distinct:
        return Distinct(self.alone, self.length, self.index)

    def in_blocks(self, size: int, width: int, *, is_column: bool) -> "BlockedAxis":
        """Return the positions of the same tokens, numbered block by block instead of row by row.

        Vision models that merge patches number those of a merged one consecutively, row by row:
        transformers 5.23.0 ``get_vision_position_ids`` with a spatial_merge_size.

        Args:
            size: the number of rows and of columns of a block, which divides the axis length.
            width: the number of columns of the grid.
            is_column: whether this axis is the last one.
        """
        if is_column:
            return BlockedAxis(self, size, size * size, 1)
        return BlockedAxis(self, size, size * width, size)


@dataclass(frozen=True)
class BlockedAxis(AxisTokens):
    """The positions of a grid's tokens along an axis, where tokens are numbered block by block.

    Attributes:
        axis: the positions, of which ``inner`` does not matter.
        size: the positions of a block along the axis.
        block_tokens: the number of consecutive tokens in blocks with the same positions.
        inner: the number of consecutive tokens with the same position within a block.
    """

    axis: GridAxis
    size: int
    block_tokens: int
    inner: int

    @property
    def farthest(self) -> int:
        return self.axis.farthest

    def of(self, tokens: Int64s) -> Int64s:
        block = tokens // self.block_tokens % (self.axis.length // self.size)
        place = block * self.size + tokens // self.inner % self.size
        return place * self.axis.step + self.axis.first

    @property
    def distinct(self) -> Distinct:
        axis = self.axis
        return Distinct(axis.alone, axis.length, replace(self, axis=axis.index))


@dataclass(frozen=True)
class BoundedAxis(AxisTokens):
    """The positions of a grid axis, raised to a least position and divided by an integer.

    Attributes:
        axis: the positions before that.
        least: positions below it are raised to it; none are if it is None.
        divisor: positions are divided by it, and rounded down.
    """

    axis: GridAxis
    least: int | None
    divisor: int

    @property
    def farthest(self) -> int:
        return max(self.axis.farthest, abs(self.least or 0))

    def of(self, tokens: Int64s) -> Int64s:
        positions = self.axis.of(tokens)
        if self.least is not None:
            positions = np.maximum(positions, self.least)
        return positions // self.divisor

    @property
    def alone(self) -> "BoundedAxis":
        """The positions of a grid with this axis only."""
        return replace(self, axis=self.axis.alone)

    @property
    def distinct(self) -> Distinct:
        return replace(self.axis.distinct, positions=self.alone)


@dataclass(frozen=True)
class SummedAxes(AxisTokens):
    """The sums of two positions of each token along the same axis."""

    one: BoundedAxis
    other: BoundedAxis

    @property
    def farthest(self) -> int:
        return self.one.farthest + self.other.farthest

    def of(self, tokens: Int64s) -> Int64s:
        return self.one.of(tokens) + self.other.of(tokens)

    @property
    def distinct(self) -> Distinct:
        alone = SummedAxes(self.one.alone, self.other.alone)
        return replace(self.one.distinct, positions=alone)


@dataclass(frozen=True)
class WithOtherRows:
    """The positions of tokens, and position 0 in the rows before and after them.

    Attributes:
        positions: the positions of the tokens.
        tokens: the number of tokens.
        before: the number of rows before them.
        added: what is added to the positions of tokens.
    """

    positions: RowPositions
    tokens: int
    before: int
    added: int = 0

    @property
    def farthest(self) -> int:
        return self.positions.farthest + self.added

    def at(self, start: int, stop: int) -> Int64s:
        first, last = max(start - self.before, 0), min(stop - self.before, self.tokens)
        positions = np.zeros(stop - start, dtype=np.int64)
        if first < last:
            begin = first + self.before - start
            positions[begin : begin + last - first] = self.positions.at(first, last) + self.added
        return positions

    @property
    def distinct(self) -> Distinct | None:
        """Position 0, and those of the tokens."""
        alone = distinct_of(self.positions)
        if alone is None:
            return None
        positions = WithOtherRows(alone.positions, alone.count, 1)
        return Distinct(positions, alone.count + 1, replace(self, positions=alone.index, added=1))


@dataclass(frozen=True)
class Tokens:
    """Tokens with a position along each of several axes.

    Attributes:
        axes: the positions, by the name of the axis.
        shape: the lengths of the axes of tokens: sequences, if there are several, and positions.
        canonical: the canonical parameters of the positions.
    """

    axes: Mapping[str, RowPositions]
    shape: tuple[int, ...]
    canonical: Mapping[str, ParameterValue]

    @classmethod
    def of_grid(cls, lengths: tuple[int, ...], names: Sequence[str]) -> "Tokens":
        """Return the tokens of a grid with positions from 0, numbered along the last axis first."""
        axes = {
            name: GridAxis(0, 1, length, prod(lengths[index + 1 :]))
            for index, (name, length) in enumerate(zip(names, lengths, strict=True))
        }
        return cls(axes, (prod(lengths),), {"grid": lengths})

    @classmethod
    def of_lists(cls, positions: Mapping[str, Positions]) -> "Tokens":
        """Return tokens with listed positions along each axis; all lists have the same length."""
        canonical = {f"positions_{axis}": str(along) for axis, along in positions.items()}
        return cls(positions, next(iter(positions.values())).shape, canonical)

    @classmethod
    def of_sequences(cls, positions: AnyPositions, names: Sequence[str]) -> "Tokens":
        """Return tokens with the same position along all axes, or with those of a sent array."""
        canonical = positions.parameters()
        if not isinstance(positions, PositionArray):
            return cls(dict.fromkeys(names, positions), positions.shape, canonical)
        along = positions.along()
        return cls(dict(zip(names, along, strict=True)), along[0].shape, canonical)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates first, first + step, … of the tokens along an axis.

    Attributes:
        first: the coordinate of the first token.
        step: the difference between a coordinate and the next.
        length: the number of tokens.
        least: lower coordinates are raised to it; none are if it is None.
        divisor: coordinates are divided by it, and rounded down to integers if it is not 1.
        has_midpoints: whether a token is halfway between its coordinate and the next.
    """

    first: Fraction
    step: Fraction
    length: int
    least: Fraction | None = None
    divisor: int = 1
    has_midpoints: bool = False

    @property
    def unit(self) -> Fraction:
        """The largest number of which all coordinates are integer multiples."""
        numbers = (self.first, self.step, self.least or Fraction(0))
        return Fraction(1, lcm(*(each.denominator for each in numbers)) * (1 + self.has_midpoints))

    @property
    def is_countable(self) -> bool:
        """True if coordinates and step, as multiples of ``unit``, are within ±MAX_POSITION."""
        last = self.first + self.step * (self.length - 1 + self.has_midpoints)
        sizes = abs(self.first), abs(self.step), abs(last), abs(self.least or Fraction(0))
        return max(sizes) / self.unit <= MAX_POSITION

    def positions(self, inner: int) -> AxisTokens:
        """Return the coordinates as multiples of ``unit``; inner as in GridAxis."""
        scale = self.unit * (1 + self.has_midpoints)
        first, step = int(self.first / scale), int(self.step / scale)
        least = None if self.least is None else int(self.least / scale)
        axes = [GridAxis(start, step, self.length, inner) for start in (first, first + step)]
        if least is None and self.divisor == 1 and not self.has_midpoints:
            return axes[0]
        bounded = [BoundedAxis(axis, least, self.divisor) for axis in axes]
        return SummedAxes(*bounded) if self.has_midpoints else bounded[0]


def counted(length: int, offset: Fraction, reference: Fraction | None = None) -> Coordinates:
    """Return the coordinates i + offset, or (i + offset)·reference/length.

    timm 1.0.31 ``build_fourier_pos_embed``, ref_feat_shape; EVA-02 ``VisionRotaryEmbeddingFast``.
    """
    scale = Fraction(1) if reference is None else reference / length
    return Coordinates(offset * scale, scale, length)


def spread(length: int, start: Fraction, stop: Fraction) -> Coordinates:
    """Return n = length evenly spaced coordinates from start to stop·(n − 1)/n.

    diffusers 0.42.1 ``get_2d_rotary_pos_embed`` and ``get_3d_rotary_pos_embed``: linspace.
    """
    last = stop * (length - 1) / length
    return Coordinates(start, (last - start) / max(length - 1, 1), length)


def pixels(length: int, offset: Fraction) -> Coordinates:
    """Return length evenly spaced coordinates from −1 to 1, plus the offset.

    rotary-embedding-torch 0.9.1 ``get_axial_freqs``, freqs_for="pixel"; timm 1.0.31, in_pixels.
    """
    return Coordinates(offset - 1, Fraction(2, max(length - 1, 1)), length)


def centred(length: int, offset: Fraction, side: int) -> Coordinates:
    """Return the coordinates 2·(i + ½ + offset)/side − 1: the centres of patches within ±1.

    DINOv3 ``RopePositionEmbedding``; the offset is that of timm 1.0.31 ``RotaryEmbeddingDinoV3``.
    """
    step = Fraction(2, side)
    return Coordinates(step * (Fraction(1, 2) + offset) - 1, step, length)


def halves(length: int, offset: Fraction) -> Coordinates:
    """Return the coordinates −⌈length/2⌉ … ⌊length/2⌋ − 1, plus the offset.

    diffusers 0.42.1 ``QwenEmbedRope`` with scale_rope.
    """
    return Coordinates(offset - (length - length // 2), Fraction(1), length)


def floored(length: int, reference: int) -> Coordinates:
    """Return the coordinates ⌊i·reference/length⌋: diffusers 0.42.1 ``CogView4RotaryPosEmbed``."""
    return Coordinates(Fraction(0), Fraction(reference), length, divisor=length)


def fractions(
    length: int, step: Fraction, offset: Fraction, extent: Fraction, *, has_midpoints: bool
) -> Coordinates:
    """Return max(i·step + offset, 0)/extent − ½; or the means of neighbours among these.

    diffusers 0.42.1 ``LTXVideoRotaryPosEmbed`` and ``LTX2AudioVideoRotaryPosEmbed``.
    """
    first, middle = offset / extent - Fraction(1, 2), Fraction(-1, 2)
    return Coordinates(first, step / extent, length, middle, has_midpoints=has_midpoints)


def fitted(rows: int, columns: int, reference: Sequence[int]) -> list[tuple[int, int]]:
    """Return start and stop of the rows and of the columns of a grid that is fitted into another.

    diffusers 0.42.1 ``get_resize_crop_region_for_grid``, with its float64 quotients, which are
    rounded to even.

    Args:
        rows: the number of rows of the grid.
        columns: the number of columns of the grid.
        reference: the numbers of rows and of columns of the other grid.
    """
    across, down = reference[1], reference[0]
    if rows / columns > down / across:
        across = round(down / rows * columns)
    else:
        down = round(across / columns * rows)
    starts = (
        round((full - size) / 2) for full, size in zip(reference, (down, across), strict=True)
    )
    return [(start, start + size) for start, size in zip(starts, (down, across), strict=True)]
