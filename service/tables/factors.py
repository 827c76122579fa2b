"""The factors of rows of phasors: what is evaluated once, and multiplied again and again.

With position = 64·a + b (a and b of the position's sign) a row is the product of the coarse
phasor of 64·a and the fine one of b. Positions of one a are a run: 64 of them, and 127 where a
is 0.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from service.lru import ByteBoundedLRU
from service.tables.angle import (
    FixedPointFrequencies,
    Float64s,
    Int64s,
    fixed_point,
    sin_cos,
)
from service.tables.channels import Channels, Indices
from service.tables.frequencies import FrequencyRule
from service.tables.stretches import STRIDE

# What multiplies, or is multiplied by, cosine and sine of the other phasor.
Pair: TypeAlias = tuple[Float64s, Float64s]

SETUP_CACHE_BYTES = 64 * 1024 * 1024
_FREQUENCY_CACHE_BYTES = 8 * 1024 * 1024
_MAX_FINE_BYTES = SETUP_CACHE_BYTES // 2


@dataclass(frozen=True, eq=False)
class Setup:
    """What every read of the same frequencies in the same channels shares.

    Attributes:
        frequencies: n of them, in fixed point.
        channels: the frequency's index for each channel, shape (width,).
        by_cosine, by_sine: for each channel, the column of (cos, sin, −sin) of the coarse phasors
            that multiplies the cosine and the sine of the fine one, each of shape (width,).
        all_fine: cosines and sines of the positions −63 … 63, each of shape (127, width); none
            where rows are so wide that a read computes the few it needs.
    """

    frequencies: FixedPointFrequencies
    channels: Indices
    by_cosine: Indices
    by_sine: Indices
    all_fine: Pair | None = None

    @classmethod
    def of(cls, rule: FrequencyRule, channels: Channels) -> "Setup":
        """Prepare the reading of frequencies in channels."""
        frequencies = fixed_frequencies(rule)
        index, is_sine = channels.indices()
        cosines, sines, opposites = index + np.arange(3)[:, np.newaxis] * len(frequencies.high)
        by_cosine, by_sine = (
            np.where(is_sine, sines, cosines),
            np.where(is_sine, cosines, opposites),
        )
        bare = cls(frequencies, index, by_cosine, by_sine)
        if 2 * 8 * (2 * STRIDE - 1) * channels.width > _MAX_FINE_BYTES:
            return bare
        return replace(bare, all_fine=bare.spread(np.arange(1 - STRIDE, STRIDE, dtype=np.int64)))

    @property
    def width(self) -> int:
        """Channels in a row."""
        return len(self.channels)

    @property
    def size_bytes(self) -> int:
        """What it takes, generously."""
        fine_bytes = 0 if self.all_fine is None else 2 * self.all_fine[0].nbytes
        return fine_bytes + 64 * self.width + 1024

    def fine(self, positions: range) -> Pair:
        """Give cosines and sines of the b's in a range, each (m, width)."""
        if self.all_fine is None:
            return self.spread(np.arange(positions.start, positions.stop, dtype=np.int64))
        rows = slice(positions.start + STRIDE - 1, positions.stop + STRIDE - 1)
        return self.all_fine[0][rows], self.all_fine[1][rows]

    def spread(self, positions: Int64s) -> Pair:
        """Give cosines and sines of positions (m,) for every channel, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        return _columns(cosine, self.channels), _columns(sine, self.channels)

    def coarse(self, positions: Int64s) -> Pair:
        """Give what multiplies the cosine and the sine of the fine phasors, each (m, width)."""
        sine, cosine = sin_cos(self.frequencies, positions)
        every = np.concatenate([cosine, sine, 0.0 - sine], axis=1)
        return _columns(every, self.by_cosine), _columns(every, self.by_sine)


def _columns(values: Float64s, index: Indices) -> Float64s:
    # Indices are right by construction: not looking takes half the time.
    return values.take(index, axis=1, mode="clip")


_frequencies: ByteBoundedLRU[FrequencyRule, FixedPointFrequencies] = ByteBoundedLRU(
    _FREQUENCY_CACHE_BYTES
)


def fixed_frequencies(rule: FrequencyRule) -> FixedPointFrequencies:
    """Evaluate frequencies, or find them evaluated: channels of every kind share them."""
    known = _frequencies.get(rule)
    if known is not None:
        return known
    made = fixed_point(rule.exact())
    _frequencies.put(rule, made, 4 * made.high.nbytes + 1024)
    return made


_setups: ByteBoundedLRU[tuple[FrequencyRule, Channels], Setup] = ByteBoundedLRU(SETUP_CACHE_BYTES)


def setup_of(rule: FrequencyRule, channels: Channels) -> Setup:
    """Prepare the reading of frequencies in channels, or find it prepared."""
    known = _setups.get((rule, channels))
    if known is not None:
        return known
    made = Setup.of(rule, channels)
    _setups.put((rule, channels), made, made.size_bytes)
    return made


class CoarseRuns:
    """The coarse phasors of consecutive runs, computed in batches for one who reads in order.

    A reader who goes on where the last read ended gets those of the runs after it computed, too:
    many at once cost half of what they cost one by one. The last batch is kept. It is only ever
    replaced, never changed, so that any number of threads may read.
    """

    def __init__(self) -> None:
        self._kept: tuple[range, Pair] | None = None

    def of(self, setup: Setup, runs: range, ahead: range) -> Pair:
        """Give what multiplies the fine phasors of runs (each an a), as ``Setup.coarse`` does.

        Args:
            setup: the frequencies and channels, always the same.
            runs: those needed.
            ahead: those to compute, from the first needed one on, for a reader in order.
        """
        kept = self._kept
        if kept is None or not (runs.start in kept[0] and runs[-1] in kept[0]):
            in_order = kept is not None and kept[0].start <= runs.start <= kept[0].stop
            computed = ahead if in_order else runs
            positions = np.arange(computed.start, computed.stop, dtype=np.int64) * STRIDE
            kept = self._kept = computed, setup.coarse(positions)
        start, (by_cosine, by_sine) = kept[0].start, kept[1]
        part = slice(runs.start - start, runs.stop - start)
        return by_cosine[part], by_sine[part]
