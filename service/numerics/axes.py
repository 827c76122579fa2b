"""Rows whose angles run along several axes, exact or rounded to float32 as inference engines do.

An engine rounds each frequency to float32, the position too, and their product once more. At far
positions that is another angle: ``float32_distance`` bounds the difference, and
``float32_sin_cos`` gives the sine and cosine that the engine should compute from it. Every
operation is one that IEEE 754 fixes to the last bit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from math import prod
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.numerics.double_double import multiply_positions, split_factors
from service.numerics.dtypes import DType
from service.numerics.phase import (
    FixedPointFrequencies,
    Float64s,
    FrequencyRule,
    ScaledFrequencies,
    exact_arithmetic,
    fixed_point,
    frequency_seconds,
    sin_cos,
    sin_cos_of_each,
)
from service.numerics.phasors import (
    Channels,
    Frequencies,
    SinusoidTable,
    Step,
    counted_in,
    phasors_at,
    sines_and_cosines,
)
from service.numerics.positions import Numbers, PositionArray, RowPositions, split_units
from service.numerics.repeated_rows import RepeatedRows
from service.numerics.setups import KeptSetup, Setup, Setups, Steps, convert_decimals
from service.numerics.tables import ELEMENT_SECONDS, FormulaTable, Table, row_steps

Float32s: TypeAlias = NDArray[np.float32]

# A float32 is an integer of 24 bits times one of 254 powers of two from the first exponent on.
_SIGNIFICAND_BITS = 24
_FIRST_EXPONENT = -149
_EXPONENTS = 254

_LARGEST_EXACT_POSITION = 2**_SIGNIFICAND_BITS


def float32_frequencies(frequencies: Sequence[Decimal]) -> Float32s:
    """Round frequencies, none below 0, to float32: once, ties to even."""
    nearest = np.array([float(frequency) for frequency in frequencies])
    exceeds = [Decimal(float(n)) > f for n, f in zip(nearest, frequencies, strict=True)]
    below = np.where(exceeds, np.nextafter(nearest, -np.inf), nearest)
    is_inexact = [Decimal(float(b)) != f for b, f in zip(below, frequencies, strict=True)]
    # Rounded to odd: with its last bit set, an inexact value cannot be a tie of two float32.
    to_odd = below.view(np.uint64) | np.array(is_inexact, dtype=np.uint64)
    return to_odd.view(np.float64).astype(np.float32)


def float32_angles(frequencies: Float32s, positions: Numbers) -> Float32s:
    """Multiply positions (m,), rounded to float32, by frequencies (n,) in float32: (m, n)."""
    return np.multiply(positions.astype(np.float32)[:, np.newaxis], frequencies)


def float32_sin_cos(frequencies: Float32s, positions: Numbers) -> tuple[Float64s, Float64s]:
    """Return sine and cosine of the float32 products of positions (m,) and frequencies (n,).

    Each has the shape (m, n), within 0.9·2^-53 of those of the rounded angle.
    """
    angles = float32_angles(frequencies, positions)
    significands, exponents = np.frexp(angles.reshape(-1))
    integers = (significands * np.float32(2**_SIGNIFICAND_BITS)).astype(np.int64)
    # A subnormal has fewer bits: what lies below the first exponent is 0.
    missing = np.maximum(_FIRST_EXPONENT + _SIGNIFICAND_BITS - exponents, 0)
    powers = exponents - _SIGNIFICAND_BITS + missing - _FIRST_EXPONENT
    integers = np.where(integers < 0, -(-integers >> missing), integers >> missing)
    sine, cosine = sin_cos_of_each(_powers_of_two().part(powers), integers)
    return sine.reshape(angles.shape), cosine.reshape(angles.shape)


@cache
@exact_arithmetic
def _powers_of_two() -> FixedPointFrequencies:
    exponents = range(_FIRST_EXPONENT, _FIRST_EXPONENT + _EXPONENTS)
    return fixed_point([Decimal(2) ** exponent for exponent in exponents])


@exact_arithmetic
def float32_distance(
    frequencies: Sequence[Decimal], farthest: int, *, are_whole: bool = True
) -> Decimal:
    """Bound how far float32 angles of positions up to the farthest are from exact ones, in radians.

    A position p is rounded by at most u·p, u = 2^-24, and whole ones not at all up to 2^24; a
    frequency by its actual rounding error; the product by u of itself, or by 2^-150.
    """
    unit = Decimal(2) ** -_SIGNIFICAND_BITS
    is_exact = are_whole and farthest <= _LARGEST_EXACT_POSITION
    of_position = Decimal(0) if is_exact else unit
    # (1 + of_position)(1 + u) − 1
    roundings = of_position.fma(unit, of_position + unit)
    distances = [Decimal(0)]
    for exact, rounded in zip(frequencies, float32_frequencies(frequencies), strict=True):
        kept = Decimal(float(rounded))
        distances.append((abs(kept - exact) + kept * roundings) * farthest)
    return max(distances) + Decimal(2) ** (_FIRST_EXPONENT - 1)


# The processor seconds of rounding or splitting a frequency.
_CONVERSION_SECONDS = 5e-6
_PREPARED_ROWS = 4096

AngleRounding: TypeAlias = Literal["exact", "float32"]


@dataclass(frozen=True)
class Axis:
    """The frequencies of one coordinate axis, the position of each row, and their columns.

    Attributes:
        rule: n frequencies.
        positions: the position of each row along this axis.
        places: the index of each of the n frequencies in a row.
        shift: what is added to each position; only with exact angles.
    """

    rule: FrequencyRule
    positions: RowPositions
    places: tuple[int, ...]
    shift: Fraction = Fraction(0)


@dataclass(frozen=True)
class OrderedChannels(Channels):
    """Channels whose frequencies are in any order.

    Attributes:
        order: the frequency of each channel.
        sines: whether each channel is a sine; if empty, the components say it.
    """

    order: tuple[int, ...] = ()
    sines: tuple[bool, ...] = ()

    def indices(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        is_sine = np.array(self.sines) if self.sines else super().indices()[1]
        return np.array(self.order, dtype=np.intp), is_sine


class Growth(Protocol):
    """A factor of cosines and sines that depends on position and frequency."""

    def at(self, positions: Numbers) -> Float64s:
        """Return the factors of positions (m,) for every frequency, shape (m, n)."""

    def setup(self, positions: Numbers) -> Setup:
        """Return what the factors of positions (m,) need."""


Convert: TypeAlias = Callable[[Sequence[Decimal]], NDArray[Any]]


@dataclass(frozen=True)
class Converted(KeptSetup[NDArray[Any]], capacity_bytes=8 * 2**20):
    """The frequencies of a rule, converted along the last axis."""

    rule: FrequencyRule
    convert: Convert

    @property
    def new_seconds(self) -> float:
        return self.rule.count * self._each_seconds

    @property
    def _each_seconds(self) -> float:
        return frequency_seconds(self.rule) + _CONVERSION_SECONDS

    def compute(self) -> Steps[NDArray[Any]]:
        parts = yield from convert_decimals(self.rule.exact(), self.convert, self._each_seconds)
        return np.concatenate(parts, axis=-1)


@dataclass(frozen=True, eq=False)
class AxesTable(SinusoidTable):
    """Sines and cosines of angles along any number of axes.

    Attributes:
        axes: positions and frequencies; their places are 0 … count − 1, each once.
        rounding: of the angles.
        growth: multiplies the values; only for a single axis.
    """

    axes: tuple[Axis, ...]
    rounding: AngleRounding
    channels: Channels
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0
    growth: Growth | None = None

    @property
    def element_seconds(self) -> float:
        # Several evaluations of sine and cosine, where the phasors of one axis are shared by rows.
        evaluated = (16 if self.rounding == "float32" else 8) + (4 if self.growth else 0)
        return evaluated * ELEMENT_SECONDS + self.dtype.rounding_seconds

    @cached_property
    def setup(self) -> Setups:
        exact = self.rounding == "exact"
        parts: list[Setup] = [
            phasors_at(axis.rule, axis.positions)
            if exact
            else Converted(axis.rule, float32_frequencies)
            for axis in self.axes
        ]
        parts += [_shift_of(axis) for axis in self.axes if axis.shift]
        if self.growth is not None:
            rows = min(prod(self.shape) // self.channels.width, _PREPARED_ROWS)
            parts.append(self.growth.setup(self.axes[0].positions.at(0, rows)))
        return Setups(tuple(parts))

    def steps(self, start: int, stop: int) -> Iterator[Step]:
        index, is_sine = self.channels.indices()
        columns = index + is_sine * _count(self.axes)
        for part in row_steps(stop - start, self.channels.width):
            both = self._components(start + part.start, start + part.stop)
            yield part.start, both.take(columns, axis=1)

    def _components(self, start: int, stop: int) -> Float64s:
        """Return the cosines, then the sines, of rows: (stop - start, 2·count)."""
        count = _count(self.axes)
        both = np.empty((stop - start, 2 * count))
        for axis in self.axes:
            places = np.array(axis.places, dtype=np.intp)
            # The tokens of a grid have few positions along each of its axes.
            positions, row = np.unique(axis.positions.at(start, stop), return_inverse=True)
            if axis.shift:
                sine, cosine = _shifted_sin_cos(axis, positions)
            else:
                sine, cosine = _sin_cos(axis.rule, positions, self.rounding)
            if self.growth is not None:
                factor = self.growth.at(positions)
                sine, cosine = sine * factor, cosine * factor
            both[:, places], both[:, places + count] = cosine[row], sine[row]
        return both


def angles_table(
    axes: tuple[Axis, ...], rounding: AngleRounding, dtype: DType, shape: tuple[int, ...]
) -> FormulaTable:
    """Return the angles of an AxesTable, in radians, not reduced; a row has each frequency once."""
    count = _count(axes)
    is_exact = rounding == "exact"
    convert: Convert = split_factors if is_exact else float32_frequencies
    multiply = _multiply_numbers if is_exact else float32_angles
    converted = [Converted(axis.rule, convert) for axis in axes]

    def evaluate(rows: range, columns: range) -> Float64s:
        exact = np.empty((len(rows), count))
        for axis, frequencies in zip(axes, converted, strict=True):
            positions = axis.positions.at(rows.start, rows.stop)
            exact[:, list(axis.places)] = multiply(frequencies.get(), positions)
        return exact[:, columns.start : columns.stop]

    return FormulaTable(
        shape,
        dtype,
        count,
        evaluate,
        element_seconds=7 * ELEMENT_SECONDS,
        setup=Setups(tuple(converted)),
    )


def _multiply_numbers(parts: Float64s, positions: Numbers) -> Float64s:
    """Multiply positions, whole or not, by factors as ``multiply_positions`` does."""
    if positions.dtype.kind == "i":
        return multiply_positions(parts, positions)
    integers, exponents = split_units(positions)
    return np.ldexp(multiply_positions(parts, integers), exponents[:, np.newaxis])


def without_repeats(table: AxesTable) -> Table:
    """Return a table of the same bytes that computes repeated positions of an array once."""
    index, is_sine = table.channels.indices()
    parts, order = [], []
    for axis in table.axes:
        if not isinstance(axis.positions, PositionArray) or axis.positions.distinct is None:
            return table
        place_of = {place: frequency for frequency, place in enumerate(axis.places)}
        own = [column for column, place in enumerate(index.tolist()) if place in place_of]
        chosen = OrderedChannels(
            ("cos",),
            interleaved=False,
            width=len(own),
            order=tuple(place_of[int(index[column])] for column in own),
            sines=tuple(is_sine[own].tolist()),
        )
        distinct, rows = axis.positions.distinct
        positions, places = PositionArray(distinct), tuple(range(len(axis.places)))
        alone = replace(axis, positions=positions, places=places)
        part = replace(table, axes=(alone,), channels=chosen, shape=(len(distinct), len(own)))
        parts.append((part, rows))
        order += own
    copied = RepeatedRows(tuple(parts), table.shape, tuple(order))
    return copied if copied.is_worthwhile else table


def _count(axes: tuple[Axis, ...]) -> int:
    return sum(len(axis.places) for axis in axes)


def _sin_cos(
    rule: FrequencyRule, positions: Numbers, rounding: AngleRounding
) -> tuple[Float64s, Float64s]:
    if rounding == "float32":
        return float32_sin_cos(Converted(rule, float32_frequencies).get(), positions)
    both = sines_and_cosines(rule, positions)
    return both[:, : rule.count], both[:, rule.count :]


def _shift_of(axis: Axis) -> Frequencies:
    return Frequencies(ScaledFrequencies(axis.rule, abs(axis.shift)))


def _shifted_sin_cos(axis: Axis, positions: Numbers) -> tuple[Float64s, Float64s]:
    """Return sine and cosine of positions (m,) plus the shift times frequencies (n,): each (m, n).

    The sum is not rounded: each is a sum of products of sines and cosines that are within
    0.9·2^-53, and so within 3.9·2^-53, as in ``phasors``.
    """
    integers, units = positions, np.zeros_like(positions)
    if positions.dtype.kind == "f":
        integers, units = split_units(positions)
    sine, cosine = np.empty((2, len(positions), axis.rule.count))
    for unit in np.unique(units).tolist():
        (rows,) = np.nonzero(units == unit)
        sine[rows], cosine[rows] = sin_cos(counted_in(axis.rule, unit).get(), integers[rows])
    once = np.array([1 if axis.shift > 0 else -1])
    more_sine, more_cosine = sin_cos(_shift_of(axis).get(), once)
    return (sine * more_cosine + cosine * more_sine, cosine * more_cosine - sine * more_sine)
