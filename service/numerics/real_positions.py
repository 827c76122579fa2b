"""Positions that are real numbers, exactly, and the rows of sines and cosines of them.

A float64 is an integer times a power of two. Counted in a unit that is one of few such powers it
is an integer position, and the unit goes into the frequencies: nothing is rounded on the way to
the angle. Whole numbers are counted in 1 and have the bytes that integer positions have.

Error, in units of 2^-53: at a whole position that of a product of phasors, 3.9; at any other one
that of a sine or cosine alone, 0.9. Relative to the value's own size, where the whole angle is
below 1: below 6 at a whole position, 3.5 for other sines and 1.7 (0.9 by cos 1) for other cosines.
A scale is rounded by 1 of its size, as is the product with it: below 6 times the scale together.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Protocol, TypeAlias

import numpy as np

from service.lru import ByteBoundedLRU
from service.numerics.document import ParameterValue
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.frequencies import FrequencyRule, ScaledFrequencies
from service.numerics.phase import (
    MAX_POSITION,
    FixedPointFrequencies,
    Float64s,
    Int64s,
    fixed_point,
    sin_cos,
)
from service.numerics.phasors import Channels, sines_and_cosines
from service.numerics.positions import Positions
from service.numerics.tables import FREQUENCY_WORK, RowTable, row_steps

MIN_REAL_POSITION = 1e-30
"""The smallest position but 0: times the slowest frequency of a base of MAX_SCALED_BASE its last
bit is in the range of phases."""

# Units are 2^0, 2^-8, 2^-16, …: an odd integer of 53 bits has 60 bits in the unit below its own.
_UNIT_BITS = 8
_SIGNIFICAND_BITS = 53

# The last bit of MIN_REAL_POSITION is 2^-152.
_UNITS = 20

# The arrays of a row's width in one step.
_ARRAYS = 4


class RowReals(Protocol):
    """One real position for each row."""

    def at(self, start: int, stop: int) -> Float64s:
        """Return the positions of the rows start to stop, shape (stop - start,)."""


def first_out_of_range(values: Float64s) -> float | None:
    """Return the first of values (n,) that has no exact angle, or None.

    Such a value is too large, too small without being 0, infinite or NaN.
    """
    sizes = np.abs(values)
    is_exact = (sizes <= MAX_POSITION) & ((sizes >= MIN_REAL_POSITION) | (sizes == 0))
    return None if is_exact.all() else float(values[is_exact.argmin()])


@dataclass(frozen=True)
class RealPositions:
    """A list of positions that need not be whole.

    Attributes:
        values: one for each row, at least one, none of them −0.
    """

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def is_whole(self) -> bool:
        return all(value.is_integer() for value in self.values)

    @property
    def out_of_range(self) -> float | None:
        """The first position that has no exact angle, or None."""
        return first_out_of_range(self._array)

    def whole(self) -> Positions:
        """Convert to integer positions; all values must be whole."""
        return Positions.of_runs(map(int, self.values))

    def parameters(self) -> dict[str, ParameterValue]:
        return {"positions": self.values}

    def at(self, start: int, stop: int) -> Float64s:
        return self._array[start:stop]

    @cached_property
    def _array(self) -> Float64s:
        return np.array(self.values)


AnyPositions: TypeAlias = Positions | RealPositions


def split_units(values: Float64s) -> tuple[Int64s, Int64s]:
    """Write values (n,) as integers times a power of two each: the integers and the exponents.

    The exponents are multiples of 8, none above 0; that of a whole number is 0. The integers are
    within ±2^62 where the values are.
    """
    significand, exponent = np.frexp(np.abs(values))
    integer = np.ldexp(significand, _SIGNIFICAND_BITS).astype(np.int64)
    trailing = np.frexp((integer & -integer).astype(np.float64))[1] - 1
    lowest = exponent.astype(np.int64) - _SIGNIFICAND_BITS + trailing
    is_whole = (lowest >= 0) | (values == 0)
    unit = np.where(is_whole, 0, lowest // _UNIT_BITS * _UNIT_BITS)
    magnitude = (integer >> np.where(is_whole, 0, trailing)) << np.where(is_whole, 0, lowest - unit)
    fractional = np.where(values < 0, -magnitude, magnitude)
    return np.where(is_whole, np.where(is_whole, values, 0.0).astype(np.int64), fractional), unit


def max_units(values: int) -> int:
    """Bound the number of different exponents among so many values in range."""
    return min(values, _UNITS)


@dataclass(frozen=True, eq=False)
class RealPhasorTable(RowTable):
    """Sines and cosines of real positions times frequencies, one row a position.

    Attributes:
        rule: the frequencies; ``ScaledFrequencies`` gives all positions another unit.
        channels: the components in a row.
        positions: the position of each row, none of them out of range.
        dtype: a real element type.
        shape: any whose size is rows × channels.
        scale: multiplies the value in float64, before it is rounded to the element type.
    """

    rule: FrequencyRule
    channels: Channels
    positions: RowReals
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0

    @property
    def work_per_element(self) -> int:
        # Nothing is shared between rows, as it is in a PhasorTable.
        return 2

    @property
    def setup_work(self) -> int:
        # The frequencies are evaluated for each unit there may be.
        rows = prod(self.shape) // self.row_width
        return FREQUENCY_WORK * self.rule.count * max_units(rows)

    @property
    def row_width(self) -> int:
        return self.channels.width

    def fill(self, first: int, rows: Elements) -> None:
        for part in row_steps(len(rows), _ARRAYS * self.row_width):
            values = self.positions.at(first + part.start, first + part.stop)
            exact = self._rows(values)
            if self.scale != 1.0:
                np.multiply(exact, self.scale, out=exact)
            round_into(exact, rows[part], self.dtype)
        self.channels.blank(rows)

    def _rows(self, values: Float64s) -> Float64s:
        """Compute the rows of values (m,), those of each unit together: (m, width)."""
        index, is_sine = self.channels.indices()
        columns = index + ~is_sine * self.rule.count
        integers, units = split_units(values)
        exact = np.empty((len(values), self.row_width))
        for unit in np.unique(units).tolist():
            (rows,) = np.nonzero(units == unit)
            both = _of_unit(self.rule, unit, integers[rows])
            exact[rows] = both.take(columns, axis=1)
        return exact


def _of_unit(rule: FrequencyRule, exponent: int, integers: Int64s) -> Float64s:
    """Return the sines, then the cosines, of integers (m,) counted in 2^exponent: (m, 2n)."""
    if exponent == 0:
        return sines_and_cosines(rule, integers)
    return np.concatenate(sin_cos(_frequencies(rule, exponent), integers), axis=1)


_CACHE_BYTES = 16 * 1024 * 1024
_cache: ByteBoundedLRU[tuple[FrequencyRule, int], FixedPointFrequencies] = ByteBoundedLRU(
    _CACHE_BYTES
)


def _frequencies(rule: FrequencyRule, exponent: int) -> FixedPointFrequencies:
    """Return the frequencies per unit of 2^exponent, from the cache."""
    cached = _cache.get((rule, exponent))
    if cached is not None:
        return cached
    frequencies = fixed_point(ScaledFrequencies(rule, Fraction(2) ** exponent).exact())
    _cache.put((rule, exponent), frequencies, 3 * frequencies.high.nbytes + 1024)
    return frequencies
