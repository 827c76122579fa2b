"""Pairs of a cosine and a sine that turn along rows: how fast, from where on, how large.

How cosines and sines may lie in a row, and what a row says if they lie so.

Plain numbers: those that somebody may have written down, near one that was measured.

Geometric series of frequencies: how they start, how they fall, what base that is.

Plain integers: those that somebody may have chosen, out of a range.

How exactly a real type holds a number, and how the type is asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf, isfinite, log2

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import Sample
from service.numerics.document import ParameterValue
from service.numerics.dtypes import FLOAT32, REAL_DTYPES, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

Complexes = NDArray[np.complex128]

_TWO_PI = 2 * np.pi

# What engines get wrong far out is still right in the first rows.
EARLY_ROWS = 256


@dataclass(frozen=True, eq=False)
class Waves:
    """Turns that were measured; K pairs, each e^(i(ω·row + φ)) times a scale.

    Attributes:
        scale: what cosines and sines are multiplied by: the median of their norms.
        unevenness: how far norms are from it at most, as a share of it.
        omega: radians per unit of the rows' places, (K,), within ±π/(the smallest step).
        omega_error: how far each may be from what is meant, (K,).
        phase: angle at place 0, (K,), within ±π.
        crookedness: how far angles are from the straight line at most, in radians, (K,).
        step: the smallest step between places: frequencies are known modulo 2π over it.
    """

    scale: float
    unevenness: float
    omega: Float64s
    omega_error: Float64s
    phase: Float64s
    crookedness: Float64s
    step: float


def measure(turns: Complexes, places: Float64s | None = None) -> Waves:
    """Measure turns, each doubling of a step refining what the steps before it said.

    Args:
        turns: cosine + i·sine, shape (S, K), S of 2 at least.
        places: where each row is, (S,), rising; 0, 1, 2, … unless given. Only the first rows are
            looked at.
    """
    norms = np.abs(turns)
    scale = float(np.median(norms)) or 1.0
    unevenness = float(np.max(np.abs(norms / scale - 1)))
    early = turns[:EARLY_ROWS]
    where = np.arange(len(turns), dtype=np.float64) if places is None else places
    where = where[: len(early)]
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.nan_to_num(early / np.abs(early))
    omega, step = _frequencies(unit, where)
    middle = where - where.mean()
    for _ in range(2):
        straight = unit * np.exp(-1j * np.outer(middle, omega))
        centre = np.angle(straight.sum(axis=0))
        bent = np.angle(straight * np.exp(-1j * centre))
        omega = omega + middle @ bent / float(middle @ middle)
    straight = unit * np.exp(-1j * np.outer(middle, omega))
    centre = np.angle(straight.sum(axis=0))
    crookedness = np.abs(np.angle(straight * np.exp(-1j * centre))).max(axis=0)
    reach = float(where[-1] - where[0])
    error = 4 * (crookedness + 2.0**-52) / reach
    phase = wrap_angles(centre - omega * where.mean())
    return Waves(scale, unevenness, omega, error, phase, crookedness, step)


def _frequencies(unit: Complexes, where: Float64s) -> tuple[Float64s, float]:
    """Estimate frequencies from rows ever farther apart, and give the smallest step."""
    step = float(np.diff(where).min())
    omega = np.zeros(unit.shape[1])
    lag, known = 1, 0.0
    while lag < len(unit):
        gaps = where[lag:] - where[:-lag]
        ahead = unit[lag:] * unit[:-lag].conj()
        narrow = gaps == gaps.min()
        gap = float(gaps.min())
        if gap > known:
            turned = np.angle(ahead[narrow].sum(axis=0))
            whole = np.round((gap * omega - turned) / _TWO_PI) if known else 0.0
            omega = (turned + _TWO_PI * whole) / gap
            known = gap
        lag = lag * 2
    return omega, step


def wrap_angles(angles: Float64s) -> Float64s:
    """Return angles within ±π that differ from these by whole turns."""
    wrapped: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return wrapped


_SINGLE: dict[str, tuple[tuple[Component, ...], bool, int]] = {
    "interleaved": (("sin", "cos"), True, 1),
    "concatenated": (("sin", "cos"), False, 1),
    "flat": (("cos", "sin"), True, 1),
    "concat": (("cos", "sin"), False, 1),
    "half_concat": (("cos", "cos", "sin", "sin"), False, 1),
    "sin_half_concat": (("sin", "sin", "cos", "cos"), False, 1),
    "sin_interleaved_concat": (("sin", "cos"), False, 2),
}


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows read in a layout.

    Attributes:
        layout: its name: ``interleaved`` s0,c0,s1,c1…; ``concatenated`` sines ‖ cosines; or a pack
            of ``/rope`` (of which ``sin_concat`` is the same as concatenated).
        channels: what it holds where.
        turns: cosine + i·sine of each pair, (S, K); a sine without a cosine is left out.
        discord: how far channels that should be equal differ at most.
    """

    layout: str
    channels: Channels
    turns: Complexes
    discord: float


def readings(rows: Float64s) -> Iterator[Reading]:
    """Read rows (S, C) in every layout that C channels may have."""
    width = rows.shape[1]
    for layout, (components, interleaved, repeats) in _SINGLE.items():
        if (
            width >= 2
            and width % (len(components) * repeats) in {0, 1}
            and (width % 2 == 0 or len(components) == 2)
        ):
            channels = Channels(components, interleaved, width, repeats)
            yield read(layout, channels, rows)


def read(layout: str, channels: Channels, rows: Float64s) -> Reading:
    """Read rows in a layout."""
    frequency, is_sine = channels.indices()
    count = int(min(frequency[is_sine].max(initial=-1), frequency[~is_sine].max(initial=-1))) + 1
    parts, discord = [], 0.0
    for is_of_part in (~is_sine, is_sine):
        copies = _copies(frequency, is_of_part, count)
        first = rows[:, copies[0]]
        discord = max([discord, *(float(np.abs(rows[:, other] - first).max()) for other in copies)])
        parts.append(first)
    cosine, sine = parts
    return Reading(layout, channels, cosine + 1j * sine, discord)


def _copies(frequency: np.ndarray, of_part: np.ndarray, count: int) -> list[np.ndarray]:
    """List the channels that hold a part of each frequency, once for each time that they do."""
    channels = np.flatnonzero(of_part & (frequency < count))
    order = channels[np.argsort(frequency[channels], kind="stable")]
    return list(order.reshape(count, -1).T)


_MOST_DIGITS = 17
_MOST = 3


def plain_numbers(measured: float, error: float, most: int = _MOST) -> Iterator[float]:
    """Give numbers within an error of a measured one, those with the fewest digits first.

    Args:
        measured: a number above 0.
        error: how far what is meant may be from it, as a share of it.
        most: how many to give at most.
    """
    if not (isfinite(measured) and measured > 0):
        return
    given: list[float] = []
    power = 2.0 ** round(log2(measured)) if -64 < log2(measured) < 64 else measured
    rounded = [float(f"{measured:.{digits}e}") for digits in range(_MOST_DIGITS)]
    for number in [*rounded[:2], power, *rounded[2:]]:
        if number not in given and abs(number - measured) <= error * measured:
            given.append(number)
            yield number
        if len(given) == most:
            return


def plain_number(measured: float, error: float) -> float:
    """Return the number of fewest digits within a relative error, or the measured one itself."""
    return next(plain_numbers(measured, error, 1), measured)


USUAL_BASE = 10000.0


@dataclass(frozen=True)
class LineFit:
    """A line through points with errors.

    Attributes:
        middle: the weighted mean of the places.
        height: of the line in the middle.
        slope: of the line; 0 where all points are at one place.
        height_error: how far off the height may be.
        slope_error: how far off the slope may be; infinite where all points are at one place.
    """

    middle: float
    height: float
    slope: float
    height_error: float
    slope_error: float

    def at(self, place: float) -> float:
        return self.height + self.slope * (place - self.middle)

    def error_at(self, place: float) -> float:
        return self.height_error + abs(place - self.middle) * self.slope_error


def fit_line(places: Float64s, heights: Float64s, errors: Float64s) -> LineFit:
    """Fit a line by least squares, each point with a weight of 1/error².

    Height and slope are sums of the heights times known numbers: their errors are at most the same
    sums of the errors, none of which is taken to cancel another.
    """
    weights = (errors.min() / errors) ** 2
    total = weights.sum()
    middle = float(weights @ places / total)
    height = float(weights @ heights / total)
    height_error = float(weights @ errors / total)
    leverage = weights * (places - middle)
    spread = float(leverage @ (places - middle))
    if len(places) < 2 or spread == 0:
        return LineFit(middle, height, 0.0, height_error, inf)
    slope = float(leverage @ heights) / spread
    return LineFit(middle, height, slope, height_error, float(np.abs(leverage) @ errors) / spread)


def weighted_mean(values: Float64s, errors: Float64s) -> tuple[float, float]:
    """Return the mean with weights of 1/error², and how far off it may be."""
    weights = (errors.min() / errors) ** 2
    total = weights.sum()
    return float(weights @ values / total), float(weights @ errors / total)


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
    line = fit_line(places[known], np.log(omega[known]), share)
    expected = np.exp(line.height + line.slope * (places - line.middle))
    away = np.abs(places - line.middle)
    reach = line.height_error + (away * line.slope_error if isfinite(line.slope_error) else 0.0)
    if not (np.abs(omega - expected) <= 2 * error + expected * reach).all():
        return None
    first_error = line.height_error + (line.middle * line.slope_error if line.middle else 0.0)
    first = float(np.exp(line.height - line.slope * line.middle))
    return Geometric(first, float(np.exp(line.slope)), first_error, line.slope_error)


def bases(series: Geometric, span: int) -> tuple[float, ...]:
    """Give plain numbers b whose b^(−2/span) is the ratio, those with the fewest digits first.

    One frequency alone says nothing of the base: 10000 is given then, as in the papers.

    Args:
        series: what was measured.
        span: over how many channels the series falls to 1/b, two for each frequency.
    """
    error = span / 2 * series.ratio_error
    if not error < 0.5:
        return (USUAL_BASE,)
    return tuple(base for base in plain_numbers(base_of(series, span), error) if base >= 1)


def base_of(series: Geometric, span: int) -> float:
    """Give b whose b^(−2/span) is the ratio of a series; infinity where it is out of range."""
    try:
        return float(series.ratio ** (-span / 2))
    except OverflowError:
        return inf


def plain_integers(low: int, high: int, preferred: int, most: int) -> Iterator[int]:
    """Give integers of a range, both ends included: the preferred one, powers of 2, round ones.

    Args:
        low: the least, at least 1.
        high: the largest.
        preferred: comes first, if it is in the range.
        most: how many to give at most.
    """
    given: set[int] = set()
    powers = (1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length()))
    tens = (10**exponent for exponent in range(len(str(high)) - 1, -1, -1))
    # The first few multiples of each power of 10 from the lower end on.
    rounds = (ten * (-(-low // ten) + more) for ten in tens for more in range(most))
    for number in chain((preferred,), powers, rounds):
        if low <= number <= high and number not in given:
            given.add(number)
            yield number
        if len(given) == most:
            return


def spread_indices(count: int, most: int) -> NDArray[np.intp]:
    """Return at most so many indices below a count, evenly spread, the first and last included."""
    return np.unique(np.linspace(0, count - 1, most).astype(np.intp))


# A few roundings: of a parameter, of a product, of what comes out.
_ROUNDINGS = 4


def rounding_of(sample: Sample) -> float:
    """Bound by how much of its size rounding to the real type of a sample moves a number."""
    return rounding_bound(sample.element_dtype, 1.0)


def share_of(sample: Sample) -> float:
    """Bound by how much of their size the numbers of a sample are off, a few roundings in all.

    Those of float64 are taken for float32 ones, which they often come from.
    """
    dtype = sample.element_dtype
    is_real = dtype.name in REAL_DTYPES
    single = rounding_bound(FLOAT32, 1.0)
    return _ROUNDINGS * (max(rounding_of(sample), single) if is_real else single)


def dtype_parameters(sample: Sample) -> dict[str, ParameterValue]:
    """Ask for the type of a sample, unless it is the default or none for real numbers."""
    dtype = sample.element_dtype
    if dtype is FLOAT32 or dtype.name not in REAL_DTYPES:
        return {}
    return {"dtype": dtype.name}
