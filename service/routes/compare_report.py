"""What ``/compare`` says about one array, of what was found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

from service.analysis.comparing.alignment import Alignment
from service.analysis.comparing.comparison import Bools, Comparison
from service.analysis.comparing.tolerance import ULPS, Tolerance
from service.analysis.comparing.worst import Spot
from service.formats.numbering import Numbers
from service.tables.angle import Float64s

Json = dict[str, Any]

MOST_RANGES = 64
MOST_RUNS = 32


@dataclass(frozen=True, eq=False)
class Reported:
    """A comparison in the words of a document.

    Attributes:
        comparison: what was found.
        alignment: how the array lies over the table.
        names: what each axis of the table counts.
        positions: what the rows are numbered by.
        is_integer: whether the numbers of the table are integers.
    """

    comparison: Comparison
    alignment: Alignment
    names: tuple[str, ...]
    positions: Numbers
    is_integer: bool

    def content(self) -> Json:
        """Say where numbers differ."""
        found = self.comparison
        return {
            "tolerance": _tolerance(found.tolerance),
            "axes": self._axes(),
            "largest": {
                "absolute": self._spot(found.absolute),
                "relative": self._spot(found.relative),
                "ulp": self._spot(found.ulp),
            },
            "first_beyond": self._spot(found.first_beyond),
            "first_not_finite": self._spot(found.first_not_finite),
            "good_to": self._good_to(found.good_rows),
            "good_positions": self._good_positions(),
            "errors_by_position": self._ranges(found.row_errors, self._position),
            "errors_by_channel": self._ranges(found.column_errors, int),
        }

    def within(self, epsilons: tuple[float, ...]) -> list[Json]:
        """Say how far all numbers are within other tolerances."""
        errors = self.comparison.row_errors
        return [{"epsilon": each, "good_to": self._good_to(errors <= each)} for each in epsilons]

    def _position(self, row: int) -> int | float:
        number: int | float = self.positions[row].item()
        return number

    def _good_to(self, good: Bools) -> int | float | None:
        """Give the position of the last row before the first that is not good."""
        first_bad = len(good) if good.all() else int(good.argmin())
        return self._position(first_bad - 1) if first_bad else None

    def _good_positions(self) -> Json:
        good = self.comparison.good_rows
        runs = list(_runs(good))
        shown = [
            {"first": self._position(first), "last": self._position(last)}
            for first, last in runs[:MOST_RUNS]
        ]
        return {
            "count": int(good.sum()),
            "of": len(good),
            "runs": shown,
            "further_runs": len(runs) - len(shown),
        }

    def _ranges(self, errors: Float64s, number: Callable[[int], float]) -> list[Json]:
        """Give the largest error in each of a few ranges."""
        if not len(errors):
            return []
        step = -(-len(errors) // MOST_RANGES)
        firsts = range(0, len(errors), step)
        largest = np.maximum.reduceat(errors, firsts)
        return [
            {
                "first": number(first),
                "last": number(min(first + step, len(errors)) - 1),
                "largest": _finite(float(error)),
            }
            for first, error in zip(firsts, largest, strict=True)
        ]

    def _spot(self, spot: Spot | None) -> Json | None:
        if spot is None:
            return None
        rank = len(self.names)
        columns = self.comparison.columns
        said: Json = {
            "index": list(self.alignment.index(spot.place[:rank])),
            "position": self._position(spot.place[self.comparison.rows]),
            "channel": None if columns is None else spot.place[columns],
            "error": _finite(spot.error),
            "yours": self._number(spot.yours),
            "theirs": self._number(spot.theirs),
        }
        if len(spot.place) > rank:
            said["part"] = ("real", "imaginary")[spot.place[rank]]
        return said

    def _number(self, value: float) -> int | float | str:
        if not isfinite(value):
            return "NaN" if isnan(value) else ("Infinity" if value == inf else "-Infinity")
        return int(value) if self.is_integer and value.is_integer() else value

    def _axes(self) -> Json:
        """Say what positions and channels are, and how the shapes differ if they do."""
        alignment, columns = self.alignment, self.comparison.columns
        said: Json = {
            "position": self.names[self.comparison.rows],
            "channel": None if columns is None else self.names[columns],
        }
        if alignment.is_squeezed:
            said["removed"] = {
                "yours": [i for i, length in enumerate(alignment.shape) if length == 1],
                "theirs": [i for i, length in enumerate(alignment.table_shape) if length == 1],
            }
        if alignment.is_reordered:
            said["order"] = list(alignment.axes)
        if not alignment.is_whole:
            said["prefix"] = self._prefix()
        return said

    def _prefix(self) -> Json:
        alignment = self.alignment
        if alignment.prefix is None:
            assert alignment.longer is not None
            yours = alignment.shape[alignment.longer]
            return {"axis": None, "yours": yours, "theirs": 1, "compared": 1}
        mine = alignment.axes[alignment.prefix]
        return {
            "axis": self.names[alignment.prefix],
            "yours": 1 if mine is None else alignment.shape[mine],
            "theirs": alignment.table_shape[alignment.prefix],
            "compared": alignment.region[alignment.prefix],
        }


def _tolerance(tolerance: Tolerance) -> Json:
    if tolerance.is_asked_for:
        return {"atol": tolerance.atol or 0.0, "rtol": tolerance.rtol or 0.0}
    if tolerance.dtype is None:
        return {"atol": 0.0, "rtol": 0.0}
    return {"ulp": ULPS, "of": tolerance.dtype.name, "at_least_of": tolerance.floor}


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None


def _runs(good: Bools) -> Iterator[tuple[int, int]]:
    """Give the first and the last of each run of good rows."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], good, [False])).astype(np.int8)))
    for first, after in edges.reshape(-1, 2).tolist():
        yield first, after - 1
