"""Which float32 frequencies an engine used: within a few ulp of the exact ones, and measurable."""

from collections.abc import Mapping

import numpy as np

from service.analysis.identifying.arithmetic import FLOAT32_FREQUENCY_LOSS
from service.analysis.identifying.emulation import rounded
from service.analysis.question import Turning
from service.tables.angle import Float64s
from service.tables.dtypes import FLOAT32, DType

_ROUNDS = 3
# Misfits below what rounding does in float32 weigh alike: none of them may outweigh all others.
_LEAST_MISFIT = 2.0**-22
# The measured frequency is right within a fraction of an ulp, or all near it do as well.
_NEIGHBOURS = (0, -1, 1, -2, 2)


def fitted_frequencies(
    turning: Turning,
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
    turning: Turning, places: Float64s, omega: Float64s, have: Mapping[str, Float64s]
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
    turning: Turning, angles: Float64s, have: Mapping[str, Float64s]
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
