"""Claims that an array was computed in some arithmetic, and emulations of how engines do that.

A ``Claim`` predicts every element of an array from the proposed table, and bounds its error.
``angle_claims`` emulates the arithmetics in which engines compute angles. The float32 frequencies
of engines differ by a few ulp: ``fitted_frequencies`` measures them. ``RoundingClaim`` bounds the
rounding errors of tables that are not sines and cosines.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from service.analysis.array import AngleModel, read_rows
from service.analysis.precision import rounded, spacing
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Indices
from service.numerics.tables import Table


@dataclass(frozen=True)
class Arithmetic:
    """A float arithmetic. Rank 0 is exact; a higher rank is less exact."""

    name: str
    description: str
    rank: int


EXACT = Arithmetic("exact", "every element is the exact value, rounded once", 0)
FLOAT64_ARITHMETIC = Arithmetic(
    "float64", "computed in float64, then rounded to the array's dtype", 1
)
FLOAT32_ARITHMETIC = Arithmetic(
    "float32", "frequencies and angles (position times frequency) rounded to float32", 2
)
REPEATED = Arithmetic(
    "float32 by repeated multiplication",
    "angle k is angle k - 1 times a float32 ratio, as in ggml",
    3,
)
FLOAT32_STEPS = Arithmetic(
    "float32 in steps", "each angle takes several float32 operations, such as a division", 4
)
_NARROW_ARITHMETICS = {
    "positions": ("positions rounded to {}, then float32", 5),
    "frequencies": ("frequencies rounded to {}, then float32", 6),
    "angles": ("angles (position times frequency) rounded to {}", 7),
    "throughout": ("positions, frequencies, angles and sines are each rounded to {}", 8),
}


def narrow_arithmetic(part: str, dtype: DType) -> Arithmetic:
    """Return the arithmetic that rounds a part of the computation to a type below float32.

    Args:
        part: ``positions``, ``frequencies``, ``angles`` or ``throughout``.
        dtype: the type.
    """
    description, rank = _NARROW_ARITHMETICS[part]
    return Arithmetic(f"{dtype.name} {part}", description.format(dtype.name), rank)


def without_looser(arithmetics: tuple[Arithmetic, ...]) -> tuple[Arithmetic, ...]:
    """Sort by rank, and drop "float32 in steps" if there is a more exact arithmetic.

    An array that matches a more exact arithmetic also matches "float32 in steps", because its
    tolerances are wider.
    """
    ordered = tuple(sorted(arithmetics, key=lambda arithmetic: arithmetic.rank))
    if ordered and ordered[0] is FLOAT32_STEPS:
        return ordered
    return tuple(each for each in ordered if each is not FLOAT32_STEPS)


RowsByName: TypeAlias = Mapping[str, Float64s]
"""Array name → the elements of S rows, (S, C)."""

Prediction: TypeAlias = tuple[Float64s, Float64s]
"""Predicted rows (S, C), and the largest absolute error allowed for each element (S, C)."""


@dataclass(frozen=True, eq=False)
class Claim(ABC):
    """The claim that an array is a given table, computed in a given arithmetic."""

    arithmetic: Arithmetic

    @abstractmethod
    def predict(self, rows: np.ndarray, expected: RowsByName) -> dict[str, Prediction]:
        """Predict the elements of some rows, by array name.

        Args:
            rows: the row indices, (S,).
            expected: the exact table's values in these rows, by array name.
        """

    def agreement(
        self, rows: np.ndarray, submitted: RowsByName, expected: RowsByName
    ) -> dict[str, np.ndarray]:
        """Return, for each array, a mask (S, C): True where a submitted element is as predicted."""
        predictions, masks = self.predict(rows, expected), {}
        for name, values in submitted.items():
            predicted, allowed = predictions[name]
            with np.errstate(invalid="ignore"):
                is_near = np.abs(values - predicted) <= allowed
            # inf - inf is NaN: compare infinities for equality.
            masks[name] = is_near | (values == predicted)
        return masks

    def agreeing_share(
        self, rows: np.ndarray, submitted: RowsByName, expected: RowsByName
    ) -> float:
        """Return the fraction of the submitted elements that are as predicted, 0 to 1."""
        masks = self.agreement(rows, submitted, expected).values()
        return float(np.mean([mask.mean() for mask in masks]))


class ExactClaim(Claim):
    """The claim that every element equals the number in the table; −0 equals 0."""

    def predict(self, rows: np.ndarray, expected: RowsByName) -> dict[str, Prediction]:  # noqa: ARG002
        return {name: (values, np.zeros_like(values)) for name, values in expected.items()}


def half_spacing(values: Float64s, dtype: DType) -> Float64s:
    """Return a bound of the error of rounding each value to a dtype: |value|·eps/2."""
    return np.abs(values) * rounding_bound(dtype, 1.0) + rounding_bound(dtype, 0.0)


EMULATION_LOSS = 32 * 2.0**-53
"""Error bound of float64 arithmetic: of an angle, per radian; of a sine, per unit.

A frequency b^(-2k/d) is exp(−(2k/d)·ln b). The exponent, up to 16 in size for b up to 10^7, is
rounded two or three times by half an ulp: a relative error of 3·16·2^-53/2 of the frequency. The
product and the sine add one rounding each. The emulation itself has the same errors again.
"""

FLOAT32_FREQUENCY_LOSS = 32 * 2.0**-24
"""Bound of the relative error of a float32 frequency.

As for float64: an exponent of up to 16 in size, rounded two or three times, gives a relative error
of 24·2^-24. The power itself and the arithmetic of a scaling rule add a few roundings.
"""

FLOAT32_SINE_LOSS = 4 * 2.0**-24
"""Bound of the error of a float32 sine of a float32 angle, relative to the table's scale.

Libraries are within 2 ulp, which is at most 2·2^-24 below 1; the product with the scale adds half
an ulp. 4·2^-24 exceeds the sum.
"""

FLOAT32_LOSS = 16 * 2.0**-24
"""Bound of the error of a few float32 operations, relative to the largest element.

This allows 16 roundings of 2^-24 each; or, in a sum with a sine, two roundings of an angle of 8.
"""

# The largest error allowed for a sine: a larger one would accept any array.
_MAX_TOLERANCE = 0.125


@dataclass(frozen=True, eq=False)
class Emulation(Claim):
    """The claim that an array has sines and cosines of angles that an engine rounds step by step.

    Attributes:
        model: the exact angles of the proposed table.
        dtype: the type of the array's elements.
        omega: the frequencies that the engine uses, radians per unit of position, (K,).
        positions_in, angles_in, sines_in: the types to which the engine rounds positions, angles
            and sines; None for float64.
        angle_error: bound of the relative error of an angle, per frequency (K,) or for all; if it
            is not 0, it includes the rounding of the angle to ``angles_in``.
        sine_error: bound of the additional error of a sine, relative to the scale.
        coordinate_error: bound of the absolute error of a coordinate.
    """

    model: AngleModel
    dtype: DType
    omega: Float64s
    positions_in: DType | None = FLOAT32
    angles_in: DType | None = FLOAT32
    sines_in: DType | None = None
    angle_error: Float64s | float = 0.0
    sine_error: float = FLOAT32_SINE_LOSS
    coordinate_error: float = 0.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Return the emulated angles of S rows and K frequencies, in radians, (S, K)."""
        coordinates = rounded(self.model.coordinates[rows], self.positions_in)
        angles = coordinates[:, list(self.model.axis)] * self.omega
        return angles if np.any(self.angle_error) else rounded(angles, self.angles_in)

    def predict(self, rows: np.ndarray, expected: RowsByName) -> dict[str, Prediction]:
        """Emulate some rows; rows that are all zero in the table, such as padding, stay zero."""
        angles, scale = self.angles(rows), self.model.scale
        error = self.sine_error + self.angle_error * np.abs(angles)
        error = error + self.coordinate_error * np.abs(self.omega)
        error = np.minimum(error, _MAX_TOLERANCE) * abs(scale)
        cosines = rounded(np.cos(angles), self.sines_in) * scale
        sines = rounded(np.sin(angles), self.sines_in) * scale
        predictions = {}
        for name, channels in self.model.channels.items():
            values = _in_channels(cosines, sines, channels)
            allowed = _in_channels(error, error, channels)
            allowed += half_spacing(np.abs(values) + allowed, self.dtype)
            is_zero = ~expected[name].any(axis=1)
            values[is_zero] = allowed[is_zero] = 0.0
            predictions[name] = values, allowed
        return predictions

    def is_tight(self) -> bool:
        """Return whether the bounds of the angles' errors are small enough to exclude other tables.

        The limit is ``_MAX_ANGLE_ERROR``, or ``_MAX_UNMEASURED_ERROR`` for a narrow dtype.
        """
        largest = np.abs(self.model.coordinates).max(axis=0, initial=0.0)
        omega = np.abs(self.omega)
        errors = self.angle_error * largest[list(self.model.axis)] * omega
        errors = errors + self.coordinate_error * omega
        limit = _MAX_UNMEASURED_ERROR if self.dtype in NARROW else _MAX_ANGLE_ERROR
        return bool(errors.max(initial=0.0) <= limit)


def _in_channels(cosines: Float64s, sines: Float64s, channels: Channels) -> Float64s:
    """Return the cosines or sines (S, K) that fill the channels of rows (S, C); padding is 0."""
    frequency, is_sine = channels.indices()
    rows = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
    channels.blank(rows)
    return rows


@dataclass(frozen=True, eq=False)
class RepeatedMultiplication(Emulation):
    """Angles as in ggml: angle k is angle k - 1 times a float32 ratio."""

    ratio: float = 1.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Return the emulated angles (S, K); the first frequency is multiplied last."""
        angle = self.model.coordinates[rows, 0].astype(np.float32)
        columns = np.empty((len(rows), len(self.omega)), dtype=np.float32)
        for k in range(len(self.omega)):
            columns[:, k] = angle
            angle = angle * np.float32(self.ratio)
        return (columns * np.float32(self.omega[0])).astype(np.float64)


_FIT_ROUNDS = 3
# Floor for misfits: smaller ones get the same weight, so that no single one dominates.
_LEAST_MISFIT = 2.0**-22
# Candidates near the measured frequency, in ulps from it: the measured frequency is within a
# fraction of an ulp, unless its neighbours fit equally well.
_NEIGHBOURS = (0, -1, 1, -2, 2)


def fitted_frequencies(
    model: AngleModel, rows: np.ndarray, submitted: RowsByName, positions_in: DType | None = None
) -> Float64s:
    """Return the float32 frequencies near the exact ones that fit the submitted rows best, (K,).

    Args:
        model: the exact angles of the proposed table.
        rows: the indices of the rows to fit, (S,); larger positions give more exact frequencies.
        submitted: the submitted values in these rows, by array name.
        positions_in: the type to which the engine rounds positions; None for float64.
    """
    coordinates = rounded(model.coordinates[rows], positions_in)[:, list(model.axis)]
    largest_error = FLOAT32_FREQUENCY_LOSS * np.abs(model.omega)
    omega = model.omega
    for _ in range(_FIT_ROUNDS):
        omega = omega + _fit_step(model, coordinates, omega, submitted)
        omega = np.clip(omega, model.omega - largest_error, model.omega + largest_error)
    near = omega.astype(np.float32)
    candidates = [
        np.asarray(near + np.float32(ulps) * np.spacing(near), dtype=np.float64)
        for ulps in _NEIGHBOURS
    ]
    coordinates = rounded(coordinates, FLOAT32)
    misfits = [
        misfit_by_frequency(model, rounded(coordinates * candidate, FLOAT32), submitted)
        for candidate in candidates
    ]
    chosen: Float64s = np.choose(np.argmin(misfits, axis=0), candidates)
    return chosen


def _fit_step(
    model: AngleModel, coordinates: Float64s, omega: Float64s, submitted: RowsByName
) -> Float64s:
    """Return a change of the frequencies, (K,), that reduces the sum of the absolute misfits.

    It is a Gauss-Newton step of least squares with weights 1/|misfit|, so that a corrupted row
    has no more influence than any other row.
    """
    angles = coordinates * omega
    sines, cosines = np.sin(angles), np.cos(angles)
    numerator, denominator = np.zeros(len(omega)), np.zeros(len(omega))
    for frequency, is_sine, values in _nonzero_channels(model, submitted):
        sine, cosine = sines[:, frequency], cosines[:, frequency]
        misfit = values - model.scale * np.where(is_sine, sine, cosine)
        slope = model.scale * np.where(is_sine, cosine, -sine) * coordinates[:, frequency]
        weight = 1 / (np.abs(misfit) + _LEAST_MISFIT)
        numerator += np.bincount(frequency, (weight * slope * misfit).sum(axis=0), len(omega))
        denominator += np.bincount(frequency, (weight * slope * slope).sum(axis=0), len(omega))
    return np.divide(numerator, denominator, out=np.zeros(len(omega)), where=denominator > 0)


def misfit_by_frequency(model: AngleModel, angles: Float64s, submitted: RowsByName) -> Float64s:
    """Return the sum of |submitted - predicted| over rows and channels, per frequency, (K,).

    Args:
        model: the exact angles of the proposed table.
        angles: the angles to predict from, in radians, (S, K).
        submitted: the submitted values in these S rows, by array name.
    """
    sines, cosines = np.sin(angles), np.cos(angles)
    total = np.zeros(angles.shape[1])
    for frequency, is_sine, values in _nonzero_channels(model, submitted):
        expected = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
        misfit = np.abs(values - model.scale * expected).sum(axis=0)
        total += np.bincount(frequency, misfit, angles.shape[1])
    return total


def _nonzero_channels(
    model: AngleModel, submitted: RowsByName
) -> Iterator[tuple[Indices, np.ndarray, Float64s]]:
    """Yield for each array the channels that are not padding.

    Yields:
        The frequency index of each channel; a mask, True for sines; the submitted values (S, C).
    """
    for name, channels in model.channels.items():
        frequency, is_sine = channels.indices()
        kept = channels.width - channels.zeros
        yield frequency[:kept], is_sine[:kept], submitted[name][:, :kept]


NARROW = (BFLOAT16, FLOAT16)

_ROUNDING = 2.0**-24
# Error of an angle after four roundings: an offset, a division, a factor and the product.
_FEW_STEPS = 4 * _ROUNDING
# Relative error of an angle with an unmeasured frequency: elements in a narrow type are too coarse
# to measure a float32 frequency to the ulp.
_UNMEASURED = FLOAT32_FREQUENCY_LOSS + _ROUNDING
# The largest error of an angle, in radians, that still excludes other tables. Angles up to 4096
# that are computed in a few steps are within 2^-10.
_MAX_ANGLE_ERROR = 2.0**-10
# The same limit where frequencies are not measured. Angles up to 15887, enough for 8192 positions,
# are within 2^-5; the next position adds 1 radian to an angle of frequency 1.
_MAX_UNMEASURED_ERROR = 2.0**-5
_RATIO_ULPS = range(-4, 5)
_SAME_RATIO = 2.0**-40
# Try float32 only if at least this fraction of the elements is within its loosest tolerance.
_LEAST_FLOAT32_SHARE = 0.5


def exact_emulation(model: AngleModel, dtype: DType) -> Emulation:
    """Return the emulation of float64 arithmetic with exact frequencies."""
    error = EMULATION_LOSS
    return Emulation(
        FLOAT64_ARITHMETIC, model, dtype, model.omega, None, angle_error=error, sine_error=error
    )


def loosest_float32(model: AngleModel, dtype: DType) -> Emulation:
    """Return an emulation whose error bounds contain those of every float32 arithmetic."""
    # Repeated multiplication, the least exact one, rounds angle k up to k + 2 times.
    steps: Float64s = np.arange(2, 2 + len(model.omega)).astype(np.float64) * _ROUNDING
    return _in_steps(model, dtype, model.omega, FLOAT32_FREQUENCY_LOSS + steps)


def _in_steps(
    model: AngleModel, dtype: DType, omega: Float64s, error: Float64s | float
) -> Emulation:
    """Return an emulation of "float32 in steps".

    Args:
        model: the exact angles of the proposed table.
        dtype: the type of the array's elements.
        omega: the frequencies that the engine uses, (K,).
        error: bound of the relative error of an angle, per frequency (K,) or for all.
    """
    coordinates = model.coordinates
    are_integers = bool((coordinates == np.round(coordinates)).all())
    # Fractions are interpolated between two ends: one rounding of the end farther from 0.
    coordinate_error = 0.0 if are_integers else float(np.abs(coordinates).max()) * _ROUNDING
    steps = Emulation(FLOAT32_STEPS, model, dtype, omega, angle_error=error)
    return replace(steps, coordinate_error=coordinate_error)


def angle_claims(
    model: AngleModel, rows: np.ndarray, submitted: RowsByName, dtype: DType
) -> Iterator[Emulation]:
    """Yield candidate arithmetics for an array of sines and cosines, the most exact first.

    Args:
        model: the exact angles of the proposed table.
        rows: the indices of the rows on which frequencies are measured, (S,).
        submitted: the submitted values in these rows, by array name.
        dtype: the type of the array's elements.
    """
    yield exact_emulation(model, dtype)
    masks = loosest_float32(model, dtype).agreement(rows, submitted, submitted)
    if min(mask.mean() for mask in masks.values()) >= _LEAST_FLOAT32_SHARE:
        yield from float32_emulations(model, rows, submitted, dtype)
    for narrow in (dtype,) if dtype in NARROW else NARROW:
        yield from narrow_emulations(model, rows, submitted, dtype, narrow)


def float32_emulations(
    model: AngleModel, rows: np.ndarray, submitted: RowsByName, dtype: DType
) -> Iterator[Emulation]:
    """Yield emulations of float32 arithmetic.

    These are direct products, repeated multiplication and several rounding steps. Frequencies are
    fitted to the given rows, except for float16 and bfloat16 arrays.
    """
    if dtype in NARROW:
        omega, steps = model.omega, loosest_float32(model, dtype)
        product = Emulation(FLOAT32_ARITHMETIC, model, dtype, omega, angle_error=_UNMEASURED)
        yield from (each for each in (product, steps) if each.is_tight())
        return
    omega = fitted_frequencies(model, rows, submitted)
    emulation = Emulation(FLOAT32_ARITHMETIC, model, dtype, omega)
    if dtype is FLOAT64:
        # Float32 elements in a float64 array are compared as float32 (``search.narrowed``). Other
        # float64 arrays have float64 sines of float32 angles.
        yield replace(emulation, sine_error=EMULATION_LOSS)
        return
    yield emulation
    yield from _repeated_multiplications(model, rows, submitted, dtype)
    steps = _in_steps(model, dtype, omega, _FEW_STEPS)
    if steps.is_tight():
        yield steps


def narrow_emulations(
    model: AngleModel, rows: np.ndarray, submitted: RowsByName, dtype: DType, narrow: DType
) -> Iterator[Emulation]:
    """Yield emulations that round positions, frequencies or angles to a narrow type.

    An emulation is left out if the rounding changes no position or no frequency.
    """
    coordinates, omega = rounded(model.coordinates, narrow), rounded(model.omega, narrow)
    if dtype is FLOAT64 or not (np.isfinite(coordinates).all() and np.isfinite(omega).all()):
        return
    emulation = Emulation(narrow_arithmetic("positions", narrow), model, dtype, model.omega, narrow)
    if (coordinates == model.coordinates).all():
        pass
    elif dtype not in NARROW:
        fitted = fitted_frequencies(model, rows, submitted, narrow)
        yield replace(emulation, omega=fitted, angle_error=_ROUNDING)
    elif (unmeasured := replace(emulation, angle_error=_UNMEASURED)).is_tight():
        yield unmeasured
    if (omega != model.omega).any():
        arithmetic = narrow_arithmetic("frequencies", narrow)
        yield Emulation(arithmetic, model, dtype, omega, angle_error=_ROUNDING)
    arithmetic = narrow_arithmetic("angles", narrow)
    yield Emulation(arithmetic, model, dtype, model.omega, None, narrow)
    if dtype is narrow:
        # Only for arrays in the narrow type: in a wider one, a tolerance of one narrow ulp would
        # accept other arithmetics.
        ulp = float(spacing(np.ones(1), narrow)[0])
        arithmetic = narrow_arithmetic("throughout", narrow)
        yield Emulation(arithmetic, model, dtype, omega, narrow, narrow, narrow, sine_error=ulp)


def _repeated_multiplications(
    model: AngleModel, rows: np.ndarray, submitted: RowsByName, dtype: DType
) -> Iterator[Emulation]:
    """Yield the best fitting repeated multiplication, if the frequencies have a constant ratio."""
    omega = model.omega
    if model.coordinates.shape[1] != 1 or len(omega) < 2 or not (omega > 0).all():
        return
    ratios = omega[1:] / omega[:-1]
    if np.abs(ratios / ratios[0] - 1).max() > _SAME_RATIO:
        return
    near = np.float32(ratios[0])
    candidates = [
        RepeatedMultiplication(REPEATED, model, dtype, omega, ratio=float(ratio))
        for ratio in (near + np.float32(ulps) * np.spacing(near) for ulps in _RATIO_ULPS)
    ]
    yield min(
        candidates,
        key=lambda each: float(misfit_by_frequency(model, each.angles(rows), submitted).sum()),
    )


@dataclass(frozen=True, eq=False)
class RoundingClaim(Claim):
    """The claim that every element of an array is within a few roundings of the exact value.

    It is for tables that are not sines and cosines.

    Attributes:
        wide: the table in float64, by array name.
        dtype: the type of the array's elements.
        relative_error: bound of the relative error of an element.
        absolute_error: bound of the absolute error, added to the relative one, by array name.
    """

    wide: Mapping[str, Table]
    dtype: DType
    relative_error: float
    absolute_error: Mapping[str, float]

    def predict(self, rows: np.ndarray, expected: RowsByName) -> dict[str, Prediction]:
        predictions = {}
        for name, table in self.wide.items():
            values = read_rows(rows, table, expected[name].shape[1])
            sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
            allowed = self.relative_error * sizes + self.absolute_error[name]
            allowed += half_spacing(sizes + allowed, self.dtype)
            predictions[name] = values, np.where(np.isfinite(values), allowed, 0.0)
        return predictions
