"""Measure rows of sines and cosines of absolute encodings: layout, frequencies, positions.

Rows are read in every layout in which cos² + sin² is the same throughout. Rows that are evenly
spaced, or whose places are known, give their frequencies by how they turn from one to the next. A
row on its own gives the ratio of frequencies, as all of its angles are its position times them.
Once frequencies are known, the angles of a row give its position.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import Sample
from service.analysis.families.unwrapping import ENGINE_ERROR, unwrapped_series
from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    GeometricSeries,
    measure,
    spread_indices,
)
from service.analysis.precision import spacing
from service.encodings.family import AbsoluteLayout
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

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
    unwrapped = unwrapped_series(waves.omega, error)
    if unwrapped is None or (len(error) > 1 and unwrapped[0].ratio > _MAX_RATIO):
        return None
    return RowSeries(*unwrapped, window, places)


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
