"""Arrays that a function of their vectors and positions transforms, block by block.

A vector is what an array has along its axis of channels; the other axes count vectors. Some of
them are axes of positions; along the others the numbers for a position are the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import Protocol

import numpy as np

from service.lru import ByteBoundedLRU
from service.numerics.dtypes import DType, Elements
from service.numerics.phase import Float64s, Int64s
from service.numerics.setups import Setup, setup_of
from service.numerics.tables import (
    ELEMENT_SECONDS,
    STEP_ELEMENTS,
    StoredTable,
    Table,
    all_read_finite,
    row_ranges,
    size_bytes,
)


class Transform(Protocol):
    """A function of the vectors of an array, each alone."""

    def __call__(
        self,
        source: Callable[[range], Elements],
        factors: Float64s,
        columns: range,
        block: Elements,
    ) -> None:
        """Fill a block with some channels of the transformed vectors.

        Args:
            source: returns channels of the vectors, as sent: (…, channels); they may have a step.
            factors: those of each vector's position, (parts, …, n / parts).
            columns: the channels of the block.
            block: (…, columns), to be filled.
        """


# Steps of a transformation are this much smaller: with smaller ones calls take longer than numbers,
# and with larger ones a server's heap gives their arrays back to the system again and again.
_ARRAYS = 2

# The factors of this many bytes are computed once for all heads and sequences.
_KEPT_FACTOR_BYTES = 4 * 2**20

# The rows of factors of this many bytes are computed once for the heads between sequences and
# positions, in blocks of so many elements.
_KEPT_ROW_BYTES = 12 * 2**20
_BLOCK_ELEMENTS = 2**15

# With other factors, where channels are not last, those of all positions are read for some channels
# at a time, on average this many times.
_READ_AGAIN = 8


@dataclass(frozen=True, eq=False)
class TransformedTable:
    """An array that a function of its vectors and their positions transforms, block by block.

    Attributes:
        source: the array.
        factors: the numbers that the function needs for each position, float64 (positions, n).
        transform: the function.
        transform_seconds: the processor seconds of an element in it, without rounding.
        parts: how many arrays the factors are parted into, for instance cosines and sines: loops
            over contiguous ones are a quarter faster.
        channel: the axis of channels; the last one unless given.
        along: the axes that positions count, from the slowest on; the last one beside the channels
            unless given.
    """

    source: StoredTable
    factors: Table
    transform: Transform
    transform_seconds: float = ELEMENT_SECONDS
    parts: int = 1
    channel: int = -1
    along: tuple[int, ...] = (-2,)
    _kept: ByteBoundedLRU[int, Elements] = field(
        default_factory=lambda: ByteBoundedLRU(_KEPT_FACTOR_BYTES), init=False, repr=False
    )
    _kept_rows: ByteBoundedLRU[int, Elements] = field(
        default_factory=lambda: ByteBoundedLRU(_KEPT_ROW_BYTES), init=False, repr=False
    )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def dtype(self) -> DType:
        return self.source.dtype

    @property
    def element_seconds(self) -> float:
        factor_seconds = self.factors.element_seconds
        if self._inner > 1 and size_bytes(self.factors) * self._order[-1] > _KEPT_FACTOR_BYTES:
            factor_seconds *= _READ_AGAIN
        return self.transform_seconds + factor_seconds + self.dtype.rounding_seconds

    @property
    def setup(self) -> Setup:
        return setup_of(self.factors)

    @property
    def is_finite(self) -> bool:
        """True if all results are finite; computes them."""
        return all_read_finite(self)

    @cached_property
    def _vectors(self) -> Elements:
        """The array with the channels last, a view."""
        return np.moveaxis(self.source.elements, self.channel, -1)

    @cached_property
    def _inner(self) -> int:
        """The number of vectors along the axes after that of the channels."""
        return prod(self.shape[self.channel % len(self.shape) + 1 :])

    @cached_property
    def _order(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The axes that vectors are counted along, from the first to the last axis of positions.

        They are their lengths, those of them that positions count, and the product of the lengths
        of the axes after them.
        """
        rank = len(self.shape)
        axes = [axis for axis in range(rank) if axis != self.channel % rank]
        counted = [axes.index(axis % rank) for axis in self.along]
        lengths = self._vectors.shape[:-1]
        first, last = min(counted), max(counted) + 1
        places = tuple(place - first for place in counted)
        return lengths[first:last], places, prod(lengths[last:])

    def read(self, start: int, stop: int) -> Elements:
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = 0
        for rows, columns in self._boxes(start, stop):
            block = elements[done : done + len(rows) * len(columns)]
            inner = min(self._inner, len(rows))
            self._fill(rows, columns, block.reshape(-1, len(columns), inner).swapaxes(1, 2))
            done += len(block)
        return elements

    def _boxes(self, start: int, stop: int) -> Iterator[tuple[range, range]]:
        """Split a flat range into boxes: consecutive vectors, and some channels of all of them."""
        width, inner = self._vectors.shape[-1], self._inner
        while start < stop:
            outer, first = divmod(start, width * inner)
            channel, place = divmod(first, inner)
            whole = 0 if first else (stop - start) // (width * inner)
            channels = 0 if place else min((stop - start) // inner, width - channel)
            if whole:
                rows, columns = range(outer * inner, (outer + whole) * inner), range(width)
            elif channels:
                rows = range(outer * inner, (outer + 1) * inner)
                columns = range(channel, channel + channels)
            else:
                last = outer * inner + min(place + stop - start, inner)
                rows, columns = range(outer * inner + place, last), range(channel, channel + 1)
            yield rows, columns
            start += len(rows) * len(columns)

    def _fill(self, rows: range, columns: range, box: Elements) -> None:
        """Fill a box, (outer, inner, columns), with consecutive vectors, some channels of each."""
        lengths, _, repeated = self._order
        width = self._vectors.shape[-1]
        step = max(1, STEP_ELEMENTS // (_ARRAYS * max(width, self.factors.shape[-1])))
        period = prod(lengths) * repeated
        repeats = max(1, step // period)
        done = 0
        while done < len(rows):
            span = step if repeats == 1 else period * repeats
            number, first = divmod((rows.start + done) % (period * repeats), span)
            factors = self._factors_of(number, step, repeats)
            factors = factors[:, first : first + len(rows) - done]
            count = factors.shape[1]
            # The places of these vectors in the box, whose rows are whole unless it has only one.
            for outer, inner in row_ranges(done, done + count, box.shape[1]):
                part = len(outer) * len(inner)
                begin = outer.start * box.shape[1] + inner.start
                some = range(rows.start + begin, rows.start + begin + part)
                shape = (len(outer), len(inner))
                own = factors[:, begin - done : begin - done + part]
                self.transform(
                    partial(self._part, some, shape),
                    own.reshape(self.parts, *shape, own.shape[-1]),
                    columns,
                    box[outer.start : outer.stop, inner.start : inner.stop],
                )
            done += count

    def _part(self, rows: range, shape: tuple[int, int], columns: range) -> Elements:
        """Return channels of consecutive vectors, in the shape of a block: (…, columns)."""
        some = self._vectors[..., columns.start : columns.stop : columns.step]
        if not self.source.elements.flags.c_contiguous:
            # Reshaped, an array in another memory order would be copied whole.
            index = np.unravel_index(np.arange(rows.start, rows.stop), some.shape[:-1])
            return some[index].reshape(*shape, len(columns))
        outer, inner = divmod(rows.start, self._inner)
        whole = self.source.elements.reshape(-1, self._vectors.shape[-1], self._inner)
        part = whole[outer : outer + shape[0], columns.start : columns.stop : columns.step]
        return part[:, :, inner : inner + shape[1]].swapaxes(1, 2)

    def _factors_of(self, number: int, step: int, repeats: int) -> Elements:
        """Return the factors of a step of vectors, or of a period of them, several times."""
        kept = self._kept.get(number)
        if kept is None:
            lengths, _, repeated = self._order
            first, last = number * step, min((number + 1) * step, prod(lengths) * repeated)
            rows = self._factor_rows(first // repeated, -(-last // repeated))
            kept = rows.reshape(len(rows), self.parts, -1).swapaxes(0, 1)
            if repeated > 1:
                skipped = first % repeated
                kept = np.repeat(kept, repeated, axis=1)[:, skipped : skipped + last - first]
            kept = np.tile(kept, (1, repeats, 1)) if repeats > 1 else np.ascontiguousarray(kept)
            self._kept.put(number, kept, kept.nbytes)
        return kept

    def _factor_rows(self, first: int, last: int) -> Elements:
        """Return the factors of the places first to last in the axes from first to last of along.

        Positions are read in as few ranges as their order has.
        """
        lengths, counted, _ = self._order
        if counted == tuple(range(len(lengths))):
            return self._read_factors(first, last)
        places = np.unravel_index(np.arange(first, last), lengths)
        index: Int64s = np.zeros(last - first, dtype=np.int64)
        for axis in counted:
            index = index * lengths[axis] + places[axis]
        least, most = int(index.min()), int(index.max())
        if most - least < 2 * len(index):
            return self._find_factors(least, most + 1)[index - least]
        distinct, place = np.unique(index, return_inverse=True)
        parts = np.split(distinct, np.flatnonzero(np.diff(distinct) > 1) + 1)
        read = [self._find_factors(int(part[0]), int(part[-1]) + 1) for part in parts]
        return np.asarray(np.concatenate(read)[place])

    def _find_factors(self, first: int, last: int) -> Elements:
        """Return rows of factors that other heads need too, of blocks that are kept."""
        found = []
        rows, width = self.factors.shape
        step = max(1, _BLOCK_ELEMENTS // width)
        for number in range(first // step, -(-last // step)):
            start, stop = number * step, min((number + 1) * step, rows)
            kept = self._kept_rows.get(number)
            if kept is None:
                kept = self._read_factors(start, stop)
                self._kept_rows.put(number, kept, kept.nbytes)
            found.append(kept[max(first - start, 0) : last - start])
        return np.concatenate(found)

    def _read_factors(self, first: int, last: int) -> Elements:
        width = self.factors.shape[-1]
        return self.factors.read(first * width, last * width).reshape(last - first, width)
