"""DETR's sinusoids of images with padding: positions count the valid pixels of a column or a row.

    y = valid pixels of the column down to this one      x = valid pixels of the row up to this one

Channel i of the N of y, and then of x, holds sin(y·ω) where i is even and cos(y·ω) where it is odd,
ω = base^(−2⌊i/2⌋/N). Normalized, y is divided by the count at the end of its column + 10^-6, x by
that of its row, and multiplied by a scale, 2π unless given. facebookresearch/detr commit 29901c5
``PositionEmbeddingSine``; transformers 5.23.0 ``DetrSinePositionEmbedding``.

Error: the quotients are part of the frequency, in 80 digits, one for each count that a column or a
row ends with, so that a value is one sine or cosine, within 0.9·2^-53 (angle.py).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.tables.angle import (
    FixedPointFrequencies,
    Float64s,
    Int64s,
    fixed_point,
    sin_cos_of_each,
)
from service.tables.bands import Measured
from service.tables.dtypes import DType, Elements, round_into
from service.tables.frequencies import Geometric
from service.tables.grid_layouts import normalized, normalized_unit
from service.tables.table import FREQUENCY_WORK, STEP_ELEMENTS

MAX_MASKS = 2**10
"""Each is counted by itself."""

MAX_PIXELS = 2**22
"""Of all masks together: their counts are kept."""

MAX_QUOTIENTS = 2**16
"""Frequencies over all counts that columns or rows end with: each is a number of 80 digits."""


@dataclass(frozen=True)
class DetrRule:
    """How positions of DETR turn.

    Attributes:
        d_model: channels of both axes.
        base: of the frequencies.
        normalize: whether positions are divided by the last.
        scale: what normalized ones are multiplied by; none for 2π.
    """

    d_model: int
    base: float
    normalize: bool
    scale: float | None

    @property
    def frequencies(self) -> int:
        """Frequencies of an axis."""
        return self.d_model // 4

    def fixed(self, last: int) -> FixedPointFrequencies:
        """Give the frequencies where the last count is this one."""
        series = Geometric(self.base, self.d_model // 2, self.frequencies)
        if not self.normalize:
            return fixed_point(series.exact())
        unit = normalized_unit(last, self.scale)
        return fixed_point(Measured(normalized(series, self.scale), unit).exact())


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts along one axis of one mask.

    Attributes:
        rule: how they turn.
        pairs: each pair of a count and a last count that there is, the latter as one of lasts.
        lasts: the counts that columns or rows end with; only one where they make no difference.
        place: which pair each pixel has, shape (pixels,).
    """

    rule: DetrRule
    pairs: tuple[Int64s, Int64s]
    lasts: tuple[int, ...]
    place: Int64s

    @classmethod
    def of(cls, rule: DetrRule, valid: Int64s, axis: int) -> "Counts":
        """Count the valid pixels of a mask (h, w) along an axis."""
        count = np.cumsum(valid, axis=axis)
        ends = count.take([-1], axis=axis) if rule.normalize else np.zeros((1, 1), np.int64)
        lasts, last = np.unique(ends, return_inverse=True)
        span = int(count.max()) + 1
        code = (last.reshape(ends.shape) * span + count).reshape(-1)
        is_there = np.zeros(len(lasts) * span, dtype=np.bool_)
        is_there[code] = True
        pairs = np.flatnonzero(is_there)
        place = (np.cumsum(is_there) - 1)[code].astype(np.int32)
        return cls(rule, (pairs % span, pairs // span), tuple(lasts.tolist()), place)

    def values(self, frequencies: range, pixels: range) -> Float64s:
        """Evaluate the channels of frequencies, a sine and a cosine each: (2·n, pixels)."""
        place = self.place[pixels.start : pixels.stop]
        if len(self.pairs[0]) <= len(place):
            return self._of_pairs(frequencies, *self.pairs).take(place, axis=1)
        return self._of_pairs(frequencies, self.pairs[0][place], self.pairs[1][place])

    def _of_pairs(self, frequencies: range, counts: Int64s, lasts: Int64s) -> Float64s:
        """Evaluate each pair for each frequency."""
        which = np.array(frequencies)[:, np.newaxis] + lasts * self.rule.frequencies
        every = np.broadcast_to(counts, which.shape).reshape(-1)
        both = sin_cos_of_each(self._rates.part(which.reshape(-1)), every)
        channels = np.stack([part.reshape(which.shape) for part in both], axis=1)
        return channels.reshape(2 * len(frequencies), len(counts))

    @cached_property
    def _rates(self) -> FixedPointFrequencies:
        """Give all frequencies of the first of lasts, then those of the next."""
        each = [self.rule.fixed(last) for last in self.lasts]
        high, low, unit = (
            np.concatenate([getattr(one, name) for one in each]) for name in ("high", "low", "unit")
        )
        return FixedPointFrequencies(high, low, unit)


@dataclass(frozen=True, eq=False)
class MaskedGridTable:
    """The channels of masks, with the channels first: (B, d_model, h, w).

    Attributes:
        rule: how positions turn.
        valid: 1 where a pixel counts and 0 where it is padding, shape (B, h, w).
        dtype: a real element type.
    """

    rule: DetrRule
    valid: Int64s
    dtype: DType

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Masks, channels, rows and columns."""
        masks, height, width = self.valid.shape
        return masks, self.rule.d_model, height, width

    @property
    def work_per_element(self) -> int:
        """As much as two sines, where every pixel has counts of its own."""
        return 2

    @property
    def setup_work(self) -> int:
        """The frequencies of each count that a column or a row may end with."""
        masks, height, width = self.valid.shape
        lasts = masks * (height + width) if self.rule.normalize else 1
        return FREQUENCY_WORK * min(lasts * self.rule.frequencies, MAX_QUOTIENTS)

    @cached_property
    def _counts(self) -> list[tuple[Counts, Counts]]:
        """Count down and across each mask."""
        return [
            (Counts.of(self.rule, mask, 0), Counts.of(self.rule, mask, 1)) for mask in self.valid
        ]

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = start
        while done < stop:
            values, first = self._values(done, stop)
            part = values[done - first : stop - first]
            round_into(part, elements[done - start : done - start + len(part)], self.dtype)
            done += len(part)
        return elements

    def _values(self, start: int, stop: int) -> tuple[Float64s, int]:
        """Evaluate elements from start on, or a little before, and say where they begin."""
        pixels = self.valid[0].size
        plane, first = divmod(start, pixels)
        line, channel = divmod(plane, self.shape[1] // 2)
        counts = self._counts[line // 2][line % 2]
        frequency, is_cosine = divmod(channel, 2)
        together = STEP_ELEMENTS // (2 * pixels)
        if together:
            begin = (plane - is_cosine) * pixels
            wanted = -(-(stop - begin) // (2 * pixels))
            last = min(frequency + min(together, wanted), self.rule.frequencies)
            return counts.values(range(frequency, last), range(pixels)).reshape(-1), begin
        part = range(first, min(first + STEP_ELEMENTS, pixels, first + stop - start))
        return counts.values(range(frequency, frequency + 1), part)[is_cosine], start


def quotients(rule: DetrRule, valid: Int64s) -> int:
    """Count the numbers of 80 digits that masks (B, h, w) take."""
    if not rule.normalize:
        return rule.frequencies
    ends = [np.sort(valid.sum(axis=axis), axis=1) for axis in (1, 2)]
    changes = sum(int(np.count_nonzero(np.diff(each, axis=1))) for each in ends)
    return (changes + 2 * len(valid)) * rule.frequencies
