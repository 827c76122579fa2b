"""Measure the frequencies and phases along the axes of a grid, and evenly spaced bands.

Coordinates along an axis are evenly spaced: the phasors of its tokens give a rate and a phase for
each frequency, both modulo 2π. Bands lie between 1 and half a resolution, over −1 to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, pi

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.measured import fold, measure
from service.analysis.explanation.views import Complexes, View, evenly
from service.analysis.families.row_positions import refined
from service.analysis.families.series import GeometricSeries, unfolded_series
from service.numerics.dtypes import FLOAT32
from service.numerics.phase import Float64s

_TWO_PI = 2 * pi

# Errors of float32 engines: of an element, and of an angle of a few hundred radians.
_ARITHMETIC = 2.0**-22
_LOOSE = 2.0**-13


@dataclass(frozen=True, eq=False)
class AxisWaves:
    """Frequencies and phases of the K pairs of channels that change along an axis.

    Attributes:
        rates: radians per token, (K,), modulo 2π; 0 where the axis has one token.
        phases: angles of the first token, (K,), modulo 2π.
        errors: bounds on the errors of the rates, (K,).
        noise: a bound on the error of an angle, in radians.
        length: the number of tokens along the axis.
    """

    rates: Float64s
    phases: Float64s
    errors: Float64s
    noise: float
    length: int


def axis_waves(phasors: Complexes, rounding: float) -> AxisWaves | None:
    """Measure the rates and phases of the phasors (L, K) of the tokens along an axis.

    Return None unless all norms are 1 and all angles are linear in the token index.
    """
    length, count = phasors.shape
    noise, loose = 2 * rounding + _ARITHMETIC, 8 * rounding + _LOOSE
    if np.abs(np.abs(phasors) - 1).max(initial=0) > loose:
        return None
    if length == 1 or count == 0:
        phases = np.angle(phasors[0])
        return AxisWaves(np.zeros(count), phases, np.full(count, inf), noise, length)
    tokens = np.arange(length, dtype=np.float64)
    waves = measure(View(phasors.real, phasors.imag, FLOAT32, ""), tokens)
    straight = phasors * np.exp(-1j * (np.outer(tokens, waves.omega) + waves.phase))
    if np.abs(np.angle(straight)).max(initial=0) > loose:
        return None
    # A relative error e of sin θ and of cos θ changes θ by at most e·|sin 2θ|.
    moved = 2 * rounding * np.abs(2 * phasors.real * phasors.imag).max(axis=0) + _ARITHMETIC
    rest = 4 * np.abs(np.angle(straight)).max(axis=0)
    errors = (rest + 2 * moved) / (length - 1)
    return AxisWaves(waves.omega, waves.phase, errors, noise, length)


def axis_series(along: AxisWaves) -> GeometricSeries | None:
    """Fit a geometric series to the unwrapped rates of an axis; return None if none fits."""
    rates, errors = along.rates, along.errors
    if len(rates) == 2 and rates[0] + errors[0] < rates[1] - errors[1]:
        # The slower of two rates is below 2π: assume that the faster is one period above it.
        rates = np.array([rates[0] + _TWO_PI, rates[1]])
    found = unfolded_series(rates, errors)
    return found[0] if found and found[1] > 0 else None


def first_coordinate(along: AxisWaves, omega: Float64s) -> tuple[float, float] | None:
    """Return the coordinate of an axis's first token and its error bound; None if none fits.

    Args:
        along: the measured rates and phases of the axis.
        omega: frequencies in radians per unit of coordinate, (K,).
    """
    moving = omega > 0
    if not moving.any():
        return None
    phases, rates = along.phases[moving], omega[moving]
    found = float(refined(phases[np.newaxis], rates)[0])
    allowed = 8 * along.noise + 2.0**-18 * abs(found) * rates
    if (np.abs(fold(phases - found * rates)) > allowed).any():
        return None
    return found, 4 * along.noise / float(rates.max())


# Bands.

# Bands that add whole periods between tokens give equal sines. The search covers the bands that
# add up to _MAX_ALIASES periods.
_MAX_ALIASES = 16
_LEAST_TRIED, _MOST_TRIED = 2**11, 2**20
_SINE_TOKENS = 16

_USUAL_RESOLUTIONS = (224, *(1 << power for power in range(1, 12)))
_MAX_USUAL = 4


def bands(highest: Float64s | float, count: int, *, is_linear: bool) -> Float64s:
    """Return the frequency bands from 1 to the highest, (K,) or (M, K).

    Args:
        highest: the highest band, or a column (M, 1) of candidates for it.
        count: the number K of bands.
        is_linear: True for evenly spaced bands, False for a geometric series.
    """
    fractions = np.arange(count) / max(count - 1, 1)
    return np.asarray(1 + fractions * (highest - 1) if is_linear else highest**fractions)


def highest_bands(along: AxisWaves, factor: float = 1.0) -> list[tuple[int, bool]]:
    """Return twice the highest band for each series of bands that fits the waves of an axis.

    The bands begin at 1, and the L tokens have coordinates x from −1 to 1, times ``factor``. The
    angle of band b is π·b·x. Rates, π·b·2/(L − 1), and phases, −π·b, are known modulo 2π: the
    function tries every half-integer as the highest band.

    Args:
        along: the measured rates and phases of the axis.
        factor: the factor by which coordinates are multiplied.

    Returns:
        Pairs of an integer, twice the highest band, and True if the bands are evenly spaced or
        False if they are a geometric series; the integers rise.
    """
    count = len(along.rates)
    if not count or not _fit_bands(np.array([[factor]]), along, slice(0, 1)).all():
        return []
    tried = _tried_bands(along.length)
    if count > 1:
        tried = tried[_fit_bands(factor * tried, along, slice(-1, None))]
    found = []
    for is_linear in (True, False):
        fits = _fit_bands(factor * bands(tried, count, is_linear=is_linear), along, slice(None))
        found += [(round(2 * highest), is_linear) for highest in tried[fits, 0].tolist()]
    return sorted(found, key=lambda each: each[0])


def _tried_bands(length: int) -> Float64s:
    """Return the candidates for the highest band of an axis of ``length`` tokens, (M, 1)."""
    most = min(max(2 * _MAX_ALIASES * (length - 1), _LEAST_TRIED), _MOST_TRIED)
    return np.arange(1, most + 1)[:, np.newaxis] / 2


def _fit_bands(tried: Float64s, along: AxisWaves, pairs: slice) -> NDArray[np.bool_]:
    """Return a mask (M,) of the candidates whose K bands match the axis's rates and phases.

    ``tried`` has the bands of each candidate, (M, K); ``pairs`` selects the K measured pairs.
    """
    allowed = 64 * along.noise + _LOOSE
    fits: NDArray[np.bool_]
    fits = np.abs(fold(-np.pi * tried - along.phases[pairs])).max(axis=1) <= allowed
    if along.length > 1:
        steps = along.length - 1
        residuals = np.abs(fold(np.pi * tried * (2 / steps) - along.rates[pairs]))
        fits &= (residuals <= 4 * along.errors[pairs] + allowed / steps).all(axis=1)
    return fits


def sine_bands(sines: Float64s, rounding: float) -> AxisWaves | None:
    """Return the waves of an axis whose L tokens have only the sines of K bands, (L, K).

    Bands are evenly spaced from 1, and coordinates x go from −1 to 1: the first channel must be
    sin(π·x). Return None if no highest band gives the sines.
    """
    length, count = sines.shape
    x = -1 + np.arange(length) * (2 / max(length - 1, 1))
    loose = 8 * rounding + _LOOSE
    if np.abs(np.sin(np.pi * x) - sines[:, 0]).max() > loose:
        return None
    tried = _tried_bands(length)
    tokens = np.union1d(np.arange(min(length, _SINE_TOKENS)), evenly(length, _SINE_TOKENS))
    # Compare the highest band first: it leaves few candidates for the comparison of all bands.
    for channels in (slice(count - 1, count), slice(0, count)):
        for token in tokens if count > 1 else ():
            angles = np.pi * x[token] * bands(tried, count, is_linear=True)[:, channels]
            residuals = np.abs(np.sin(angles) - sines[token, channels])
            tried = tried[residuals.max(axis=1) <= loose]
    if not len(tried):
        return None
    rates = np.pi * bands(float(tried[0, 0]), count, is_linear=True)
    step = float(x[1] - x[0]) if length > 1 else 0.0
    return AxisWaves(rates * step, -rates, np.zeros(count), 0.0, length)


def band_resolutions(axes: Sequence[AxisWaves]) -> list[tuple[int, ...]]:
    """Return candidates for ``max_resolution``, each with one integer per axis.

    The integer is twice the highest band of evenly spaced bands. Bands that add whole periods
    between tokens give equal tables, so several integers may fit. The first candidate has the
    length of each axis, or the lowest integer that fits if the length does not; the others have
    one usual resolution that fits all axes.
    """
    found = [[number for number, is_linear in highest_bands(axis) if is_linear] for axis in axes]
    if not all(found):
        return []
    own = [
        axis.length if axis.length in each else each[0]
        for axis, each in zip(axes, found, strict=True)
    ]
    usual = [number for number in _USUAL_RESOLUTIONS if all(number in each for each in found)]
    alike = ((number,) * len(found) for number in usual[:_MAX_USUAL])
    return list(dict.fromkeys((tuple(own), *alike)))
