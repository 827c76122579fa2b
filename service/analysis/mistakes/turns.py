"""Mistakes of angles: what was done to positions, frequencies, signs and sizes of waves."""

from dataclasses import dataclass

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.waves import Waves
from service.tables.angle import Float64s
from service.tables.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    DType,
    largest,
    round_into,
    widened,
)


@dataclass(frozen=True)
class Narrowing:
    """What was held in a narrow type on the way to a table.

    Attributes:
        dtype: the type.
        positions, frequencies, angles: whether these were.
    """

    dtype: DType
    positions: bool = False
    frequencies: bool = False
    angles: bool = False

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Name what went wrong by it."""
        # Every integer up to 2^p has a place in a type with p bits of precision.
        exact = 256 if self.dtype is BFLOAT16 else 2048
        values = {"dtype": self.dtype.name, "exact": exact}
        if self.angles:
            return (Mistake("narrow-angles", {"dtype": self.dtype.name}),)
        named = (("narrow-positions", self.positions), ("narrow-frequencies", self.frequencies))
        return tuple(Mistake(name, values) for name, is_so in named if is_so)


NARROWINGS = tuple(
    Narrowing(dtype, positions, frequencies, angles)
    for positions, frequencies, angles in (
        (True, False, False),
        (False, True, False),
        (True, True, False),
        (True, True, True),
    )
    for dtype in (BFLOAT16, FLOAT16)
)


@dataclass(frozen=True, eq=False)
class Turned:
    """Waves that somebody made in place of those that are wanted.

    Attributes:
        mistakes: why they are others.
        cosine, sine: radians per position of cosines and of sines, (K,).
        shift: what positions have more than they should.
        narrowing: what was held in a narrow type.
        factor: what everything is multiplied by, beside what it should be.
    """

    mistakes: tuple[Mistake, ...]
    cosine: Float64s
    sine: Float64s
    shift: float = 0.0
    narrowing: Narrowing | None = None
    factor: float = 1.0

    def table(self, waves: Waves, rows: slice | np.ndarray) -> tuple[Float64s, Float64s]:
        """Compute rows of the table, and how large the angle of each element counts."""
        positions = waves.positions[rows] + self.shift
        narrow = self.narrowing
        if narrow and narrow.positions:
            positions = rounded(positions, narrow.dtype)
        sines = self._angles(positions, self.sine)
        is_twin = self.cosine is self.sine
        cosines = sines if is_twin else self._angles(positions, self.cosine)
        sine_reach, cosine_reach = reach(sines, self.sine), reach(cosines, self.cosine)
        reaches = np.where(
            waves.is_sine, sine_reach[:, waves.frequency], cosine_reach[:, waves.frequency]
        )
        scale = waves.scale * self.factor
        sine, cosine = np.sin(sines) * scale, np.cos(cosines) * scale
        table = np.where(waves.is_sine, sine[:, waves.frequency], cosine[:, waves.frequency])
        return table, reaches

    def _angles(self, positions: Float64s, omega: Float64s) -> Float64s:
        narrow = self.narrowing
        if narrow and narrow.frequencies:
            omega = rounded(omega, narrow.dtype)
        angles = np.outer(positions, omega)
        return rounded(angles, narrow.dtype) if narrow and narrow.angles else angles


def reach(angles: Float64s, omega: Float64s) -> Float64s:
    """Say how much angles count where errors in proportion to them are bounded.

    Engines that compute a frequency as e^(-k·ln b/n) in float32 round the exponent: ln ω is off by
    as much of itself as the angle is by other steps, and ω by that times |ln ω|.
    """
    size = np.abs(omega)
    logarithms = np.abs(np.log(np.where(size > 0, size, 1.0)))
    reached: Float64s = np.abs(angles) * (1 + logarithms / 2)
    return reached


def rounded(values: Float64s, dtype: DType) -> Float64s:
    """Round numbers to a narrow type; what is too large for it becomes its largest."""
    elements = np.empty(values.shape, dtype=dtype.storage)
    # An infinite angle has no sine: there is no such number in what is compared.
    most = largest(dtype)
    round_into(np.clip(values, -most, most), elements, dtype)
    return widened(elements, dtype)


def holding(values: Float64s, dtype: DType) -> DType:
    """Find the narrowest type that holds sines and cosines as they are, of which a wider was made.

    Numbers are written as text, or sent as float32, that were computed in a narrower type.
    """
    sizes = [FLOAT64, FLOAT32, FLOAT16, BFLOAT16]
    for narrow in sizes[:0:-1]:
        if sizes.index(narrow) > sizes.index(dtype) and (rounded(values, narrow) == values).all():
            return narrow
    return dtype
