"""Claims that an array was computed in some arithmetic, and emulations of how engines do that.

A ``Claim`` predicts every number of an array from the proposed table, and bounds the error of each.
``angle_claims`` emulate the arithmetics in which engines compute angles. Their float32 frequencies
differ by a few ulp: ``fitted_frequencies`` measures which ones were used. ``RoundingClaim`` bounds
the roundings of tables that are not made of angles.
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
    """A float arithmetic; the lower its rank, the more exact it is."""

    name: str
    description: str
    rank: int


EXACT = Arithmetic("exact", "every number is the exact value rounded once", 0)
FLOAT64_ARITHMETIC = Arithmetic(
    "float64", "computed in float64, then rounded to the type of the array", 1
)
FLOAT32_ARITHMETIC = Arithmetic(
    "float32", "frequencies, and their products with positions, rounded to float32", 2
)
REPEATED = Arithmetic(
    "float32 by repeated multiplication",
    "each angle is the one before it times a float32 ratio, as in ggml",
    3,
)
FLOAT32_STEPS = Arithmetic(
    "float32 in steps", "angles of several float32 operations each, such as a division", 4
)
_NARROW_ARITHMETICS = {
    "positions": ("positions rounded to {}, then float32", 5),
    "frequencies": ("frequencies rounded to {}, then float32", 6),
    "angles": ("products of position and frequency rounded to {}", 7),
    "throughout": ("positions, frequencies, their products and sines, each rounded to {}", 8),
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
    """Sort by rank, and drop float32 in steps where a more exact one explains the same numbers.

    Its tolerances contain those of every more exact arithmetic.
    """
    ordered = tuple(sorted(arithmetics, key=lambda arithmetic: arithmetic.rank))
    if ordered and ordered[0] is FLOAT32_STEPS:
        return ordered
    return tuple(each for each in ordered if each is not FLOAT32_STEPS)


RowsByName: TypeAlias = Mapping[str, Float64s]
"""Rows (S, C) of each array."""

Prediction: TypeAlias = tuple[Float64s, Float64s]
"""Predicted rows (S, C), and the error allowed for each number."""


@dataclass(frozen=True, eq=False)
class Claim(ABC):
    """The claim that an array is a table computed in an arithmetic."""

    arithmetic: Arithmetic

    @abstractmethod
    def predict(self, rows: np.ndarray, exact: RowsByName) -> dict[str, Prediction]:
        """Predict rows of each array.

        Args:
            rows: their indices, (S,).
            exact: these rows of the table.
        """

    def agreement(
        self, rows: np.ndarray, sent: RowsByName, exact: RowsByName
    ) -> dict[str, np.ndarray]:
        """Return a mask (S, C) of the numbers that were sent as predicted, for each array."""
        predictions, masks = self.predict(rows, exact), {}
        for name, values in sent.items():
            predicted, allowed = predictions[name]
            with np.errstate(invalid="ignore"):
                is_near = np.abs(values - predicted) <= allowed
            # Infinities have no difference.
            masks[name] = is_near | (values == predicted)
        return masks

    def agreeing_share(self, rows: np.ndarray, sent: RowsByName, exact: RowsByName) -> float:
        """Return the share of numbers that were sent as predicted."""
        masks = self.agreement(rows, sent, exact).values()
        return float(np.mean([mask.mean() for mask in masks]))


class ExactClaim(Claim):
    """The claim that every number is that of the table."""

    def predict(self, rows: np.ndarray, exact: RowsByName) -> dict[str, Prediction]:  # noqa: ARG002
        return {name: (values, np.zeros_like(values)) for name, values in exact.items()}


def half_spacing(values: Float64s, dtype: DType) -> Float64s:
    """Bound the error of rounding values to a type: half an ulp, taken relative to the value."""
    return np.abs(values) * rounding_bound(dtype, 1.0) + rounding_bound(dtype, 0.0)


EMULATION_LOSS = 32 * 2.0**-53
"""The error of float64 arithmetic, per radian and per unit of the result.

A frequency b^(-2k/d) is exp(−(2k/d)·ln b): the exponent, up to 16 in size for b up to 10^7, is
rounded two or three times, by half an ulp of it: 3·16·2^-53/2 of the frequency. The product and
the sine add one rounding each, the double 2^-53 of the emulation as much again.
"""

FLOAT32_FREQUENCY_LOSS = 32 * 2.0**-24
"""The relative error of a float32 frequency.

As for float64: an exponent of up to 16 in size, rounded two or three times, makes 24·2^-24 of the
frequency; the power itself, and what a scaling rule does to it, are a few roundings more.
"""

FLOAT32_SINE_LOSS = 4 * 2.0**-24
"""The error of a float32 sine of an angle, relative to the scale.

Libraries are within 2 ulp, 2·2^-24 below 1 and 4·2^-24 never exceeded; times a scale, half more.
"""

FLOAT32_LOSS = 16 * 2.0**-24
"""The error of a handful of float32 operations, relative to the largest number.

Eight roundings of 2^-24; or, for a sum that contains a sine, two of an angle as large as 8.
"""

# A larger tolerance would accept any sine.
_MAX_TOLERANCE = 0.125


@dataclass(frozen=True, eq=False)
class Emulation(Claim):
    """The claim that an engine computed an array from its angles, emulated step by step.

    Attributes:
        model: the exact angles.
        dtype: the type of the array's elements.
        omega: the frequencies that the engine uses, (K,).
        positions_in, angles_in, sines_in: the types to which these are rounded; None for float64.
        angle_error: the relative error of an angle, (K,) or one for all; where it is not 0, it
            includes the rounding of the angle.
        sine_error: a further error of a sine, relative to the scale.
        coordinate_error: the absolute error of a coordinate.
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
        """Return the angle of each frequency in rows, (S, K)."""
        coordinates = rounded(self.model.coordinates[rows], self.positions_in)
        angles = coordinates[:, list(self.model.axis)] * self.omega
        return angles if np.any(self.angle_error) else rounded(angles, self.angles_in)

    def predict(self, rows: np.ndarray, exact: RowsByName) -> dict[str, Prediction]:
        """Emulate rows; those that are zero in the table, such as padding, stay zero."""
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
            is_zero = ~exact[name].any(axis=1)
            values[is_zero] = allowed[is_zero] = 0.0
            predictions[name] = values, allowed
        return predictions

    def is_tight(self) -> bool:
        """Return whether the errors of angles are so small that they exclude other tables."""
        largest = np.abs(self.model.coordinates).max(axis=0, initial=0.0)
        omega = np.abs(self.omega)
        errors = self.angle_error * largest[list(self.model.axis)] * omega
        errors = errors + self.coordinate_error * omega
        limit = _MAX_UNMEASURED_ERROR if self.dtype in NARROW else _MAX_ANGLE_ERROR
        return bool(errors.max(initial=0.0) <= limit)


def _in_channels(cosines: Float64s, sines: Float64s, channels: Channels) -> Float64s:
    """Lay out numbers of frequencies, (S, K), in channels, with zeros where channels have none."""
    frequency, is_sine = channels.indices()
    rows = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
    channels.blank(rows)
    return rows


@dataclass(frozen=True, eq=False)
class RepeatedMultiplication(Emulation):
    """Angles as in ggml: each is the one before it times a float32 ratio."""

    ratio: float = 1.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Return the angle of each frequency in rows, (S, K); the first factor comes last."""
        angle = self.model.coordinates[rows, 0].astype(np.float32)
        columns = np.empty((len(rows), len(self.omega)), dtype=np.float32)
        for k in range(len(self.omega)):
            columns[:, k] = angle
            angle = angle * np.float32(self.ratio)
        return (columns * np.float32(self.omega[0])).astype(np.float64)


_FIT_ROUNDS = 3
# Misfits below the rounding error of float32 have one weight: none of them may outweigh all others.
_LEAST_MISFIT = 2.0**-22
# In ulps: the measured frequency is right within a fraction of one, or all near it fit as well.
_NEIGHBOURS = (0, -1, 1, -2, 2)


def fitted_frequencies(
    model: AngleModel, rows: np.ndarray, sent: RowsByName, positions_in: DType | None = None
) -> Float64s:
    """Measure which float32 frequencies, near the exact ones, give rows.

    Args:
        model: the exact angles.
        rows: which rows, (S,); the farther out, the more exact.
        sent: their numbers.
        positions_in: the type to which positions are rounded first.
    """
    coordinates = rounded(model.coordinates[rows], positions_in)[:, list(model.axis)]
    largest_error = FLOAT32_FREQUENCY_LOSS * np.abs(model.omega)
    omega = model.omega
    for _ in range(_FIT_ROUNDS):
        omega = omega + _fit_step(model, coordinates, omega, sent)
        omega = np.clip(omega, model.omega - largest_error, model.omega + largest_error)
    near = omega.astype(np.float32)
    candidates = [
        np.asarray(near + np.float32(ulps) * np.spacing(near), dtype=np.float64)
        for ulps in _NEIGHBOURS
    ]
    coordinates = rounded(coordinates, FLOAT32)
    misfits = [
        misfit_by_frequency(model, rounded(coordinates * candidate, FLOAT32), sent)
        for candidate in candidates
    ]
    chosen: Float64s = np.choose(np.argmin(misfits, axis=0), candidates)
    return chosen


def _fit_step(
    model: AngleModel, coordinates: Float64s, omega: Float64s, sent: RowsByName
) -> Float64s:
    """Return a Gauss-Newton step towards the frequencies of the least absolute misfit.

    It is reweighted least squares: a wrong row pulls no more than a right one.
    """
    angles = coordinates * omega
    sines, cosines = np.sin(angles), np.cos(angles)
    numerator, denominator = np.zeros(len(omega)), np.zeros(len(omega))
    for frequency, is_sine, numbers in _nonzero_channels(model, sent):
        sine, cosine = sines[:, frequency], cosines[:, frequency]
        misfit = numbers - model.scale * np.where(is_sine, sine, cosine)
        slope = model.scale * np.where(is_sine, cosine, -sine) * coordinates[:, frequency]
        weight = 1 / (np.abs(misfit) + _LEAST_MISFIT)
        numerator += np.bincount(frequency, (weight * slope * misfit).sum(axis=0), len(omega))
        denominator += np.bincount(frequency, (weight * slope * slope).sum(axis=0), len(omega))
    return np.divide(numerator, denominator, out=np.zeros(len(omega)), where=denominator > 0)


def misfit_by_frequency(model: AngleModel, angles: Float64s, sent: RowsByName) -> Float64s:
    """Sum the distances of rows from sines and cosines of angles, by frequency."""
    sines, cosines = np.sin(angles), np.cos(angles)
    total = np.zeros(angles.shape[1])
    for frequency, is_sine, numbers in _nonzero_channels(model, sent):
        expected = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
        misfit = np.abs(numbers - model.scale * expected).sum(axis=0)
        total += np.bincount(frequency, misfit, angles.shape[1])
    return total


def _nonzero_channels(
    model: AngleModel, sent: RowsByName
) -> Iterator[tuple[Indices, np.ndarray, Float64s]]:
    """Yield frequency, component and numbers of the channels of each array that are not zeros."""
    for name, channels in model.channels.items():
        frequency, is_sine = channels.indices()
        kept = channels.width - channels.zeros
        yield frequency[:kept], is_sine[:kept], sent[name][:, :kept]


NARROW = (BFLOAT16, FLOAT16)

_ROUNDING = 2.0**-24
# An offset, a division, a factor and the product: four roundings.
_FEW_STEPS = 4 * _ROUNDING
# In a narrow type a frequency cannot be measured to the ulp of float32, so its error is larger.
_UNMEASURED = FLOAT32_FREQUENCY_LOSS + _ROUNDING
# Other tables are within a larger error. Angles to 4096 are within 2^-10 in a few steps; farther
# out, steps cannot be distinguished from other arithmetics.
_MAX_ANGLE_ERROR = 2.0**-10
# Angles to 15887, those of 8192 positions and more, are within 2^-5 where frequencies are not
# measured: a 32nd of what the next position adds to an angle of frequency 1.
_MAX_UNMEASURED_ERROR = 2.0**-5
_RATIO_ULPS = range(-4, 5)
_SAME_RATIO = 2.0**-40
# A few wrong numbers must stand out among right ones, not among other wrong ones.
_LEAST_FLOAT32_SHARE = 0.5


def exact_emulation(model: AngleModel, dtype: DType) -> Emulation:
    """Emulate float64."""
    error = EMULATION_LOSS
    return Emulation(
        FLOAT64_ARITHMETIC, model, dtype, model.omega, None, angle_error=error, sine_error=error
    )


def loosest_float32(model: AngleModel, dtype: DType) -> Emulation:
    """Bound the errors of every float32 arithmetic, with any frequencies."""
    # Repeated multiplication rounds angle k up to k + 2 times.
    steps: Float64s = np.arange(2, 2 + len(model.omega)).astype(np.float64) * _ROUNDING
    return _in_steps(model, dtype, model.omega, FLOAT32_FREQUENCY_LOSS + steps)


def _in_steps(
    model: AngleModel, dtype: DType, omega: Float64s, error: Float64s | float
) -> Emulation:
    """Bound the errors of angles, and of coordinates that are computed between two ends."""
    coordinates = model.coordinates
    are_integers = bool((coordinates == np.round(coordinates)).all())
    # A rounding of the farther end.
    coordinate_error = 0.0 if are_integers else float(np.abs(coordinates).max()) * _ROUNDING
    steps = Emulation(FLOAT32_STEPS, model, dtype, omega, angle_error=error)
    return replace(steps, coordinate_error=coordinate_error)


def angle_claims(
    model: AngleModel, rows: np.ndarray, sent: RowsByName, dtype: DType
) -> Iterator[Emulation]:
    """Yield claims on an array of angles, the most exact arithmetic first.

    Args:
        model: the exact angles.
        rows: the rows on which frequencies are measured, (S,).
        sent: the numbers of these rows.
        dtype: the type of the array's elements.
    """
    yield exact_emulation(model, dtype)
    masks = loosest_float32(model, dtype).agreement(rows, sent, sent)
    if min(mask.mean() for mask in masks.values()) >= _LEAST_FLOAT32_SHARE:
        yield from float32_emulations(model, rows, sent, dtype)
    for narrow in (dtype,) if dtype in NARROW else NARROW:
        yield from narrow_emulations(model, rows, sent, dtype, narrow)


def float32_emulations(
    model: AngleModel, rows: np.ndarray, sent: RowsByName, dtype: DType
) -> Iterator[Emulation]:
    """Emulate float32, with the frequencies that rows show to have been used."""
    if dtype in NARROW:
        omega, steps = model.omega, loosest_float32(model, dtype)
        product = Emulation(FLOAT32_ARITHMETIC, model, dtype, omega, angle_error=_UNMEASURED)
        yield from (each for each in (product, steps) if each.is_tight())
        return
    omega = fitted_frequencies(model, rows, sent)
    emulation = Emulation(FLOAT32_ARITHMETIC, model, dtype, omega)
    if dtype is FLOAT64:
        # float32 numbers that are sent as float64 are compared as float32; others have exact sines.
        yield replace(emulation, sine_error=EMULATION_LOSS)
        return
    yield emulation
    yield from _repeated_multiplications(model, rows, sent, dtype)
    steps = _in_steps(model, dtype, omega, _FEW_STEPS)
    if steps.is_tight():
        yield steps


def narrow_emulations(
    model: AngleModel, rows: np.ndarray, sent: RowsByName, dtype: DType, narrow: DType
) -> Iterator[Emulation]:
    """Emulate rounding to a narrow type before or instead of float32, where that has an effect."""
    coordinates, omega = rounded(model.coordinates, narrow), rounded(model.omega, narrow)
    if dtype is FLOAT64 or not (np.isfinite(coordinates).all() and np.isfinite(omega).all()):
        return
    emulation = Emulation(narrow_arithmetic("positions", narrow), model, dtype, model.omega, narrow)
    if (coordinates == model.coordinates).all():
        pass
    elif dtype not in NARROW:
        fitted = fitted_frequencies(model, rows, sent, narrow)
        yield replace(emulation, omega=fitted, angle_error=_ROUNDING)
    elif (unmeasured := replace(emulation, angle_error=_UNMEASURED)).is_tight():
        yield unmeasured
    if (omega != model.omega).any():
        arithmetic = narrow_arithmetic("frequencies", narrow)
        yield Emulation(arithmetic, model, dtype, omega, angle_error=_ROUNDING)
    arithmetic = narrow_arithmetic("angles", narrow)
    yield Emulation(arithmetic, model, dtype, model.omega, None, narrow)
    if dtype is narrow:
        # In a wider type the tolerance would accept other arithmetics.
        ulp = float(spacing(np.ones(1), narrow)[0])
        arithmetic = narrow_arithmetic("throughout", narrow)
        yield Emulation(arithmetic, model, dtype, omega, narrow, narrow, narrow, sine_error=ulp)


def _repeated_multiplications(
    model: AngleModel, rows: np.ndarray, sent: RowsByName, dtype: DType
) -> Iterator[Emulation]:
    """Emulate repeated multiplication by the ratio that rows show, if all frequencies have one."""
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
        key=lambda each: float(misfit_by_frequency(model, each.angles(rows), sent).sum()),
    )


@dataclass(frozen=True, eq=False)
class RoundingClaim(Claim):
    """The claim that numbers without angles are within a few roundings of the exact ones.

    Attributes:
        wide: the table in float64, by the name of the array.
        dtype: the type of the array's elements.
        relative_error: of a number.
        absolute_error: added to it, by the name of the array.
    """

    wide: Mapping[str, Table]
    dtype: DType
    relative_error: float
    absolute_error: Mapping[str, float]

    def predict(self, rows: np.ndarray, exact: RowsByName) -> dict[str, Prediction]:
        predictions = {}
        for name, table in self.wide.items():
            values = read_rows(rows, table, exact[name].shape[1])
            sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
            allowed = self.relative_error * sizes + self.absolute_error[name]
            allowed += half_spacing(sizes + allowed, self.dtype)
            predictions[name] = values, np.where(np.isfinite(values), allowed, 0.0)
        return predictions
