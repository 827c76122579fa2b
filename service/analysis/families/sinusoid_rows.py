"""Rows of an array that may be sinusoids, and how sines and cosines may lie in them.

Angles of one row as a geometric series: unwrapped from the slowest channel to the fastest.

What series of frequencies the rows of a sinusoidal table turn with, and how far apart they are.

Rows that are evenly spaced, or whose places are told, say their frequencies by how they turn from
one to the next. Any row says the ratio of frequencies on its own, as all of its angles are its
position times them.

Where rows are, by the angles that known frequencies have there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import Sample
from service.analysis.measure import EARLY_ROWS, Complexes, GeometricSeries, fit_geometric, measure
from service.analysis.precision import spacing
from service.encodings.fields import AbsoluteLayout
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

# What engines that count in float32 add to the rounding of an element: a few 2^-24.
ENGINE_ERROR = 2.0**-21

# Rows whose norms are looked at before anything else is.
_SEEN_ROWS = 32

_ALL = slice(None)

# How much of an angle's size float64 keeps through the few operations that measure it.
_MEASURED_SHARE = 2.0**-50


@dataclass(frozen=True, eq=False)
class Rows:
    """An array by rows.

    Attributes:
        values: (S, C).
        grain: the narrowest type that has all of its numbers.
        is_transposed: whether rows of it are columns of what was sent.
    """

    values: Float64s
    grain: DType
    is_transposed: bool = False

    @property
    def blank(self) -> NDArray[np.bool_]:
        """Which rows are zero throughout."""
        is_zero: NDArray[np.bool_] = np.logical_not(self.values.any(axis=1))
        return is_zero


@dataclass(frozen=True, eq=False)
class View:
    """Rows read in a layout.

    Attributes:
        rows: those that were read, (S, C).
        layout: where sines and cosines lie.
        is_flipped: whether cosines come before sines.
        channels: the same, with channels of zeros at the end.
        kept: the numbers of the rows that are not zero throughout, (R,).
        scale: what they were multiplied by.
        scale_error: as a share of it.
    """

    rows: Rows
    layout: AbsoluteLayout
    is_flipped: bool
    channels: Channels
    kept: NDArray[np.intp]
    scale: float
    scale_error: float

    @property
    def width(self) -> int:
        """Channels of a row, zeros included."""
        return self.channels.width

    @property
    def pairs(self) -> int:
        """Pairs of a cosine and a sine; a sine without a cosine is none."""
        return (self.width - self.channels.zeros) // 2

    @property
    def is_whole(self) -> bool:
        """Tell whether no row is zero throughout."""
        return len(self.kept) == len(self.rows.values)

    def part(
        self, window: slice | NDArray[np.intp], pairs: slice = _ALL
    ) -> tuple[Complexes, Float64s]:
        """Read some of the rows that are not zero throughout.

        Returns:
            Cosine + i·sine of each pair in them, or of some, 1 in size, and how far the angle of
            each may be from what is meant; both (R, K).
        """
        turns = _read(self.rows, self.kept[window], self.channels, pairs)
        return turns / self.scale, _angle_errors(turns, self.rows.grain)

    @property
    def evenness(self) -> str:
        """Say what makes it pairs of a cosine and a sine."""
        pairs = "channels 2k, 2k + 1"
        if self.layout == "concatenated":
            half = -(-(self.width - self.channels.zeros) // 2)
            pairs = f"channels k, k + {half}"
        square = f"{self.scale * self.scale:.6g}" if self.scale != 1 else "1"
        return f"cos² + sin² is {square} within {self.scale_error:.1e} of it in {pairs}"


def rows_of(sample: Sample) -> Iterator[Rows]:
    """Give an array by its rows, and then by its columns, as far as it has any."""
    if sample.is_complex or not sample.is_finite or sample.values.ndim > 2:
        return
    values = sample.reals()
    grain = grain_of(values, sample.element_dtype)
    if values.ndim == 1:
        yield Rows(values[np.newaxis], grain)
        return
    yield Rows(values, grain)
    yield Rows(values.T, grain, is_transposed=True)


def grain_of(values: Float64s, dtype: DType) -> DType:
    """Find the narrowest type that has all numbers: what they were before they were widened."""
    some = values.reshape(-1)[:: max(1, values.size // 4096)]
    if dtype not in {FLOAT64, FLOAT32}:
        return dtype
    with np.errstate(over="ignore"):
        single = some.astype(np.float32)
        if (single != some).any():
            return FLOAT64
        if not (single.view(np.uint32) & np.uint32(0xFFFF)).any():
            return BFLOAT16
        return FLOAT16 if (single.astype(np.float16) == single).all() else FLOAT32


def seen(sample: Sample) -> Iterator[View]:
    """Read an array by rows and by columns in every layout in which it may be sinusoids."""
    for rows in rows_of(sample):
        yield from views(rows)


def views(rows: Rows) -> Iterator[View]:
    """Read rows in every layout of an absolute encoding in which cos² + sin² is the same."""
    kept = np.flatnonzero(~rows.blank)
    width = rows.values.shape[1]
    if not len(kept) or width < 2:
        return
    zeros = int(width % 2 == 1 and width > 2 and not rows.values[:, -1].any())
    layouts: tuple[tuple[AbsoluteLayout, bool], ...] = (
        ("interleaved", False),
        ("concatenated", False),
        ("concatenated", True),
    )
    for layout, is_flipped in layouts:
        view = _view(rows, kept, layout, zeros, is_flipped=is_flipped)
        if view is not None:
            yield view


def _view(
    rows: Rows, kept: NDArray[np.intp], layout: AbsoluteLayout, zeros: int, *, is_flipped: bool
) -> View | None:
    components: tuple[Component, ...] = ("cos", "sin") if is_flipped else ("sin", "cos")
    width = rows.values.shape[1]
    channels = Channels(components, layout == "interleaved", width, zeros=zeros)
    if (width - zeros) % 2 and is_flipped:
        return None
    norms = np.abs(_read(rows, kept[:_SEEN_ROWS], channels))
    scale = float(np.median(norms))
    if not scale > 0:
        return None
    share = rounding_bound(rows.grain, 1.0)
    norm_error = np.abs(norms / scale - 1).max(axis=1)
    if np.median(norm_error) > 4 * share + ENGINE_ERROR:
        return None
    if abs(scale - 1) <= 4 * share + ENGINE_ERROR:
        scale = 1.0
    error = float(np.median(norm_error)) + 2.0**-52
    return View(rows, layout, is_flipped, channels, kept, scale, error)


def _read(rows: Rows, some: NDArray[np.intp], channels: Channels, pairs: slice = _ALL) -> Complexes:
    live = channels.width - channels.zeros
    count = live // 2
    if channels.interleaved:
        evens, odds = slice(0, 2 * count, 2), slice(1, 2 * count, 2)
    else:
        # Of an odd number of channels the first component has one more.
        evens, odds = slice(0, count), slice(live - count, live)
    first, second = (rows.values[:, part][:, pairs][some] for part in (evens, odds))
    is_sine_first = channels.components[0] == "sin"
    return second + 1j * first if is_sine_first else first + 1j * second


def _angle_errors(turns: Complexes, grain: DType) -> Float64s:
    """Bound the error of angles: θ = atan2(s, c) moves by (c·Δs − s·Δc)/(c² + s²)."""
    sine, cosine = turns.imag, turns.real
    moved = np.abs(cosine) * spacing(sine, grain) + np.abs(sine) * spacing(cosine, grain)
    angles = np.abs(np.angle(turns))
    with np.errstate(invalid="ignore", divide="ignore"):
        bounds: Float64s = moved / np.abs(turns) ** 2 + _MEASURED_SHARE * angles
    return np.nan_to_num(bounds, nan=np.pi, posinf=np.pi)


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

    series: GeometricSeries
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
    found = fit_geometric(unwrapped, errors[first:] + share * unwrapped)
    if found is None or not 0 < found.ratio < 1:
        return None
    start = exp(min(log(found.first) - first * log(found.ratio), _LARGEST_EXPONENT))
    start_error = found.first_error + first * found.ratio_error
    return Climbed(GeometricSeries(start, found.ratio, start_error, found.ratio_error), sign, worst)


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


# Rows that are looked at together: all that are early, or a few of them where one is spoilt.
_WINDOWS = ((0, EARLY_ROWS), (0, 8), (8, 24), (24, 56))

# Rows of which some, from the slowest angles to the fastest, say the ratio on their own.
_SERIES_ROWS, _MOST_ROWS = 64, 6

# How crooked rows may be that are evenly spaced: what float32 adds at 2^20 is below it.
_MOST_CROOKED = 0.3

# A ratio of 1 has no base: that of 65,536 channels with a base of 2 is below this.
_MOST_RATIO = 1 - 2.0**-17

_NOTHING_KNOWN = GeometricSeries(1.0, 1.0, np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Course:
    """How the angles of rows run.

    Attributes:
        series: ω_0 times what rows are apart for each unit of their places, and the ratio of
            frequencies; where places say nothing its first number means nothing.
        sign: 1 where angles grow from row to row, −1 where they shrink.
        window: the rows that it was measured on; None where places say nothing.
        places: of every row, as they are told or as they follow each other, (S,): positions are
            these times something, and something more.
    """

    series: GeometricSeries
    sign: int
    window: slice | None
    places: Float64s

    @property
    def is_even(self) -> bool:
        """Tell whether positions follow from the places."""
        return self.window is not None


def courses(view: View, told: Float64s | None = None) -> Iterator[Course]:
    """Give how angles may run: as places are told, from row to row, and each row on its own.

    Args:
        view: the rows.
        told: where they are, rising, as far as that is known.
    """
    rows = np.arange(len(view.rows.values), dtype=np.float64)
    if told is not None and told.shape == rows.shape and (np.diff(told) > 0).all():
        yield from _along(view, told)
    yield from _along(view, rows)
    yield uneven_course(view)


def _along(view: View, places: Float64s) -> Iterator[Course]:
    """Give how angles run along places, if they do in any window."""
    found = (_even(view, slice(*window), places) for window in _WINDOWS)
    yield from islice((course for course in found if course is not None), 1)


def _even(view: View, window: slice, places: Float64s) -> Course | None:
    where = places[view.kept[window]]
    if len(where) < 2:
        return None
    turns, errors = view.part(window)
    waves = measure(turns, where)
    if waves.angle_error.max() > _MOST_CROOKED or waves.norm_error > _MOST_CROOKED:
        return None
    error = waves.omega_error + 2 * errors.max(axis=0) / (where[-1] - where[0])
    if len(waves.omega) == 1:
        return _single(float(waves.omega[0]), float(error[0]), window, places)
    climbed = climb(waves.omega, error)
    if climbed is None or climbed.series.ratio > _MOST_RATIO:
        return None
    return Course(climbed.series, climbed.sign, window, places)


def _single(omega: float, error: float, window: slice, places: Float64s) -> Course | None:
    if abs(omega) <= error:
        return None
    size = abs(omega)
    series = GeometricSeries(size, 1.0, error / size, np.inf)
    return Course(series, 1 if omega > 0 else -1, window, places)


def uneven_course(view: View) -> Course:
    """Give how the angles of each row run on its own, whatever the rows beside it."""
    places = np.linspace(0, len(view.kept) - 1, _SERIES_ROWS).astype(np.intp)
    turns, errors = view.part(np.unique(places))
    angles: Float64s = np.angle(turns)
    order = np.argsort(np.abs(angles[:, -1]))
    some = order[np.unique(np.linspace(0, len(order) - 1, _MOST_ROWS).astype(np.intp))]
    climbed = [climb(angles[row], errors[row]) for row in some]
    found = [each.series for each in climbed if each and each.series.ratio <= _MOST_RATIO]
    series = min(found, key=lambda series: series.ratio_error, default=_NOTHING_KNOWN)
    return Course(series, 1, None, np.arange(len(view.rows.values), dtype=np.float64))


_TURN = 2 * np.pi

# How far a place is looked for: the turns of the slowest frequency on the way there, at most.
_MOST_TURNS = 2**15
_FARTHEST = 2.0**24

# How likely it may be that none of the places that were tried is meant, and one fits.
_MOST_CHANCE = 0.02

# Rows that are looked for one by one when they are not within half a turn of the slowest.
_MOST_FAR_ROWS = 64

# Phases of float64 that sums and products of it have gone through.
_EXACT_SHARE = 2.0**-48

_POSITION_LEEWAY = 2.0
_HALF = 0.5


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows are.

    Attributes:
        values: the place of each row, (R,).
        errors: how far each may be from what is meant, (R,).
        residual: how far angles are from those of the places at most, in radians.
    """

    values: Float64s
    errors: Float64s
    residual: float

    def rounded(self) -> Float64s:
        """Give whole numbers where the errors allow them, and otherwise those of few digits."""
        rounded = np.round(self.values)
        is_whole = np.abs(self.values - rounded) <= np.minimum(
            _POSITION_LEEWAY * self.errors, _HALF
        )
        for row in np.flatnonzero(~is_whole):
            rounded[row] = _shortest(float(self.values[row]), float(self.errors[row]))
        return rounded + 0.0


def _shortest(number: float, error: float) -> float:
    shorter = (float(f"{number:.{digits}e}") for digits in range(17))
    return next((short for short in shorter if abs(short - number) <= error), number)


def locate(phases: Float64s, errors: Float64s, omega: Float64s) -> Places | None:
    """Find places p whose angles p·omega are the phases, whole turns left out; None if none are.

    From the slowest frequency on each one tells, to its own error over itself, where within its
    turn a row is, and those before it which turn that is. Angles are taken to be exact first, and
    then as engines have them that count in float32.

    Args:
        phases: within ±π, (R, K).
        errors: how far each may be from what is meant, (R, K).
        omega: radians per unit, falling, none of them 0, (K,).
    """
    return _located(phases, errors, omega, _EXACT_SHARE) or _located(
        phases, errors, omega, ENGINE_SHARE
    )


def locate_whole(phases: Float64s, errors: Float64s, omega: Float64s) -> Places | None:
    """Find the whole place of one row, (1, K), however many turns away; None if there is none."""
    for share in (_EXACT_SHARE, ENGINE_SHARE):
        far = _far(phases[0], errors[0], omega, share, is_whole=True)
        if far is not None:
            place, doubt, missed = (np.array([part]) for part in far)
            return _places(place, doubt, missed, share)
    return None


def _located(phases: Float64s, errors: Float64s, omega: Float64s, share: float) -> Places | None:
    values, doubts, missed, fits, _ = _near(phases, errors, omega, np.zeros(1), share)
    rows = np.flatnonzero(~fits)
    if len(rows) > _MOST_FAR_ROWS:
        return None
    for row in rows:
        far = _far(phases[row], errors[row], omega, share, is_whole=False)
        if far is None:
            return None
        values[row], doubts[row], missed[row] = far
    return _places(values, doubts, missed, share)


def _places(values: Float64s, doubts: Float64s, missed: Float64s, share: float) -> Places:
    return Places(values, doubts + share * np.abs(values), float(missed.max()))


def _far(
    phases: Float64s, errors: Float64s, omega: Float64s, share: float, *, is_whole: bool
) -> tuple[float, float, float] | None:
    """Find the place of a row, its error and how far angles miss theirs; None if chance may do it.

    Where most places fit in the end that many were tried for, fitting says nothing.
    """
    most = int(min(np.ceil(_FARTHEST * omega[-1] / _TURN), _MOST_TURNS))
    turns = np.arange(-most, most + 1, dtype=np.float64)
    places, doubts, missed, fits, chance = _near(phases, errors, omega, turns, share)
    among = np.flatnonzero(fits)
    if not len(among):
        return None
    doubt = _POSITION_LEEWAY * doubts[among] + share * np.abs(places[among])
    whole = np.abs(places[among] - np.round(places[among])) <= doubt
    if whole.any():
        chance = chance * float(np.minimum(2 * doubt[whole], 1.0).max())
        among = among[whole]
    elif is_whole:
        return None
    best = among[np.abs(places[among]).argmin()]
    if chance * np.count_nonzero(np.abs(places) <= abs(places[best])) > _MOST_CHANCE:
        return None
    return float(places[best]), float(doubts[best]), float(missed[best])


def _near(
    phases: Float64s, errors: Float64s, omega: Float64s, turns: Float64s, share: float
) -> tuple[Float64s, Float64s, Float64s, NDArray[np.bool_], float]:
    """Refine places from the slowest frequency on, for each row, or for each number of its turns.

    Returns:
        Places, their errors, how far angles miss theirs, whether all miss it by no more than the
        errors say, each (R,) or (T,); and how likely it is that any place at all fits.
    """
    places = (phases[..., -1] + _TURN * turns) / omega[-1]
    doubts = errors[..., -1] / omega[-1] + 0 * places
    missed, alive, chance = np.zeros_like(places), np.arange(len(places)), 1.0
    for k in range(len(omega) - 2, -1, -1):
        if not len(alive):
            break
        place, doubt = places[alive], doubts[alive]
        phase, error = (part if part.ndim == 0 else part[alive] for part in _at(phases, errors, k))
        off = phase - place * omega[k]
        off -= _TURN * np.round(off / _TURN)
        allowed = _POSITION_LEEWAY * ((doubt + share * np.abs(place)) * omega[k] + error)
        missed[alive] = np.maximum(missed[alive], np.abs(off))
        chance *= float(np.minimum(allowed / np.pi, 1.0).max(initial=0.0))
        better = (error / omega[k] < doubt) & (allowed < np.pi)
        places[alive] = np.where(better, place + off / omega[k], place)
        doubts[alive] = np.where(better, error / omega[k], doubt)
        alive = alive[np.abs(off) <= allowed]
    fits = np.zeros(len(places), dtype=np.bool_)
    fits[alive] = True
    return places, doubts, missed, fits, chance


def _at(phases: Float64s, errors: Float64s, k: int) -> tuple[Float64s, Float64s]:
    return np.asarray(phases[..., k]), np.asarray(errors[..., k])
