"""Rows of position ids as pieces, each of constant size in memory whatever its length.

A piece is a run of tokens whose ids follow one formula on each axis: text, masked tokens, the grid
of a picture or of a video, or a part of one. Any range of a row is computed from its pieces.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from service.numerics.dtypes import FLOAT32, INT64, DType, Elements
from service.numerics.phase import Int64s
from service.numerics.tables import ELEMENT_SECONDS, read_blocks

Ramp: TypeAlias = Callable[[Int64s], Elements]
"""The distance of the n-th step from the origin, of a type that fits that of the ids."""

# The processor seconds of the call of a piece.
_PIECE_SECONDS = 2.5e-6


@dataclass(frozen=True, slots=True)
class Progress:
    """The ids of a piece along one axis: origin + ramp(⌊i/every⌋ mod length) for its token i.

    Attributes:
        origin: the id of the first token.
        every: the number of tokens with the same id.
        length: the number of steps before it begins again; None if it never does.
        ramp: the distance of each step from the origin; the number of the step if None.
    """

    origin: Any
    every: int = 1
    length: int | None = None
    ramp: Ramp | None = None

    def at(self, tokens: Int64s, dtype: DType) -> Elements:
        """Return the ids of tokens; sums are rounded to the type of the ids."""
        steps = tokens if self.every == 1 else tokens // self.every
        if self.length is not None:
            steps = steps % self.length
        distance = steps if self.ramp is None else self.ramp(steps)
        return np.asarray(distance.astype(dtype.storage) + self.origin)

    def largest(self, start: int, stop: int, dtype: DType) -> Any:
        """Return the largest id of the tokens start to stop, of a ramp that never falls."""
        first, last = start // self.every, (stop - 1) // self.every
        if self.length is not None:
            wraps = first // self.length != last // self.length
            last = self.length - 1 if wraps else last % self.length
        distance = last if self.ramp is None else self.ramp(np.array([last]))[0].item()
        return scalar_of(dtype)(distance) + self.origin


def scalar_of(dtype: DType) -> Callable[[Any], Any]:
    """Return the type of a single id: int has no largest number."""
    return np.float32 if dtype is FLOAT32 else int


def constant(value: Any) -> Progress:
    """Return the progress of tokens that all have one id."""
    return Progress(value, length=1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens.

    Attributes:
        count: how many tokens, at least one.
        axes: their ids along each axis.
        first: the number of the first one in the formula, where the piece is a part of a whole.
        is_masked: whether they are masked.
    """

    count: int
    axes: tuple[Progress, ...]
    first: int = 0
    is_masked: bool = False

    def part(self, start: int, stop: int) -> "Piece":
        """Return some tokens of the piece."""
        return Piece(stop - start, self.axes, self.first + start)

    def largest(self, dtype: DType) -> Any:
        """Return the largest id on any axis."""
        first, stop = self.first, self.first + self.count
        # Text has the same ids on all axes.
        axes = self.axes[:1] if self.axes[0] is self.axes[-1] else self.axes
        return max([axis.largest(first, stop, dtype) for axis in axes])


def grid_piece(
    origins: Sequence[Any], shape: tuple[int, int, int], times: Ramp | None = None
) -> Piece:
    """Return the tokens of a grid, row by row: origin plus frame, row and column on each axis."""
    frames, height, width = shape
    t, h, w = origins
    axes = (
        Progress(t, height * width, frames, times),
        Progress(h, width, height),
        Progress(w, 1, width),
    )
    return Piece(frames * height * width, axes)


@dataclass(frozen=True)
class Row:
    """The tokens of one sequence.

    Attributes:
        pieces: its pieces, in order.
        delta: what to add to the number of tokens for the position of the next one.
        following: the position of the first decoded token.
        counted: the number of tokens that ``delta`` is added to.
    """

    pieces: tuple[Piece, ...]
    delta: Any = 0
    following: Any = 0
    counted: int = 0
    ends: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", tuple(accumulate(piece.count for piece in self.pieces)))

    @property
    def count(self) -> int:
        """The number of tokens, masked ones included."""
        return self.ends[-1] if self.ends else 0

    def mask(self) -> "Row":
        """Return a row of ones, with zeros for masked tokens."""
        return Row(
            tuple(Piece(each.count, (constant(int(not each.is_masked)),)) for each in self.pieces)
        )

    def fill(self, axis: int, start: int, ids: Elements, dtype: DType) -> None:
        """Fill an array with the ids of the tokens from ``start`` on."""
        number, done = bisect_right(self.ends, start), 0
        while done < len(ids):
            piece, end = self.pieces[number], self.ends[number]
            stop = min(done + end - start, len(ids))
            first = piece.first + piece.count - (end - start)
            tokens = np.arange(first, first + stop - done, dtype=np.int64)
            ids[done:stop] = piece.axes[axis].at(tokens, dtype)
            number, start, done = number + 1, end, stop


@dataclass(frozen=True, eq=False)
class PiecesTable:
    """The ids of rows of equal length, (axes, rows, tokens), or without one of the first two axes.

    Attributes:
        rows: the rows.
        axes: the number of axes; None for a table without that axis.
        dtype: the type of the ids.
        skipped: the number of first tokens that are left out.
        is_batch: whether the table has an axis of rows; without it there is one row.
    """

    rows: Sequence[Row]
    axes: int | None = None
    dtype: DType = INT64
    skipped: int = 0
    is_batch: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        rows = (len(self.rows),) if self.is_batch else ()
        shape = (*rows, self.rows[0].count - self.skipped)
        return shape if self.axes is None else (self.axes, *shape)

    @cached_property
    def element_seconds(self) -> float:
        pieces = sum(len(row.pieces) for row in self.rows)
        elements = len(self.rows) * self.shape[-1]
        return 2 * ELEMENT_SECONDS + _PIECE_SECONDS * pieces / elements

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.shape[-1], self.dtype, self._fill)

    def _fill(self, rows: range, columns: range, block: Elements) -> None:
        for number, ids in zip(rows, block, strict=True):
            axis, row = divmod(number, len(self.rows))
            self.rows[row].fill(axis, self.skipped + columns.start, ids, self.dtype)


def one_run(count: int, first: Any, axes: int = 1) -> Piece:
    """Return tokens with consecutive ids, the same on every axis."""
    return Piece(count, (Progress(first),) * axes)


def joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Return the pieces that have tokens."""
    return tuple(piece for piece in pieces if piece.count)
