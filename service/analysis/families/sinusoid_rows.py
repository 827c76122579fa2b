"""Read rows of sines and cosines in the layouts of absolute encodings, and measure frequencies.

A layout fits if cos² + sin² is equal in all pairs of channels. In rows that are evenly spaced, or
have known positions, the differences of angles give the frequencies. A single row gives only the
ratio of the frequencies, since its angles are the products of one position with all frequencies.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
from service.numerics.phasors import Channels

# In how many first rows cos² + sin² is checked.
_NORM_ROWS = 32

_ALL = slice(None)

# The relative error of measuring an angle in float64.
_MEASURED_ERROR = 2.0**-50


@dataclass(frozen=True, eq=False)
class OrientedRows:
    """An array as rows (S, C).

    Attributes:
        values: the elements, (S, C).
        dtype: the narrowest dtype that holds all elements exactly.
        is_transposed: whether the rows are columns of the submitted array.
    """

    values: Float64s
    dtype: DType
    is_transposed: bool = False

    @property
    def is_zero(self) -> NDArray[np.bool_]:
        """A mask (S,), True for rows with only zeros."""
        return np.asarray(~self.values.any(axis=1))


@dataclass(frozen=True, eq=False)
class LayoutView:
    """Rows whose channels are read as sines and cosines in a given layout.

    Attributes:
        rows: all rows, (S, C).
        layout: the order of sines and cosines.
        is_flipped: whether cosines come before sines.
        channels: whether each channel is a sine or a cosine, and of which frequency.
        nonzero: the indices of the rows that are not all zeros, (R,).
        scale: the factor of all sines and cosines.
        scale_error: the relative error of the scale.
    """

    rows: OrientedRows
    layout: AbsoluteLayout
    is_flipped: bool
    channels: Channels
    nonzero: NDArray[np.intp]
    scale: float = 1.0
    scale_error: float = 0.0

    @property
    def width(self) -> int:
        """The number of channels of a row, including padding channels."""
        return self.channels.width

    @property
    def live_channels(self) -> int:
        return self.width - self.channels.zeros

    @property
    def pairs(self) -> int:
        """The number of pairs of a cosine and a sine; a sine without a cosine does not count."""
        return self.live_channels // 2

    @property
    def has_zero_rows(self) -> bool:
        return len(self.nonzero) < len(self.rows.values)

    def scaled_phasors(self, window: slice | NDArray[np.intp], pairs: slice = _ALL) -> Complexes:
        """Return cosine + i·sine of the chosen nonzero rows and pairs, (R, K), not normalized."""
        live, count = self.live_channels, self.pairs
        if self.channels.interleaved:
            parts = slice(0, 2 * count, 2), slice(1, 2 * count, 2)
        else:
            # If the number of channels is odd, the first component has one channel more.
            parts = slice(0, count), slice(live - count, live)
        some = self.nonzero[window]
        first, second = (self.rows.values[:, part][:, pairs][some] for part in parts)
        return first + 1j * second if self.is_flipped else second + 1j * first

    def phasors(
        self, window: slice | NDArray[np.intp], pairs: slice = _ALL
    ) -> tuple[Complexes, Float64s]:
        """Return phasors divided by the scale, and bounds of their angle errors, both (R, K)."""
        phasors = self.scaled_phasors(window, pairs)
        return phasors / self.scale, _angle_errors(phasors, self.rows.dtype)

    @property
    def support(self) -> str:
        """A sentence for the report: which channels are pairs, and what cos² + sin² is."""
        pairs = "channels 2k, 2k + 1"
        if self.layout == "concatenated":
            pairs = f"channels k, k + {self.live_channels - self.pairs}"
        square = f"{self.scale * self.scale:.6g}"
        return f"cos² + sin² is {square} within {self.scale_error:.1e} of it in {pairs}"


def oriented_rows(sample: Sample) -> Iterator[OrientedRows]:
    """Yield the rows of an array and, if it has two axes, its columns as rows."""
    if sample.is_complex or not sample.is_finite or sample.values.ndim > 2:
        return
    values = np.atleast_2d(sample.reals())
    dtype = narrowest_dtype(values, sample.element_dtype)
    yield OrientedRows(values, dtype)
    if sample.values.ndim == 2:
        yield OrientedRows(values.T, dtype, is_transposed=True)


def narrowest_dtype(values: Float64s, dtype: DType) -> DType:
    """Return the narrowest dtype that holds a sample of the values exactly, at most ``dtype``.

    Only float32 and float64 arrays can be narrower than their dtype.
    """
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
    """Yield the rows, and the columns, of an array in each layout that fits."""
    for rows in oriented_rows(sample):
        yield from views(rows)


def views(rows: OrientedRows) -> Iterator[LayoutView]:
    """Yield rows in each layout of absolute encodings in which cos² + sin² is constant."""
    nonzero = np.flatnonzero(~rows.is_zero)
    width = rows.values.shape[1]
    if not len(nonzero) or width < 2:
        return
    zeros = int(width % 2 == 1 and width > 2 and not rows.values[:, -1].any())
    interleaved = Channels(("sin", "cos"), True, width, zeros=zeros)
    concatenated = replace(interleaved, interleaved=False)
    readings = [
        LayoutView(rows, "interleaved", False, interleaved, nonzero),
        LayoutView(rows, "concatenated", False, concatenated, nonzero),
    ]
    if (width - zeros) % 2 == 0:
        flipped = replace(concatenated, components=("cos", "sin"))
        readings.append(LayoutView(rows, "concatenated", True, flipped, nonzero))
    yield from filter(None, map(_with_scale, readings))


def _with_scale(view: LayoutView) -> LayoutView | None:
    """Return the view with its scale, the norm of its pairs; None if the norms differ."""
    norms = np.abs(view.scaled_phasors(slice(_NORM_ROWS)))
    scale = float(np.median(norms))
    if not scale > 0:
        return None
    tolerance = 4 * rounding_bound(view.rows.dtype, 1.0) + ENGINE_ERROR
    unevenness = float(np.median(np.abs(norms / scale - 1).max(axis=1)))
    if unevenness > tolerance:
        return None
    scale = 1.0 if abs(scale - 1) <= tolerance else scale
    return replace(view, scale=scale, scale_error=unevenness + 2.0**-52)


def _angle_errors(phasors: Complexes, dtype: DType) -> Float64s:
    """Return bounds of the angle errors that rounding causes, in radians, (R, K).

    The differential of θ = atan2(s, c) is (c·Δs − s·Δc)/(c² + s²).
    """
    sine, cosine = phasors.imag, phasors.real
    moved = np.abs(cosine) * spacing(sine, dtype) + np.abs(sine) * spacing(cosine, dtype)
    angles = np.abs(np.angle(phasors))
    with np.errstate(invalid="ignore", divide="ignore"):
        bounds: Float64s = moved / np.abs(phasors) ** 2 + _MEASURED_ERROR * angles
    return np.nan_to_num(bounds, nan=np.pi, posinf=np.pi)


# Series of frequencies.

# The rows that are measured together: all early rows, or a few of them in case others are wrong.
_WINDOWS = (slice(0, EARLY_ROWS), slice(0, 8), slice(8, 24), slice(24, 56))

# Of _SERIES_ROWS rows, at most _MAX_SERIES, from the smallest angles to the largest, are measured
# one by one for the ratio of the frequencies.
_SERIES_ROWS, _MAX_SERIES = 64, 6

# The largest deviation of an angle, in radians, and of a norm from 1 in evenly spaced rows.
# Float32 errors are smaller up to position 2^20.
_MAX_DEVIATION = 0.3

# A ratio of 1 determines no base. A base of 2 over 65,536 channels gives a smaller ratio than this.
_MAX_RATIO = 1 - 2.0**-17

_UNKNOWN = GeometricSeries(1.0, 1.0, np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class RowSeries:
    """The measured frequencies of rows, a geometric series.

    Attributes:
        series: the frequencies in radians per unit of ``coordinates``; without a window, only the
            ratio is known.
        sign: 1 if angles increase from row to row, −1 if they decrease.
        window: the rows that were measured together; None if rows were measured one by one.
        coordinates: the known positions of all rows, or their indices, (S,). With a window,
            positions are a linear function of the coordinates.
    """

    series: GeometricSeries
    sign: int
    window: slice | None
    coordinates: Float64s


def row_series(view: LayoutView, positions: Float64s | None = None) -> Iterator[RowSeries]:
    """Yield frequency series: along known positions, along row indices, and from single rows.

    Args:
        view: the rows.
        positions: the positions of the rows, (S,), or None; ignored unless increasing.
    """
    numbers = np.arange(len(view.rows.values), dtype=np.float64)
    known = []
    if positions is not None and len(positions) == len(numbers) and (np.diff(positions) > 0).all():
        known = [positions]
    for coordinates in (*known, numbers):
        for window in _WINDOWS:
            series = _series_along(view, window, coordinates)
            if series is not None:
                yield series
                break
    yield series_of_single_rows(view)


def _series_along(view: LayoutView, window: slice, coordinates: Float64s) -> RowSeries | None:
    """Return the frequencies in a window; None unless angles are linear in the coordinates."""
    where = coordinates[view.nonzero[window]]
    if len(where) < 2:
        return None
    phasors, errors = view.phasors(window)
    waves = measure(phasors, where)
    if waves.angle_error.max() > _MAX_DEVIATION or waves.norm_error > _MAX_DEVIATION:
        return None
    error = waves.omega_error + 2 * errors.max(axis=0) / (where[-1] - where[0])
    unwrapped = unwrapped_series(waves.omega, error)
    if unwrapped is None or (len(error) > 1 and unwrapped[0].ratio > _MAX_RATIO):
        return None
    return RowSeries(*unwrapped, window, coordinates)


def series_of_single_rows(view: LayoutView) -> RowSeries:
    """Return the frequency ratio, taken from the single row that determines it most exactly."""
    phasors, errors = view.phasors(spread_indices(len(view.nonzero), _SERIES_ROWS))
    angles: Float64s = np.angle(phasors)
    order = np.argsort(np.abs(angles[:, -1]))
    some = order[spread_indices(len(order), _MAX_SERIES)]
    unwrapped = [unwrapped_series(angles[row], errors[row]) for row in some]
    found = [each[0] for each in unwrapped if each and each[0].ratio <= _MAX_RATIO]
    series = min(found, key=lambda series: series.ratio_error, default=_UNKNOWN)
    return RowSeries(series, 1, None, np.arange(len(view.rows.values), dtype=np.float64))
