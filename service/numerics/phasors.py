"""Rows of sines and cosines of positions, whole or fractional, times frequencies.

Those of whole positions are products of two phasors. A position is split as 64·a + b, its block a
and its offset b, both with the position's sign so that nothing cancels in small angles. The
relative-position identity gives

    sin(position·ω) = sin(64aω)·cos(bω) + cos(64aω)·sin(bω)
    cos(position·ω) = cos(64aω)·cos(bω) − sin(64aω)·sin(bω)

so only the coarse phasors of the blocks that occur and the fine ones of the offsets are
evaluated. The split is fixed: a row has the same bytes whichever rows are read with it. A block
has 64 positions, and block 0 has 127.

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

A fractional position is an integer times one of few powers of two (``split_units``), and the power
goes into the frequencies: nothing is rounded on the way to the angle. Error there, in units of
2^-53: that of a sine or cosine alone, 0.9, and below 6 times a scale. Relative to the value's own
size, where the whole angle is below 1: 3.5 for sines and 1.7 (0.9 by cos 1) for cosines. A whole
position has the bytes that it has among integers.

This module is long because the setups that rows share, their cost and their caches belong to the
products of phasors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import gcd, prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.lru import ByteBoundedLRU, shared
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.evaluation import sin_cos
from service.numerics.phase import (
    FixedPointFrequencies,
    Float64s,
    FrequencyRule,
    Int64s,
    Picked,
    ScaledFrequencies,
    SineCosine,
    fixed_point,
    frequency_seconds,
)
from service.numerics.positions import (
    AnyPositions,
    Numbers,
    PositionArray,
    Positions,
    RealPositions,
    RowPositions,
    distinct_of,
    split_units,
)
from service.numerics.repeated_rows import RepeatedPart, without_repeats
from service.numerics.setups import TURN_SECONDS, KeptSetup, Setups, Steps, convert_decimals
from service.numerics.tables import ELEMENT_SECONDS, Table, row_steps

BLOCK_LENGTH = 64


@dataclass(frozen=True)
class BlockSpan:
    """Consecutive blocks that use the same offsets: all 64, or some of them if blocks is 1.

    Attributes:
        first: the first block.
        blocks: the number of blocks.
        offsets: the offsets within each of the blocks.
    """

    first: int
    blocks: int
    offsets: range

    def __len__(self) -> int:
        return self.blocks * len(self.offsets)


def block_of(position: int) -> int:
    """Return the block of a position, rounded towards 0."""
    return position // BLOCK_LENGTH if position >= 0 else -(-position // BLOCK_LENGTH)


def block_spans(positions: range) -> Iterator[BlockSpan]:
    """Split consecutive positions into the longest spans, each of positions of one sign."""
    first = positions.start
    while first < positions.stop:
        lowest = 0 if first >= 0 else 1 - BLOCK_LENGTH
        left = (positions.stop if first >= 0 else min(positions.stop, 0)) - first
        block = block_of(first)
        offset = first - block * BLOCK_LENGTH
        blocks = left // BLOCK_LENGTH if offset == lowest else 0
        count = BLOCK_LENGTH if blocks else min(lowest + BLOCK_LENGTH - offset, left)
        span = BlockSpan(block, max(blocks, 1), range(offset, offset + count))
        yield span
        first += len(span)


Component: TypeAlias = Literal["sin", "cos"]
Indices: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class Channels:
    """The component and the frequency of each channel of a row.

    Attributes:
        components: the components in their order.
        interleaved: whether they alternate channel by channel, or each fills a part of the row.
        width: channels in the row. Where those before the zeros are no multiple of the number of
            components, the last components have one channel less.
        repeats: the number of consecutive channels of one frequency within its part.
        zeros: channels at the end that are 0 at every position.
    """

    components: tuple[Component, ...]
    interleaved: bool
    width: int
    repeats: int = 1
    zeros: int = 0

    def indices(self) -> tuple[Indices, NDArray[np.bool_]]:
        """Return, for each channel, the frequency's index and whether it is the sine.

        Channels of zeros are sines of the first frequency, which ``blank`` overwrites.
        """
        parts, width = len(self.components), self.width - self.zeros
        channel = np.arange(width)
        if self.interleaved:
            frequency, part = np.divmod(channel, parts)
        else:
            part, frequency = np.divmod(channel, max(1, -(-width // parts)))
        is_sine = np.array([component == "sin" for component in self.components])[part]
        blank = np.zeros(self.zeros, dtype=np.intp)
        return (
            np.concatenate([frequency // self.repeats, blank]),
            np.concatenate([is_sine, blank == 0]),
        )

    @cached_property
    def runs(self) -> tuple["ChannelRun", ...]:
        """The channels before the zeros as few runs: strided ones if there are, else any."""
        index, is_sine = self.indices()
        index, is_sine = index[: self.width - self.zeros], is_sine[: self.width - self.zeros]
        for stride in (1, 2):
            runs = [
                run
                for first in range(stride)
                for run in _strided_runs(
                    index[first::stride], is_sine[first::stride], first, stride
                )
            ]
            if len(runs) <= _MOST_RUNS:
                return tuple(runs)
        channels = [(value, np.flatnonzero(is_sine == value)) for value in (True, False)]
        return tuple(ChannelRun(value, index[some], some) for value, some in channels if len(some))

    def fill(self, sine: Elements, cosine: Elements, rows: Elements) -> None:
        """Write the sines and cosines of every frequency, each (m, n), to rows (m, width)."""
        for run in self.runs:
            rows[:, run.channels] = (sine if run.is_sine else cosine)[:, run.frequencies]
        self.blank(rows)

    def blank(self, rows: Elements) -> None:
        """Write zeros into the channels of zeros."""
        if self.zeros:
            rows[:, -self.zeros :] = 0


# Copies by slices take a fifth of the time of copies by indices.
_MOST_RUNS = 8


@dataclass(frozen=True, eq=False)
class ChannelRun:
    """Channels with one component, and the frequency of each of them."""

    is_sine: bool
    frequencies: slice | Indices
    channels: slice | Indices


def _strided_runs(
    index: Indices, is_sine: NDArray[np.bool_], first: int, stride: int
) -> Iterator[ChannelRun]:
    """Yield the runs of consecutive frequencies among every stride-th channel from the first on."""
    begins = (np.diff(index) != 1) | (is_sine[1:] != is_sine[:-1])
    starts = np.flatnonzero(np.append(True, begins)[: len(index)]).tolist()
    for start, stop in pairwise([*starts, len(index)]):
        frequencies = slice(int(index[start]), int(index[start]) + stop - start)
        channels = slice(first + start * stride, first + (stop - 1) * stride + 1, stride)
        yield ChannelRun(bool(is_sine[start]), frequencies, channels)


# The factors of the cosine and of the sine of the other phasor.
Pair: TypeAlias = tuple[Float64s, Float64s]

SETUP_CACHE_BYTES = 64 * 1024 * 1024
_FREQUENCY_CACHE_BYTES = 24 * 1024 * 1024
_BATCH_CACHE_BYTES = 16 * 1024 * 1024
MAX_FINE_WIDTH = SETUP_CACHE_BYTES // 2 // (2 * 8 * (2 * BLOCK_LENGTH - 1))
"""The widest rows whose fine phasors are kept; those of wider ones take over half of the cache."""

# The processor seconds of a coarse phasor, of a fine one that is not kept, of the fine phasors of
# a channel, and of gathering the phasors of an element of scattered positions.
_PHASOR_SECONDS = 4e-8
_WIDE_SECONDS = 3e-8
_CHANNEL_SECONDS = 7e-6
_GATHERED_SECONDS = 5e-9


def phasor_seconds(width: int, positions: Positions | PositionArray) -> float:
    """Return the processor seconds of an element of rows of this width, at positions."""
    seconds = ELEMENT_SECONDS + (_WIDE_SECONDS if width > MAX_FINE_WIDTH else 0.0)
    if not positions.is_contiguous:
        seconds += _GATHERED_SECONDS
    # An element of a whole block includes its share of the block's coarse phasor.
    blocks = positions.count_blocks(BLOCK_LENGTH) / max(1, positions.count)
    return seconds + _PHASOR_SECONDS * max(0.0, blocks - 1 / BLOCK_LENGTH)


@dataclass(frozen=True, eq=False)
class PhasorSetup:
    """The phasors and indices that all reads of some frequencies in some channels share.

    Attributes:
        frequencies: n of them, in fixed point.
        channels: the channels of a row.
        all_fine: cosines and sines of the offsets −63 … 63, each of shape (127, width); None where
            rows are so wide that a read computes the few it needs.
    """

    frequencies: FixedPointFrequencies
    channels: Channels
    all_fine: Pair | None = None

    @property
    def width(self) -> int:
        return self.channels.width

    @property
    def nbytes(self) -> int:
        """An upper estimate of the memory it takes."""
        fine_bytes = 0 if self.all_fine is None else 2 * self.all_fine[0].nbytes
        return fine_bytes + 64 * self.width

    def fine(self, offsets: range) -> Pair:
        """Return cosines and sines of offsets, each (m, width)."""
        if self.all_fine is None:
            return self.spread(np.arange(offsets.start, offsets.stop, dtype=np.int64))
        rows = slice(offsets.start + BLOCK_LENGTH - 1, offsets.stop + BLOCK_LENGTH - 1)
        return self.all_fine[0][rows], self.all_fine[1][rows]

    def spread(self, positions: Int64s) -> Pair:
        """Return cosines and sines of positions (m,) for every channel, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        cosines, sines = np.empty((2, len(positions), self.width))
        self.channels.fill(cosine, cosine, cosines)
        self.channels.fill(sine, sine, sines)
        return cosines, sines

    def coarse(self, positions: Int64s) -> Pair:
        """Return what multiplies the cosine and the sine of the fine phasors, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        by_cosine, by_sine = np.empty((2, len(positions), self.width))
        self.channels.fill(sine, cosine, by_cosine)
        self.channels.fill(cosine, 0.0 - sine, by_sine)
        return by_cosine, by_sine


@dataclass(frozen=True)
class Frequencies(KeptSetup[FixedPointFrequencies], capacity_bytes=_FREQUENCY_CACHE_BYTES):
    """The frequencies of a rule in fixed point, for every channel layout."""

    rule: FrequencyRule

    @property
    def new_seconds(self) -> float:
        if isinstance(self.rule, Picked):
            return Frequencies(self.rule.rule).seconds
        return self.rule.count * frequency_seconds(self.rule)

    def compute(self) -> Steps[FixedPointFrequencies]:
        rule = self.rule
        if isinstance(rule, Picked):
            # Several selections share a rule.
            every = yield from Frequencies(rule.rule).steps()
            return every.part(np.array(rule.places))
        parts = yield from convert_decimals(rule.exact(), fixed_point, frequency_seconds(rule))
        return parts[0] if len(parts) == 1 else FixedPointFrequencies.joined(parts)


@dataclass(frozen=True)
class Phasors(KeptSetup[PhasorSetup], capacity_bytes=SETUP_CACHE_BYTES):
    """The phasors of frequencies in channels."""

    rule: FrequencyRule
    channels: Channels

    @property
    def new_seconds(self) -> float:
        width = self.channels.width
        fine = _CHANNEL_SECONDS * width if width <= MAX_FINE_WIDTH else 0.0
        return Frequencies(self.rule).seconds + fine

    def compute(self) -> Steps[PhasorSetup]:
        frequencies = yield from Frequencies(self.rule).steps()
        setup = PhasorSetup(frequencies, self.channels)
        if setup.width > MAX_FINE_WIDTH:
            return setup
        offsets = np.arange(1 - BLOCK_LENGTH, BLOCK_LENGTH, dtype=np.int64)
        cosines, sines = np.empty((2, len(offsets), setup.width))
        step = max(1, int(TURN_SECONDS * len(offsets) / (_CHANNEL_SECONDS * max(1, setup.width))))
        for first in range(0, len(offsets), step):
            part = slice(first, first + step)
            cosines[part], sines[part] = setup.spread(offsets[part])
            if first + step < len(offsets):
                yield
        return replace(setup, all_fine=(cosines, sines))


def both_phasors(rule: FrequencyRule) -> Phasors:
    """Return the setup of ``sines_and_cosines``."""
    return Phasors(rule, Channels(("sin", "cos"), interleaved=False, width=2 * rule.count))


def component_phasors(rule: FrequencyRule, name: Component) -> Phasors:
    """Return the setup of ``component``."""
    return Phasors(rule, Channels((name,), interleaved=False, width=rule.count))


class CoarsePhasorCache:
    """The coarse phasors of consecutive blocks, computed in batches for sequential readers.

    When a read starts where the last one ended, the phasors of the following blocks are computed
    too: many at once cost half of what they cost one by one. Only the last batch is kept, and only
    while few other tables are read: a table that nobody reads holds none. A batch is replaced,
    never changed, so that any number of threads may read.
    """

    def of(self, setup: PhasorSetup, blocks: range, ahead: range) -> Pair:
        """Return the coarse factors of blocks, from the cache or computed.

        For a sequential reader all blocks ahead are computed. The setup is always the same.
        """
        kept = _batches.get(self)
        if kept is None or not (blocks.start in kept[0] and blocks[-1] in kept[0]):
            in_order = kept is not None and kept[0].start <= blocks.start <= kept[0].stop
            computed = ahead if in_order else blocks
            positions = np.arange(computed.start, computed.stop, dtype=np.int64) * BLOCK_LENGTH
            kept = computed, setup.coarse(positions)
            _batches.put(self, kept, sum(part.nbytes for part in kept[1]) + 1024)
        start, (by_cosine, by_sine) = kept[0].start, kept[1]
        part = slice(blocks.start - start, blocks.stop - start)
        return by_cosine[part], by_sine[part]


_batches: ByteBoundedLRU[CoarsePhasorCache, tuple[range, Pair]] = shared(
    ByteBoundedLRU(_BATCH_CACHE_BYTES)
)


# Rows computed together, and elements in one step of the product: enough to make the overhead
# of a NumPy call small, few enough to stay in a core's own cache. Gathered ones take more of it.
_BATCH_ELEMENTS = 2**20
_BATCH_SCATTERED_ROWS = 4096
_STEP_ELEMENTS = 2**15
_GATHERED_STEP_ELEMENTS = 2**14
_GROUP_ELEMENTS = 2**15

# Where rows have fewer channels, some are multiplied in one loop: NumPy's loops that are so short
# cost more than copies of the coarse phasors. A step has room for such a loop.
_LOOP_ELEMENTS = 512

# NumPy's smallest buffer.
_LEAST_BUFFER = 16

Step: TypeAlias = tuple[int, Float64s]
"""The index of the first row of a step, and its values, valid until the next step."""


class SinusoidTable(ABC):
    """A table whose rows are sines and cosines, scaled in float64 and then rounded once.

    Whole rows are computed, because they share phasors.

    Attributes:
        channels: the components in a row.
        dtype: a real element type.
        shape: any whose size is rows × channels.
        scale: multiplies the values.
    """

    channels: Channels
    dtype: DType
    shape: tuple[int, ...]
    scale: float

    @property
    @abstractmethod
    def element_seconds(self) -> float: ...

    @property
    def least_elements(self) -> int:
        return self.channels.width

    @abstractmethod
    def write(self, start: int, stop: int, rows: Elements) -> None:
        """Write the rows start to stop."""

    def read(self, start: int, stop: int) -> Elements:
        width = self.channels.width
        first, last = start // width, -(-stop // width)
        rows = np.empty((last - first, width), dtype=self.dtype.storage)
        self.write(first, last, rows)
        self.channels.blank(rows)
        return rows.reshape(-1)[start - first * width : stop - first * width]

    def round_scaled(self, exact: Float64s, elements: Elements) -> None:
        """Scale numbers, in place, and round them once into elements."""
        if self.scale != 1.0:
            np.multiply(exact, self.scale, out=exact)
        round_into(exact, elements, self.dtype)


class PlacedSinusoidTable(SinusoidTable):
    """A table whose sines and cosines are rounded before they are written to their channels."""

    @abstractmethod
    def components(self, start: int, stop: int) -> SineCosine:
        """Return the sines and the cosines of rows, each (stop - start, n), in new arrays."""

    def write(self, start: int, stop: int, rows: Elements) -> None:
        for part in row_steps(stop - start, self.channels.width):
            both = self.components(start + part.start, start + part.stop)
            sines, cosines = np.empty((2, *both[0].shape), dtype=self.dtype.storage)
            self.round_scaled(both[0], sines)
            self.round_scaled(both[1], cosines)
            self.channels.fill(sines, cosines, rows[part])


@contextmanager
def _unbuffered() -> Iterator[None]:
    """Let NumPy multiply rows by the same row without copying that into its buffer again and again.

    With a buffer as large as NumPy's own, 8192 elements, a product takes half as long again. What
    converts its operands is slow meanwhile, and a sum that does has other bits.
    """
    with np.errstate():
        np.setbufsize(_LEAST_BUFFER)
        yield


@dataclass(frozen=True, eq=False)
class PhasorTable(SinusoidTable):
    """Sines and cosines of integer positions times frequencies, one row a position."""

    rule: FrequencyRule
    channels: Channels
    positions: Positions | PositionArray
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0
    _coarse: CoarsePhasorCache = field(default_factory=CoarsePhasorCache, init=False, repr=False)

    @cached_property
    def element_seconds(self) -> float:
        width = self.channels.width
        return phasor_seconds(width, self.positions) + self.dtype.rounding_seconds

    @cached_property
    def setup(self) -> Phasors:
        return Phasors(self.rule, self.channels)

    def write(self, start: int, stop: int, rows: Elements) -> None:
        with _unbuffered():
            for done, exact in self._steps(start, stop):
                self.round_scaled(exact, rows[done : done + len(exact)])

    def _steps(self, start: int, stop: int) -> Iterator[Step]:
        setup = self.setup.get()
        if self.positions.is_contiguous:
            first = self.positions.first
            needed, last = range(first + start, first + stop), self.positions.most
            yield from _products_in_order(setup, self._coarse, needed, last)
            return
        batch_rows = min(_BATCH_SCATTERED_ROWS, _rows_within(_BATCH_ELEMENTS, setup))
        for first in range(start, stop, batch_rows):
            positions = self.positions.at(first, min(first + batch_rows, stop))
            for done, exact in _products_of_any(setup, positions):
                yield first - start + done, exact


def component(rule: FrequencyRule, name: Component, positions: Int64s) -> Float64s:
    """Return the sines or cosines of positions (m,) times frequencies (n,) as float64 (m, n)."""
    return _evaluate(component_phasors(rule, name), positions)


def sines_and_cosines(rule: FrequencyRule, positions: Numbers) -> SineCosine:
    """Return the sines and the cosines of positions (m,) times frequencies (n,), each (m, n).

    There is at least one position, and none is out of range.
    """
    if positions.dtype.kind == "i":
        both = _evaluate(both_phasors(rule), positions)
        return both[:, : rule.count], both[:, rule.count :]
    integers, units = split_units(positions)
    (whole,), (rest,) = np.nonzero(units == 0), np.nonzero(units)
    if not len(rest):
        return sines_and_cosines(rule, integers)
    if not len(whole):
        return of_units(rule, units, integers)
    sines, cosines = np.empty((2, len(positions), rule.count))
    sines[whole], cosines[whole] = sines_and_cosines(rule, integers[whole])
    sines[rest], cosines[rest] = of_units(rule, units[rest], integers[rest])
    return sines, cosines


def phasors_at(rule: FrequencyRule, positions: RowPositions) -> Setups:
    """Return the setup of ``sines_and_cosines`` at the positions of rows."""
    if isinstance(positions, RealPositions) and not positions.is_whole:
        return _phasors_of_units(rule, positions.flat)
    return Setups((both_phasors(rule),))


def _phasors_of_units(rule: FrequencyRule, values: Float64s) -> Setups:
    units = np.unique(split_units(values)[1]).tolist()
    parts = [counted_in(rule, unit) if unit else both_phasors(rule) for unit in units]
    return Setups(tuple(parts))


def _evaluate(phasors: Phasors, positions: Int64s) -> Float64s:
    setup = phasors.get()
    values = np.empty((len(positions), setup.width))
    with _unbuffered():
        for done, part in _products_of_any(setup, positions):
            values[done : done + len(part)] = part
    return values


def _products_of_any(setup: PhasorSetup, positions: Int64s) -> Iterator[Step]:
    if (np.diff(positions) == 1).all():
        needed = range(int(positions[0]), int(positions[-1]) + 1)
        return _products_in_order(setup, CoarsePhasorCache(), needed, needed[-1])
    return _products_of_scattered(setup, positions)


def _products_in_order(
    setup: PhasorSetup, coarse: CoarsePhasorCache, positions: range, last: int
) -> Iterator[Step]:
    """Multiply the phasors of consecutive positions, part of a sequence that goes up to last."""
    scratch = _scratch(setup, min(len(positions), _rows_within(_STEP_ELEMENTS, setup)))
    batch_rows = _rows_within(_BATCH_ELEMENTS, setup)
    for start in range(positions.start, positions.stop, batch_rows):
        batch = range(start, min(start + batch_rows, positions.stop))
        blocks = range(block_of(batch[0]), block_of(batch[-1]) + 1)
        last_ahead = block_of(min(batch[0] + batch_rows - 1, last))
        ahead = range(blocks.start, max(blocks.stop, last_ahead + 1))
        by_cosine, by_sine = coarse.of(setup, blocks, ahead)
        done = start - positions.start
        for span in block_spans(batch):
            of_span = slice(span.first - blocks.start, span.first - blocks.start + span.blocks)
            factors = by_cosine[of_span], by_sine[of_span]
            for row, exact in _products_of_blocks(scratch, factors, setup.fine(span.offsets)):
                yield done + row, exact
            done += len(span)


def _products_of_blocks(scratch: Pair, coarse: Pair, fine: Pair) -> Iterator[Step]:
    """Multiply every coarse phasor by every fine one."""
    rows, width = fine[0].shape
    repeats = _repeats(rows, width)
    row_step = max(1, _STEP_ELEMENTS // (repeats * width)) * repeats
    block_step = max(1, _STEP_ELEMENTS // (rows * width))
    for row in range(0, rows, row_step):
        cosine, sine = (part[row : row + row_step].reshape(-1, repeats * width) for part in fine)
        shape = min(block_step, len(coarse[0])), *cosine.shape
        room = scratch[0][: prod(shape)].reshape(shape), scratch[1][: prod(shape)].reshape(shape)
        for block in range(0, len(coarse[0]), block_step):
            by_cosine = _along_rows(coarse[0][block : block + block_step], repeats)
            by_sine = _along_rows(coarse[1][block : block + block_step], repeats)
            exact = _product(room, (by_cosine, by_sine), (cosine, sine))
            yield block * rows + row, exact.reshape(-1, width)


def _along_rows(coarse: Float64s, repeats: int) -> Float64s:
    if repeats == 1:
        return coarse[:, np.newaxis]
    return coarse.repeat(repeats, axis=0).reshape(len(coarse), 1, -1)


def _repeats(rows: int, width: int) -> int:
    """Return how many rows are multiplied as one by copies of their coarse phasor.

    It divides the number of rows: all of them, or a power of two.
    """
    most = max(1, _LOOP_ELEMENTS // width)
    return rows if rows <= most else gcd(rows, 1 << most.bit_length() - 1)


def _products_of_scattered(setup: PhasorSetup, positions: Int64s) -> Iterator[Step]:
    """Gather the coarse and the fine phasor of each position, and multiply them."""
    offset = np.fmod(positions, np.int64(BLOCK_LENGTH))
    coarse_positions = positions - offset
    starts = np.flatnonzero(np.diff(coarse_positions, prepend=coarse_positions[0] - 1))
    block = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(positions)))
    if setup.all_fine is None:
        offsets, offset = np.unique(offset, return_inverse=True)
        fine = setup.spread(offsets)
    else:
        fine = setup.fine(range(1 - BLOCK_LENGTH, BLOCK_LENGTH))
        offset = offset + (BLOCK_LENGTH - 1)
    step = _rows_within(_GATHERED_STEP_ELEMENTS, setup)
    room = [part.reshape(-1, setup.width) for part in _scratch(setup, min(step, len(positions)))]
    # The coarse phasors of a group of blocks stay in a core's cache.
    group = _rows_within(_GROUP_ELEMENTS, setup)
    ends = np.append(starts[group::group], len(positions)).tolist()
    for number, (begin, end) in enumerate(zip(starts[::group].tolist(), ends, strict=True)):
        some = starts[number * group : (number + 1) * group]
        factors = (*setup.coarse(coarse_positions[some]), *fine)
        for first in range(begin, end, step):
            part = slice(first, min(first + step, end))
            of_block = block[part] - number * group
            chosen = of_block, of_block, offset[part], offset[part]
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


def _rows_within(elements: int, setup: PhasorSetup) -> int:
    """Return how many rows of setup.width fit into this many elements, at least one."""
    return max(1, elements // setup.width)


def _scratch(setup: PhasorSetup, rows: int) -> Pair:
    """Return buffers for the two products of one step of at most rows rows."""
    return _aligned(rows * setup.width), _aligned(rows * setup.width)


def _aligned(elements: int) -> Float64s:
    """Allocate float64 values at a cache line: loops over them are a fifth faster."""
    line_bytes, item_bytes = 64, 8
    room = np.empty(elements + line_bytes // item_bytes)
    skipped = -room.ctypes.data % line_bytes // item_bytes
    return room[skipped : skipped + elements]


@dataclass(frozen=True, eq=False)
class RealPhasorTable(PlacedSinusoidTable):
    """Sines and cosines of real positions (rows,), none out of range, times frequencies."""

    rule: FrequencyRule
    channels: Channels
    positions: Float64s
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0

    @property
    def element_seconds(self) -> float:
        # Nothing is shared between rows, as it is in a PhasorTable.
        return _PHASOR_SECONDS + self.dtype.rounding_seconds

    @cached_property
    def setup(self) -> Setups:
        """The frequencies of each unit."""
        return _phasors_of_units(self.rule, self.positions)

    def components(self, start: int, stop: int) -> SineCosine:
        return sines_and_cosines(self.rule, self.positions[start:stop])


def sinusoid_table(
    rule: FrequencyRule,
    channels: Channels,
    positions: AnyPositions,
    dtype: DType,
    shape: tuple[int, ...],
    *,
    scale: float = 1.0,
) -> Table:
    """Return the table of integer or of real positions; repeated ones are computed once."""
    table: PhasorTable | RealPhasorTable
    if not positions.is_whole:
        values = np.asarray(positions.at(0, positions.count))
        table = RealPhasorTable(rule, channels, values, dtype, shape, scale)
    else:
        whole = positions if isinstance(positions, Positions | PositionArray) else positions.whole()
        table = PhasorTable(rule, channels, whole, dtype, shape, scale)
    distinct = distinct_of(positions)
    if distinct is None or not isinstance(distinct.positions, Positions | PositionArray):
        return table
    rows = (distinct.count, channels.width)
    part = sinusoid_table(rule, channels, distinct.positions, dtype, rows, scale=scale)
    return without_repeats(table, channels.width, [RepeatedPart(part, distinct.index)])


def counted_in(rule: FrequencyRule, exponent: int) -> Frequencies:
    """Return the frequencies of positions that are counted in 2^exponent."""
    return Frequencies(ScaledFrequencies(rule, Fraction(2) ** exponent))


def of_units(rule: FrequencyRule, exponents: Int64s, integers: Int64s) -> SineCosine:
    """Return the sines and the cosines of integers·2^exponents (m,), at least one: each (m, n)."""
    distinct, chosen = np.unique(exponents, return_inverse=True)
    each = [counted_in(rule, exponent).get() for exponent in distinct.tolist()]
    if len(each) == 1:
        return sin_cos(each[0], integers)
    return sin_cos(FixedPointFrequencies.stacked(each), integers, chosen)
