"""Find frequencies and positions from angles, which sines and cosines give modulo 2π.

Slow angles stay within half a period. From the slowest to the fastest, the slower angles predict
the next one, and the multiple of 2π nearest to the prediction is added to it. The prediction is
a term of a geometric series of frequencies or, where the frequencies are known, the product of
position and frequency.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    GeometricSeries,
    fit_geometric,
    measure,
    spread_indices,
    wrap_angles,
)
from service.numerics.phase import Float64s, Int64s

_TWO_PI = 2 * pi

ENGINE_ERROR = 2.0**-21
"""Bound of the absolute error that float32 arithmetic adds to the rounding of an element, and of
the relative error of an angle: a few 2^-24.
"""

# A prediction sums error bounds that may be slightly too small: allow several times its error.
_LEEWAY = 4.0
_LARGEST_EXPONENT = 700.0


# Series of frequencies.


def unwrapped_series(angles: Float64s, errors: Float64s) -> tuple[GeometricSeries, int] | None:
    """Fit a geometric series to the absolute unwrapped angles; return None if none fits.

    The two slowest angles that are larger than their errors need no unwrapping. They predict the
    next faster angle, and so on. Once the error bound of a prediction exceeds π/2, this and all
    faster angles are left out of the fit.

    Args:
        angles: radians modulo 2π, within ±π, the fastest first, (K,).
        errors: bounds on the absolute errors of the angles, (K,). The function adds the relative
            error ``ENGINE_ERROR`` of an unwrapped angle.

    Returns:
        The series, which begins at the first (fastest) angle, and the common sign of the angles.
    """
    known = np.flatnonzero(np.abs(angles) > errors)
    if not len(known):
        return None
    slowest = int(known[-1])
    sign = 1 if angles[slowest] > 0 else -1
    sizes, bounds = (angles * sign).tolist(), errors.tolist()
    line, fastest = _RunningLine(), slowest
    for k in range(slowest, -1, -1):
        size, error = sizes[k], bounds[k] + ENGINE_ERROR * abs(sizes[k])
        if k < slowest - 1:
            predicted, relative_error = line.at(k)
            allowed = predicted * relative_error + error + ENGINE_ERROR * predicted
            if allowed > pi / 2:
                break
            size += _TWO_PI * round((predicted - size) / _TWO_PI)
            if abs(size - predicted) > _LEEWAY * allowed:
                return None
        elif size + bounds[k] < sizes[slowest] - bounds[slowest]:
            return None
        if size <= 0:
            return None
        line.add(k, log(size), bounds[k] / size + ENGINE_ERROR)
        sizes[k], fastest = size, k
    unwrapped = np.array(sizes[fastest:])
    series = fit_geometric(unwrapped, errors[fastest:] + ENGINE_ERROR * np.abs(unwrapped))
    if series is None:
        return None
    start = exp(min(log(series.first) - fastest * log(series.ratio), _LARGEST_EXPONENT))
    start_error = series.first_error + (fastest * series.ratio_error if fastest else 0.0)
    return GeometricSeries(start, series.ratio, start_error, series.ratio_error), sign


class _RunningLine:
    """A weighted least-squares line through logarithms, to which points are added one by one."""

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self._origin = (0, 0.0)

    def add(self, x: int, y: float, error: float) -> None:
        if not self._weight:
            self._origin = x, y
        dx, dy, weight = x - self._origin[0], y - self._origin[1], error**-2
        self._weight += weight
        self._x += weight * dx
        self._y += weight * dy
        self._xx += weight * dx * dx
        self._xy += weight * dx * dy

    def at(self, x: int) -> tuple[float, float]:
        """Return exp(y) for the point y of the line at x, and the relative error of exp(y)."""
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx - mean_x * self._x
        slope = (self._xy - mean_x * self._y) / spread
        distance = x - self._origin[0] - mean_x
        error = sqrt(1 / self._weight + distance * distance / spread)
        return exp(min(self._origin[1] + mean_y + slope * distance, _LARGEST_EXPONENT)), error


# Positions for known frequencies.

# The search for positions covers at most ±_MAX_PERIODS periods of the slowest frequency, and
# positions up to ±_FARTHEST.
_MAX_PERIODS = 2**15
_FARTHEST = 2.0**24

# The highest probability of a match by chance.
_MAX_CHANCE = 0.02

# The largest number of rows beyond half a period of the slowest frequency, which take a separate
# search each.
_MAX_FAR_ROWS = 64

# The relative error of float64 angles after sums and products.
_EXACT_ERROR = 2.0**-48

_POSITION_LEEWAY = 2.0
_HALF = 0.5

# Integer positions: periods tried in each direction, positions returned at most, and the largest
# position whose angle float64 resolves.
_WHOLE_PERIODS, _MAX_WHOLE = 4096, 4
_FARTHEST_WHOLE = 2.0**40

# With an error up to this bound, a position rounds to the right integer.
_CERTAIN = 0.25


@dataclass(frozen=True, eq=False)
class LocatedPositions:
    """The positions of rows, found from angles.

    Attributes:
        values: the position of each row, (R,).
        errors: bounds on the absolute errors of the positions, (R,).
        residual: the largest difference between a measured angle and position·frequency, radians.
    """

    values: Float64s
    errors: Float64s
    residual: float

    def rounded(self) -> Float64s:
        """Return each position rounded within its error: to an integer, or to the fewest digits."""
        rounded = np.round(self.values)
        allowed = np.minimum(_POSITION_LEEWAY * self.errors, _HALF)
        for row in np.flatnonzero(np.abs(self.values - rounded) > allowed):
            number, error = float(self.values[row]), float(self.errors[row])
            decimals = (float(f"{number:.{digits}e}") for digits in range(17))
            rounded[row] = next((each for each in decimals if abs(each - number) <= error), number)
        return rounded + 0.0


def locate(phases: Float64s, errors: Float64s, omega: Float64s) -> LocatedPositions | None:
    """Find the position p of each row with p·omega = phases modulo 2π; None if a row has none.

    The first attempt takes the angles to be exact, the second to have float32's relative error.

    Args:
        phases: angles in radians, within ±π, (R, K).
        errors: bounds on the absolute errors of the phases, (R, K).
        omega: frequencies in radians per unit of position, positive, falling, (K,).
    """
    for relative_error in (_EXACT_ERROR, ENGINE_ERROR):
        values, bounds, residuals, fits, _ = _refined(
            phases, errors, omega, np.zeros(1), relative_error
        )
        far_rows = np.flatnonzero(~fits)
        if len(far_rows) > _MAX_FAR_ROWS:
            continue
        for row in far_rows:
            far = _locate_far(phases[row], errors[row], omega, relative_error, is_whole=False)
            if far is None:
                break
            values[row], bounds[row], residuals[row] = far
        else:
            bounds = bounds + relative_error * np.abs(values)
            return LocatedPositions(values, bounds, float(residuals.max()))
    return None


def locate_whole(phases: Float64s, errors: Float64s, omega: Float64s) -> LocatedPositions | None:
    """Find the integer position of a single row of phases, (1, K), also many periods from 0.

    The arguments are those of ``locate``. None if no integer position fits.
    """
    for relative_error in (_EXACT_ERROR, ENGINE_ERROR):
        far = _locate_far(phases[0], errors[0], omega, relative_error, is_whole=True)
        if far is not None:
            value, bound, residual = far
            bound += relative_error * abs(value)
            return LocatedPositions(np.array([value]), np.array([bound]), residual)
    return None


def whole_positions(angles: Float64s, omega: Float64s, error: float) -> Int64s:
    """Return at most 4 integers p with p·omega = angles modulo 2π, the nearest to 0 first.

    Args:
        angles: the angles of one row, in radians, (K,).
        omega: frequencies in radians per position, in any order, not negative, (K,).
        error: a bound on the absolute errors of the angles.
    """
    # Slower frequencies give angles below the error at all positions searched: leave them out.
    order = np.argsort(omega, kind="stable")
    order = order[omega[order] * _FARTHEST_WHOLE > error]
    if not len(order):
        return np.zeros(0, dtype=np.int64)
    phases, rates = angles[order], omega[order]
    periods = np.arange(-_WHOLE_PERIODS, _WHOLE_PERIODS + 1.0)
    values = (phases[0] + _TWO_PI * periods) / rates[0]
    bounds = error / rates[0] + np.abs(values) * ENGINE_ERROR
    k = 0
    while len(values) and bounds.max() > _CERTAIN and k + 1 < len(order):
        # The fastest frequency whose full periods the values determine, or else the next one.
        k = max(k + 1, int(np.count_nonzero(rates * bounds.max() < 1)) - 1)
        phase, rate = phases[k], rates[k]
        finer = (phase + _TWO_PI * np.round((values * rate - phase) / _TWO_PI)) / rate
        values = finer[np.abs(finer - values) <= bounds + error / rate]
        bounds = error / rate + np.abs(values) * ENGINE_ERROR
    positions = np.unique(np.round(values[np.abs(values) < _FARTHEST_WHOLE])).astype(np.int64)
    positions = positions[np.argsort(np.abs(positions), kind="stable")]
    allowed = 2 * error + np.outer(np.abs(positions), rates) * ENGINE_ERROR
    residuals = wrap_angles(np.outer(positions, rates) - phases)
    return positions[(np.abs(residuals) <= allowed).all(axis=1)][:_MAX_WHOLE]


def _locate_far(
    phases: Float64s, errors: Float64s, omega: Float64s, relative_error: float, *, is_whole: bool
) -> tuple[float, float, float] | None:
    """Find the position of one row, its error bound and its residual, many periods from 0.

    Return None if no position fits, or if so many are tried that one may fit by chance.
    """
    most = int(min(np.ceil(_FARTHEST * omega[-1] / _TWO_PI), _MAX_PERIODS))
    periods = np.arange(-most, most + 1, dtype=np.float64)
    values, bounds, residuals, fits, chance = _refined(
        phases, errors, omega, periods, relative_error
    )
    fitting = np.flatnonzero(fits)
    if not len(fitting):
        return None
    allowed = _POSITION_LEEWAY * bounds[fitting] + relative_error * np.abs(values[fitting])
    whole = np.abs(values[fitting] - np.round(values[fitting])) <= allowed
    if whole.any():
        chance = chance * float(np.minimum(2 * allowed[whole], 1.0).max())
        fitting = fitting[whole]
    elif is_whole:
        return None
    best = fitting[np.abs(values[fitting]).argmin()]
    if chance * np.count_nonzero(np.abs(values) <= abs(values[best])) > _MAX_CHANCE:
        return None
    return float(values[best]), float(bounds[best]), float(residuals[best])


def _refined(
    phases: Float64s,
    errors: Float64s,
    omega: Float64s,
    periods: Float64s,
    relative_error: float,
) -> tuple[Float64s, Float64s, Float64s, NDArray[np.bool_], float]:
    """Refine positions from the slowest frequency to the fastest.

    The slowest angle plus 2π·periods gives a first position, with an error of angle error over
    frequency. This position predicts the periods of the next faster angle, which refines it.

    Args:
        phases: the angles of R rows, (R, K), with one period count; or of one row, (K,), with
            R period counts to try.
        errors: bounds on the absolute errors of the phases, of the same shape.
        omega: frequencies in radians per position, falling, (K,).
        periods: full periods of the slowest frequency before the position, (1,) or (R,).
        relative_error: the relative error of the angles.

    Returns:
        Positions, their error bounds, their largest residuals in radians, and a mask of the
        positions that fit all angles, each (R,); and the probability that a random position fits.
    """
    values = (phases[..., -1] + _TWO_PI * periods) / omega[-1]
    bounds = errors[..., -1] / omega[-1] + 0 * values
    residuals, fitting, chance = np.zeros_like(values), np.arange(len(values)), 1.0
    for k in range(len(omega) - 2, -1, -1):
        if not len(fitting):
            break
        value, bound = values[fitting], bounds[fitting]
        columns = (np.asarray(part[..., k]) for part in (phases, errors))
        phase, error = (part if part.ndim == 0 else part[fitting] for part in columns)
        residual = phase - value * omega[k]
        residual -= _TWO_PI * np.round(residual / _TWO_PI)
        allowed = _POSITION_LEEWAY * ((bound + relative_error * np.abs(value)) * omega[k] + error)
        residuals[fitting] = np.maximum(residuals[fitting], np.abs(residual))
        chance *= float(np.minimum(allowed / np.pi, 1.0).max(initial=0.0))
        is_finer = (error / omega[k] < bound) & (allowed < np.pi)
        values[fitting] = np.where(is_finer, value + residual / omega[k], value)
        bounds[fitting] = np.where(is_finer, error / omega[k], bound)
        fitting = fitting[np.abs(residual) <= allowed]
    fits = np.zeros(len(values), dtype=np.bool_)
    fits[fitting] = True
    return values, bounds, residuals, fits, chance


# Axes of grids.

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
    waves = measure(phasors)
    if waves.angle_error.max(initial=0) > loose:
        return None
    # A relative error e of sin θ and of cos θ changes θ by at most e·|sin 2θ|.
    moved = 2 * rounding * np.abs(2 * phasors.real * phasors.imag).max(axis=0) + _ARITHMETIC
    errors = waves.omega_error + 2 * moved / (min(length, EARLY_ROWS) - 1)
    return AxisWaves(waves.omega, waves.phase, errors, noise, length)


def axis_series(along: AxisWaves) -> GeometricSeries | None:
    """Fit a geometric series to the unwrapped rates of an axis; return None if none fits."""
    rates, errors = along.rates, along.errors
    if len(rates) == 2 and rates[0] + errors[0] < rates[1] - errors[1]:
        # The slower of two rates is below 2π: assume that the faster is one period above it.
        rates = np.array([rates[0] + _TWO_PI, rates[1]])
    unwrapped = unwrapped_series(rates, errors)
    return unwrapped[0] if unwrapped and unwrapped[1] > 0 else None


def first_coordinate(along: AxisWaves, omega: Float64s) -> tuple[float, float] | None:
    """Return the coordinate of an axis's first token and its error bound; None if none fits.

    Args:
        along: the measured rates and phases of the axis.
        omega: frequencies in radians per unit of coordinate, (K,).
    """
    order = np.argsort(-omega, kind="stable")
    order = order[omega[order] > 0]
    if not len(order):
        return None
    errors = np.full((1, len(order)), 4 * along.noise)
    located = locate(along.phases[np.newaxis, order], errors, omega[order])
    return None if located is None else (float(located.values[0]), float(located.errors[0]))


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
    fits = np.abs(wrap_angles(-np.pi * tried - along.phases[pairs])).max(axis=1) <= allowed
    if along.length > 1:
        steps = along.length - 1
        residuals = np.abs(wrap_angles(np.pi * tried * (2 / steps) - along.rates[pairs]))
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
    tokens = np.union1d(np.arange(min(length, _SINE_TOKENS)), spread_indices(length, _SINE_TOKENS))
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
