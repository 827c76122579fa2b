"""Rows of sines and cosines, each the product of two phasors.

With position = 64·a + b (a and b of the position's sign, so that nothing cancels in small
angles) the relative-position identity gives

    sin(position·ω) = sin(64aω)·cos(bω) + cos(64aω)·sin(bω)
    cos(position·ω) = cos(64aω)·cos(bω) − sin(64aω)·sin(bω)

so only the phasors of the a's that occur and of the few b's are evaluated. The split is fixed: a
row has the same bytes whichever rows are asked for with it.

Error, in units of 2^-53: 0.9 in each component of each factor makes at most 0.9·2√2 = 2.6 in a
sum. Of the two products, the sum of whose sizes is at most 1, one rounds by 1/2 and the other by
1/4 at most, their sum by 1/2: 3.9 together. A scale is rounded by 1 of its size, as is the product
with it: below 6 times the scale.

Where the whole angle is below 1, the error relative to the value's own size is below 6, and below 8
with a scale. Both terms of a sine have one sign. From 2^-30 on, the sine of a factor is off by 1.5
of its size (the last addition rounds by 1, what it adds is a tenth of it and carries four), its
cosine by 1.7 (0.9 by cos 1), their product by 1, the sum by 1 more. A sine below that may be off by
3.5, but then the cosine beside it is 1, and the product exact; where only the fine one is so small,
it is at most half of the sum. A cosine of the whole is at least 0.54; its factors, of angles that
add up to 1, put in 1.9 (0.72 for each cosine, and 0.55 for a sine below 1/2 or 0.8 above, times the
other), its products 0.65 and its sum 1/2.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.channels import Channels, Component
from service.tables.dtypes import DType, Elements, round_into
from service.tables.factors import CoarseRuns, Pair, Setup, setup_of
from service.tables.frequencies import FrequencyRule
from service.tables.positions import Positions
from service.tables.stretches import STRIDE, run_of, stretches
from service.tables.table import FREQUENCY_WORK, RowTable

# Rows computed together, and elements in one step of the product: enough to make the overhead
# of a NumPy call small, few enough to stay in a core's own cache.
_BATCH_ELEMENTS = 2**20
_BATCH_SCATTERED_ROWS = 4096
_STEP_ELEMENTS = 16384

# In rows of fewer channels, copying the coarse phasors to each row costs less than loops so short.
_NARROW = 64

# Number of the first row of a step, and its values, valid until the next.
_Step: TypeAlias = tuple[int, Float64s]


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
    _coarse: CoarseRuns = field(default_factory=CoarseRuns, init=False, repr=False)

    @property
    def setup_work(self) -> int:
        """Its frequencies."""
        return FREQUENCY_WORK * self.rule.count

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return self.channels.width

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        setup = setup_of(self.rule, self.channels)
        for done, exact in self._products(setup, first, first + len(rows)):
            if self.scale != 1.0:
                np.multiply(exact, self.scale, out=exact)
            round_into(exact, rows[done : done + len(exact)], self.dtype)
        self.channels.blank(rows)

    def _products(self, setup: Setup, first: int, last: int) -> Iterator[_Step]:
        if self.positions.is_contiguous:
            run = self.positions.runs[0]
            needed = range(run.first + first, run.first + last)
            yield from _products_in_order(setup, self._coarse, needed, run.last)
            return
        batch_rows = min(_BATCH_SCATTERED_ROWS, _batch_rows(setup))
        for start in range(first, last, batch_rows):
            positions = self.positions.at(start, min(start + batch_rows, last))
            for done, exact in _products_of_any(setup, positions):
                yield start - first + done, exact


def component(rule: FrequencyRule, name: Component, positions: Int64s) -> Float64s:
    """Give the sines or cosines of positions (m,) times frequencies (n,) as float64 (m, n)."""
    return _evaluated(rule, Channels((name,), interleaved=False, width=rule.count), positions)


def sines_and_cosines(rule: FrequencyRule, positions: Int64s) -> Float64s:
    """Give the sines, then the cosines, of positions (m,) times frequencies (n,): (m, 2n)."""
    channels = Channels(("sin", "cos"), interleaved=False, width=2 * rule.count)
    return _evaluated(rule, channels, positions)


def _evaluated(rule: FrequencyRule, channels: Channels, positions: Int64s) -> Float64s:
    setup = setup_of(rule, channels)
    values = np.empty((len(positions), channels.width))
    for done, part in _products_of_any(setup, positions):
        values[done : done + len(part)] = part
    return values


def _products_of_any(setup: Setup, positions: Int64s) -> Iterator[_Step]:
    if (np.diff(positions) == 1).all():
        needed = range(int(positions[0]), int(positions[-1]) + 1)
        return _products_in_order(setup, CoarseRuns(), needed, needed[-1])
    return _products_of_scattered(setup, positions)


def _products_in_order(
    setup: Setup, coarse: CoarseRuns, positions: range, last: int
) -> Iterator[_Step]:
    """Multiply where they lie the phasors of consecutive positions, of a sequence up to last."""
    scratch, batch_rows = _scratch(setup, len(positions)), _batch_rows(setup)
    for start in range(positions.start, positions.stop, batch_rows):
        batch = range(start, min(start + batch_rows, positions.stop))
        runs = range(run_of(batch[0]), run_of(batch[-1]) + 1)
        ahead = range(runs.start, max(runs.stop, run_of(min(batch[0] + batch_rows - 1, last)) + 1))
        by_cosine, by_sine = coarse.of(setup, runs, ahead)
        done = start - positions.start
        for stretch in stretches(batch):
            own = slice(stretch.run - runs.start, stretch.run - runs.start + stretch.runs)
            fine = setup.fine(stretch.fine)
            for row, exact in _products_of_runs(scratch, (by_cosine[own], by_sine[own]), fine):
                yield done + row, exact
            done += len(stretch)


def _products_of_runs(scratch: Pair, coarse: Pair, fine: Pair) -> Iterator[_Step]:
    """Multiply each of some coarse phasors with each of some fine ones."""
    rows, width = fine[0].shape
    row_step, run_step = max(1, _STEP_ELEMENTS // width), max(1, _STEP_ELEMENTS // (rows * width))
    for row in range(0, rows, row_step):
        cosine, sine = (part[row : row + row_step] for part in fine)
        shape = min(run_step, len(coarse[0])), len(cosine), width
        room = scratch[0][: prod(shape)].reshape(shape), scratch[1][: prod(shape)].reshape(shape)
        for run in range(0, len(coarse[0]), run_step):
            by_cosine = _along_rows(coarse[0][run : run + run_step], rows)
            by_sine = _along_rows(coarse[1][run : run + run_step], rows)
            exact = _product(room, (by_cosine, by_sine), (cosine, sine))
            yield run * rows + row, exact.reshape(-1, width)


def _along_rows(coarse: Float64s, rows: int) -> Float64s:
    if coarse.shape[1] >= _NARROW:
        return coarse[:, np.newaxis]
    return coarse.repeat(rows, axis=0).reshape(len(coarse), rows, -1)


def _products_of_scattered(setup: Setup, positions: Int64s) -> Iterator[_Step]:
    """Gather both phasors of each position."""
    offset = np.fmod(positions, np.int64(STRIDE))
    coarse_positions = positions - offset
    starts = np.flatnonzero(np.diff(coarse_positions, prepend=coarse_positions[0] - 1))
    run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(positions)))
    lowest = int(offset.min())
    fine = setup.fine(range(lowest, int(offset.max()) + 1))
    factors = (*setup.coarse(coarse_positions[starts]), *fine)
    step = _step_rows(setup)
    room = [part.reshape(-1, setup.width) for part in _scratch(setup, len(positions))]
    for first in range(0, len(positions), step):
        part = slice(first, first + step)
        chosen = run[part], run[part], offset[part] - lowest, offset[part] - lowest
        by_cosine, by_sine, cosine, sine = (
            factor.take(index, axis=0, mode="clip")
            for factor, index in zip(factors, chosen, strict=True)
        )
        yield first, _product((room[0], room[1]), (by_cosine, by_sine), (cosine, sine))


def _product(scratch: Pair, coarse: Pair, fine: Pair) -> Float64s:
    values, other = scratch[0][: len(coarse[0])], scratch[1][: len(coarse[0])]
    np.multiply(coarse[0], fine[0], out=values)
    np.multiply(coarse[1], fine[1], out=other)
    np.add(values, other, out=values)
    return values


def _batch_rows(setup: Setup) -> int:
    return max(1, _BATCH_ELEMENTS // setup.width)


def _step_rows(setup: Setup) -> int:
    return max(1, _STEP_ELEMENTS // setup.width)


def _scratch(setup: Setup, rows: int) -> Pair:
    """Make room for the values of one step, up to a number of rows."""
    elements = min(rows, _step_rows(setup)) * setup.width
    return _aligned(elements), _aligned(elements)


def _aligned(elements: int) -> Float64s:
    """Make room for float64 values from the start of a cache line on: a fifth faster to work in."""
    line_bytes, item_bytes = 64, 8
    room = np.empty(elements + line_bytes // item_bytes)
    skipped = -room.ctypes.data % line_bytes // item_bytes
    return room[skipped : skipped + elements]
