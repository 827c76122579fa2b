"""Emulate the float arithmetics in which engines compute angles, and bound their errors.

An ``Arithmetic`` has a name and a description for reports, and a rank: the most exact comes first.
An ``Emulation`` predicts sines and cosines as one of them computes them. Frequencies of float32
differ between engines by a few ulp of how they are computed: ``fitted_frequencies`` measures which
were used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import AngleModel
from service.analysis.precision import rounded, spacing
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Indices


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic in which numbers may have been computed.

    Attributes:
        name: a word or two.
        description: what is rounded to what.
        rank: 0 for the most exact; of two that explain the same numbers the lower comes first.
    """

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


def narrow_positions(dtype: str) -> Arithmetic:
    """float32 arithmetic over positions that were rounded to a narrower type."""
    return Arithmetic(f"{dtype} positions", f"positions rounded to {dtype}, then float32", 5)


def narrow_frequencies(dtype: str) -> Arithmetic:
    """float32 arithmetic with frequencies that were rounded to a narrower type."""
    return Arithmetic(f"{dtype} frequencies", f"frequencies rounded to {dtype}, then float32", 6)


def narrow_angles(dtype: str) -> Arithmetic:
    """float32 arithmetic in which only the angles are rounded to a narrower type."""
    description = f"products of position and frequency rounded to {dtype}"
    return Arithmetic(f"{dtype} angles", description, 7)


def narrow_throughout(dtype: str) -> Arithmetic:
    """Arithmetic in a narrower type from positions to sines."""
    description = f"positions, frequencies, their products and sines, each rounded to {dtype}"
    return Arithmetic(f"{dtype} throughout", description, 8)


def without_looser(arithmetics: tuple[Arithmetic, ...]) -> tuple[Arithmetic, ...]:
    """Sort by rank, and drop float32 in steps where a more exact one explains the same numbers.

    Its bounds contain every more exact arithmetic, which says more.
    """
    ordered = tuple(sorted(arithmetics, key=lambda arithmetic: arithmetic.rank))
    if ordered and ordered[0] is FLOAT32_STEPS:
        return ordered
    return tuple(each for each in ordered if each is not FLOAT32_STEPS)


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
"""The error of a float32 sine of an angle, as a share of the scale.

Libraries are within 2 ulp, 2·2^-24 below 1 and 4·2^-24 never exceeded; times a scale, half more.
"""

FLOAT32_LOSS = 16 * 2.0**-24
"""The error of a handful of float32 operations, as a share of the largest number.

Eight roundings of 2^-24; or, for a sine that is not known apart from others, two of an angle that
is as large as 8.
"""

# A bound of an angle says nothing where it allows every sine: half of a sine's slope still does.
_MOST_ALLOWED = 0.125


@dataclass(frozen=True, eq=False)
class Emulation:
    """Cosines and sines as an engine computes them, and bounds on what is not emulated.

    Attributes:
        arithmetic: of the engine.
        model: the exact angles.
        omega: the frequencies that the engine uses, (K,).
        positions_in: the type to which positions are rounded.
        angles_in: that to which products are rounded.
        sines_in: that to which sines are rounded.
        share: the relative error of an angle, (K,) or for all.
        floor: a further error of a sine, as a share of the scale.
        place_loss: the error of the coordinates.
    """

    arithmetic: Arithmetic
    model: AngleModel
    omega: Float64s
    positions_in: DType | None = None
    angles_in: DType | None = None
    sines_in: DType | None = None
    share: Float64s | float = 0.0
    floor: float = 0.0
    place_loss: float = 0.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Return the angle of each frequency in rows, (S, K)."""
        places = rounded(self.model.coordinates[rows], self.positions_in)
        return rounded(places[:, list(self.model.axis)] * self.omega, self.angles_in)

    def predict(self, rows: np.ndarray) -> dict[str, tuple[Float64s, Float64s]]:
        """Return the rows of each array, and the error that each number may have."""
        angles, scale = self.angles(rows), self.model.scale
        room = self.floor + self.share * np.abs(angles) + self.place_loss * np.abs(self.omega)
        allowed = np.minimum(room, _MOST_ALLOWED) * abs(scale)
        cosines = rounded(np.cos(angles), self.sines_in) * scale
        sines = rounded(np.sin(angles), self.sines_in) * scale
        return {
            name: (_in_channels(cosines, sines, channels), _in_channels(allowed, allowed, channels))
            for name, channels in self.model.channels.items()
        }


def _in_channels(cosines: Float64s, sines: Float64s, channels: Channels) -> Float64s:
    """Lay out numbers of frequencies, (S, K), in channels, with zeros where channels have none."""
    frequency, is_sine = channels.indices()
    rows = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
    channels.blank(rows)
    return rows


@dataclass(frozen=True, eq=False)
class Repeated(Emulation):
    """Angles as in ggml: each is the one before it times a float32 ratio.

    Attributes:
        ratio: of the angles of neighbouring frequencies.
    """

    ratio: float = 1.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Return the angle of each frequency in rows, (S, K); the first factor comes last."""
        angle = self.model.coordinates[rows, 0].astype(np.float32)
        columns = np.empty((len(rows), len(self.omega)), dtype=np.float32)
        for k in range(len(self.omega)):
            columns[:, k] = angle
            angle = angle * np.float32(self.ratio)
        return (columns * np.float32(self.omega[0])).astype(np.float64)


_ROUNDS = 3
# Misfits below the rounding error of float32 have one weight: none of them may outweigh all others.
_LEAST_MISFIT = 2.0**-22
# In ulps: the measured frequency is right within a fraction of one, or all near it fit as well.
_NEIGHBOURS = (0, -1, 1, -2, 2)


def fitted_frequencies(
    model: AngleModel,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    positions_in: DType | None = None,
) -> Float64s:
    """Measure which float32 frequencies, near the exact ones, give rows.

    Args:
        model: the exact angles.
        rows: which rows, (S,); the farther out, the more exact.
        have: their numbers, (S, C) by name.
        positions_in: the type to which positions are rounded first.
    """
    places = rounded(model.coordinates[rows], positions_in)[:, list(model.axis)]
    most = FLOAT32_FREQUENCY_LOSS * np.abs(model.omega)
    omega = model.omega
    for _ in range(_ROUNDS):
        omega = omega + _correction(model, places, omega, have)
        omega = np.clip(omega, model.omega - most, model.omega + most)
    near = omega.astype(np.float32)
    candidates = [
        np.asarray(near + np.float32(ulps) * np.spacing(near), dtype=np.float64)
        for ulps in _NEIGHBOURS
    ]
    places = rounded(places, FLOAT32)
    misfits = [
        misfit_by_frequency(model, rounded(places * candidate, FLOAT32), have)
        for candidate in candidates
    ]
    chosen: Float64s = np.choose(np.argmin(misfits, axis=0), candidates)
    return chosen


def _correction(
    model: AngleModel, places: Float64s, omega: Float64s, have: Mapping[str, Float64s]
) -> Float64s:
    """Return a Gauss-Newton step towards the frequencies of the least absolute misfit.

    It is reweighted least squares: a wrong row pulls no more than a right one.
    """
    angles = places * omega
    sines, cosines = np.sin(angles), np.cos(angles)
    above, below = np.zeros(len(omega)), np.zeros(len(omega))
    for frequency, is_sine, numbers in _used_channels(model, have):
        sine, cosine = sines[:, frequency], cosines[:, frequency]
        misfit = numbers - model.scale * np.where(is_sine, sine, cosine)
        slope = model.scale * np.where(is_sine, cosine, -sine) * places[:, frequency]
        weight = 1 / (np.abs(misfit) + _LEAST_MISFIT)
        above += np.bincount(frequency, (weight * slope * misfit).sum(axis=0), len(omega))
        below += np.bincount(frequency, (weight * slope * slope).sum(axis=0), len(omega))
    return np.divide(above, below, out=np.zeros(len(omega)), where=below > 0)


def misfit_by_frequency(
    model: AngleModel, angles: Float64s, have: Mapping[str, Float64s]
) -> Float64s:
    """Sum the distances of rows from sines and cosines of angles, by frequency."""
    sines, cosines = np.sin(angles), np.cos(angles)
    total = np.zeros(angles.shape[1])
    for frequency, is_sine, numbers in _used_channels(model, have):
        expected = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
        misfit = np.abs(numbers - model.scale * expected).sum(axis=0)
        total += np.bincount(frequency, misfit, angles.shape[1])
    return total


def _used_channels(
    model: AngleModel, have: Mapping[str, Float64s]
) -> Iterator[tuple[Indices, np.ndarray, Float64s]]:
    """Yield frequency, component and numbers of the channels of each array that are not zeros."""
    for name, channels in model.channels.items():
        frequency, is_sine = channels.indices()
        kept = channels.width - channels.zeros
        yield frequency[:kept], is_sine[:kept], have[name][:, :kept]


NARROW = (BFLOAT16, FLOAT16)

_ROUNDING = 2.0**-24
# An offset, a division, a factor and the product: four roundings.
_FEW_STEPS = 4 * _ROUNDING
# In coarse numbers a float32 frequency cannot be measured to the ulp: it may be any there is.
_UNMEASURED = FLOAT32_FREQUENCY_LOSS
# A bound says nothing where other tables are within it. Angles to 4096 are within 2^-10 in a few
# steps; farther out, steps cannot be distinguished from other arithmetics.
_MOST_ROOM = 2.0**-10
# Narrow numbers are too coarse to measure frequencies in: angles to 15887, those of 8192 positions
# and more, are within 2^-5, a 32nd of what the next position adds to an angle of frequency 1.
_MOST_UNMEASURED = 2.0**-5
_RATIO_ULPS = range(-4, 5)
_SAME_RATIO = 2.0**-40


def exact_emulation(model: AngleModel) -> Emulation:
    """Emulate float64."""
    loss = EMULATION_LOSS
    return Emulation(FLOAT64_ARITHMETIC, model, model.omega, share=loss, floor=loss)


def loosest_float32(model: AngleModel) -> Emulation:
    """Bound every float32 arithmetic, whatever its frequencies."""
    share = FLOAT32_FREQUENCY_LOSS + _step_losses(model)
    loosest = _float32(FLOAT32_STEPS, model, model.omega, share=share)
    return replace(loosest, place_loss=_place_loss(model))


def float32_emulations(
    model: AngleModel, rows: np.ndarray, have: Mapping[str, Float64s], dtype: DType
) -> Iterator[Emulation]:
    """Emulate float32, with the frequencies that rows show to have been used."""
    if dtype in NARROW:
        omega = model.omega
        loose = (
            _float32(FLOAT32_ARITHMETIC, model, omega, share=_UNMEASURED + _ROUNDING),
            _float32(FLOAT32_STEPS, model, omega, share=_UNMEASURED + _step_losses(model)),
        )
        yield from (each for each in loose if _is_tight(each, dtype))
        return
    omega = fitted_frequencies(model, rows, have)
    if dtype is FLOAT64:
        # float32 numbers that lie in float64 are compared as float32; others have exact sines.
        floor = EMULATION_LOSS
        yield Emulation(FLOAT32_ARITHMETIC, model, omega, FLOAT32, FLOAT32, floor=floor)
        return
    yield _float32(FLOAT32_ARITHMETIC, model, omega)
    yield from _repeated(model, rows, have)
    steps = _float32(FLOAT32_STEPS, model, omega, share=_FEW_STEPS)
    steps = replace(steps, place_loss=_place_loss(model))
    if _is_tight(steps, dtype):
        yield steps


def narrow_emulations(
    model: AngleModel,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    dtype: DType,
    narrow: DType,
) -> Iterator[Emulation]:
    """Emulate rounding to a narrow type before or instead of float32, where that has an effect."""
    places, omega = rounded(model.coordinates, narrow), rounded(model.omega, narrow)
    if dtype is FLOAT64 or not (np.isfinite(places).all() and np.isfinite(omega).all()):
        return
    if (places != model.coordinates).any():
        arithmetic = narrow_positions(narrow.name)
        if dtype in NARROW:
            share = _UNMEASURED + _ROUNDING
            unmeasured = _float32(arithmetic, model, model.omega, narrow, share)
            if _is_tight(unmeasured, dtype):
                yield unmeasured
        else:
            fitted = fitted_frequencies(model, rows, have, narrow)
            yield _float32(arithmetic, model, fitted, narrow, _ROUNDING)
    if (omega != model.omega).any():
        yield _float32(narrow_frequencies(narrow.name), model, omega, share=_ROUNDING)
    floor = FLOAT32_SINE_LOSS
    arithmetic = narrow_angles(narrow.name)
    yield Emulation(arithmetic, model, model.omega, angles_in=narrow, floor=floor)
    if dtype is narrow:
        # Only rounded sines: a bound on others would contain whatever is as near to them.
        ulp = float(spacing(np.ones(1), narrow)[0])
        arithmetic = narrow_throughout(narrow.name)
        yield Emulation(arithmetic, model, omega, narrow, narrow, narrow, floor=ulp)


def _is_tight(emulation: Emulation, dtype: DType) -> bool:
    """Return whether the bounds on angles are so small that they exclude other tables."""
    places = np.abs(emulation.model.coordinates).max(axis=0, initial=0.0)
    omega = np.abs(emulation.omega)
    room = emulation.share * places[list(emulation.model.axis)] * omega
    room = room + emulation.place_loss * omega
    most = _MOST_UNMEASURED if dtype in NARROW else _MOST_ROOM
    return bool(room.max(initial=0.0) <= most)


def _step_losses(model: AngleModel) -> Float64s:
    """Bound the relative error of each angle by repeated multiplication."""
    losses: Float64s = np.arange(2, 2 + len(model.omega)).astype(np.float64) * _ROUNDING
    return losses


def _place_loss(model: AngleModel) -> float:
    """Bound the float32 error of coordinates between two ends: a rounding of the farther end."""
    places = model.coordinates
    is_counted = bool((places == np.round(places)).all())
    return 0.0 if is_counted else float(np.abs(places).max()) * _ROUNDING


def _float32(
    arithmetic: Arithmetic,
    model: AngleModel,
    omega: Float64s,
    positions_in: DType = FLOAT32,
    share: Float64s | float = 0.0,
) -> Emulation:
    """Emulate float32; where angles have a relative error, their own rounding is part of it."""
    angles_in = None if np.any(share) else FLOAT32
    floor = FLOAT32_SINE_LOSS
    return Emulation(arithmetic, model, omega, positions_in, angles_in, share=share, floor=floor)


def _repeated(
    model: AngleModel, rows: np.ndarray, have: Mapping[str, Float64s]
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
        Repeated(REPEATED, model, omega, floor=FLOAT32_SINE_LOSS, ratio=float(ratio))
        for ratio in (near + np.float32(ulps) * np.spacing(near) for ulps in _RATIO_ULPS)
    ]
    yield min(
        candidates,
        key=lambda each: float(misfit_by_frequency(model, each.angles(rows), have).sum()),
    )
