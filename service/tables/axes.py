"""Rows whose angles run along several axes, or are rounded the way that engines do."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.channels import Channels
from service.tables.dtypes import DType, Elements, round_into
from service.tables.float32_angle import (
    Float32s,
    float32_angles,
    float32_frequencies,
    float32_sin_cos,
)
from service.tables.frequencies import FrequencyRule
from service.tables.phasor import sines_and_cosines
from service.tables.products import cut, products
from service.tables.table import FREQUENCY_WORK, RowTable, steps

AngleRounding: TypeAlias = Literal["exact", "float32"]


class RowPositions(Protocol):
    """One integer position for each row."""

    @property
    def farthest(self) -> int:
        """The largest magnitude of them."""

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions of the rows start to stop, shape (stop - start,)."""


@dataclass(frozen=True)
class Axis:
    """Frequencies that turn with one position of a row.

    Attributes:
        rule: n frequencies.
        positions: the position of each row.
        places: which frequency of the row each of the n is.
    """

    rule: FrequencyRule
    positions: RowPositions
    places: tuple[int, ...]


class Growth(Protocol):
    """What multiplies cosines and sines by position and frequency."""

    def at(self, positions: Int64s) -> Float64s:
        """Give the multipliers of positions (m,) for every frequency, shape (m, n)."""


@dataclass(frozen=True, eq=False)
class AxesTable(RowTable):
    """Sines and cosines of angles along any axes, exact or of angles rounded to float32.

    Attributes:
        axes: what turns with what; their places are 0 … count − 1, each once.
        rounding: of the angles.
        channels: what a row holds.
        dtype: a real element type.
        shape: any whose size is rows × channels.
        scale: multiplies the value in float64, before it is rounded to the element type.
        growth: multiplies it, too; only where there is one axis.
    """

    axes: tuple[Axis, ...]
    rounding: AngleRounding
    channels: Channels
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0
    growth: Growth | None = None

    @property
    def work_per_element(self) -> int:
        """As much as a few sines: what takes turns here, the fast table computes once."""
        return 4

    @property
    def setup_work(self) -> int:
        """The frequencies of all axes."""
        return FREQUENCY_WORK * _count(self.axes)

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return self.channels.width

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        index, is_sine = self.channels.indices()
        columns = index + is_sine * _count(self.axes)
        for part in steps(len(rows), self.channels.width):
            both = self._components(first + part.start, first + part.stop)
            exact = both.take(columns, axis=1)
            if self.scale != 1.0:
                np.multiply(exact, self.scale, out=exact)
            round_into(exact, rows[part], self.dtype)
        self.channels.blank(rows)

    def _components(self, start: int, stop: int) -> Float64s:
        """Give the cosines, then the sines, of rows: (stop - start, 2·count)."""
        count = _count(self.axes)
        both = np.empty((stop - start, 2 * count))
        for axis in self.axes:
            places = np.array(axis.places, dtype=np.intp)
            # The tokens of a grid have few positions along each of its axes.
            positions, row = np.unique(axis.positions.at(start, stop), return_inverse=True)
            sine, cosine = _sin_cos(axis.rule, positions, self.rounding)
            if self.growth is not None:
                grown = self.growth.at(positions)
                sine, cosine = sine * grown, cosine * grown
            both[:, places], both[:, places + count] = cosine[row], sine[row]
        return both


@dataclass(frozen=True, eq=False)
class AnglesTable(RowTable):
    """The angles themselves, in radians, neither reduced nor exact past their element type.

    Attributes:
        axes, rounding, dtype, shape: as of an AxesTable; a row holds each frequency once.
    """

    axes: tuple[Axis, ...]
    rounding: AngleRounding
    dtype: DType
    shape: tuple[int, ...]

    @property
    def setup_work(self) -> int:
        """The frequencies of all axes."""
        return FREQUENCY_WORK * _count(self.axes)

    @property
    def row_width(self) -> int:
        """Frequencies in a row."""
        return _count(self.axes)

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        for part in steps(len(rows), self.row_width):
            exact = np.empty((part.stop - part.start, self.row_width))
            for axis in self.axes:
                positions = axis.positions.at(first + part.start, first + part.stop)
                exact[:, list(axis.places)] = _angles(axis.rule, positions, self.rounding)
            round_into(exact, rows[part], self.dtype)


def _count(axes: tuple[Axis, ...]) -> int:
    return sum(len(axis.places) for axis in axes)


def _sin_cos(
    rule: FrequencyRule, positions: Int64s, rounding: AngleRounding
) -> tuple[Float64s, Float64s]:
    if rounding == "float32":
        return float32_sin_cos(_float32_frequencies(rule), positions)
    both = sines_and_cosines(rule, positions)
    return both[:, : rule.count], both[:, rule.count :]


def _angles(rule: FrequencyRule, positions: Int64s, rounding: AngleRounding) -> Float64s:
    if rounding == "float32":
        return float32_angles(_float32_frequencies(rule), positions).astype(np.float64)
    return products(_parts(rule), positions)


@lru_cache(maxsize=64)
def _float32_frequencies(rule: FrequencyRule) -> Float32s:
    return float32_frequencies(rule.exact())


@lru_cache(maxsize=8)
def _parts(rule: FrequencyRule) -> list[Float64s]:
    return cut(rule.exact())
