"""In which arithmetic numbers were made: its name, and how exact what it makes is.

What engines make of angles in narrower arithmetic: positions, frequencies, products rounded.

Which float32 frequencies an engine used: within a few ulp of the exact ones, and measurable.

What may have been rounded to what while angles were computed: emulations to hold rows to.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import AngleModel
from service.analysis.precision import rounded, spacing
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels


@dataclass(frozen=True)
class Arithmetic:
    """Name what numbers were computed in.

    Attributes:
        name: in a word or two.
        description: what is rounded to what.
        rank: 0 for the most exact; of two that explain the same numbers the lower is named first.
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
    "each angle is the one before it times a float32 ratio, as ggml makes them",
    3,
)
FLOAT32_STEPS = Arithmetic(
    "float32 in steps", "angles of several float32 operations each, as of a division", 4
)


def narrow_positions(dtype_name: str) -> Arithmetic:
    """Name float32 arithmetic over positions that were rounded to a narrower type."""
    description = f"positions rounded to {dtype_name}, then float32"
    return Arithmetic(f"{dtype_name} positions", description, 5)


def narrow_frequencies(dtype_name: str) -> Arithmetic:
    """Name float32 arithmetic with frequencies that were rounded to a narrower type."""
    description = f"frequencies rounded to {dtype_name}, then float32"
    return Arithmetic(f"{dtype_name} frequencies", description, 6)


def narrow_angles(dtype_name: str) -> Arithmetic:
    """Name arithmetic whose angles alone are rounded to a narrower type."""
    description = f"products of position and frequency rounded to {dtype_name}"
    return Arithmetic(f"{dtype_name} angles", description, 7)


def narrow_throughout(dtype_name: str) -> Arithmetic:
    """Name arithmetic that is done in a narrower type from positions to sines."""
    description = f"positions, frequencies, their products and sines, each rounded to {dtype_name}"
    return Arithmetic(f"{dtype_name} throughout", description, 8)


EMULATION_LOSS = 32 * 2.0**-53
"""How far float64 arithmetic may be off, per radian and per unit of the result.

A frequency b^(-2k/d) is exp(−(2k/d)·ln b): the exponent, up to 16 in size for b up to 10^7, is
rounded two or three times, by half an ulp of it: 3·16·2^-53/2 of the frequency. The product and
the sine add one rounding each, the double 2^-53 of the emulation as much again.
"""

FLOAT32_FREQUENCY_LOSS = 32 * 2.0**-24
"""How far a float32 frequency may be from the exact one, as a share of it.

As for float64: an exponent of up to 16 in size, rounded two or three times, makes 24·2^-24 of the
frequency; the power itself, and what a scaling rule does to it, are a few roundings more.
"""

FLOAT32_SINE_LOSS = 4 * 2.0**-24
"""How far float32 makes a sine of an angle, as a share of the scale.

Libraries are within 2 ulp, 2·2^-24 below 1 and 4·2^-24 never exceeded; times a scale, half more.
"""

FLOAT32_LOSS = 16 * 2.0**-24
"""How far a handful of float32 operations may be off, as a share of the largest number.

Eight roundings of 2^-24; or, for a sine that is not told apart from others, two of an angle that
is as large as 8.
"""


def plainest(consistent: tuple[Arithmetic, ...]) -> tuple[Arithmetic, ...]:
    """Leave out what is looser than another that explains the same numbers, the exact ones first.

    Whatever is more exact than float32 in steps is within its bounds as well, and says more.
    """
    ordered = sorted(consistent, key=lambda arithmetic: arithmetic.rank)
    looser = ordered[:1] != [FLOAT32_STEPS]
    return tuple(each for each in ordered if not (looser and each is FLOAT32_STEPS))


# An angle that may be anything says nothing: half of a sine's slope is still a statement.
_MOST_ALLOWED = 0.125


@dataclass(frozen=True, eq=False)
class Emulation:
    """Cosines and sines as an engine computes them, and how far it may be off beside.

    Attributes:
        arithmetic: what this is called.
        angle_model: the exact angles.
        omega: the frequencies that the engine uses, (K,).
        positions_in: what positions are rounded to.
        angles_in: what products are rounded to.
        sines_in: what sines are rounded to.
        share: how far an angle may be off, as a share of it, (K,) or for all.
        floor: how far a sine may be off beside, as a share of the scale.
        place_loss: how far the coordinates may be off.
    """

    arithmetic: Arithmetic
    angle_model: AngleModel
    omega: Float64s
    positions_in: DType | None = None
    angles_in: DType | None = None
    sines_in: DType | None = None
    share: Float64s | float = 0.0
    floor: float = 0.0
    place_loss: float = 0.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Give the angle of each frequency in rows, (S, K)."""
        places = rounded(self.angle_model.coordinates[rows], self.positions_in)
        return rounded(places[:, list(self.angle_model.axis)] * self.omega, self.angles_in)

    def predict(self, rows: np.ndarray) -> dict[str, tuple[Float64s, Float64s]]:
        """Give for each array what its rows hold, and how far each number may be from it."""
        angles = self.angles(rows)
        scale = abs(self.angle_model.scale)
        room = self.floor + self.share * np.abs(angles) + self.place_loss * np.abs(self.omega)
        allowed = np.minimum(room, _MOST_ALLOWED) * scale
        parts = {True: None, False: None}
        components = {
            is_sine: rounded((np.sin if is_sine else np.cos)(angles), self.sines_in)
            * self.angle_model.scale
            for is_sine in parts
        }
        return {
            name: (_laid_out(components, channels), _spread(allowed, channels))
            for name, channels in self.angle_model.channels.items()
        }


def _laid_out(components: dict[bool, Float64s], channels: Channels) -> Float64s:
    """Put cosines (False) and sines (True) into the channels of rows."""
    frequency, is_sine = channels.indices()
    rows = np.where(is_sine, components[True][:, frequency], components[False][:, frequency])
    channels.blank(rows)
    return rows


def _spread(allowed: Float64s, channels: Channels) -> Float64s:
    """Give every channel what its frequency is allowed; zeros are allowed nothing."""
    rows = allowed[:, channels.indices()[0]]
    channels.blank(rows)
    return rows


@dataclass(frozen=True, eq=False)
class Repeated(Emulation):
    """Angles as ggml makes them: each is the one before it times a float32 ratio.

    Attributes:
        ratio: what angles are multiplied by from frequency to frequency.
    """

    ratio: float = 1.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Give the angle of each frequency in rows, (S, K); the first factor comes last."""
        angle = self.angle_model.coordinates[rows, 0].astype(np.float32)
        columns = np.empty((len(rows), len(self.omega)), dtype=np.float32)
        for k in range(len(self.omega)):
            columns[:, k] = angle
            angle = angle * np.float32(self.ratio)
        return (columns * np.float32(self.omega[0])).astype(np.float64)


_ROUNDS = 3
# Misfits below what rounding does in float32 weigh alike: none of them may outweigh all others.
_LEAST_MISFIT = 2.0**-22
# The measured frequency is right within a fraction of an ulp, or all near it do as well.
_NEIGHBOURS = (0, -1, 1, -2, 2)


def fitted_frequencies(
    turning: AngleModel,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    positions_in: DType | None = None,
) -> Float64s:
    """Measure which float32 frequencies give rows, near those of a turning.

    Args:
        turning: the exact angles.
        rows: which rows, (S,); far ones say most.
        have: what they hold, (S, C) by name.
        positions_in: what positions are rounded to before they are multiplied.
    """
    places = rounded(turning.coordinates[rows], positions_in)[:, list(turning.axis)]
    most = FLOAT32_FREQUENCY_LOSS * np.abs(turning.omega)
    omega = turning.omega
    for _ in range(_ROUNDS):
        omega = omega + _correction(turning, places, omega, have)
        omega = np.clip(omega, turning.omega - most, turning.omega + most)
    near = omega.astype(np.float32)
    candidates = [_moved(near, steps) for steps in _NEIGHBOURS]
    places = rounded(places, FLOAT32)
    misfits = [
        misfit_by_frequency(turning, rounded(places * candidate, FLOAT32), have)
        for candidate in candidates
    ]
    best = np.argmin(misfits, axis=0)
    chosen: Float64s = np.choose(best, candidates)
    return chosen


def _moved(numbers: np.ndarray, steps: int) -> Float64s:
    """Move float32 numbers by steps of an ulp."""
    moved = numbers + np.float32(steps) * np.spacing(numbers)
    return np.asarray(moved, dtype=np.float64)


def _correction(
    turning: AngleModel, places: Float64s, omega: Float64s, have: Mapping[str, Float64s]
) -> Float64s:
    """Give a step of Gauss and Newton towards frequencies that leave the least absolute misfit.

    Reweighted least squares: a row that is wrong pulls no more than one that is right.
    """
    angles = places * omega
    sines, cosines = np.sin(angles), np.cos(angles)
    above, below = np.zeros(len(omega)), np.zeros(len(omega))
    for name, channels in turning.channels.items():
        frequency, is_sine = channels.indices()
        kept = channels.width - channels.zeros
        frequency, is_sine = frequency[:kept], is_sine[:kept]
        sine, cosine = sines[:, frequency], cosines[:, frequency]
        misfit = have[name][:, :kept] - turning.scale * np.where(is_sine, sine, cosine)
        slope = turning.scale * np.where(is_sine, cosine, -sine) * places[:, frequency]
        weight = 1 / (np.abs(misfit) + _LEAST_MISFIT)
        above += np.bincount(frequency, (weight * slope * misfit).sum(axis=0), len(omega))
        below += np.bincount(frequency, (weight * slope * slope).sum(axis=0), len(omega))
    return np.divide(above, below, out=np.zeros(len(omega)), where=below > 0)


def misfit_by_frequency(
    turning: AngleModel, angles: Float64s, have: Mapping[str, Float64s]
) -> Float64s:
    """Sum what rows differ by from sines and cosines of angles, by frequency."""
    sines, cosines = np.sin(angles), np.cos(angles)
    total = np.zeros(angles.shape[1])
    for name, channels in turning.channels.items():
        frequency, is_sine = channels.indices()
        kept = channels.width - channels.zeros
        frequency, is_sine = frequency[:kept], is_sine[:kept]
        expected = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
        misfit = have[name][:, :kept] - turning.scale * expected
        total += np.bincount(frequency, np.abs(misfit).sum(axis=0), angles.shape[1])
    return total


NARROW = (BFLOAT16, FLOAT16)

_ROUNDING = 2.0**-24
# An offset, a division, a factor and the product: four roundings.
_FEW_STEPS = 4 * _ROUNDING
# In coarse numbers a float32 frequency cannot be measured to the ulp: it may be any there is.
_UNMEASURED = FLOAT32_FREQUENCY_LOSS
# A room is no statement where another table may fall into it. Angles to 4096 have less than 2^-10
# in a few steps; what really is made in steps farther out cannot be told from what is not.
_MOST_ROOM = 2.0**-10
# Narrow numbers are too coarse to measure frequencies in: angles to 15887, those of 8192 positions
# and more, have a room of 2^-5, a 32nd of what the next position adds to an angle of frequency 1.
_MOST_UNMEASURED = 2.0**-5
_RATIO_ULPS = range(-4, 5)
_SAME_RATIO = 2.0**-40


def exact_emulation(turning: AngleModel) -> Emulation:
    """Compute in float64."""
    loss = EMULATION_LOSS
    return Emulation(FLOAT64_ARITHMETIC, turning, turning.omega, share=loss, floor=loss)


def loosest_float32(turning: AngleModel) -> Emulation:
    """Bound what any float32 arithmetic makes, whatever frequencies it is that it has."""
    share = FLOAT32_FREQUENCY_LOSS + _step_losses(turning)
    loosest = _float32(FLOAT32_STEPS, turning, turning.omega, share=share)
    return replace(loosest, place_loss=_place_loss(turning))


def float32_emulations(
    turning: AngleModel, rows: np.ndarray, have: Mapping[str, Float64s], dtype: DType
) -> Iterator[Emulation]:
    """Compute in float32, with the frequencies that rows show to have been used."""
    if dtype in NARROW:
        omega = turning.omega
        loose = (
            _float32(FLOAT32_ARITHMETIC, turning, omega, share=_UNMEASURED + _ROUNDING),
            _float32(FLOAT32_STEPS, turning, omega, share=_UNMEASURED + _step_losses(turning)),
        )
        yield from (each for each in loose if _says_much(each, dtype))
        return
    omega = fitted_frequencies(turning, rows, have)
    if dtype is FLOAT64:
        # Numbers of float32 that lie in float64 are taken for float32; others have exact sines.
        floor = EMULATION_LOSS
        yield Emulation(FLOAT32_ARITHMETIC, turning, omega, FLOAT32, FLOAT32, floor=floor)
        return
    yield _float32(FLOAT32_ARITHMETIC, turning, omega)
    yield from _repeated(turning, rows, have)
    steps = _float32(FLOAT32_STEPS, turning, omega, share=_FEW_STEPS)
    steps = replace(steps, place_loss=_place_loss(turning))
    if _says_much(steps, dtype):
        yield steps


def narrow_emulations(
    turning: AngleModel,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    dtype: DType,
    narrow: DType,
) -> Iterator[Emulation]:
    """Round to a narrow type before float32, or in place of it, as far as that changes anything."""
    places, omega = rounded(turning.coordinates, narrow), rounded(turning.omega, narrow)
    if dtype is FLOAT64:
        return
    if not (np.isfinite(places).all() and np.isfinite(omega).all()):
        return
    if (places != turning.coordinates).any():
        arithmetic = narrow_positions(narrow.name)
        if dtype in NARROW:
            share = _UNMEASURED + _ROUNDING
            unmeasured = _float32(arithmetic, turning, turning.omega, narrow, share)
            if _says_much(unmeasured, dtype):
                yield unmeasured
        else:
            fitted = fitted_frequencies(turning, rows, have, narrow)
            yield _float32(arithmetic, turning, fitted, narrow, _ROUNDING)
    if (omega != turning.omega).any():
        yield _float32(narrow_frequencies(narrow.name), turning, omega, share=_ROUNDING)
    floor = FLOAT32_SINE_LOSS
    arithmetic = narrow_angles(narrow.name)
    yield Emulation(arithmetic, turning, turning.omega, angles_in=narrow, floor=floor)
    if dtype is narrow:
        # Other sines than rounded ones would give room to whatever is as near to them.
        sines = float(spacing(np.ones(1), narrow)[0])
        arithmetic = narrow_throughout(narrow.name)
        yield Emulation(arithmetic, turning, omega, narrow, narrow, narrow, floor=sines)


def _says_much(emulation: Emulation, dtype: DType) -> bool:
    """Tell whether an emulation leaves the angles so little room that its claim says something."""
    places = np.abs(emulation.angle_model.coordinates).max(axis=0, initial=0.0)
    omega = np.abs(emulation.omega)
    room = emulation.share * places[list(emulation.angle_model.axis)] * omega
    room = room + emulation.place_loss * omega
    most = _MOST_UNMEASURED if dtype in NARROW else _MOST_ROOM
    return bool(room.max(initial=0.0) <= most)


def _step_losses(turning: AngleModel) -> Float64s:
    """Bound what repeated multiplication does to the angle of each frequency, as a share."""
    losses: Float64s = np.arange(2, 2 + len(turning.omega)).astype(np.float64) * _ROUNDING
    return losses


def _place_loss(turning: AngleModel) -> float:
    """Bound what float32 does to coordinates between two ends: a rounding of the farther end."""
    places = turning.coordinates
    is_counted = bool((places == np.round(places)).all())
    return 0.0 if is_counted else float(np.abs(places).max()) * _ROUNDING


def _float32(
    arithmetic: Arithmetic,
    turning: AngleModel,
    omega: Float64s,
    positions_in: DType = FLOAT32,
    share: Float64s | float = 0.0,
) -> Emulation:
    """Compute in float32; where an angle has room, its own rounding is part of that."""
    angles_in = None if np.any(share) else FLOAT32
    floor = FLOAT32_SINE_LOSS
    return Emulation(arithmetic, turning, omega, positions_in, angles_in, share=share, floor=floor)


def _repeated(
    turning: AngleModel, rows: np.ndarray, have: Mapping[str, Float64s]
) -> Iterator[Emulation]:
    """Multiply again and again by the ratio that rows show, if there is one of all frequencies."""
    omega = turning.omega
    if turning.coordinates.shape[1] != 1 or len(omega) < 2 or not (omega > 0).all():
        return
    ratios = omega[1:] / omega[:-1]
    if np.abs(ratios / ratios[0] - 1).max() > _SAME_RATIO:
        return
    near = np.float32(ratios[0])
    candidates = [
        Repeated(
            REPEATED,
            turning,
            omega,
            floor=FLOAT32_SINE_LOSS,
            ratio=float(near + np.float32(ulps) * np.spacing(near)),
        )
        for ulps in _RATIO_ULPS
    ]
    yield min(
        candidates,
        key=lambda each: float(misfit_by_frequency(turning, each.angles(rows), have).sum()),
    )
