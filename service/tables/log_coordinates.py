"""Distances that networks of positions take in, as they are or by their logarithms.

"Swin Transformer V2" (Liu et al. 2022), §3.3, log-spaced continuous coordinates, with the published
normalisation: a distance d within a window of W, or of the W that a model was trained with, is

    sign(d)·log2(1 + |8d/(W − 1)|)/log2 8

(Swin-Transformer f82860b ``WindowAttention``; timm 1.0.31 ``gen_relative_log_coords``, whose mode
"cr" is sign(d)·ln(1 + |d|)). x-transformers 2.31.10 ``DynamicPositionBias`` takes d in, or
sign(d)·ln(1 + |d|).

A coordinate is within 1.1·2^-53 of its own size: quotients and products are kept within 2^-101,
the logarithm within 2^-58, and the result is rounded once.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cache

import numpy as np

from service.tables.angle import Float64s, Int64s, exact_context
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements, exceeds, round_integers_into, round_into
from service.tables.logarithm import ln_1p
from service.tables.positions import Positions
from service.tables.table import RowTable, steps
from service.tables.twofold import (
    Twofold,
    constant,
    in_steps,
    of_integers,
    ordered_sum,
    product,
    times,
)

_NORM = 8


def log_distances(distances: Int64s) -> Float64s:
    """Evaluate sign(d)·ln(1 + |d|) for distances (n,)."""
    return _signed(distances, in_steps(_plain, np.abs(distances)))


def scaled_log_distances(distances: Int64s, window: int) -> Float64s:
    """Evaluate sign(d)·log2(1 + |8d/(W − 1)|)/log2 8 for distances (n,) in a window of W."""
    return _signed(distances, in_steps(lambda part: _scaled(part, window), np.abs(distances)))


def _signed(distances: Int64s, values: Float64s) -> Float64s:
    return np.where(distances < 0, 0.0 - values, values)


def _plain(lengths: Int64s) -> Float64s:
    return ln_1p(of_integers(lengths)).high


def _scaled(lengths: Int64s, window: int) -> Float64s:
    above, below = (_NORM * lengths).astype(np.float64), float(window - 1)
    quotient = above / below
    again = product(quotient, np.array([below]))
    rest = ((above - again.high) - again.low) / below
    return times(ln_1p(ordered_sum(quotient, rest)), _per_ln_8()).high


@cache
def _per_ln_8() -> Twofold:
    context = exact_context()
    return constant(context.divide(Decimal(1), context.ln(Decimal(_NORM))))


@dataclass(frozen=True, eq=False)
class WindowCoordinates:
    """The coordinates of every distance in a window of patches.

    Attributes:
        window: height and width, in patches.
        normalized_by: the W of each axis, or None for plain logarithms.
        axis: 0 for those down, 1 for those across, or None for both, along a last axis.
        dtype: a real type.
    """

    window: tuple[int, int]
    normalized_by: tuple[int, int] | None
    axis: int | None
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Distances down, distances across, and the two coordinates."""
        height, width = (2 * side - 1 for side in self.window)
        return (height, width, 2) if self.axis is None else (height, width)

    @property
    def work_per_element(self) -> int:
        """As much as a sine, for the logarithm."""
        return 1

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        for part in steps(stop - start, 1):
            values = self._values(start + part.start, start + part.stop)
            round_into(values, elements[part], self.dtype)
        return elements

    def _values(self, start: int, stop: int) -> Float64s:
        number = np.arange(start, stop, dtype=np.int64)
        if self.axis is None:
            place, axis = np.divmod(number, 2)
        else:
            place, axis = number, np.full(len(number), self.axis)
        steps_of = np.divmod(place, self.shape[1])
        values = np.empty(len(number))
        for which in range(2):
            is_own = axis == which
            distances = steps_of[which][is_own] - (self.window[which] - 1)
            values[is_own] = self._of_axis(distances, which)
        return values

    def _of_axis(self, distances: Int64s, axis: int) -> Float64s:
        if self.normalized_by is None:
            return log_distances(distances)
        return scaled_log_distances(distances, self.normalized_by[axis])


@dataclass(frozen=True, eq=False)
class DistanceTable(RowTable):
    """The distances −(n − 1) … n − 1 of a sequence of n, (2n − 1, 1), or their logarithms.

    Attributes:
        seq_len: n.
        is_log: whether they are sign(d)·ln(1 + |d|).
        dtype: a real type.
    """

    seq_len: int
    is_log: bool
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """A row for each distance."""
        return (2 * self.seq_len - 1, 1)

    @property
    def row_width(self) -> int:
        """A row is one distance."""
        return 1

    @property
    def overflows(self) -> bool:
        """Tell whether a distance may be too large for the type; no logarithm is."""
        return not self.is_log and exceeds(self.seq_len - 1, self.dtype)

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        for part in steps(len(rows), 1):
            number = np.arange(first + part.start, first + part.stop, dtype=np.int64)
            distances = number - (self.seq_len - 1)
            if self.is_log:
                round_into(log_distances(distances), rows[part, 0], self.dtype)
            else:
                round_integers_into(distances, rows[part, 0], self.dtype)


def windows(
    *,
    window: tuple[int, int],
    normalized_by: tuple[int, int] | None,
    axis: int | None,
    dtype: DType,
) -> Document:
    """Describe the coordinates of a window, (2h − 1, 2w − 1, 2): first y, then x.

    Args:
        window: height and width, in patches.
        normalized_by: the W of each axis, at least 2, or None for plain logarithms (mode "cr").
        axis: 0 for y alone, 1 for x alone: (2h − 1, 2w − 1); None for both.
        dtype: a real type.
    """
    parameters: dict[str, ParameterValue] = {
        "window_size": window,
        "mode": "cr" if normalized_by is None else "swin",
    }
    if normalized_by not in (None, window):
        assert normalized_by is not None
        parameters["pretrained_window_size"] = normalized_by
    axes: tuple[str, ...] = ("dy", "dx")
    if axis is None:
        axes += ("coordinate",)
    else:
        parameters["axis"] = "yx"[axis]
    table = WindowCoordinates(window, normalized_by, axis, dtype)
    arrays = {"coordinates": table}
    height, width = window
    places = {"dy": _around_zero(height), "dx": _around_zero(width)}
    return Document(
        "relative-swin-v2", parameters, arrays, axes=axes, states_axes=True, places=places
    )


def distances(*, seq_len: int, is_log: bool, dtype: DType) -> Document:
    """Describe the distances of a sequence, query − key from −(n − 1) on: (2n − 1, 1)."""
    return Document(
        "relative-dynamic",
        {"seq_len": seq_len, "log_distance": is_log},
        {"distance": DistanceTable(seq_len, is_log, dtype)},
        axes=("distance", "channel"),
        states_axes=True,
        curves="columns",
        places={"distance": _around_zero(seq_len)},
    )


def _around_zero(length: int) -> Positions:
    """Give the distances between as many places: −(length − 1) … length − 1."""
    return Positions.contiguous(1 - length, 2 * length - 1)
