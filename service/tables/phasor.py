"""Rows of sines and cosines, each the product of two phasors.

With position = 64·a + b (a and b of the position's sign, so that nothing cancels in small
angles) the relative-position identity gives

    sin(position·ω) = sin(64aω)·cos(bω) + cos(64aω)·sin(bω)
    cos(position·ω) = cos(64aω)·cos(bω) − sin(64aω)·sin(bω)

so only the phasors of the a's that occur and of the few b's are evaluated. The split is fixed: a
row has the same bytes whichever rows are asked for with it.

Error, in units of 2^-53: 0.9 in each component of each factor makes at most 0.9·2√2 = 2.6 in a
sum; the roundings of the two products add 1 together, that of the sum 1 at most: below 5.

Where the whole angle is below 1, the error relative to the value's own size is below 8: both terms
of a sine have one sign, and each is off by 3.5 for its sine, 1.7 for its cosine (0.9 by cos 1) and
1 for their product, the sum by 1 more; a cosine is at least 0.54 and off by 2.6 + 1 + 1/2.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

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
from service.tables.channels import Channels, Component, Indices
from service.tables.dtypes import DType, Elements, round_into
from service.tables.positions import Positions
from service.tables.scaling import FrequencyRule
from service.tables.table import RowTable

# What multiplies, or is multiplied by, cosine and sine of the other phasor.
_Pair: TypeAlias = tuple[Float64s, Float64s]

STRIDE = 64
SETUP_CACHE_BYTES = 64 * 1024 * 1024
_MAX_FINE_BYTES = SETUP_CACHE_BYTES // 2

# Rows computed together, and elements in one step of the product: enough to make the overhead
# of a NumPy call small, few enough to stay in a core's own cache.
_BATCH_ROWS = 4096
_BATCH_ELEMENTS = 2**20
_STEP_ELEMENTS = 16384


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
    index: Indices
    is_sine: NDArray[np.bool_]
    fine: _Pair | None

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

    def spread(self, positions: Int64s) -> _Pair:
        """Give cosines and sines of positions (m,) for every channel, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        return cosine.take(self.index, axis=1), sine.take(self.index, axis=1)

    def coarse(self, positions: Int64s) -> _Pair:
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
    coarse_positions = positions - offset
    starts = np.flatnonzero(np.diff(coarse_positions, prepend=coarse_positions[0] - 1))
    coarse = setup.coarse(coarse_positions[starts])
    fine, row = setup.fine, offset + np.int64(STRIDE - 1)
    if fine is None:
        needed, row = np.unique(offset, return_inverse=True)
        fine = setup.spread(needed)

    step = min(len(positions), max(1, _STEP_ELEMENTS // width))
    scratch = _scratch(step, width), _scratch(step, width)
    stops = [*starts[1:].tolist(), len(positions)]
    if width * STRIDE >= _STEP_ELEMENTS // 2 and (np.diff(positions) == 1).all():
        yield from _products_of_runs(scratch, coarse, fine, stops, row.tolist())
    else:
        run = np.repeat(np.arange(len(stops)), np.diff(stops, prepend=0))
        yield from _products_of_rows(scratch, coarse, fine, run, row)


def _products_of_runs(
    scratch: _Pair, coarse: _Pair, fine: _Pair, stops: list[int], row: list[int]
) -> Iterator[tuple[int, Float64s]]:
    start, step = 0, len(scratch[0])
    for run, stop in enumerate(stops):
        by_cos, by_sin = coarse[0][run], coarse[1][run]
        for first in range(start, stop, step):
            rows = slice(row[first], row[first] + min(step, stop - first))
            yield first, _product(scratch, (by_cos, by_sin), (fine[0][rows], fine[1][rows]))
        start = stop


def _products_of_rows(
    scratch: _Pair, coarse: _Pair, fine: _Pair, run: Indices, row: Indices
) -> Iterator[tuple[int, Float64s]]:
    step = len(scratch[0])
    for first in range(0, len(row), step):
        part = slice(first, first + step)
        gathered = [
            factor.take(chosen[part], axis=0, mode="clip")
            for factor, chosen in zip((*coarse, *fine), (run, run, row, row), strict=True)
        ]
        yield first, _product(scratch, (gathered[0], gathered[1]), (gathered[2], gathered[3]))


def _product(scratch: _Pair, coarse: _Pair, fine: _Pair) -> Float64s:
    values, other = scratch[0][: len(fine[0])], scratch[1][: len(fine[0])]
    np.multiply(coarse[0], fine[0], out=values)
    np.multiply(coarse[1], fine[1], out=other)
    np.add(values, other, out=values)
    return values


def _scratch(rows: int, width: int) -> Float64s:
    """Make room for float64 values from the start of a cache line on: a fifth faster to work in."""
    line_bytes, item_bytes = 64, 8
    room = np.empty(rows * width + line_bytes // item_bytes)
    skipped = -room.ctypes.data % line_bytes // item_bytes
    return room[skipped : skipped + rows * width].reshape(rows, width)
