"""Measure the sines and cosines in the rows of an array: layout, frequencies, phases, scale, base.

A *phasor* is cosine + i·sine of one frequency in one row. ``layout_readings`` reads rows as phasors
in every layout that fits their width, ``measure`` measures the angle between the phasors of
consecutive rows, and ``fit_geometric`` and ``round_bases`` find the base of which the frequencies
are powers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, inf, isfinite, log

import numpy as np
from numpy.typing import NDArray

from service.analysis.round_numbers import round_numbers
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

Complexes = NDArray[np.complex128]

_TWO_PI = 2 * np.pi

EARLY_ROWS = 256
"""Number of first rows that measure frequencies: the errors of float32 angles are small there."""

USUAL_BASE = 10000.0

# Largest logarithm whose exponential fits in float64.
_MAX_LOGARITHM = 709.0


def wrap_angles(angles: Float64s) -> Float64s:
    """Return the angles modulo 2π, within ±π."""
    wrapped: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return wrapped


def spread_indices(count: int, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` evenly spaced indices from 0 to ``count - 1``, both included."""
    return np.unique(np.linspace(0, count - 1, most).astype(np.intp))


_LAYOUTS: dict[str, tuple[tuple[Component, ...], bool, int]] = {
    "interleaved": (("sin", "cos"), True, 1),
    "concatenated": (("sin", "cos"), False, 1),
    "flat": (("cos", "sin"), True, 1),
    "concat": (("cos", "sin"), False, 1),
    "half_concat": (("cos", "cos", "sin", "sin"), False, 1),
    "sin_half_concat": (("sin", "sin", "cos", "cos"), False, 1),
    "sin_interleaved_concat": (("sin", "cos"), False, 2),
}


@dataclass(frozen=True, eq=False)
class LayoutReading:
    """The phasors of rows that are read in a given layout.

    Attributes:
        layout: ``interleaved`` s0,c0,s1,c1…; ``concatenated`` sines ‖ cosines; or a pack of
            ``/rope`` (``sin_concat`` equals ``concatenated``).
        channels: whether each channel is a sine or a cosine, and of which frequency.
        phasors: cosine + i·sine of each frequency, (S, K); a sine without a cosine is left out.
        copy_error: the largest difference between channels that the layout makes equal.
    """

    layout: str
    channels: Channels
    phasors: Complexes
    copy_error: float


def layout_readings(rows: Float64s) -> Iterator[LayoutReading]:
    """Yield rows (S, C) read as phasors, in each layout that allows C channels."""
    width = rows.shape[1]
    for layout, (components, interleaved, repeats) in _LAYOUTS.items():
        if (
            width >= 2
            and width % (len(components) * repeats) in {0, 1}
            and (width % 2 == 0 or len(components) == 2)
        ):
            channels = Channels(components, interleaved, width, repeats)
            yield read_layout(layout, channels, rows)


def read_layout(layout: str, channels: Channels, rows: Float64s) -> LayoutReading:
    """Return rows (S, C) read as phasors in a given layout."""
    frequency, is_sine = channels.indices()
    count = int(min(frequency[is_sine].max(initial=-1), frequency[~is_sine].max(initial=-1))) + 1
    parts, copy_error = [], 0.0
    for is_of_part in (~is_sine, is_sine):
        chosen = np.flatnonzero(is_of_part & (frequency < count))
        order = chosen[np.argsort(frequency[chosen], kind="stable")]
        copies = rows[:, order.reshape(count, -1)]
        first = copies[..., 0]
        copy_error = max(copy_error, float(np.abs(copies - first[..., None]).max()))
        parts.append(first)
    cosine, sine = parts
    return LayoutReading(layout, channels, cosine + 1j * sine, copy_error)


@dataclass(frozen=True, eq=False)
class MeasuredWaves:
    """K measured frequencies.

    Phasor k of the row at position p is scale·e^(i(omega[k]·p + phase[k])), within the errors.

    Attributes:
        scale: the median absolute value of the phasors.
        norm_error: the largest relative difference of a phasor's absolute value from the scale.
        omega: the frequencies in radians per position, (K,), within ±π/step.
        omega_error: a bound of the absolute error of each frequency, (K,).
        phase: the angle of each frequency at position 0, in radians, (K,), within ±π.
        angle_error: the largest error of an angle of each frequency, in radians, (K,).
        step: the smallest distance of consecutive positions; frequencies are known modulo 2π/step.
    """

    scale: float
    norm_error: float
    omega: Float64s
    omega_error: Float64s
    phase: Float64s
    angle_error: Float64s
    step: float


def measure(phasors: Complexes, positions: Float64s | None = None) -> MeasuredWaves:
    """Return the frequencies, phases and scale of phasors.

    Frequencies and phases are measured in the first ``EARLY_ROWS`` rows.

    Args:
        phasors: cosine + i·sine of each row and frequency, (S, K), S ≥ 2.
        positions: the increasing positions of the rows, (S,); 0, 1, 2, … by default.
    """
    norms = np.abs(phasors)
    scale = float(np.median(norms)) or 1.0
    norm_error = float(np.max(np.abs(norms / scale - 1)))
    early = phasors[:EARLY_ROWS]
    if positions is None:
        positions = np.arange(len(phasors), dtype=np.float64)
    where = positions[: len(early)]
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.nan_to_num(early / np.abs(early))
    omega, step = _estimated_frequencies(unit, where)
    centred = where - where.mean()
    for _ in range(2):
        _, residual = line_residuals(unit, centred, omega)
        omega = omega + centred @ residual / float(centred @ centred)
    phase, residual = line_residuals(unit, centred, omega)
    angle_error = np.abs(residual).max(axis=0)
    error = 4 * (angle_error + 2.0**-52) / float(where[-1] - where[0])
    phase = wrap_angles(phase - omega * where.mean())
    return MeasuredWaves(scale, norm_error, omega, error, phase, angle_error, step)


def line_residuals(
    phasors: Complexes, positions: Float64s, omega: Float64s, weights: Float64s | float = 1.0
) -> tuple[Float64s, Float64s]:
    """Return the phases at position 0 that fit given frequencies, (K,), and the residuals, (S, K).

    Both are in radians; a residual is the measured angle minus the fitted one.

    Args:
        phasors: cosine + i·sine of each row and frequency, (S, K).
        positions: the position of each row, (S,), or of each phasor, (S, K).
        omega: the frequencies in radians per position, (K,).
        weights: the weight of each phasor in its frequency's phase, (S, K), or one for all.
    """
    angles = (positions if positions.ndim == 2 else positions[:, None]) * omega
    straight = phasors * np.exp(-1j * angles)
    phase: Float64s = np.angle((straight * weights).sum(axis=0))
    return phase, np.angle(straight * np.exp(-1j * phase))


def _estimated_frequencies(unit: Complexes, where: Float64s) -> tuple[Float64s, float]:
    """Return the frequencies, and the smallest distance of the positions of consecutive rows.

    Frequencies are estimated from pairs of rows 1, 2, 4, … apart, in radians per position, (K,).
    Each larger distance refines the estimate; the previous estimate gives the multiple of 2π.

    Args:
        unit: phasors of absolute value 1, (S, K).
        where: the increasing positions of the rows, (S,).
    """
    omega = np.zeros(unit.shape[1])
    lag, known = 1, 0.0
    while lag < len(unit):
        gaps = where[lag:] - where[:-lag]
        gap = float(gaps.min())
        if gap > known:
            ahead = (unit[lag:] * unit[:-lag].conj())[gaps == gap]
            angles = np.angle(ahead.sum(axis=0))
            whole = np.round((gap * omega - angles) / _TWO_PI) if known else 0.0
            omega = (angles + _TWO_PI * whole) / gap
            known = gap
        lag *= 2
    return omega, float(np.diff(where).min())


@dataclass(frozen=True)
class LineFit:
    """A straight line y(x) that fits points with errors.

    Attributes:
        middle: the weighted mean of the x coordinates.
        height: y at ``middle``.
        slope: the slope; 0 if all points have the same x.
        height_error: a bound of the error of ``height``.
        slope_error: a bound of the error of the slope; infinite if all points have the same x.
    """

    middle: float
    height: float
    slope: float
    height_error: float
    slope_error: float

    def at(self, x: float) -> float:
        return self.height + self.slope * (x - self.middle)

    def error_at(self, x: float) -> float:
        return self.height_error + abs(x - self.middle) * self.slope_error


def fit_line(x: Float64s, y: Float64s, errors: Float64s) -> LineFit:
    """Fit a line to points by least squares, with weights of 1/error².

    Height and slope are linear in y. Their errors are bounded by the same sums of the absolute
    values of the errors: no error is assumed to cancel another.

    Args:
        x: the x coordinates, (N,).
        y: the y coordinates, (N,).
        errors: a bound of the error of each y, above 0, (N,).
    """
    middle, height_error = weighted_mean(x, errors)
    height, _ = weighted_mean(y, errors)
    weights = (errors.min() / errors) ** 2
    leverage = weights * (x - middle)
    spread = float(leverage @ (x - middle))
    if len(x) < 2 or spread == 0:
        return LineFit(middle, height, 0.0, height_error, inf)
    slope = float(leverage @ y) / spread
    return LineFit(middle, height, slope, height_error, float(np.abs(leverage) @ errors) / spread)


def weighted_mean(values: Float64s, errors: Float64s) -> tuple[float, float]:
    """Return the mean of values with weights of 1/error², and a bound of its error."""
    weights = (errors.min() / errors) ** 2
    total = weights.sum()
    return float(weights @ values / total), float(weights @ errors / total)


@dataclass(frozen=True)
class GeometricSeries:
    """A series first·ratio^k for k = 0, 1, 2 and so on.

    Attributes:
        first: the term at k = 0.
        ratio: the ratio of consecutive terms.
        first_error: a bound of the relative error of the first term.
        ratio_error: a bound of the relative error of the ratio; infinite for a single term.
    """

    first: float
    ratio: float
    first_error: float
    ratio_error: float

    @property
    def has_ratio(self) -> bool:
        """True if the ratio is measured, False for a single term."""
        return isfinite(self.ratio_error)

    def base(self, steps: float) -> tuple[float, float]:
        """Return ratio^(-steps), and a bound of its relative error."""
        return exp(min(-log(self.ratio) * steps, _MAX_LOGARITHM)), self.ratio_error * steps

    def at(self, count: int) -> Float64s:
        """Return the first ``count`` terms."""
        series: Float64s = self.first * self.ratio ** np.arange(count, dtype=np.float64)
        return series


def fit_geometric(omega: Float64s, error: Float64s) -> GeometricSeries | None:
    """Return the geometric series that fits ``omega``, or None if no series fits within the errors.

    A line is fitted to the logarithms, with weights of 1/(relative error)². Elements within twice
    their error of 0 are not fitted, but must agree with the series.

    Args:
        omega: the measured terms, k = 0, 1, 2, …, (K,).
        error: a bound of the absolute error of each term, above 0, (K,).
    """
    indices = np.arange(len(omega), dtype=np.float64)
    known = omega > 2 * error
    if not known.any():
        return None
    line = fit_line(indices[known], np.log(omega[known]), error[known] / omega[known])
    away = np.abs(indices - line.middle)
    expected = np.exp(line.height + line.slope * (indices - line.middle))
    reach = line.height_error + (away * line.slope_error if np.isfinite(line.slope_error) else 0.0)
    if not (np.abs(omega - expected) <= 2 * error + expected * reach).all():
        return None
    first_error = line.height_error + (line.middle * line.slope_error if line.middle else 0.0)
    first = float(np.exp(line.height - line.slope * line.middle))
    return GeometricSeries(first, float(np.exp(line.slope)), first_error, line.slope_error)


def round_bases(series: GeometricSeries, span: int) -> tuple[float, ...]:
    """Return the round bases b for which b^(−2/span) is the ratio, those with fewest digits first.

    The error bounds decide which bases fit. A ratio that is too inexact, as of a single frequency,
    gives the usual base of the papers, 10000.

    Args:
        series: the measured frequencies.
        span: the number of channels, two per frequency, over which frequencies fall to 1/b.
    """
    error = span / 2 * series.ratio_error
    if not error < 0.5:
        return (USUAL_BASE,)
    return tuple(base for base in round_numbers(base_of_series(series, span), error) if base >= 1)


def base_of_series(series: GeometricSeries, span: int) -> float:
    """Return the base b for which b^(−2/span) is the ratio of a series; infinity on overflow."""
    try:
        return float(series.ratio ** (-span / 2))
    except OverflowError:
        return inf


def solve_falling(
    function: Callable[[float], float], value: float, low: float, high: float, halvings: int
) -> float:
    """Return x between low and high with function(x) = value, by bisection.

    Return an end of the range if there is no such x.

    Args:
        function: a decreasing function.
        value: the value to find.
        low: the lower end of the range.
        high: the upper end of the range.
        halvings: how many times the range is halved.
    """
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > value else (low, middle)
    return (low + high) / 2
