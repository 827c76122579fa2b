"""Rows of sines and cosines, each the product of two phasors.

With position = 64·a + b (a and b of the position's sign, so that nothing cancels in small
angles) the relative-position identity gives

    sin(position·ω) = sin(64aω)·cos(bω) + cos(64aω)·sin(bω)
    cos(position·ω) = cos(64aω)·cos(bω) − sin(64aω)·sin(bω)

so only the phasors of the a's that occur and of the few b's are evaluated. The split is fixed: a
row has the same bytes whichever rows are asked for with it.

Error, in units of 2^-53: 0.9 in each component of each factor makes at most 0.9·2√2 = 2.6 in a
sum; the roundings of the two products add 1 together, that of the sum 1 at most: below 5.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.lru import ByteBoundedLRU
from service.tables.angle import (
    FixedPointFrequencies,
    Float64s,
    Int64s,
    fixed_point,
    sin_cos,
)
from service.tables.dtypes import DType, Elements, round_into
from service.tables.positions import Positions
from service.tables.scaling import FrequencyRule
from service.tables.table import RowTable

Component: TypeAlias = Literal["sin", "cos"]

STRIDE = 64
SETUP_CACHE_BYTES = 64 * 1024 * 1024
_MAX_FINE_BYTES = SETUP_CACHE_BYTES // 2

# Rows computed together, and elements in one step of the product: enough to make the overhead
# of a NumPy call small, few enough to stay in a core's own cache.
_BATCH_ROWS = 4096
_BATCH_ELEMENTS = 2**20
_STEP_ELEMENTS = 16384


@dataclass(frozen=True)
class Channels:
    """Say which component of which frequency each channel of a row holds.

    Attributes:
        components: the components in turn.
        interleaved: whether they alternate channel by channel, or each fills a part of the row.
        width: channels in the row. Where it is no multiple of the number of components, the
            last ones have one channel less.
    """

    components: tuple[Component, ...]
    interleaved: bool
    width: int

    def indices(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Give the frequency's index, and whether it is the sine, for each channel."""
        parts = len(self.components)
        channel = np.arange(self.width)
        if self.interleaved:
            frequency, part = np.divmod(channel, parts)
        else:
            part, frequency = np.divmod(channel, -(-self.width // parts))
        is_sine = np.array([component == "sin" for component in self.components])
        return frequency, is_sine[part]


@dataclass(frozen=True, eq=False)
class _Setup:
    """What every read of the same frequencies in the same channels shares.

    Attributes:
        frequencies: n of them, in fixed point.
        index, is_sine: the channels, each of shape (width,).
        fine: cosines and sines of the positions −63 … 63, each of shape (127, width); none where
            rows are so wide that a read computes the few it needs.
    """

    frequencies: FixedPointFrequencies
    index: NDArray[np.intp]
    is_sine: NDArray[np.bool_]
    fine: tuple[Float64s, Float64s] | None

    @classmethod
    def of(cls, rule: FrequencyRule, channels: Channels) -> "_Setup":
        """Prepare the reading of frequencies in channels."""
        bare = cls(fixed_point(rule.exact()), *channels.indices(), None)
        rows = np.arange(1 - STRIDE, STRIDE, dtype=np.int64)
        if 2 * 8 * len(rows) * channels.width > _MAX_FINE_BYTES:
            return bare
        return replace(bare, fine=bare.spread(rows))

    @property
    def size_bytes(self) -> int:
        """What it takes, generously."""
        fine_bytes = 0 if self.fine is None else 2 * self.fine[0].nbytes
        return fine_bytes + 64 * len(self.index) + 1024

    def spread(self, positions: Int64s) -> tuple[Float64s, Float64s]:
        """Give cosines and sines of positions (m,) for every channel, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        return cosine.take(self.index, axis=1), sine.take(self.index, axis=1)

    def coarse(self, positions: Int64s) -> tuple[Float64s, Float64s]:
        """Give what multiplies the cosine and the sine of the fine phasors, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        every = np.concatenate([cosine, sine, 0.0 - sine], axis=1)
        cosines, sines, opposites = self.index + np.arange(3)[:, np.newaxis] * cosine.shape[1]
        return (
            every.take(np.where(self.is_sine, sines, cosines), axis=1),
            every.take(np.where(self.is_sine, cosines, opposites), axis=1),
        )


_setups: ByteBoundedLRU[tuple[FrequencyRule, Channels], _Setup] = ByteBoundedLRU(SETUP_CACHE_BYTES)


def _setup(rule: FrequencyRule, channels: Channels) -> _Setup:
    known = _setups.get((rule, channels))
    if known is not None:
        return known
    made = _Setup.of(rule, channels)
    _setups.put((rule, channels), made, made.size_bytes)
    return made


@dataclass(frozen=True, eq=False)
class PhasorTable(RowTable):
    """A table of sines and cosines of positions times frequencies, one row a position.

    Attributes:
        rule: the frequencies.
        channels: what a row holds.
        positions: the position of each row.
        dtype: a real element type.
        shape: any whose size is rows × channels.
        scale: multiplies the value in float64, before it is rounded to the element type.
    """

    rule: FrequencyRule
    channels: Channels
    positions: Positions
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return self.channels.width

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        setup = _setup(self.rule, self.channels)
        batch_rows = min(_BATCH_ROWS, max(1, _BATCH_ELEMENTS // self.row_width))
        for start in range(0, len(rows), batch_rows):
            batch = rows[start : start + batch_rows]
            positions = self.positions.at(first + start, first + start + len(batch))
            for done, exact in _products(setup, positions):
                if self.scale != 1.0:
                    np.multiply(exact, self.scale, out=exact)
                round_into(exact, batch[done : done + len(exact)], self.dtype)


def component(rule: FrequencyRule, name: Component, positions: Int64s) -> Float64s:
    """Give the sines or cosines of positions (m,) times frequencies (n,) as float64 (m, n)."""
    setup = _setup(rule, Channels((name,), interleaved=False, width=rule.count))
    values = np.empty((len(positions), rule.count))
    for done, part in _products(setup, positions):
        values[done : done + len(part)] = part
    return values


def _products(setup: _Setup, positions: Int64s) -> Iterator[tuple[int, Float64s]]:
    """Yield the rows of positions in steps: number of the first, and values valid until the next.

    Consecutive positions come in runs of up to 64 rows with one coarse phasor, which multiplies
    the fine ones where they lie. Any others, and rows so narrow that a run is hardly worth a call,
    have both phasors gathered row by row.
    """
    width = len(setup.index)
    offset = np.fmod(positions, np.int64(STRIDE))
    coarse = positions - offset
    starts = np.concatenate([[0], np.flatnonzero(np.diff(coarse)) + 1, [len(positions)]])
    factors = setup.coarse(coarse[starts[:-1]])
    if setup.fine is None:
        needed, row = np.unique(offset, return_inverse=True)
        fine_cos, fine_sin = setup.spread(needed)
    else:
        row = offset + np.int64(STRIDE - 1)
        fine_cos, fine_sin = setup.fine

    step = min(len(positions), max(1, _STEP_ELEMENTS // width))
    scratch = _scratch(step * width), _scratch(step * width)
    wide = width * STRIDE >= _STEP_ELEMENTS // 2
    if wide and (np.diff(positions) == 1).all():
        for index, (start, stop) in enumerate(pairwise(starts.tolist())):
            by_cos, by_sin = (factor[index : index + 1] for factor in factors)
            for first in range(start, stop, step):
                part = slice(row[first], row[first] + min(step, stop - first))
                yield first, _product(scratch, (by_cos, by_sin), (fine_cos[part], fine_sin[part]))
        return
    runs = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    for first in range(0, len(positions), step):
        part = slice(first, first + step)
        by_cos, by_sin = (factor.take(runs[part], axis=0, mode="clip") for factor in factors)
        fine = (
            fine_cos.take(row[part], axis=0, mode="clip"),
            fine_sin.take(row[part], axis=0, mode="clip"),
        )
        yield first, _product(scratch, (by_cos, by_sin), fine)


def _scratch(count: int) -> Float64s:
    """Make room for float64 values from the start of a cache line on: a fifth faster to work in."""
    line_bytes, item_bytes = 64, 8
    room = np.empty(count + line_bytes // item_bytes)
    skipped = -room.ctypes.data % line_bytes // item_bytes
    return room[skipped : skipped + count]


def _product(
    scratch: tuple[Float64s, Float64s],
    coarse: tuple[Float64s, Float64s],
    fine: tuple[Float64s, Float64s],
) -> Float64s:
    values, other = (room[: fine[0].size].reshape(fine[0].shape) for room in scratch)
    np.multiply(coarse[0], fine[0], out=values)
    np.multiply(coarse[1], fine[1], out=other)
    values += other
    return values
