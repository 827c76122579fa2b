"""Positions of rows: sequences of integers, in a canonical form, and lists of real numbers."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.numerics.phase import MAX_POSITION, Float64s, Int64s

_STEP_LIMIT = 2**63

MIN_REAL_POSITION = 1e-30
"""The smallest position but 0: times the slowest frequency of a base of MAX_SCALED_BASE its last
bit is in the range of phases."""

# Units are 2^0, 2^-8, 2^-16, …: an odd integer of 53 bits has 60 bits in the unit below its own.
_UNIT_BITS = 8
_SIGNIFICAND_BITS = 53

# The last bit of MIN_REAL_POSITION is 2^-152.
_UNITS = 20


class RowPositions(Protocol):
    """One integer position for each row."""

    @property
    def farthest(self) -> int:
        """The largest magnitude of the positions."""

    def at(self, start: int, stop: int) -> Int64s:
        """Return the positions of the rows start to stop, shape (stop - start,)."""


@dataclass(frozen=True, slots=True)
class Run:
    """Positions a constant step apart: first, first + step, …, count of them (at least one)."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        return self.first + self.step * (self.count - 1)


@dataclass(frozen=True)
class Positions:
    """A sequence of positions as the fewest runs that a reader from the left finds.

    Equal sequences are equal objects however they were written; make them with ``of_runs`` or
    ``contiguous``. Nothing is expanded: a run of 2^60 positions takes no memory.
    """

    runs: tuple[Run, ...]

    @classmethod
    def contiguous(cls, start: int, count: int) -> "Positions":
        """Return the positions start, start + 1, …, count of them (at least one)."""
        return cls((Run(start, 1, count),))

    @classmethod
    def of_runs(cls, runs: Iterable[Run | int]) -> "Positions":
        """Return the canonical form of any runs and single positions, at least one.

        The last run grows by as many of the following positions as continue it.
        """
        merged: list[Run] = []
        first, step, count = 0, 1, 0
        for run in runs:
            # Millions of single positions come as integers: an object for each would be slow.
            if isinstance(run, int):
                start, stride, left = run, 1, 1
            else:
                start, stride, left = run.first, run.step, run.count
            while left:
                if count == 1:
                    step = start - first
                if count and start == first + step * count and abs(step) < _STEP_LIMIT:
                    taken = left if stride == step else 1
                else:
                    if count:
                        merged.append(Run(first, step if count > 1 else 1, count))
                    first, step, count = start, stride, 0
                    taken = left if abs(stride) < _STEP_LIMIT else 1
                count += taken
                start += stride * taken
                left -= taken
        merged.append(Run(first, step if count > 1 else 1, count))
        return cls(tuple(merged))

    @property
    def count(self) -> int:
        return self._ends[-1]

    @property
    def farthest(self) -> int:
        return self.farthest_from(0)

    @property
    def least(self) -> int:
        return min(min(run.first, run.last) for run in self.runs)

    @property
    def most(self) -> int:
        return max(max(run.first, run.last) for run in self.runs)

    def farthest_from(self, origin: int) -> int:
        """Return the largest distance from an origin."""
        return max(self.most - origin, origin - self.least)

    @property
    def is_contiguous(self) -> bool:
        """True if each position is one more than the one before it."""
        return len(self.runs) == 1 and self.runs[0].step == 1

    def count_blocks(self, length: int) -> int:
        """Return about how many blocks of consecutive integers the runs meet, one by one."""
        return sum(
            min(run.count, 1 + (run.count - 1) * abs(run.step) // length) for run in self.runs
        )

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(accumulate(run.count for run in self.runs))

    def at(self, start: int, stop: int) -> Int64s:
        if start == stop:
            return np.empty(0, dtype=np.int64)
        index, last = bisect_right(self._ends, start), bisect_right(self._ends, stop - 1)
        run, skipped = self.runs[index], start - (self._ends[index] - self.runs[index].count)
        if index == last:
            offsets = np.arange(stop - start, dtype=np.int64) * run.step
            return offsets + (run.first + run.step * skipped)
        first, step, count = self._columns[:, index : last + 1].copy()
        first[0] = run.first + run.step * skipped
        count[0] -= skipped
        count[-1] -= self._ends[last] - stop
        numbers = np.arange(stop - start, dtype=np.int64)
        begin = np.repeat(np.cumsum(count) - count, count)
        positions: Int64s = np.repeat(first, count) + (numbers - begin) * np.repeat(step, count)
        return positions

    @cached_property
    def _columns(self) -> Int64s:
        """First, step and count of all runs, shape (3, runs)."""
        runs = [(run.first, run.step, run.count) for run in self.runs]
        return np.array(runs, dtype=np.int64).T

    def moved(self, distance: int) -> "Positions":
        """Add a distance to every position."""
        if distance == 0:
            return self
        return Positions(tuple(Run(run.first + distance, run.step, run.count) for run in self.runs))

    def parameters(self) -> dict[str, int | str]:
        """Return the canonical parameters: start and seq_len if contiguous, else positions."""
        if self.is_contiguous:
            return {"start": self.runs[0].first, "seq_len": self.count}
        return {"positions": str(self)}

    def __str__(self) -> str:
        """Format as integers and half-open ranges: ``0,5,9:20:2``."""
        return ",".join(part for run in self.runs for part in _format_run(run))


def _format_run(run: Run) -> list[str]:
    if run.count <= 2 or run.step == 0:
        # Two positions, or one repeated, read better as a list.
        return [str(run.first + run.step * index) for index in range(run.count)]
    stop = run.last + (1 if run.step > 0 else -1)
    return [f"{run.first}:{stop}" if run.step == 1 else f"{run.first}:{stop}:{run.step}"]


def are_out_of_range(values: Float64s) -> NDArray[np.bool_]:
    """Return which values are out of range.

    Values in range are 0, or MIN_REAL_POSITION to MAX_POSITION in size; their angles are exact.
    """
    sizes = np.abs(values)
    are_exact = (sizes <= MAX_POSITION) & ((sizes >= MIN_REAL_POSITION) | (sizes == 0))
    return np.asarray(~are_exact)


def first_out_of_range(values: Float64s) -> float | None:
    """Return the first of values (n,) that is out of range, or None."""
    are_out = are_out_of_range(values)
    return float(values[are_out.argmax()]) if are_out.any() else None


@dataclass(frozen=True)
class RealPositions:
    """A list of positions that may be fractions.

    Attributes:
        values: one for each row, at least one, none of them −0.
    """

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def is_whole(self) -> bool:
        return all(value.is_integer() for value in self.values)

    @property
    def out_of_range(self) -> float | None:
        """The first position that is out of range, or None."""
        return first_out_of_range(np.array(self.values))

    def whole(self) -> Positions:
        """Return the positions as integers; all of them must be whole."""
        return Positions.of_runs(map(int, self.values))

    def at(self, start: int, stop: int) -> Float64s:
        return np.array(self.values[start:stop])

    def parameters(self) -> dict[str, tuple[float, ...]]:
        return {"positions": self.values}


AnyPositions: TypeAlias = Positions | RealPositions


def split_units(values: Float64s) -> tuple[Int64s, Int64s]:
    """Return integers and exponents with values = integers·2^exponents, each (n,).

    Exponents are multiples of 8 and at most 0; whole numbers have 0. Values within ±2^62 have
    integers within ±2^62.
    """
    significand, exponent = np.frexp(np.abs(values))
    integer = np.ldexp(significand, _SIGNIFICAND_BITS).astype(np.int64)
    trailing = np.frexp((integer & -integer).astype(np.float64))[1] - 1
    lowest = exponent.astype(np.int64) - _SIGNIFICAND_BITS + trailing
    is_whole = (lowest >= 0) | (values == 0)
    unit = np.where(is_whole, 0, lowest // _UNIT_BITS * _UNIT_BITS)
    magnitude = (integer >> np.where(is_whole, 0, trailing)) << np.where(is_whole, 0, lowest - unit)
    fractional = np.where(values < 0, -magnitude, magnitude)
    return np.where(is_whole, np.where(is_whole, values, 0.0).astype(np.int64), fractional), unit


def max_units(values: int) -> int:
    """Return a bound on the number of distinct exponents that this many values have."""
    return min(values, _UNITS)
