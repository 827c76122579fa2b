"""Rows of an array that may be sinusoids, and how sines and cosines may lie in them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.sample import Sample, spacing
from service.analysis.waves import Complexes
from service.tables.angle import Float64s
from service.tables.channels import Channels, Component
from service.tables.conventions import Layout
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType, rounding_bound

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
    layout: Layout
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
    layouts: tuple[tuple[Layout, bool], ...] = (
        ("interleaved", False),
        ("concatenated", False),
        ("concatenated", True),
    )
    for layout, is_flipped in layouts:
        view = _view(rows, kept, layout, zeros, is_flipped=is_flipped)
        if view is not None:
            yield view


def _view(
    rows: Rows, kept: NDArray[np.intp], layout: Layout, zeros: int, *, is_flipped: bool
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
    unevenness = np.abs(norms / scale - 1).max(axis=1)
    if np.median(unevenness) > 4 * share + ENGINE_ERROR:
        return None
    if abs(scale - 1) <= 4 * share + ENGINE_ERROR:
        scale = 1.0
    error = float(np.median(unevenness)) + 2.0**-52
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
