"""Rows whose angles run along several axes, exact or rounded to float32 as inference engines do.

An engine rounds each frequency to float32, the position too, and their product once more. At far
positions that is another angle: ``float32_distance`` bounds the difference, and
``float32_sin_cos`` gives the sine and cosine that the engine should compute from it. Every
operation is one that IEEE 754 fixes to the last bit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from math import prod
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.numerics.double_double import multiply_positions, split_factors
from service.numerics.dtypes import DType
from service.numerics.evaluation import sin_cos, sin_cos_of_each
from service.numerics.phase import (
    FixedPointFrequencies,
    Float64s,
    FrequencyRule,
    Picked,
    ScaledFrequencies,
    SineCosine,
    exact_arithmetic,
    fixed_point,
    frequency_seconds,
)
from service.numerics.phasors import (
    Channels,
    Frequencies,
    PhasorTable,
    PlacedSinusoidTable,
    RealPhasorTable,
    of_units,
    phasors_at,
    sines_and_cosines,
    sinusoid_table,
)
from service.numerics.positions import AnyPositions, Numbers, RowPositions, distinct_of, split_units
from service.numerics.repeated_rows import RepeatedPart, without_repeats
from service.numerics.setups import KeptSetup, Setup, Setups, Steps, convert_decimals
from service.numerics.tables import ELEMENT_SECONDS, ColumnsTable, FormulaTable, Table

Float32s: TypeAlias = NDArray[np.float32]

# A float32 is an integer of 24 bits times one of 254 powers of two from the first exponent on.
_SIGNIFICAND_BITS = 24
_FIRST_EXPONENT = -149
_EXPONENTS = 254
_FRACTION_BITS = np.uint32(_SIGNIFICAND_BITS - 1)
_FRACTION = np.uint32(2 ** (_SIGNIFICAND_BITS - 1) - 1)

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


def float32_sin_cos(frequencies: Float32s, positions: Numbers) -> SineCosine:
    """Return sine and cosine of the float32 products of positions (m,) and frequencies (n,).

    Each has the shape (m, n), within 0.9·2^-53 of those of the rounded angle.
    """
    angles = float32_angles(frequencies, np.abs(positions))
    bits = angles.reshape(-1).view(np.uint32)
    powers = bits >> _FRACTION_BITS
    # Subnormal numbers count the same power of two as the smallest normal ones.
    is_normal = (powers > 0).astype(np.uint32)
    powers -= is_normal
    integers = is_normal << _FRACTION_BITS
    integers |= bits & _FRACTION
    sine, cosine = sin_cos_of_each(
        _powers_of_two(), integers.astype(np.int64), powers.astype(np.int64)
    )
    sine, cosine = sine.reshape(angles.shape), cosine.reshape(angles.shape)
    is_negative = positions < 0
    sine[is_negative] = 0.0 - sine[is_negative]
    return sine, cosine


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

    @classmethod
    def of(cls, order: NDArray[np.intp], is_sine: NDArray[np.bool_], zeros: int = 0) -> Self:
        """Return the channels with these frequencies (width,) and components (width,)."""
        found, sines = tuple(order.tolist()), tuple(is_sine.tolist())
        return cls(("cos",), False, len(found), zeros=zeros, order=found, sines=sines)

    def indices(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        is_sine = np.array(self.sines) if self.sines else super().indices()[1]
        return np.array(self.order, dtype=np.intp), is_sine


def columns_of(table: Table, axis: int, places: AnyPositions) -> Table:
    """Return selected channels; a table of phasors has the frequencies of these alone."""
    if not isinstance(table, PhasorTable | RealPhasorTable) or table.channels.zeros:
        return ColumnsTable(table, axis, places)
    chosen, (index, is_sine) = places.at(0, places.count), table.channels.indices()
    used, order = np.unique(index[chosen], return_inverse=True)
    rule, channels = (
        Picked(table.rule, tuple(used.tolist())),
        OrderedChannels.of(order, is_sine[chosen]),
    )
    return replace(table, rule=rule, channels=channels, shape=(*table.shape[:axis], places.count))


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
class AxesTable(PlacedSinusoidTable):
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
        evaluated = (12 if self.rounding == "float32" else 6) + (1 if self.growth else 0)
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

    def components(self, start: int, stop: int) -> SineCosine:
        sines, cosines = np.empty((2, stop - start, _count(self.axes)))
        for axis in self.axes:
            places = _as_slice(axis.places)
            positions = axis.positions.at(start, stop)
            row: slice | NDArray[np.intp] = slice(None)
            distinct, index = np.unique(positions, return_inverse=True)
            if 2 * len(distinct) <= len(positions):
                positions, row = distinct, index
            if axis.shift:
                sine, cosine = _shifted_sin_cos(axis, positions)
            else:
                sine, cosine = _sin_cos(axis.rule, positions, self.rounding)
            if self.growth is not None:
                factor = self.growth.at(positions)
                sine, cosine = sine * factor, cosine * factor
            sines[:, places], cosines[:, places] = sine[row], cosine[row]
        return sines, cosines


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


def simplified(table: AxesTable) -> Table:
    """Return a table of the same bytes that computes equal axes and repeated positions once."""
    table = _with_equal_axes_merged(table)
    alone = table.axes[0]
    if len(table.axes) == 1 and table.rounding == "exact" and not (alone.shift or table.growth):
        channels, positions, scale = table.channels, alone.positions, table.scale
        if isinstance(positions, AnyPositions):
            return sinusoid_table(
                alone.rule, channels, positions, table.dtype, table.shape, scale=scale
            )
    index, is_sine = table.channels.indices()
    used = index[: table.channels.width - table.channels.zeros]
    parts = []
    for axis in table.axes:
        distinct = distinct_of(axis.positions)
        if distinct is None:
            return table
        frequency_of = np.full(_count(table.axes), -1)
        frequency_of[list(axis.places)] = range(len(axis.places))
        own = np.flatnonzero(frequency_of[used] >= 0)
        if not own.size:
            continue
        channels = OrderedChannels.of(frequency_of[used[own]], is_sine[own])
        ones = replace(axis, positions=distinct.positions, places=tuple(range(len(axis.places))))
        shape = (distinct.count, len(own))
        rows = replace(table, axes=(ones,), channels=channels, shape=shape)
        parts.append(RepeatedPart(rows, distinct.index, own))
    return without_repeats(table, table.channels.width, parts)


def _with_equal_axes_merged(table: AxesTable) -> AxesTable:
    """Return a table of the same bytes with one axis for all that have the same positions.

    Only those that select frequencies of the same rule become one.
    """
    groups: list[list[Axis]] = []
    for axis in table.axes:
        group = next((group for group in groups if _are_mergeable(group[0], axis)), None)
        if group is None:
            groups.append([axis])
        else:
            group.append(axis)
    if len(groups) == len(table.axes):
        return table
    axes: list[Axis] = []
    frequency_of = np.empty(_count(table.axes), dtype=np.intp)
    for group in groups:
        picks = [_picked(axis) for axis in group]
        every = sorted({place for picked in picks for place in picked.places})
        for axis, picked in zip(group, picks, strict=True):
            frequency_of[list(axis.places)] = _count(axes) + np.searchsorted(every, picked.places)
        rule = picks[0].rule
        if len(every) < rule.count:
            rule = Picked(rule, tuple(every))
        places = range(_count(axes), _count(axes) + len(every))
        axes.append(replace(group[0], rule=rule, places=tuple(places)))
    channels, (index, is_sine) = table.channels, table.channels.indices()
    if not np.array_equal(frequency_of, np.arange(len(frequency_of))):
        channels = OrderedChannels.of(frequency_of[index], is_sine, channels.zeros)
    return replace(table, axes=tuple(axes), channels=channels)


def _as_slice(places: tuple[int, ...]) -> slice | list[int]:
    """Return an index of these places, a slice if they are consecutive."""
    is_consecutive = places == tuple(range(places[0], places[0] + len(places)))
    return slice(places[0], places[0] + len(places)) if is_consecutive else list(places)


def _picked(axis: Axis) -> Picked:
    return (
        axis.rule
        if isinstance(axis.rule, Picked)
        else Picked(axis.rule, tuple(range(axis.rule.count)))
    )


def _are_mergeable(one: Axis, other: Axis) -> bool:
    return (
        one.shift == other.shift
        and isinstance(one.rule, Picked)
        and isinstance(other.rule, Picked)
        and one.rule.rule == other.rule.rule
        and one.positions == other.positions
    )


def _count(axes: Iterable[Axis]) -> int:
    return sum(len(axis.places) for axis in axes)


def _sin_cos(rule: FrequencyRule, positions: Numbers, rounding: AngleRounding) -> SineCosine:
    if rounding == "float32":
        return float32_sin_cos(Converted(rule, float32_frequencies).get(), positions)
    return sines_and_cosines(rule, positions)


def _shift_of(axis: Axis) -> Frequencies:
    return Frequencies(ScaledFrequencies(axis.rule, abs(axis.shift)))


def _shifted_sin_cos(axis: Axis, positions: Numbers) -> SineCosine:
    """Return sine and cosine of positions (m,) plus the shift times frequencies (n,): each (m, n).

    The sum is not rounded: each is a sum of products of sines and cosines that are within
    0.9·2^-53, and so within 3.9·2^-53, as in ``phasors``.
    """
    integers, units = positions, np.zeros_like(positions)
    if positions.dtype.kind == "f":
        integers, units = split_units(positions)
    sine, cosine = of_units(axis.rule, units, integers)
    once = np.array([1 if axis.shift > 0 else -1])
    more_sine, more_cosine = sin_cos(_shift_of(axis).get(), once)
    return (sine * more_cosine + cosine * more_sine, cosine * more_cosine - sine * more_sine)
