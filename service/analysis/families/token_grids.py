"""Find the grids whose tokens the rows of a table may be, and the order of the tokens.

Each channel of such a table changes along one axis: it is the same in runs of rows, and repeats
after longer ones. Tokens of rotary tables may come in square blocks, with a class token before or
after them, and once for each frame.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.views import Complexes
from service.analysis.families.requests import unless_default
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

_MAX_COLUMNS = 32

# Engines may compute equal numbers twice, in the vectorized part and in the tail of a loop: the
# last bits of a product may differ.
_EQUAL_ROUNDINGS = 4


@dataclass(frozen=True, eq=False)
class AxisLines:
    """The rows of a grid along each axis, where the other axes are at their first token.

    Attributes:
        lengths: the number of tokens along each axis, the slowest axis first.
        lines: for each axis, the rows along it, (length, C).
        depends: for each axis, a mask of the channels that change along it, (C,).
    """

    lengths: tuple[int, ...]
    lines: tuple[Float64s, ...]
    depends: tuple[NDArray[np.bool_], ...]

    def only(self, axis: int, channels: Sequence[int] | NDArray[np.intp]) -> bool:
        """Return whether the channels with these indices are constant along all other axes."""
        others = (depends for other, depends in enumerate(self.depends) if other != axis)
        return not any(depends[channels].any() for depends in others)


def axis_lines(rows: Float64s, lengths: tuple[int, ...], rounding: float) -> AxisLines:
    """Return the rows along each axis of a grid with given lengths; ``rows`` is (S, C)."""
    steps = [prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
    lines = tuple(rows[: length * step : step] for length, step in zip(lengths, steps, strict=True))
    tolerance = _EQUAL_ROUNDINGS * rounding
    return AxisLines(lengths, lines, tuple(np.ptp(line, axis=0) > tolerance for line in lines))


def token_grids(rows: Float64s, rounding: float) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of the two- or three-axis grids that the rows may be the tokens of.

    Args:
        rows: the table, token by token, (S, C).
        rounding: half a unit in the last place of its numbers, at 1.
    """
    count, width = rows.shape
    columns = rows[:, spread_channels(width, _MAX_COLUMNS)]
    tolerance = _EQUAL_ROUNDINGS * rounding
    varies = np.ptp(columns, axis=0) > tolerance
    if count < 2 or not varies.any():
        return
    grids = list(_repeating_grids(columns[:, varies], tolerance))
    yield from grids
    if not varies.all():
        for lengths in [(count,), *(each for each in grids if len(each) == 2)]:
            for place in range(len(lengths), -1, -1):
                yield (*lengths[:place], 1, *lengths[place:])
        yield from ((1, 1, count), (count, 1, 1), (1, count, 1))


def spread_channels(count: int, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` unevenly spaced channel indices: axes may alternate at even steps."""
    if count <= most:
        return np.arange(count)
    golden = np.arange(most) * 0.6180339887498949 % 1
    return np.unique((golden * count).astype(np.intp))


def _repeating_grids(columns: Float64s, tolerance: float) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of grids of three axes, then of two axes, that fit the columns (S, C).

    A grid of three axes also fits as one of two axes, with two axes joined.
    """
    count = len(columns)
    spans = [span for span in range(2, count) if count % span == 0]
    steady = {span: _is_steady(columns, span, tolerance) for span in spans}
    periodic = {span: _is_periodic(columns, span, tolerance) for span in spans}
    for short, long in combinations(spans, 2):
        if long % short == 0:
            middle = steady[short] & periodic[long]
            if _are_kinds(steady[long], middle, periodic[short]):
                yield count // long, long // short, short
    for span in spans:
        if _are_kinds(steady[span], periodic[span]):
            yield count // span, span


def _are_kinds(*kinds: NDArray[np.bool_]) -> bool:
    """Return whether every channel has at least one kind, and each kind is some channel's only.

    Each kind is a mask (C,) of the channels of that kind.
    """
    number = np.sum(kinds, axis=0)
    return bool((number > 0).all() and all((kind & (number == 1)).any() for kind in kinds))


def _is_steady(columns: Float64s, span: int, tolerance: float) -> NDArray[np.bool_]:
    """Return a mask (C,): True if a channel is constant in the first and in the last span rows."""
    first, last = (np.ptp(run, axis=0) for run in (columns[:span], columns[-span:]))
    return np.asarray(np.maximum(first, last) <= tolerance)


def _is_periodic(columns: Float64s, span: int, tolerance: float) -> NDArray[np.bool_]:
    """Return a mask (C,): True if the next and last span rows of a channel repeat the first."""
    others = np.stack([columns[span : 2 * span], columns[-span:]])
    return np.asarray(np.abs(others - columns[:span]).max(axis=(0, 1)) <= tolerance)


# Tokens of rotary tables.

_FIRST, _LAST = "first", "last"
_MERGES = (2, 3, 4)
_EARLY_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class AxialTokens:
    """A grid, and the phasors of the rows along each of its axes.

    Attributes:
        lengths: tokens along each axis, the slowest first.
        lines: the phasors along each axis, where the others are at their first token, (length, K).
        depends: True where the angle of a frequency changes along an axis, (A, K).
        class_token: the position of an additional row with all angles 0, ``first`` or ``last``;
            None if there is no such row.
        merge: the side length of the square blocks of tokens; 1 if tokens are in row order.
        frames: the number of repetitions of the grid.
    """

    lengths: tuple[int, ...]
    lines: tuple[Complexes, ...]
    depends: NDArray[np.bool_]
    class_token: str | None
    merge: int
    frames: int = 1

    @property
    def rows(self) -> int:
        return self.frames * prod(self.lengths) + (self.class_token is not None)

    @property
    def count(self) -> int:
        """The number of frequencies."""
        return len(self.depends[0])

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths of the axes, preceded by the number of frames if there are several."""
        return (self.frames, *self.lengths) if self.frames > 1 else self.lengths

    def may_be(self, axis_of: NDArray[np.intp]) -> bool:
        """Return whether the angles of each frequency change along no axis but ``axis_of[k]``."""
        elsewhere = np.arange(len(self.lengths))[:, np.newaxis] != axis_of
        return not bool((self.depends & elsewhere).any())

    def block_widths(self, order: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the channel count of each axis in this order; None unless axes are in blocks."""
        number = self.depends.sum(axis=0)
        if (number > 1).any():
            return None
        # Slow frequencies may not change in a narrow type: they are of the axis before them.
        axis = np.where(number == 1, self.depends.argmax(axis=0), -1)
        known = np.maximum.accumulate(np.where(axis >= 0, np.arange(self.count), 0))
        axis = np.where(axis[known] >= 0, axis[known], order[0])
        widths = tuple(2 * int((axis == each).sum()) for each in order)
        expected = np.repeat(order, [width // 2 for width in widths])
        return widths if min(widths) > 0 and np.array_equal(axis, expected) else None

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the request parameters for the class token and the square blocks of tokens."""
        return {
            **unless_default("class_token", self.class_token or "", ""),
            **unless_default("spatial_merge_size", self.merge, 1),
        }


def block_order(lengths: tuple[int, ...], merge: int) -> NDArray[np.intp]:
    """Return, for tokens ordered in merge×merge blocks, the index of each token in row order."""
    *outer, height, width = lengths
    tokens = np.arange(prod(lengths)).reshape(*outer, height // merge, merge, width // merge, merge)
    return np.moveaxis(tokens, -3, -2).reshape(-1)


def axial_tokens(phasors: Complexes, rounding: float) -> Iterator[AxialTokens]:
    """Yield the token grids that fit the rows of phasors (S, K), the simplest first."""
    is_constant = np.abs(phasors - 1).max(axis=1) <= 4 * rounding
    yield from _grids(phasors, rounding, None)
    if is_constant[0]:
        yield from _grids(phasors[1:], rounding, _FIRST)
    if is_constant[-1]:
        yield from _grids(phasors[:-1], rounding, _LAST)
    frames = _count_frames(phasors, rounding)
    if frames > 1:
        for tokens in _grids(phasors[: len(phasors) // frames], rounding, None):
            yield replace(tokens, frames=frames)


def _count_frames(phasors: Complexes, rounding: float) -> int:
    """Return the number of frames: how often the rows repeat the same block of rows."""
    count = len(phasors)
    for part in range(2, count // 2 + 1):
        if count % part == 0 and np.abs(phasors[part] - phasors[0]).max() <= 4 * rounding:
            repeated = phasors.reshape(count // part, part, -1)
            if np.abs(repeated - repeated[:1]).max() <= 4 * rounding:
                return count // part
    return 1


def _grids(phasors: Complexes, rounding: float, class_token: str | None) -> Iterator[AxialTokens]:
    """Yield the grids that fit tokens in row order, then those that fit tokens in blocks."""

    def tokens(parts: Float64s, lengths: tuple[int, ...], merge: int) -> AxialTokens:
        along, count = axis_lines(parts, lengths, rounding), phasors.shape[1]
        lines = tuple(line[:, :count] + 1j * line[:, count:] for line in along.lines)
        depends = np.array([each[:count] | each[count:] for each in along.depends])
        return AxialTokens(lengths, lines, depends, class_token, merge)

    parts = _parts(phasors)
    for lengths in dict.fromkeys(token_grids(parts, rounding)):
        yield tokens(parts, lengths, 1)
    some = _parts(phasors[:, spread_channels(phasors.shape[1], _EARLY_COLUMNS)])
    for merge in _MERGES:
        if len(phasors) % merge**2 or not _begins_with_block(some, merge, 4 * rounding):
            continue
        for width in range(merge, len(phasors) // merge + 1, merge):
            height, rest = divmod(len(phasors), width)
            if rest or height % merge:
                continue
            row_by_row = np.argsort(block_order((height, width), merge))
            if (height, width) in token_grids(some[row_by_row], rounding):
                yield tokens(parts[row_by_row], (height, width), merge)


def _parts(phasors: Complexes) -> Float64s:
    return np.concatenate([phasors.real, phasors.imag], axis=1)


def _begins_with_block(columns: Float64s, merge: int, tolerance: float) -> bool:
    """Return whether the first merge×merge block of tokens looks like a square block.

    In it every channel must be constant along rows or along columns, and both cases must occur.
    """
    block = columns[: merge**2].reshape(merge, merge, -1)
    is_row = np.ptp(block, axis=1).max(axis=0) <= tolerance
    is_column = np.ptp(block, axis=0).max(axis=0) <= tolerance
    return bool((is_row | is_column).all() and is_row.any() and is_column.any())
