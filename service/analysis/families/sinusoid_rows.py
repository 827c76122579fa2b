"""Measure rows of sines and cosines of absolute encodings: layout, frequencies, positions.

Rows are read in every layout in which cos² + sin² is the same throughout. Rows that are evenly
spaced, or whose places are known, give their frequencies by how they turn from one to the next. A
row on its own gives the ratio of frequencies, as all of its angles are its position times them.
Once frequencies are known, the angles of a row give its position.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import Sample
from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    GeometricSeries,
    fit_geometric,
    measure,
    spread_indices,
)
from service.analysis.precision import spacing
from service.encodings.family import AbsoluteLayout
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

_TWO_PI = 2 * pi

# What engines that count in float32 add to the rounding of an element: a few 2^-24.
ENGINE_ERROR = 2.0**-21

# Engines that count in float32 have each angle within a few 2^-24 of its size.
ENGINE_SHARE = 2.0**-21

# Rows whose norms are checked before anything else.
_NORM_ROWS = 32

_ALL = slice(None)

# How much of an angle's size float64 keeps through the few operations that measure it.
_MEASURED_SHARE = 2.0**-50


@dataclass(frozen=True, eq=False)
class OrientedRows:
    """An array as rows (S, C), possibly transposed from the input.

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
        """A mask of the rows that are zero throughout, (S,)."""
        is_zero: NDArray[np.bool_] = np.logical_not(self.values.any(axis=1))
        return is_zero


@dataclass(frozen=True, eq=False)
class LayoutView:
    """Rows read in a layout.

    Attributes:
        rows: those that were read, (S, C).
        layout: where sines and cosines lie.
        is_flipped: whether cosines come before sines.
        channels: the same, with channels of zeros at the end.
        filled: the numbers of the rows that are not zero throughout, (R,).
        scale: the factor of sines and cosines.
        scale_error: as a share of it.
    """

    rows: OrientedRows
    layout: AbsoluteLayout
    is_flipped: bool
    channels: Channels
    filled: NDArray[np.intp]
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
        """Return whether no row is zero throughout."""
        return len(self.filled) == len(self.rows.values)

    def turns(
        self, window: slice | NDArray[np.intp], pairs: slice = _ALL
    ) -> tuple[Complexes, Float64s]:
        """Return the turns of some of the filled rows.

        Returns:
            Cosine + i·sine of each pair in them, or of some, 1 in size, and how far the angle of
            each may be off; both (R, K).
        """
        turns = _read(self.rows, self.filled[window], self.channels, pairs)
        return turns / self.scale, _angle_errors(turns, self.rows.grain)

    @property
    def support(self) -> str:
        """A sentence on the pairs of a cosine and a sine."""
        pairs = "channels 2k, 2k + 1"
        if self.layout == "concatenated":
            half = -(-(self.width - self.channels.zeros) // 2)
            pairs = f"channels k, k + {half}"
        square = f"{self.scale * self.scale:.6g}" if self.scale != 1 else "1"
        return f"cos² + sin² is {square} within {self.scale_error:.1e} of it in {pairs}"


def oriented_rows(sample: Sample) -> Iterator[OrientedRows]:
    """Read an array by its rows, and then by its columns, as far as it has any."""
    if sample.is_complex or not sample.is_finite or sample.values.ndim > 2:
        return
    values = sample.reals()
    grain = grain_of(values, sample.element_dtype)
    if values.ndim == 1:
        yield OrientedRows(values[np.newaxis], grain)
        return
    yield OrientedRows(values, grain)
    yield OrientedRows(values.T, grain, is_transposed=True)


def grain_of(values: Float64s, dtype: DType) -> DType:
    """Find the narrowest type that has all numbers: the one before they were widened."""
    if dtype not in {FLOAT64, FLOAT32}:
        return dtype
    some = values.reshape(-1)[:: max(1, values.size // 4096)]
    with np.errstate(over="ignore"):
        single = some.astype(np.float32)
        if (single != some).any():
            return FLOAT64
        if not (single.view(np.uint32) & np.uint32(0xFFFF)).any():
            return BFLOAT16
        return FLOAT16 if (single.astype(np.float16) == single).all() else FLOAT32


def layout_views(sample: Sample) -> Iterator[LayoutView]:
    """Read an array by rows and by columns in every layout in which it may be sinusoids."""
    for rows in oriented_rows(sample):
        yield from views(rows)


def views(rows: OrientedRows) -> Iterator[LayoutView]:
    """Read rows in every layout of an absolute encoding in which cos² + sin² is the same."""
    filled = np.flatnonzero(~rows.blank)
    width = rows.values.shape[1]
    if not len(filled) or width < 2:
        return
    zeros = int(width % 2 == 1 and width > 2 and not rows.values[:, -1].any())
    layouts: tuple[tuple[AbsoluteLayout, bool], ...] = (
        ("interleaved", False),
        ("concatenated", False),
        ("concatenated", True),
    )
    for layout, is_flipped in layouts:
        components: tuple[Component, ...] = ("cos", "sin") if is_flipped else ("sin", "cos")
        channels = Channels(components, layout == "interleaved", width, zeros=zeros)
        if (width - zeros) % 2 and is_flipped:
            continue
        scale = _scale(rows, filled[:_NORM_ROWS], channels)
        if scale is not None:
            yield LayoutView(rows, layout, is_flipped, channels, filled, *scale)


def _scale(
    rows: OrientedRows, some: NDArray[np.intp], channels: Channels
) -> tuple[float, float] | None:
    """Return the norm of pairs, and its relative error; None where norms differ."""
    norms = np.abs(_read(rows, some, channels))
    scale = float(np.median(norms))
    if not scale > 0:
        return None
    loose = 4 * rounding_bound(rows.grain, 1.0) + ENGINE_ERROR
    unevenness = float(np.median(np.abs(norms / scale - 1).max(axis=1)))
    if unevenness > loose:
        return None
    return 1.0 if abs(scale - 1) <= loose else scale, unevenness + 2.0**-52


def _read(
    rows: OrientedRows, some: NDArray[np.intp], channels: Channels, pairs: slice = _ALL
) -> Complexes:
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


# Angles of one row.

_LARGEST_EXPONENT = 700.0

# How far beyond its error a prediction may be missed: errors are bounds of each number, and those
# of predictions are sums that may be a little short of them.
_LEEWAY = 4.0


def unwrapped_series(
    angles: Float64s, errors: Float64s, share: float = ENGINE_SHARE
) -> tuple[GeometricSeries, int] | None:
    """Find the series that the sizes of angles are once whole turns are added; None if none.

    The two slowest must be within half a turn. Each next one is predicted by those before it, which
    gives its turns; where they predict it to no better than half a turn, the fastest channels are
    left out.

    Args:
        angles: within ±π, the fastest first, (K,), two or more.
        errors: how far off each may be, (K,).
        share: how far besides, as a share of it with its turns.

    Returns:
        The series, the fastest first, and the sign of all angles.
    """
    sign = 1 if angles[-1] > 0 else -1
    sizes, doubts = (angles * sign).tolist(), errors.tolist()
    if len(sizes) < 2 or not sizes[-2] >= sizes[-1] > doubts[-1]:
        return None
    line = _GrowingLine()
    first = len(sizes)
    for k in range(len(sizes) - 1, -1, -1):
        size, known = sizes[k], doubts[k] + share * abs(sizes[k])
        if first < len(sizes) - 1:
            predicted, doubt = line.at(k)
            allowed = predicted * doubt + known + share * predicted
            if allowed > pi / 2:
                break
            size += _TWO_PI * round((predicted - size) / _TWO_PI)
            if abs(size - predicted) > _LEEWAY * allowed or size <= 0:
                return None
        line.add(k, log(size), doubts[k] / size + share)
        sizes[k], first = size, k
    unwrapped = np.array(sizes[first:])
    series = fit_geometric(unwrapped, errors[first:] + share * unwrapped)
    if series is None or not 0 < series.ratio < 1:
        return None
    start = exp(min(log(series.first) - first * log(series.ratio), _LARGEST_EXPONENT))
    start_error = series.first_error + first * series.ratio_error
    return GeometricSeries(start, series.ratio, start_error, series.ratio_error), sign


class _GrowingLine:
    """A line through logarithms, to which one after the other is added with its weight."""

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        self._first = (0, 0.0)

    def add(self, place: int, height: float, error: float) -> None:
        if not self._weight:
            self._first = place, height
        x, y, weight = place - self._first[0], height - self._first[1], error**-2
        self._weight += weight
        self._x += weight * x
        self._y += weight * y
        self._xx += weight * x * x
        self._xy += weight * x * y

    def at(self, place: int) -> tuple[float, float]:
        """Return the exponential of the line's height at a place, and its relative error."""
        x, y = self._x / self._weight, self._y / self._weight
        spread = self._xx - x * self._x
        slope = (self._xy - x * self._y) / spread
        away = place - self._first[0] - x
        doubt = sqrt(1 / self._weight + away * away / spread)
        return exp(min(self._first[1] + y + slope * away, _LARGEST_EXPONENT)), doubt


# Angles along rows.

# Rows that are measured together: all that are early, or a few of them where one is spoilt.
_WINDOWS = (slice(0, EARLY_ROWS), slice(0, 8), slice(8, 24), slice(24, 56))

# Rows of which some, from the slowest angles to the fastest, give the ratio on their own.
_SERIES_ROWS, _MAX_SERIES = 64, 6

# How crooked rows may be that are evenly spaced: what float32 adds at 2^20 is below it.
_MAX_CROOKED = 0.3

# A ratio of 1 has no base: that of 65,536 channels with a base of 2 is below this.
_MAX_RATIO = 1 - 2.0**-17

_UNKNOWN = GeometricSeries(1.0, 1.0, np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class RowSeries:
    """The frequencies of rows, as a series of radians per unit of their places.

    Attributes:
        series: of ω_k times the step of positions; where places are unknown its first number
            means nothing.
        sign: 1 where angles grow from row to row, −1 where they shrink.
        window: the rows that it was measured on; None where places are unknown.
        places: of every row, as they are known or as they follow each other, (S,): positions are
            linear in them.
    """

    series: GeometricSeries
    sign: int
    window: slice | None
    places: Float64s

    @property
    def is_even(self) -> bool:
        """Return whether positions follow from the places."""
        return self.window is not None


def row_series(view: LayoutView, known: Float64s | None = None) -> Iterator[RowSeries]:
    """Yield how angles may run: along known places, from row to row, and in each row on its own.

    Args:
        view: the rows.
        known: where they are, rising, as far as that is known.
    """
    rows = np.arange(len(view.rows.values), dtype=np.float64)
    is_known = known is not None and known.shape == rows.shape and (np.diff(known) > 0).all()
    for places in (known, rows) if is_known else (rows,):
        for window in _WINDOWS:
            series = None if places is None else _along(view, window, places)
            if series is not None:
                yield series
                break
    yield uneven_series(view)


def _along(view: LayoutView, window: slice, places: Float64s) -> RowSeries | None:
    """Measure how angles run along the places of a window; None where they do not."""
    where = places[view.filled[window]]
    if len(where) < 2:
        return None
    turns, errors = view.turns(window)
    waves = measure(turns, where)
    if waves.angle_error.max() > _MAX_CROOKED or waves.norm_error > _MAX_CROOKED:
        return None
    error = waves.omega_error + 2 * errors.max(axis=0) / (where[-1] - where[0])
    if len(waves.omega) > 1:
        unwrapped = unwrapped_series(waves.omega, error)
        if unwrapped is None or unwrapped[0].ratio > _MAX_RATIO:
            return None
        return RowSeries(*unwrapped, window, places)
    omega = float(waves.omega[0])
    if abs(omega) <= error[0]:
        return None
    series = GeometricSeries(abs(omega), 1.0, float(error[0]) / abs(omega), np.inf)
    return RowSeries(series, 1 if omega > 0 else -1, window, places)


def uneven_series(view: LayoutView) -> RowSeries:
    """Return the ratio of frequencies that single rows give, whatever the rows beside them."""
    turns, errors = view.turns(spread_indices(len(view.filled), _SERIES_ROWS))
    angles: Float64s = np.angle(turns)
    order = np.argsort(np.abs(angles[:, -1]))
    some = order[spread_indices(len(order), _MAX_SERIES)]
    unwrapped = [unwrapped_series(angles[row], errors[row]) for row in some]
    every = [each[0] for each in unwrapped if each and each[0].ratio <= _MAX_RATIO]
    series = min(every, key=lambda series: series.ratio_error, default=_UNKNOWN)
    return RowSeries(series, 1, None, np.arange(len(view.rows.values), dtype=np.float64))


# Places of known frequencies.

# How far a place is looked for: the turns of the slowest frequency on the way there, at most.
_MAX_TURNS = 2**15
_FARTHEST = 2.0**24

# The highest probability that a place fits by chance.
_MAX_CHANCE = 0.02

# Rows that are looked for one by one when they are not within half a turn of the slowest.
_MAX_FAR_ROWS = 64

# Phases of float64 after sums and products.
_EXACT_SHARE = 2.0**-48

_POSITION_LEEWAY = 2.0
_HALF = 0.5


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Places of rows.

    Attributes:
        values: the place of each row, (R,).
        errors: how far off each may be, (R,).
        residual: how far angles are from those of the places at most, in radians.
    """

    values: Float64s
    errors: Float64s
    residual: float

    def rounded(self) -> Float64s:
        """Return whole numbers where the errors allow them, and otherwise those of few digits."""
        rounded = np.round(self.values)
        allowed = np.minimum(_POSITION_LEEWAY * self.errors, _HALF)
        for row in np.flatnonzero(np.abs(self.values - rounded) > allowed):
            number, error = float(self.values[row]), float(self.errors[row])
            shorter = (float(f"{number:.{digits}e}") for digits in range(17))
            rounded[row] = next((each for each in shorter if abs(each - number) <= error), number)
        return rounded + 0.0


def locate(phases: Float64s, errors: Float64s, omega: Float64s) -> RowPlaces | None:
    """Find places p whose angles p·omega are the phases, whole turns left out; None if none are.

    From the slowest frequency on each one gives, to its own error over itself, where within its
    turn a row is, and those before it which turn that is. Angles are taken to be exact first, and
    then as engines have them that count in float32.

    Args:
        phases: within ±π, (R, K).
        errors: how far off each may be, (R, K).
        omega: radians per unit, falling, none of them 0, (K,).
    """
    return _located(phases, errors, omega, _EXACT_SHARE) or _located(
        phases, errors, omega, ENGINE_SHARE
    )


def locate_whole(phases: Float64s, errors: Float64s, omega: Float64s) -> RowPlaces | None:
    """Find the whole place of one row, (1, K), however many turns away; None if there is none."""
    for share in (_EXACT_SHARE, ENGINE_SHARE):
        far = _far(phases[0], errors[0], omega, share, is_whole=True)
        if far is not None:
            place, doubt, missed = (np.array([part]) for part in far)
            return _places(place, doubt, missed, share)
    return None


def _located(phases: Float64s, errors: Float64s, omega: Float64s, share: float) -> RowPlaces | None:
    values, doubts, missed, fits, _ = _near(phases, errors, omega, np.zeros(1), share)
    rows = np.flatnonzero(~fits)
    if len(rows) > _MAX_FAR_ROWS:
        return None
    for row in rows:
        far = _far(phases[row], errors[row], omega, share, is_whole=False)
        if far is None:
            return None
        values[row], doubts[row], missed[row] = far
    return _places(values, doubts, missed, share)


def _places(values: Float64s, doubts: Float64s, missed: Float64s, share: float) -> RowPlaces:
    return RowPlaces(values, doubts + share * np.abs(values), float(missed.max()))


def _far(
    phases: Float64s, errors: Float64s, omega: Float64s, share: float, *, is_whole: bool
) -> tuple[float, float, float] | None:
    """Find the place of a row, its error and how far angles miss theirs; None if chance may do it.

    Where most of the places that are tried fit in the end, a fit is no evidence.
    """
    most = int(min(np.ceil(_FARTHEST * omega[-1] / _TWO_PI), _MAX_TURNS))
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
    if chance * np.count_nonzero(np.abs(places) <= abs(places[best])) > _MAX_CHANCE:
        return None
    return float(places[best]), float(doubts[best]), float(missed[best])


def _near(
    phases: Float64s, errors: Float64s, omega: Float64s, turns: Float64s, share: float
) -> tuple[Float64s, Float64s, Float64s, NDArray[np.bool_], float]:
    """Refine places from the slowest frequency on, for each row, or for each number of its turns.

    Returns:
        Places, their errors, how far angles miss theirs, whether all miss it by no more than the
        errors allow, each (R,) or (T,); and the probability that any place at all fits.
    """
    places = (phases[..., -1] + _TWO_PI * turns) / omega[-1]
    doubts = errors[..., -1] / omega[-1] + 0 * places
    missed, alive, chance = np.zeros_like(places), np.arange(len(places)), 1.0
    for k in range(len(omega) - 2, -1, -1):
        if not len(alive):
            break
        place, doubt = places[alive], doubts[alive]
        of_rows = (np.asarray(part[..., k]) for part in (phases, errors))
        phase, error = (part if part.ndim == 0 else part[alive] for part in of_rows)
        off = phase - place * omega[k]
        off -= _TWO_PI * np.round(off / _TWO_PI)
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
