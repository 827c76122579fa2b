"""Angles of one row as a geometric series: unwrapped from the slowest channel to the fastest."""

from dataclasses import dataclass
from math import exp, log, pi, sqrt

import numpy as np

from service.analysis.progression import Geometric, geometric
from service.tables.angle import Float64s

_TWO_PI = 2 * pi
_LARGEST_EXPONENT = 700.0

# Engines that count in float32 have each angle within a few 2^-24 of its size.
ENGINE_SHARE = 2.0**-21

# How far beyond its error a prediction may be missed: errors are bounds of each number, and those
# of predictions are sums that may be a little short of them.
_LEEWAY = 4.0


@dataclass(frozen=True, eq=False)
class Climbed:
    """Angles that make a geometric series once whole turns are added.

    Attributes:
        series: of their sizes, the fastest first.
        sign: 1 or −1: which way all of them turn.
        error: how far the sizes were from the series that the slower ones foretold, at most.
    """

    series: Geometric
    sign: int
    error: float


def climb(angles: Float64s, errors: Float64s, share: float = ENGINE_SHARE) -> Climbed | None:
    """Find the series that angles within ±π are, whole turns left out; None if they are none.

    The two slowest must be within half a turn. Each next one is foretold by those before it, which
    says how many turns it has made; where they foretell it to no better than half a turn, the
    fastest channels say nothing.

    Args:
        angles: the fastest first, (K,), two or more.
        errors: how far each may be from what is meant, (K,).
        share: how far besides, as a share of it with its turns.
    """
    sign = 1 if angles[-1] > 0 else -1
    sizes, doubts = (angles * sign).tolist(), errors.tolist()
    if len(sizes) < 2 or not sizes[-2] >= sizes[-1] > doubts[-1]:
        return None
    line = _Line()
    worst, first = 0.0, len(sizes)
    for k in range(len(sizes) - 1, -1, -1):
        size, known = sizes[k], doubts[k] + share * abs(sizes[k])
        if first < len(sizes) - 1:
            foretold, doubt = line.at(k)
            allowed = foretold * doubt + known + share * foretold
            if allowed > pi / 2:
                break
            size += _TWO_PI * round((foretold - size) / _TWO_PI)
            missed = abs(size - foretold)
            if missed > _LEEWAY * allowed or size <= 0:
                return None
            worst = max(worst, missed)
        line.add(k, log(size), doubts[k] / size + share)
        sizes[k], first = size, k
    unwrapped = np.array(sizes[first:])
    found = geometric(unwrapped, errors[first:] + share * unwrapped)
    if found is None or not 0 < found.ratio < 1:
        return None
    start = exp(min(log(found.first) - first * log(found.ratio), _LARGEST_EXPONENT))
    start_error = found.first_error + first * found.ratio_error
    return Climbed(Geometric(start, found.ratio, start_error, found.ratio_error), sign, worst)


class _Line:
    """A line through logarithms, to which one after the other is added with its weight."""

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self._first = (0, 0.0)

    def add(self, place: int, height: float, error: float) -> None:
        """Add a height that is known to an error above 0."""
        if not self._weight:
            self._first = place, height
        x, y, weight = place - self._first[0], height - self._first[1], error**-2
        self._weight += weight
        self._x += weight * x
        self._y += weight * y
        self._xx += weight * x * x
        self._xy += weight * x * y

    def at(self, place: int) -> tuple[float, float]:
        """Give the exponential of the line's height at a place, and its error as a share."""
        x, y = self._x / self._weight, self._y / self._weight
        spread = self._xx - x * self._x
        slope = (self._xy - x * self._y) / spread
        away = place - self._first[0] - x
        doubt = sqrt(1 / self._weight + away * away / spread)
        return exp(min(self._first[1] + y + slope * away, _LARGEST_EXPONENT)), doubt
