"""Frequencies and places along one axis, from turns that may have gone round more than once.

Along an axis, token i turns frequency k by step·(u + i)·f_k. Fast frequencies are known modulo full
turns only, so what the slow ones say decides how many turns the faster ones made.

Bands of tokens from −1 to 1: frequencies π·b that go up to half of some whole number.

How numbers that were measured may have been written down, and which way of several is meant.

What a convention of grids must have been given, by the series that were measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, inf, pi
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.measure import Complexes, measure
from service.analysis.round_numbers import round_numbers
from service.encodings.grid.grid_conventions import EPSILON
from service.encodings.grid.sincos import Layout
from service.numerics.document import ParameterValue
from service.numerics.frequencies import Geometric, ScaledGeometric
from service.numerics.phase import Float64s

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
    if waves.angle_error.max(initial=0) > loose:
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
class CoordinatePlace:
    """Where the first token is, and how exactly that is known.

    Attributes:
        first: in tokens, or in coordinates where rates are those of coordinates.
        error: how far off it may be.
    """

    first: float
    error: float


def first_place(phases: Float64s, rates: Float64s, noise: float) -> CoordinatePlace | None:
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
    return CoordinatePlace(first, 4 * error)


_MOST_BANDS = 2048


def pixel_bands(along: AxisTurns, factor: float = 1.0) -> list[tuple[int, bool]]:
    """Find twice the highest of bands from 1 on, for tokens from −1 to 1.

    Band b turns by π·b·x. Both the rates, π·b·2/(L − 1), and the phases, −π·b, go round, so each
    whole number is looked at that the highest band may be half of.

    Args:
        along: the axis.
        factor: what coordinates are multiplied by.

    Returns:
        the numbers, and whether bands are evenly spaced, for those that fit.
    """
    count = len(along.rates)
    if not count or not _fit_bands(np.array([[factor]]), along).all():
        return []
    highest = np.arange(1, _MOST_BANDS + 1) / 2
    share = np.arange(count) / max(count - 1, 1)
    found = []
    for is_linear in (True, False):
        bands = (
            1 + share * (highest[:, np.newaxis] - 1)
            if is_linear
            else highest[:, np.newaxis] ** share
        )
        fits = _fit_bands(factor * bands, along)
        found += [(int(2 * highest[place]), is_linear) for place in np.flatnonzero(fits)]
    return sorted(found, key=lambda each: each[0])


def _fit_bands(bands: Float64s, along: AxisTurns) -> NDArray[np.bool_]:
    """Tell which rows of bands (M, K) turn like the first K of an axis from −1 to 1."""
    count = bands.shape[1]
    angles = 64 * along.noise + STRUCTURE
    fits: NDArray[np.bool_]
    fits = np.abs(_folded(-np.pi * bands - along.phases[:count])).max(axis=1) <= angles
    if along.length > 1:
        rates = np.pi * bands * (2 / (along.length - 1))
        allowed = 4 * along.errors[:count] + angles / (along.length - 1)
        fits &= (np.abs(_folded(rates - along.rates[:count])) <= allowed).all(axis=1)
    return fits


def _folded(angles: Float64s) -> Float64s:
    folded: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return folded


def sine_bands(sines: Float64s, rounding: float) -> AxisTurns | None:
    """Read sines (L, K) of evenly spaced bands whose cosines are not there.

    sin(π·x) is the first of them at the tokens from −1 to 1, whatever the highest band; each whole
    number is looked at that the highest may be half of.
    """
    length, count = sines.shape
    x = -1 + np.arange(length) * (2 / max(length - 1, 1))
    loose = 8 * rounding + STRUCTURE
    if np.abs(np.sin(np.pi * x) - sines[:, 0]).max() > loose:
        return None
    highest = np.arange(1, _MOST_BANDS + 1) / 2
    share = np.arange(count) / max(count - 1, 1)
    bands = 1 + share * (highest[:, np.newaxis] - 1)
    left = np.ones(len(highest), dtype=np.bool_)
    for token in range(min(length, 16)):
        made = np.sin(np.pi * bands[left] * x[token])
        left[left] = np.abs(made - sines[token]).max(axis=1) <= loose
    if not left.any():
        return None
    chosen = np.pi * bands[np.argmax(left)]
    errors = np.full(count, loose)
    return AxisTurns(chosen * (x[1] - x[0] if length > 1 else 0.0), -chosen, errors, loose, length)


_MOST_DIGITS = 6
_MOST_WAYS = 3

# As near as engines come in float32: among what is so near the plainest goes first.
_GOOD = 2.0**-20

# Structure is judged loosely: how near a table is, whoever verifies a proposal measures.
_NEAR = 2.0**-10


def written(measured: float, error: float, most: int = 3) -> list[float]:
    """Give plain numbers of either sign within an absolute error of a measured one, or 0."""
    if abs(measured) <= error:
        return [0.0]
    sign = 1.0 if measured > 0 else -1.0
    plain = [sign * each for each in round_numbers(abs(measured), error / abs(measured), most)]
    # Such as 1.875 = 30/16: the ratio of two lengths, which few digits of a measurement miss.
    eighths = round(8 * measured) / 8
    near = [eighths] if abs(eighths - measured) <= error else []
    numbers = dict.fromkeys((*plain, *near))
    # What nobody would write down is what another convention comes to by accident.
    return [each for each in numbers if each == float(f"{each:.{_MOST_DIGITS - 1}e}")]


def nearest(apart: Sequence[float], said: Sequence[str], rounding: float) -> list[int]:
    """Choose among ways to say what was measured: one where it is good, else a few that are near.

    Args:
        apart: how far each is from what was sent.
        said: each in words: the fewest are the plainest.
        rounding: half a unit in the last place at 1.
    """
    good, near = 2 * rounding + _GOOD, 8 * rounding + _NEAR
    order = sorted(range(len(apart)), key=lambda way: (max(apart[way], good), len(said[way])))
    order = [way for way in order if apart[way] <= near]
    if not order or apart[order[0]] > good:
        return order[:_MOST_WAYS]
    best = min(order, key=lambda way: apart[way])
    return [order[0]] if apart[best] > apart[order[0]] / 2 else [order[0], best]


Values: TypeAlias = dict[str, ParameterValue]

_BASE = 10000.0
_BASE_SIZE = 16
# What float64 loses in the logarithms and powers of a fit, with room to spare.
_LEAST_ERROR = 2.0**-40

# What the resolution of all axes may have been meant to be: an image's usual side, powers of 2.
USUAL_RESOLUTIONS = (224, *(1 << power for power in range(1, 12)))
_MOST_RESOLUTIONS = 4


@dataclass(frozen=True, eq=False)
class Measures:
    """What was measured along the axes of a grid.

    Attributes:
        layout: what a convention would make of the grid, whatever its numbers.
        lengths: tokens along each axis by its name.
        turns: of each axis.
        series: the rates of each axis that has more than one token.
    """

    layout: Layout
    lengths: Mapping[str, int]
    turns: Mapping[str, AxisTurns]
    series: Mapping[str, Series]

    def firsts(self, *names: str) -> tuple[float, float] | None:
        """Give the first rate of axes, and its relative error; none where they differ."""
        found = [self.series[name] for name in names or self.series if name in self.series]
        return common([(each.first, each.first_error) for each in found])

    def bases(self) -> list[float | None]:
        """Give the bases that may be meant, the plainest first; None where the data has none."""
        known = [
            (exp(series.decay * span), series.decay_error * span)
            for name, series in self.series.items()
            if series.count > 1 and (span := _span(self.layout, name)) and series.decay * span < 600
        ]
        if not known:
            return [None] if not self.series or self._has_single() else []
        base = common(known)
        return [] if base is None else list(round_numbers(*base, 2))

    def _has_single(self) -> bool:
        return all(series.count == 1 for series in self.series.values())


def _span(layout: Layout, name: str) -> float:
    rule = layout.along[name].rule
    if isinstance(rule, Geometric | ScaledGeometric):
        return rule.dim / 2
    return 0.0


def common(measured: list[tuple[float, float]]) -> tuple[float, float] | None:
    """Give what several measurements with relative errors have in common; none where nothing."""
    if not measured:
        return None
    best, error = min(measured, key=lambda each: each[1])
    for value, its_error in measured:
        if abs(value / best - 1) > 2 * (its_error + error) + _LEAST_ERROR:
            return None
    return best, max(error, _LEAST_ERROR)


def unit_steps(measures: Measures) -> Iterator[Values]:
    """Give the base of series that begin with one radian per token."""
    firsts = measures.firsts()
    if measures.series and (firsts is None or not _is(1.0, *firsts)):
        return
    for base in measures.bases():
        yield _with_base({}, base)


def _is(meant: float, measured: float, error: float) -> bool:
    return abs(measured - meant) <= 2 * error * abs(meant) + 2.0**-20


def _with_base(values: Values, base: float | None) -> Values:
    return values if base in {None, _BASE} else {**values, "base": base}


def detr(measures: Measures) -> Iterator[Values]:
    """Give the base, and the scale where positions are normalized."""
    yield from unit_steps(measures)
    scales = common(
        [
            (series.first * float(measures.lengths[name] + EPSILON), series.first_error)
            for name, series in measures.series.items()
        ]
    )
    if scales is None:
        return
    chosen: list[Values] = [{"normalize": True}] if _is(2 * pi, *scales) else []
    chosen += [
        {"normalize": True, "scale": scale}
        for scale in written(scales[0], scales[0] * scales[1], 2)
    ]
    for base in measures.bases()[:1]:
        yield from (_with_base(values, base) for values in chosen)


def diffusers(measures: Measures) -> Iterator[Values]:
    """Give what a grid was stretched to: base_size over interpolation_scale."""
    if set(measures.lengths) == {"depth", "height", "width"}:
        yield from _diffusers_video(measures)
        return
    sizes = common(
        [
            (series.first * measures.lengths[name], series.first_error)
            for name, series in measures.series.items()
        ]
    )
    if sizes is None:
        return
    size, error = sizes
    bases = measures.bases()
    for base_size in dict.fromkeys((_BASE_SIZE, *measures.lengths.values())):
        for scale in written(base_size / size, error * base_size / size):
            values: Values = {} if scale == 1 else {"interpolation_scale": scale}
            values |= {} if base_size == _BASE_SIZE else {"base_size": base_size}
            yield from (_with_base(values, base) for base in bases[:1])
    for stretched in written(size, error * size, 1):
        yield from (_with_base({"base_size": stretched}, base) for base in bases[:1])


def _diffusers_video(measures: Measures) -> Iterator[Values]:
    temporal = _scales(measures, "temporal", "depth")
    spatial = _scales(measures, "spatial", "height", "width")
    for base in measures.bases()[:2]:
        for one, other in product(temporal, spatial):
            yield _with_base({**one, **other}, base)


def _scales(measures: Measures, kind: str, *names: str) -> list[Values]:
    """Give what coordinates of axes may have been divided by; nothing where axes differ."""
    firsts = measures.firsts(*names)
    if firsts is None:
        return [] if any(name in measures.series for name in names) else [{}]
    if _is(1.0, *firsts):
        return [{}]
    scale, error = 1 / firsts[0], firsts[1]
    name = f"{kind}_interpolation_scale"
    return [{name: each} for each in written(scale, error * scale)]


def tensor2tensor(measures: Measures) -> Iterator[Values]:
    """Give the two timescales."""
    firsts = measures.firsts()
    if firsts is None:
        return
    shortest = next(round_numbers(*firsts), 1.0)
    # Bases are ratios here: of the slowest timescale to the fastest.
    for ratio in measures.bases():
        if ratio is None:
            continue
        values: Values = {} if shortest == 1 else {"min_timescale": shortest}
        longest = shortest * ratio
        yield values if longest == _BASE else {**values, "max_timescale": longest}


def bands(measures: Measures) -> Iterator[Values]:
    """Give twice the highest band of each axis, where bands are evenly spaced.

    Several numbers give the same table where bands make whole turns more from token to token: the
    length of each axis or else the lowest, and the usual ones that all axes have in common.
    """
    found = [
        [number for number, is_linear in pixel_bands(measures.turns[name]) if is_linear]
        for name in measures.lengths
    ]
    if not all(found):
        return
    lengths = list(measures.lengths.values())
    own = tuple(
        length if length in each else each[0] for length, each in zip(lengths, found, strict=True)
    )
    usual = [number for number in USUAL_RESOLUTIONS if all(number in each for each in found)]
    alike = ((number,) * len(found) for number in usual[:_MOST_RESOLUTIONS])
    for each in dict.fromkeys((own, *alike)):
        yield {"max_resolution": each}


def band_count(channels: int, axes: int, *, concat_pos: bool, sine_only: bool) -> int | None:
    """Say how many bands make so many channels; none where no number does."""
    rest = channels - axes * concat_pos
    each = axes * (1 if sine_only else 2)
    return rest // each if rest > 0 and rest % each == 0 else None


Fit: TypeAlias = Callable[[Measures], Iterator[Values]]

FITS: Mapping[str, Fit] = {
    **dict.fromkeys(
        ("mae", "transformers", "moco-v3", "simple-vit", "timm", "positional-encodings"),
        unit_steps,
    ),
    "detr": detr,
    "diffusers": diffusers,
    "tensor2tensor": tensor2tensor,
    "perceiver": bands,
    "timm-fourier": bands,
}
"""How each convention's parameters follow from what was measured."""
