"""The turns that a rotary table says, read in every pack that it may be in.

Which grid the rows of a rotary table are the tokens of, and in which order they come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput
from service.analysis.families.grid_tables import axis_lines, some_of, token_grids
from service.analysis.measure import Complexes, LayoutReading, layout_readings
from service.encodings.grid.grids import GridAxis
from service.encodings.rotary.packs import PACKS, Pack
from service.numerics.document import ParameterValue
from service.numerics.dtypes import REAL_DTYPES, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels

# What engines in float32 may add to rounding, far out: norms are judged loosely, numbers later.
_STRUCTURE = 2.0**-13
_NAMES = {"concatenated": "sin_concat", "interleaved": None}
_EARLY_ROWS = 64

Components: TypeAlias = tuple[Float64s, Float64s]
"""Cosines and sines, (S, K) each, as views of what was sent: nothing is copied to look at some."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A rotary table read in a pack.

    Attributes:
        pack: its name.
        components: cosines and sines of each row and frequency, (S, K) each.
        scale: what they were multiplied by.
        dtype: the type of the numbers.
    """

    pack: str
    components: Components
    scale: float
    dtype: DType

    @cached_property
    def turns(self) -> Complexes:
        """Cosine + i·sine of each row and frequency, (S, K)."""
        cosine, sine = self.components
        return cosine + 1j * sine

    @property
    def count(self) -> int:
        """How many frequencies there are."""
        return int(self.components[0].shape[1])

    def some(self, frequencies: list[int]) -> Complexes:
        """Give the turns of some frequencies alone, which costs less than those of all."""
        cosine, sine = self.components
        turns: Complexes = cosine[:, frequencies] + 1j * sine[:, frequencies]
        return turns

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)

    @property
    def least(self) -> float:
        """Half the smallest number above 0: what rounding moves the very smallest numbers by."""
        return rounding_bound(self.dtype, 0.0) / 2

    def channels(self) -> Mapping[str, Channels]:
        """Say what each array holds in which channel; nothing where it holds angles."""
        pack, count = PACKS[self.pack], self.count
        if not isinstance(pack, Pack):
            return {}
        return {
            name: Channels(parts, pack.interleaved, count * len(parts) * pack.repeats, pack.repeats)
            for name, parts in pack.parts.items()
        }


def packed(question: IdentifyInput) -> Iterator[Packed]:
    """Read arrays in each pack in which pairs of channels have one norm."""
    sample = question.sample
    if any(
        each.element_dtype.name not in REAL_DTYPES or not each.is_finite
        for each in question.arrays.values()
    ):
        return
    for name, components in _readings(question):
        found = Packed(name, components, 1.0, sample.element_dtype)
        cosine, sine = (each[:_EARLY_ROWS] for each in components)
        early = np.hypot(cosine, sine)
        scale = float(np.median(early)) or 1.0
        loose = 8 * found.rounding + _STRUCTURE
        if early.size and np.abs(early / scale - 1).max() <= loose:
            is_one = abs(scale - 1) <= loose
            yield Packed(name, components, 1.0 if is_one else scale, sample.element_dtype)


def _readings(question: IdentifyInput) -> Iterator[tuple[str, Components]]:
    if question.is_pair:
        cosine, sine = (question.arrays[name].reals() for name in ("cos", "sin"))
        if cosine.shape == sine.shape and cosine.ndim >= 2:
            yield from _of_two(_flat(cosine), _flat(sine))
        return
    if len(question.arrays) > 1:
        return
    values = question.sample.reals()
    if question.sample.is_complex:
        if values.ndim >= 3:
            yield "complex", (_flat(values[..., 0]), _flat(values[..., 1]))
        return
    if values.ndim >= 3 and values.shape[-1] == 2:
        yield "pair", (_flat(values[..., 0]), _flat(values[..., 1]))
        return
    if values.ndim >= 2:
        yield from _of_rows(_flat(values))


def _flat(values: Float64s) -> Float64s:
    return values.reshape(-1, values.shape[-1])


def _of_two(cosine: Float64s, sine: Float64s) -> Iterator[tuple[str, Components]]:
    half, is_even = cosine.shape[1] // 2, cosine.shape[1] % 2 == 0
    both = cosine, sine
    if is_even and all(np.array_equal(each[:, :half], each[:, half:]) for each in both):
        yield "half", (cosine[:, :half], sine[:, :half])
    if is_even and all(np.array_equal(each[:, ::2], each[:, 1::2]) for each in both):
        yield "interleaved", (cosine[:, ::2], sine[:, ::2])
    yield "compact", both


def _of_rows(rows: Float64s) -> Iterator[tuple[str, Components]]:
    early = rows[:_EARLY_ROWS]
    loose = 2.0**-6
    for reading in layout_readings(early):
        name = _NAMES.get(reading.layout, reading.layout)
        norms = np.abs(reading.phasors)
        if name and reading.copy_error <= loose and np.ptp(norms) <= loose * norms.max(initial=1):
            yield name, _components(rows, reading)
    if np.abs(rows).max(initial=0) > 1:
        yield "angle", (np.cos(rows), np.sin(rows))


def _components(rows: Float64s, reading: LayoutReading) -> Components:
    """Give the channels of a layout that hold the cosines, and the sines, for the first time."""
    frequency, is_sine = reading.channels.indices()
    channels = np.arange(len(frequency))
    cosine, sine = (
        channels[part][np.unique(frequency[part], return_index=True)[1]][: reading.phasors.shape[1]]
        for part in (~is_sine, is_sine)
    )
    return _spread(rows, cosine), _spread(rows, sine)


def _spread(rows: Float64s, channels: NDArray[np.intp]) -> Float64s:
    """Give channels that are equally far apart, as those of every layout are, without a copy."""
    step = int(channels[1] - channels[0]) if len(channels) > 1 else 1
    return rows[:, int(channels[0]) : int(channels[-1]) + 1 : step]


_FIRST, _LAST = "first", "last"
_MERGES = (2, 3, 4)
_EARLY_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class AxialTokens:
    """A grid, and the turns of the rows along each of its axes.

    Attributes:
        lengths: tokens along each axis, the slowest first.
        rows: how many rows there are, with that of a class token.
        count: frequencies.
        lines: for each axis the turns where the others are at their first token, (length, K).
        depends: for each axis, whether a frequency turns along it, (A, K).
        class_token: where there is one more row that nothing turns.
        merge: rows and columns of the blocks that tokens come in; 1 where they do not.
        frames: how often the grid is repeated.
    """

    lengths: tuple[int, ...]
    rows: int
    count: int
    lines: tuple[Complexes, ...]
    depends: NDArray[np.bool_]
    class_token: str | None
    merge: int
    frames: int = 1

    @property
    def grid(self) -> tuple[int, ...]:
        """The lengths, after the number of frames where there are several."""
        return (self.frames, *self.lengths) if self.frames > 1 else self.lengths

    def may_be(self, axis_of: NDArray[np.intp]) -> bool:
        """Tell whether frequencies turn along no axis but that which is said."""
        elsewhere = np.arange(len(self.lengths))[:, np.newaxis] != axis_of
        return not bool((self.depends & elsewhere).any())

    def block_widths(self, order: tuple[int, ...]) -> tuple[int, ...] | None:
        """Say how many channels of each axis lie together; none where they do not."""
        number = self.depends.sum(axis=0)
        if (number > 1).any():
            return None
        # The slow ones of an axis may stand still in a narrow type: they follow its faster ones.
        axis = np.where(number == 1, self.depends.argmax(axis=0), -1)
        known = np.maximum.accumulate(np.where(axis >= 0, np.arange(self.count), 0))
        axis = np.where(axis[known] >= 0, axis[known], order[0])
        widths = tuple(2 * int((axis == each).sum()) for each in order)
        expected = np.repeat(order, [width // 2 for width in widths])
        return widths if min(widths) > 0 and np.array_equal(axis, expected) else None

    def parameters(self) -> dict[str, ParameterValue]:
        """Say what is said of tokens beside the grid."""
        said: dict[str, ParameterValue] = {}
        if self.class_token is not None:
            said["class_token"] = self.class_token
        if self.merge > 1:
            said["spatial_merge_size"] = self.merge
        return said

    def coordinates(self, axis: int, first: float, step: float) -> Float64s:
        """Give the coordinate of each row along an axis, 0 for a class token."""
        tokens = prod(self.lengths)
        inner = prod(self.lengths[axis + 1 :])
        places = GridAxis(0, 1, self.lengths[axis], inner).at(0, tokens)
        if self.merge > 1:
            places = places[block_order(self.lengths, self.merge)]
        along: Float64s = np.tile(first + step * places, self.frames)
        if self.class_token is None:
            return along
        is_last = self.class_token == _LAST
        still = np.zeros(1)
        return np.concatenate([along, still] if is_last else [still, along])


def block_order(lengths: tuple[int, ...], merge: int) -> NDArray[np.intp]:
    """Say which token of a grid, row by row, each token of its blocks is."""
    *outer, height, width = lengths
    tokens = np.arange(prod(lengths)).reshape(*outer, height // merge, merge, width // merge, merge)
    return np.moveaxis(tokens, -3, -2).reshape(-1)


def axial_tokens(turns: Complexes, rounding: float) -> Iterator[AxialTokens]:
    """Give the grids that rows of turns (S, K) may be the tokens of, the plainest first."""
    is_still = np.abs(turns - 1).max(axis=1) <= 4 * rounding
    variants: list[tuple[str | None, Complexes]] = [(None, turns)]
    variants += [(_FIRST, turns[1:])] if is_still[0] else []
    variants += [(_LAST, turns[:-1])] if is_still[-1] else []
    for class_token, rows in variants:
        yield from _row_by_row(rows, rounding, class_token)
        yield from _in_blocks(rows, rounding, class_token)
    frames = _frames(turns, rounding)
    if frames > 1:
        one = turns[: len(turns) // frames]
        for tokens in (*_row_by_row(one, rounding, None), *_in_blocks(one, rounding, None)):
            yield replace(tokens, rows=len(turns), frames=frames)


def _frames(turns: Complexes, rounding: float) -> int:
    """Count how often the rows repeat those of a first part."""
    count = len(turns)
    for part in range(2, count // 2 + 1):
        if count % part == 0 and np.abs(turns[part] - turns[0]).max() <= 4 * rounding:
            repeated = turns.reshape(count // part, part, -1)
            if np.abs(repeated - repeated[:1]).max() <= 4 * rounding:
                return count // part
    return 1


def _row_by_row(
    turns: Complexes, rounding: float, class_token: str | None
) -> Iterator[AxialTokens]:
    parts = _parts(turns)
    for lengths in dict.fromkeys(token_grids(parts, rounding)):
        yield _taken_apart(parts, lengths, rounding, class_token, 1)


def _parts(turns: Complexes) -> Float64s:
    return np.concatenate([turns.real, turns.imag], axis=1)


def _taken_apart(
    parts: Float64s, lengths: tuple[int, ...], rounding: float, class_token: str | None, merge: int
) -> AxialTokens:
    count = parts.shape[1] // 2
    found = axis_lines(parts, lengths, rounding)
    lines = tuple(line[:, :count] + 1j * line[:, count:] for line in found.lines)
    depends = np.array([each[:count] | each[count:] for each in found.depends])
    rows = len(parts) + (class_token is not None)
    return AxialTokens(lengths, rows, count, lines, depends, class_token, merge)


def _in_blocks(turns: Complexes, rounding: float, class_token: str | None) -> Iterator[AxialTokens]:
    """Look for a grid whose tokens come in square blocks: the first of them says their size."""
    some = _parts(turns[:, some_of(turns.shape[1], _EARLY_COLUMNS)])
    tolerance = 4 * rounding
    for merge in _MERGES:
        if len(turns) % merge**2 or not _begins_with_block(some, merge, tolerance):
            continue
        for width in range(merge, len(turns) // merge + 1, merge):
            height, rest = divmod(len(turns), width)
            if rest or height % merge:
                continue
            unordered = np.argsort(block_order((height, width), merge))
            if (height, width) in set(token_grids(some[unordered], rounding)):
                parts = _parts(turns)[unordered]
                yield _taken_apart(parts, (height, width), rounding, class_token, merge)


def _begins_with_block(columns: Float64s, merge: int, tolerance: float) -> bool:
    """Tell whether each channel is the same in the rows or in the columns of the first block."""
    block = columns[: merge**2].reshape(merge, merge, -1)
    is_row = np.ptp(block, axis=1).max(axis=0) <= tolerance
    is_column = np.ptp(block, axis=0).max(axis=0) <= tolerance
    return bool((is_row | is_column).all() and is_row.any() and is_column.any())
