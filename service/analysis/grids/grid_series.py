"""Frequencies and places along one axis, from turns that may have gone round more than once.

Along an axis, token i turns frequency k by step·(u + i)·f_k. Fast frequencies are known modulo full
turns only, so what the slow ones say decides how many turns the faster ones made.
"""

from dataclasses import dataclass
from math import exp, inf

import numpy as np

from service.analysis.waves import Complexes, measure
from service.tables.angle import Float64s

_TWO_PI = 2 * np.pi

# What engines make of angles in float32: an angle of some hundred radians is 2^-16 off.
_ARITHMETIC = 2.0**-22
STRUCTURE = 2.0**-13

_MOST_STARTS = 8


@dataclass(frozen=True, eq=False)
class AxisTurns:
    """How the K pairs of channels of an axis turn from token to token.

    Attributes:
        rates: radians per token, (K,), modulo 2π unless they are of angles.
        phases: angles of the first token, (K,), likewise.
        errors: of the rates, (K,).
        noise: how far an angle may be off, in radians.
        length: tokens along the axis; rates are 0 where it is 1.
    """

    rates: Float64s
    phases: Float64s
    errors: Float64s
    noise: float
    length: int


def axis_turns(turns: Complexes, rounding: float) -> AxisTurns | None:
    """Measure the turns (L, K) of an axis; none where norms or angles are not those of turns."""
    length, count = turns.shape
    noise = 2 * rounding + _ARITHMETIC
    loose = 8 * rounding + STRUCTURE
    if np.abs(np.abs(turns) - 1).max(initial=0) > loose:
        return None
    if length == 1 or count == 0:
        return AxisTurns(np.zeros(count), np.angle(turns[0]), np.full(count, inf), noise, length)
    waves = measure(turns)
    if waves.crookedness.max(initial=0) > loose:
        return None
    reach = min(length, 256) - 1
    errors = waves.omega_error + 2 * noise / reach
    return AxisTurns(waves.omega, waves.phase, errors, noise, length)


@dataclass(frozen=True)
class Series:
    """Rates first·e^(−decay·k).

    Attributes:
        first: radians per token of frequency 0.
        decay: by how much the logarithm falls from one to the next; 0 for a single one.
        first_error: how far off first may be, as a share of it.
        decay_error: how far off decay may be.
        count: how many there are.
    """

    first: float
    decay: float
    first_error: float
    decay_error: float
    count: int

    def rates(self) -> Float64s:
        """Give them."""
        series: Float64s = self.first * np.exp(-self.decay * np.arange(self.count))
        return series


def geometric(along: AxisTurns, tolerance: float = 8.0) -> Series | None:
    """Find the geometric series that rates are, modulo full turns; none where they are none.

    Args:
        along: an axis of more than one token.
        tolerance: by how many times its error a rate may be off.
    """
    rates, errors = along.rates, along.errors
    count = len(rates)
    if count == 0 or along.length < 2 or rates[-1] <= 0:
        return None
    if count == 1:
        return Series(float(rates[0]), 0.0, float(errors[0] / rates[0]), inf, 1)
    slow = _slow_run(rates, errors)
    if count - slow < 2:
        return _aliased_pair(along)
    # The fastest of those that fall may have gone round all the same: without them the rest agree.
    for start in range(slow, min(slow + _MOST_STARTS, count - 1)):
        series = _unwound(along, start, tolerance)
        if series is not None:
            return series
    return None


def _unwound(along: AxisTurns, slow: int, tolerance: float) -> Series | None:
    """Fit a series to the rates from one on, and unwind the faster ones by what it says."""
    rates, errors, count = along.rates, along.errors, len(along.rates)
    known = rates[slow:].copy()
    places = np.arange(slow, count, dtype=np.float64)
    fit = _fit(places, known, errors[slow:])
    for k in range(slow - 1, -1, -1):
        expected = fit.first * exp(-fit.decay * k)
        whole = rates[k] + _TWO_PI * np.round((expected - rates[k]) / _TWO_PI)
        if whole <= 0:
            return None
        known, places = np.append(whole, known), np.append(float(k), places)
        fit = _fit(places, known, errors[k:])
    series = Series(fit.first, fit.decay, fit.first_error, fit.decay_error, count)
    apart = np.abs(series.rates() - known)
    allowed = tolerance * errors + 2.0**-20 * known
    return series if (apart <= allowed).all() else None


def _slow_run(rates: Float64s, errors: Float64s) -> int:
    """Say from where on rates fall to the end, or stay: those are not turned round."""
    slow = len(rates) - 1
    while slow and rates[slow - 1] > 0:
        if rates[slow - 1] + errors[slow - 1] < rates[slow] - errors[slow]:
            break
        slow -= 1
    return slow


def _aliased_pair(along: AxisTurns) -> Series | None:
    """Take the faster of two rates that went round once as what it is with a turn more."""
    rates, errors = along.rates, along.errors
    if len(rates) != 2:
        return None
    fit = _fit(np.arange(2.0), np.array([rates[0] + _TWO_PI, rates[1]]), errors)
    return Series(fit.first, fit.decay, fit.first_error, fit.decay_error, 2)


def _fit(places: Float64s, rates: Float64s, errors: Float64s) -> Series:
    """Draw the line through logarithms, each as heavy as it is certain."""
    logs = np.log(rates)
    share = np.minimum(errors / rates, 0.5)
    weights = 1 / share**2
    total = float(weights.sum())
    middle = float(weights @ places) / total
    spread = float(weights @ (places - middle) ** 2)
    slope = float(weights @ ((places - middle) * logs)) / spread
    level = float(weights @ logs) / total
    decay_error = 4 / spread**0.5
    first_error = 4 * (1 / total + middle**2 / spread) ** 0.5
    return Series(exp(level - slope * middle), -slope, first_error, decay_error, len(rates))


@dataclass(frozen=True)
class Place:
    """Where the first token is, and how exactly that is known.

    Attributes:
        first: in tokens, or in coordinates where rates are those of coordinates.
        error: how far off it may be.
    """

    first: float
    error: float


def first_place(phases: Float64s, rates: Float64s, noise: float) -> Place | None:
    """Find where the first token is whose phases are that place times the rates, modulo turns."""
    order = np.argsort(rates, kind="stable")
    order = order[rates[order] > 0]
    if len(order) == 0:
        return None
    slowest = order[0]
    first = float(phases[slowest] / rates[slowest])
    error = noise / float(rates[slowest])
    for k in order[1:]:
        rate, phase = float(rates[k]), float(phases[k])
        whole = round((first * rate - phase) / _TWO_PI)
        nearer = (phase + _TWO_PI * whole) / rate
        if abs(nearer - first) > 8 * error + 1e-6 * abs(first):
            return None
        first, error = nearer, min(error, noise / rate)
    return Place(first, 4 * error)
