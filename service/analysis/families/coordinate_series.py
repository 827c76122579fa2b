"""Measure frequencies and coordinates along one axis of a grid.

Token i turns frequency k by step·(u + i)·f_k. Fast frequencies are known modulo whole turns only;
the slow ones decide how many turns the faster ones made. Frequencies are a geometric series, or
bands π·b, b from 1 to half of a whole number, of tokens from −1 to 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from service.analysis.measure import Complexes, measure, wrap_angles
from service.analysis.round_numbers import round_numbers
from service.numerics.phase import Float64s

_TWO_PI = 2 * np.pi

# What engines make of angles in float32: an angle of some hundred radians is 2^-16 off.
_ARITHMETIC = 2.0**-22
_STRUCTURE = 2.0**-13


@dataclass(frozen=True, eq=False)
class AxisTurns:
    """Rates and phases of the K pairs of channels of an axis.

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
    """Measure the turns (L, K) of an axis; None where norms or angles are not those of turns."""
    length, count = turns.shape
    noise = 2 * rounding + _ARITHMETIC
    loose = 8 * rounding + _STRUCTURE
    if np.abs(np.abs(turns) - 1).max(initial=0) > loose:
        return None
    if length == 1 or count == 0:
        return AxisTurns(np.zeros(count), np.angle(turns[0]), np.full(count, inf), noise, length)
    waves = measure(turns)
    if waves.angle_error.max(initial=0) > loose:
        return None
    errors = waves.omega_error + 2 * noise / (min(length, 256) - 1)
    return AxisTurns(waves.omega, waves.phase, errors, noise, length)


# Geometric series.

_MAX_STARTS = 8

# By how many times its error a rate may be off.
_TOLERANCE = 8.0


@dataclass(frozen=True)
class AxisSeries:
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

    def base(self, span: float) -> tuple[float, float]:
        """Return by how much rates fall over so many frequencies, and its relative error."""
        return exp(self.decay * span), self.decay_error * span


def axis_series(along: AxisTurns) -> AxisSeries | None:
    """Find the geometric series that rates are, modulo whole turns; None where they are none.

    Args:
        along: an axis of more than one token.
    """
    rates, errors = along.rates, along.errors
    count = len(rates)
    if count == 0 or along.length < 2 or rates[-1] <= 0:
        return None
    if count == 1:
        return AxisSeries(float(rates[0]), 0.0, float(errors[0] / rates[0]), inf, 1)
    slow = _slow_run(rates, errors)
    if count - slow < 2:
        # Of two rates that both went round, the faster has a turn more.
        with_turn = np.array([rates[0] + _TWO_PI, rates[-1]])
        return _fit(np.arange(2.0), with_turn, errors, 2) if count == 2 else None
    # The fastest of those that fall may have gone round all the same: without them the rest agree.
    for start in range(slow, min(slow + _MAX_STARTS, count - 1)):
        series = _unwound(along, start)
        if series is not None:
            return series
    return None


def _slow_run(rates: Float64s, errors: Float64s) -> int:
    """Return from where on rates do not rise to the end: those did not go round."""
    slow = len(rates) - 1
    while slow and rates[slow - 1] > 0:
        if rates[slow - 1] + errors[slow - 1] < rates[slow] - errors[slow]:
            break
        slow -= 1
    return slow


def _unwound(along: AxisTurns, slow: int) -> AxisSeries | None:
    """Fit a series to the rates from one on, and unwind the faster ones by what it predicts."""
    rates, errors, count = along.rates, along.errors, len(along.rates)
    unwound = rates.copy()
    places = np.arange(count, dtype=np.float64)
    series = _fit(places[slow:], unwound[slow:], errors[slow:], count)
    for k in range(slow - 1, -1, -1):
        expected = series.first * exp(-series.decay * k)
        unwound[k] += _TWO_PI * np.round((expected - rates[k]) / _TWO_PI)
        if unwound[k] <= 0:
            return None
        series = _fit(places[k:], unwound[k:], errors[k:], count)
    apart = np.abs(series.first * np.exp(-series.decay * places) - unwound)
    return series if (apart <= _TOLERANCE * errors + 2.0**-20 * unwound).all() else None


def _fit(places: Float64s, rates: Float64s, errors: Float64s, count: int) -> AxisSeries:
    """Fit a line through logarithms, each with a weight of 1/error²."""
    logs = np.log(rates)
    share = np.minimum(errors / rates, 0.5)
    weights = 1 / share**2
    total = float(weights.sum())
    middle = float(weights @ places) / total
    spread = float(weights @ (places - middle) ** 2)
    slope = float(weights @ ((places - middle) * logs)) / spread
    level = float(weights @ logs) / total
    first_error = 4 * (1 / total + middle**2 / spread) ** 0.5
    return AxisSeries(exp(level - slope * middle), -slope, first_error, 4 / spread**0.5, count)


def first_place(phases: Float64s, rates: Float64s, noise: float) -> tuple[float, float] | None:
    """Find where the first token is whose phases are that place times the rates, modulo turns.

    Returns:
        The place, in tokens, or in coordinates where rates are those of coordinates; and its error.
    """
    order = np.argsort(rates, kind="stable")
    order = order[rates[order] > 0]
    if len(order) == 0:
        return None
    slowest = order[0]
    first = float(phases[slowest] / rates[slowest])
    error = noise / float(rates[slowest])
    for k in order[1:]:
        rate, phase = float(rates[k]), float(phases[k])
        nearer = (phase + _TWO_PI * round((first * rate - phase) / _TWO_PI)) / rate
        if abs(nearer - first) > 8 * error + 1e-6 * abs(first):
            return None
        first, error = nearer, min(error, noise / rate)
    return first, 4 * error


# Bands.

_MAX_BANDS = 2048
_HIGHEST = np.arange(1, _MAX_BANDS + 1)[:, np.newaxis] / 2
_SINE_TOKENS = 16

USUAL_RESOLUTIONS = (224, *(1 << power for power in range(1, 12)))
"""Twice the highest band that may be meant: the usual side of images, and powers of 2."""


def bands(highest: Float64s | float, count: int, *, is_linear: bool) -> Float64s:
    """Return bands from 1 to the highest, evenly spaced or in a geometric series.

    Args:
        highest: one band, or a column (M, 1) of them.
        count: how many bands there are.
        is_linear: whether they are evenly spaced.
    """
    share = np.arange(count) / max(count - 1, 1)
    return np.asarray(1 + share * (highest - 1) if is_linear else highest**share)


def highest_bands(along: AxisTurns, factor: float = 1.0) -> list[tuple[int, bool]]:
    """Find twice the highest of bands from 1 on, for tokens from −1 to 1.

    Band b turns by π·b·x. Both the rates, π·b·2/(L − 1), and the phases, −π·b, go round, so each
    whole number is tried that the highest band may be half of.

    Args:
        along: the axis.
        factor: of the coordinates.

    Returns:
        The numbers that fit, rising, and whether bands are evenly spaced.
    """
    count = len(along.rates)
    if not count or not _fit_bands(np.array([[factor]]), along).all():
        return []
    found = []
    for is_linear in (True, False):
        tried = bands(_HIGHEST, count, is_linear=is_linear)
        fitting = np.flatnonzero(_fit_bands(factor * tried, along))
        found += [(place + 1, is_linear) for place in fitting.tolist()]
    return sorted(found, key=lambda each: each[0])


def _fit_bands(tried: Float64s, along: AxisTurns) -> NDArray[np.bool_]:
    """Return a mask of candidate bands (M, K) whose phases and rates match K pairs."""
    count = tried.shape[1]
    angles = 64 * along.noise + _STRUCTURE
    fits: NDArray[np.bool_]
    fits = np.abs(wrap_angles(-np.pi * tried - along.phases[:count])).max(axis=1) <= angles
    if along.length > 1:
        rates = np.pi * tried * (2 / (along.length - 1))
        allowed = 4 * along.errors[:count] + angles / (along.length - 1)
        fits &= (np.abs(wrap_angles(rates - along.rates[:count])) <= allowed).all(axis=1)
    return fits


def sine_bands(sines: Float64s, rounding: float) -> AxisTurns | None:
    """Read sines (L, K) of evenly spaced bands that have no cosines.

    sin(π·x) is the first of them at the tokens from −1 to 1, whatever the highest band; each whole
    number is tried that the highest may be half of.
    """
    length, count = sines.shape
    x = -1 + np.arange(length) * (2 / max(length - 1, 1))
    loose = 8 * rounding + _STRUCTURE
    if np.abs(np.sin(np.pi * x) - sines[:, 0]).max() > loose:
        return None
    left = bands(_HIGHEST, count, is_linear=True)
    for token in range(min(length, _SINE_TOKENS)):
        computed = np.sin(np.pi * left * x[token])
        left = left[np.abs(computed - sines[token]).max(axis=1) <= loose]
    if not len(left):
        return None
    chosen = np.pi * left[0]
    errors = np.full(count, loose)
    return AxisTurns(chosen * (x[1] - x[0] if length > 1 else 0.0), -chosen, errors, loose, length)


# Numbers that parameters may be.

_MAX_DIGITS = 6
_MAX_NEAREST = 3

# As near as engines come in float32: among what is so near the plainest goes first.
_GOOD = 2.0**-20

# Structure is judged loosely: verification measures how near a proposed table is.
_NEAR = 2.0**-10

# What float64 loses in the logarithms and powers of a fit, with room to spare.
_LEAST_ERROR = 2.0**-40


def common_value(measured: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the most exact of measurements of one number; None where they disagree.

    Args:
        measured: values with their relative errors.
    """
    every = list(measured)
    if not every:
        return None
    best, error = min(every, key=lambda each: each[1])
    for value, its_error in every:
        if abs(value / best - 1) > 2 * (its_error + error) + _LEAST_ERROR:
            return None
    return best, max(error, _LEAST_ERROR)


def signed_plain_numbers(measured: float, error: float, most: int = 3) -> list[float]:
    """Return plain numbers of either sign within an absolute error of a measured one, or 0."""
    if abs(measured) <= error:
        return [0.0]
    sign = 1.0 if measured > 0 else -1.0
    plain = [sign * each for each in round_numbers(abs(measured), error / abs(measured), most)]
    # Such as 1.875 = 30/16: the ratio of two lengths, which few digits of a measurement miss.
    eighths = round(8 * measured) / 8
    near = [eighths] if abs(eighths - measured) <= error else []
    # Numbers of many digits are those that fit by accident.
    return [
        each
        for each in dict.fromkeys((*plain, *near))
        if each == float(f"{each:.{_MAX_DIGITS - 1}e}")
    ]


def nearest(apart: Sequence[float], described: Sequence[str], rounding: float) -> list[int]:
    """Choose among parameters for what was measured: one where it is good, else a few near ones.

    Args:
        apart: how far the table of each is from the array.
        described: the parameters of each: the shortest are the plainest.
        rounding: half a unit in the last place at 1.
    """
    good, near = 2 * rounding + _GOOD, 8 * rounding + _NEAR
    order = sorted(range(len(apart)), key=lambda way: (max(apart[way], good), len(described[way])))
    order = [way for way in order if apart[way] <= near]
    if not order or apart[order[0]] > good:
        return order[:_MAX_NEAREST]
    best = min(order, key=lambda way: apart[way])
    return [order[0]] if apart[best] > apart[order[0]] / 2 else [order[0], best]
