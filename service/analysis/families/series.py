"""Geometric series of measured frequencies, and the plain numbers that their parameters may be."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, isfinite, log

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.measured import fewest_digits, fitted_line
from service.analysis.explanation.sources import USUAL_BASES
from service.analysis.families.requests import USUAL_BASE
from service.numerics.phase import Float64s

# Largest logarithm whose exponential fits in float64.
_MAX_LOGARITHM = 700.0
_TWO_PI = 2 * np.pi
# A number of more digits is no parameter of a config.
_MOST_DIGITS = 7
# Parts of an interval of errors in which plain numbers are looked for.
_SHARES = (1.0, 0.25, 0.05, 0.0)


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


def fit_geometric(omega: Float64s, error: Float64s) -> GeometricSeries | None:
    """Return the geometric series that fits terms within their errors; None if there is none.

    Args:
        omega: the measured terms, k = 0, 1, 2, …, (K,).
        error: a bound of the absolute error of each term, above 0, (K,).
    """
    line = fitted_line(omega, error)
    if line is not None:
        height = exp(max(min(line.height, _MAX_LOGARITHM), -_MAX_LOGARITHM))
        return GeometricSeries(height, exp(line.slope), line.height_error, line.slope_error)
    known = np.flatnonzero((omega > 3 * error) & (omega > 0))
    if len(known) != 1 or known[0]:
        return None
    return GeometricSeries(float(omega[0]), 1.0, float(error[0] / omega[0]), inf)


def unfolded(omega: Float64s, period: float) -> Float64s:
    """Return frequencies plus multiples of a period, from the slowest on.

    The ratio of neighbouring frequencies changes slowly in all rules, so two slower ones predict
    the next one.
    """
    found = omega.copy()
    for k in range(len(omega) - 3, -1, -1):
        slower, slowest = found[k + 1], found[k + 2]
        if 0 < slowest < slower:
            found[k] += period * np.round((slower * slower / slowest - omega[k]) / period)
    return found


def unfolded_series(angles: Float64s, errors: Float64s) -> tuple[GeometricSeries, int] | None:
    """Return the series of angles that are known modulo 2π, and their common sign; or None.

    Args:
        angles: within ±π, the fastest first, (K,).
        errors: bounds of their absolute errors, (K,).
    """
    known = np.flatnonzero(np.abs(angles) > errors)
    if not len(known):
        return None
    sign = 1 if angles[known[-1]] > 0 else -1
    sizes = unfolded(sign * angles, _TWO_PI)
    errors = errors + 8 * 2.0**-24 * np.abs(sizes)
    series = fit_geometric(sizes, errors)
    return None if series is None else (series, sign)


def plain_numbers(
    measured: float, error: float, usual: tuple[float, ...] = tuple(USUAL_BASES)
) -> list[float]:
    """Return numbers within a relative error of a measured one: usual ones, then few digits.

    In smaller and smaller parts of the interval, the number of fewest digits has more digits.
    """
    if not (isfinite(measured) and measured > 0 and error < 1):
        return []
    low, high = measured * (1 - error), measured * (1 + error)
    found = [each for each in usual if low <= each <= high]
    for share in _SHARES:
        shortest = fewest_digits(measured * (1 - error * share), measured * (1 + error * share))
        if shortest is not None and shortest[1] <= _MOST_DIGITS:
            found.append(shortest[0])
    return list(dict.fromkeys(found))


def plain_bases(series: GeometricSeries, span: float) -> list[float]:
    """Return the bases b above 1 for which b^(−2/span) may be the ratio of a series.

    A series that does not determine a base, such as a single frequency, gets the usual one.
    """
    base, error = series.base(span / 2)
    if not series.has_ratio or not span or error >= 0.5:
        return [USUAL_BASE]
    return [each for each in plain_numbers(base, error + 2.0**-40) if each > 1]


def spread_indices(count: int, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` evenly spaced indices from 0 to ``count - 1``, both included."""
    return np.unique(np.linspace(0, count - 1, most).astype(np.intp))


def solve_falling(
    function: Callable[[float], float], value: float, low: float, high: float, halvings: int
) -> float:
    """Return x between low and high with function(x) = value, by bisection.

    Return an end of the range if there is no such x.
    """
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > value else (low, middle)
    return (low + high) / 2
