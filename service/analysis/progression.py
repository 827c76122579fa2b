"""Geometric series of frequencies: how they start, how they fall, what base that is."""

from dataclasses import dataclass
from math import inf

import numpy as np

from service.analysis.plain import plain_numbers
from service.tables.angle import Float64s

_USUAL_BASE = 10000.0


@dataclass(frozen=True)
class Geometric:
    """A series first·ratio^k.

    Attributes:
        first: the number with k = 0.
        ratio: of each number to the one before.
        first_error: how far what is meant may be from first, as a share of it.
        ratio_error: the same of ratio; infinite where there is one number only.
    """

    first: float
    ratio: float
    first_error: float
    ratio_error: float

    def at(self, count: int) -> Float64s:
        """Give the first numbers of the series."""
        series: Float64s = self.first * self.ratio ** np.arange(count, dtype=np.float64)
        return series


def geometric(omega: Float64s, error: Float64s) -> Geometric | None:
    """Find the series that numbers are within their errors; None where they are none.

    Logarithms are fitted by a line, each number with a weight of 1 over the square of its relative
    error: those that are lost in their errors say nothing, but must not contradict.

    Args:
        omega: the numbers, k = 0, 1, 2, …; those that count are above 0.
        error: how far each may be from what is meant, more than 0.
    """
    places = np.arange(len(omega), dtype=np.float64)
    known = omega > 2 * error
    if not known.any():
        return None
    share = error[known] / omega[known]
    line = _line(places[known], np.log(omega[known]), share)
    middle, height, slope, height_error, slope_error = line
    away = np.abs(places - middle)
    expected = np.exp(height + slope * (places - middle))
    reach = height_error + (away * slope_error if np.isfinite(slope_error) else 0.0)
    if not (np.abs(omega - expected) <= 2 * error + expected * reach).all():
        return None
    first_error = height_error + (middle * slope_error if middle else 0.0)
    first = float(np.exp(height - slope * middle))
    return Geometric(first, float(np.exp(slope)), first_error, slope_error)


def _line(
    places: Float64s, heights: Float64s, errors: Float64s
) -> tuple[float, float, float, float, float]:
    """Fit a line: its middle place, its height there, its slope, and how far these two may be off.

    Both are sums of the heights times known numbers: their errors are at most the same sums of
    the errors, none of which is taken to cancel another.
    """
    weights = (errors.min() / errors) ** 2
    total = weights.sum()
    middle = float(weights @ places / total)
    height = float(weights @ heights / total)
    height_error = float(weights @ errors / total)
    leverage = weights * (places - middle)
    spread = float(leverage @ (places - middle))
    if len(places) < 2 or spread == 0:
        return middle, height, 0.0, height_error, float("inf")
    slope = float(leverage @ heights) / spread
    return middle, height, slope, height_error, float(np.abs(leverage) @ errors) / spread


def bases(series: Geometric, span: int) -> tuple[float, ...]:
    """Give plain numbers b whose b^(−2/span) is the ratio, those with the fewest digits first.

    One frequency alone says nothing of the base: 10000 is given then, as in the papers.

    Args:
        series: what was measured.
        span: over how many channels the series falls to 1/b, two for each frequency.
    """
    error = span / 2 * series.ratio_error
    if not error < 0.5:
        return (_USUAL_BASE,)
    return tuple(base for base in plain_numbers(base_of(series, span), error) if base >= 1)


def base_of(series: Geometric, span: int) -> float:
    """Give b whose b^(−2/span) is the ratio of a series; infinity where it is out of range."""
    try:
        return float(series.ratio ** (-span / 2))
    except OverflowError:
        return inf
