"""Find frequencies and positions from angles, which sines and cosines give modulo 2π.

Slow angles stay within half a period. From the slowest to the fastest, each angle is unwrapped by
what the slower ones predict: as a term of a geometric series of frequencies, or, where frequencies
are known, as their product with the position.
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
"""What float32 arithmetic adds to the rounding of an element, and the relative error of an angle:
a few 2^-24.
"""

# A prediction sums error bounds that may be slightly too small: allow several times its error.
_LEEWAY = 4.0
_LARGEST_EXPONENT = 700.0


# Series of frequencies.


def unwrapped_series(angles: Float64s, errors: Float64s) -> tuple[GeometricSeries, int] | None:
    """Fit a geometric series to the sizes of angles plus multiples of 2π; None if none fits.

    The two slowest angles that are larger than their errors must be within ±π. They predict the
    next faster one, and so on. Where predictions are off by a quarter of a period, the faster
    angles are left out.

    Args:
        angles: within ±π, the fastest first, (K,).
        errors: bounds on their absolute errors, (K,). The relative error of an unwrapped angle,
            ``ENGINE_ERROR``, comes on top.

    Returns:
        The series from the fastest angle on, and the sign of all angles.
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
        """Return the exponential of the line at x, and its relative error."""
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx - mean_x * self._x
        slope = (self._xy - mean_x * self._y) / spread
        distance = x - self._origin[0] - mean_x
        error = sqrt(1 / self._weight + distance * distance / spread)
        return exp(min(self._origin[1] + mean_y + slope * distance, _LARGEST_EXPONENT)), error


# Positions for known frequencies.

# How far positions are searched, and for how many periods of the slowest frequency at most.
_MAX_PERIODS = 2**15
_FARTHEST = 2.0**24

# The highest probability of a match by chance.
_MAX_CHANCE = 0.02

# Rows beyond half a period of the slowest frequency are searched one by one: at most so many.
_MAX_FAR_ROWS = 64

# The relative error of float64 angles after sums and products.
_EXACT_ERROR = 2.0**-48

_POSITION_LEEWAY = 2.0
_HALF = 0.5

# Whole positions that are tried and returned; beyond the farthest, float64 loses the angle.
_WHOLE_PERIODS, _MAX_WHOLE = 4096, 4
_FARTHEST_WHOLE = 2.0**40

# The largest error of a position that tells it from the next integers.
_CERTAIN = 0.25


@dataclass(frozen=True, eq=False)
class LocatedPositions:
    """The positions of rows, found from angles.

    Attributes:
        values: of each row, (R,).
        errors: bounds on their errors, (R,).
        residual: the largest difference between an angle and that of the position, in radians.
    """

    values: Float64s
    errors: Float64s
    residual: float

    def rounded(self) -> Float64s:
        """Return integers where the errors allow them, and else the decimals of fewest digits."""
        rounded = np.round(self.values)
        allowed = np.minimum(_POSITION_LEEWAY * self.errors, _HALF)
        for row in np.flatnonzero(np.abs(self.values - rounded) > allowed):
            number, error = float(self.values[row]), float(self.errors[row])
            decimals = (float(f"{number:.{digits}e}") for digits in range(17))
            rounded[row] = next((each for each in decimals if abs(each - number) <= error), number)
        return rounded + 0.0


def locate(phases: Float64s, errors: Float64s, omega: Float64s) -> LocatedPositions | None:
    """Find positions p with p·omega equal to phases modulo 2π; None unless every row has one.

    Angles are taken to be exact first, and then to have the relative error of float32 engines.

    Args:
        phases: within ±π, (R, K).
        errors: bounds on the error of each, (R, K).
        omega: radians per unit of position, falling, above 0, (K,).
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
    """Find the integer position of one row, (1, K), however far; None if it has none."""
    for relative_error in (_EXACT_ERROR, ENGINE_ERROR):
        far = _locate_far(phases[0], errors[0], omega, relative_error, is_whole=True)
        if far is not None:
            value, bound, residual = far
            bound += relative_error * abs(value)
            return LocatedPositions(np.array([value]), np.array([bound]), residual)
    return None


def whole_positions(angles: Float64s, omega: Float64s, error: float) -> Int64s:
    """Return the integers p with p·omega equal to angles modulo 2π: at most 4, nearest to 0 first.

    Args:
        angles: of one row, in radians, (K,).
        omega: radians per position, in any order, not negative, (K,).
        error: a bound on the errors of the angles.
    """
    # Slower frequencies stay within the error on the way to the farthest position.
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
        # The fastest of the frequencies whose periods the values tell, or else the next faster one.
        k = max(k + 1, int(np.count_nonzero(rates * bounds.max() < 1)) - 1)
        finer = (phases[k] + _TWO_PI * np.round((values * rates[k] - phases[k]) / _TWO_PI)) / rates[
            k
        ]
        values = finer[np.abs(finer - values) <= bounds + error / rates[k]]
        bounds = error / rates[k] + np.abs(values) * ENGINE_ERROR
    positions = np.unique(np.round(values[np.abs(values) < _FARTHEST_WHOLE])).astype(np.int64)
    positions = positions[np.argsort(np.abs(positions), kind="stable")]
    allowed = 2 * error + np.outer(np.abs(positions), rates) * ENGINE_ERROR
    residuals = wrap_angles(np.outer(positions, rates) - phases)
    return positions[(np.abs(residuals) <= allowed).all(axis=1)][:_MAX_WHOLE]


def _locate_far(
    phases: Float64s, errors: Float64s, omega: Float64s, relative_error: float, *, is_whole: bool
) -> tuple[float, float, float] | None:
    """Find the position of one row, its error and its residual; None if chance may explain them.

    Where most of the positions that are tried fit in the end, a fit is no evidence.
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

    The slowest gives a position to its error over the frequency, given the number of its periods.
    Each faster one gives it more exactly, given the number of periods by the slower ones.

    Args:
        phases: of rows, (R, K), with one number of periods; or of one row, (K,).
        errors: bounds on their errors, of the same shape.
        omega: falling, (K,).
        periods: of the slowest frequency, (1,) or (R,).
        relative_error: of the angles.

    Returns:
        Positions, their errors, the largest residuals, and whether all residuals are within the
        errors, each (R,); and the probability that a random position fits.
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

# Engines in float32: the error of an element, and that of an angle of some hundred radians.
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
        length: tokens along the axis.
    """

    rates: Float64s
    phases: Float64s
    errors: Float64s
    noise: float
    length: int


def axis_waves(phasors: Complexes, rounding: float) -> AxisWaves | None:
    """Measure the phasors (L, K) of an axis; None unless norms are 1 and angles linear."""
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
    # Rounding sin θ and cos θ by a fraction of each moves θ by that fraction of sin 2θ.
    moved = 2 * rounding * np.abs(2 * phasors.real * phasors.imag).max(axis=0) + _ARITHMETIC
    errors = waves.omega_error + 2 * moved / (min(length, EARLY_ROWS) - 1)
    return AxisWaves(waves.omega, waves.phase, errors, noise, length)


def axis_series(along: AxisWaves) -> GeometricSeries | None:
    """Find the geometric series of the rates of an axis of several tokens; None if none fits."""
    rates, errors = along.rates, along.errors
    if len(rates) == 2 and rates[0] + errors[0] < rates[1] - errors[1]:
        # The slower of two rates is below 2π, and so the faster has at most one period more.
        rates = np.array([rates[0] + _TWO_PI, rates[1]])
    unwrapped = unwrapped_series(rates, errors)
    return unwrapped[0] if unwrapped and unwrapped[1] > 0 else None


def first_coordinate(along: AxisWaves, omega: Float64s) -> tuple[float, float] | None:
    """Return the coordinate of the first token, and its error; None if the phases have none.

    Args:
        along: the waves of an axis.
        omega: radians per unit of coordinate, (K,).
    """
    order = np.argsort(-omega, kind="stable")
    order = order[omega[order] > 0]
    if not len(order):
        return None
    errors = np.full((1, len(order)), 4 * along.noise)
    located = locate(along.phases[np.newaxis, order], errors, omega[order])
    return None if located is None else (float(located.values[0]), float(located.errors[0]))


# Bands.

# Bands that make whole periods more between tokens have equal sines: so many of them are tried.
_MAX_ALIASES = 16
_LEAST_TRIED, _MOST_TRIED = 2**11, 2**20
_SINE_TOKENS = 16

_USUAL_RESOLUTIONS = (224, *(1 << power for power in range(1, 12)))
_MAX_USUAL = 4


def bands(highest: Float64s | float, count: int, *, is_linear: bool) -> Float64s:
    """Return bands from 1 to the highest, evenly spaced or in a geometric series.

    Args:
        highest: one band, or a column (M, 1) of them.
        count: how many bands there are.
        is_linear: whether they are evenly spaced.
    """
    fractions = np.arange(count) / max(count - 1, 1)
    return np.asarray(1 + fractions * (highest - 1) if is_linear else highest**fractions)


def highest_bands(along: AxisWaves, factor: float = 1.0) -> list[tuple[int, bool]]:
    """Find twice the highest of bands from 1 on, for tokens from −1 to 1.

    Band b of token x has the angle π·b·x. Rates, π·b·2/(L − 1), and phases, −π·b, are known modulo
    2π: each integer is tried that the highest band may be half of.

    Args:
        along: the axis.
        factor: of the coordinates.

    Returns:
        The integers that fit, rising, and whether bands are evenly spaced.
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
    """Return the highest bands to try for an axis of so many tokens, (M, 1)."""
    most = min(max(2 * _MAX_ALIASES * (length - 1), _LEAST_TRIED), _MOST_TRIED)
    return np.arange(1, most + 1)[:, np.newaxis] / 2


def _fit_bands(tried: Float64s, along: AxisWaves, pairs: slice) -> NDArray[np.bool_]:
    """Return a mask of candidate bands (M, K) whose phases and rates match K of the pairs."""
    allowed = 64 * along.noise + _LOOSE
    fits: NDArray[np.bool_]
    fits = np.abs(wrap_angles(-np.pi * tried - along.phases[pairs])).max(axis=1) <= allowed
    if along.length > 1:
        steps = along.length - 1
        residuals = np.abs(wrap_angles(np.pi * tried * (2 / steps) - along.rates[pairs]))
        fits &= (residuals <= 4 * along.errors[pairs] + allowed / steps).all(axis=1)
    return fits


def sine_bands(sines: Float64s, rounding: float) -> AxisWaves | None:
    """Read sines (L, K) of evenly spaced bands that have no cosines, for tokens from −1 to 1.

    The first is sin(π·x), whatever the highest band.
    """
    length, count = sines.shape
    x = -1 + np.arange(length) * (2 / max(length - 1, 1))
    loose = 8 * rounding + _LOOSE
    if np.abs(np.sin(np.pi * x) - sines[:, 0]).max() > loose:
        return None
    tried = _tried_bands(length)
    tokens = np.union1d(np.arange(min(length, _SINE_TOKENS)), spread_indices(length, _SINE_TOKENS))
    # The highest band first, alone: there are many to try.
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
    """Return, for each axis, twice the highest of the evenly spaced bands that it may have.

    Bands that make whole periods more from token to token give equal tables: the length of each
    axis comes first, or the lowest number if the length does not fit; then usual numbers that fit
    all axes.
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
