"""Sequences of integer positions, of any length, in a canonical form."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from service.numerics.phase import (
    MAX_POSITION,
    Float64s,
    Int64s,
)

_STEP_LIMIT = 2**63


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
        """Make the positions start, start + 1, …, count of them (at least one)."""
        return cls.of_runs([Run(start, 1, count)])

    @classmethod
    def of_runs(cls, runs: Iterable[Run | int]) -> "Positions":
        """Make a sequence from any runs and single positions, in canonical form."""
        merged: list[Run] = []
        alone: list[int] = []
        for run in runs:
            if isinstance(run, int):
                alone.append(run)
                continue
            _append_each(merged, alone)
            alone.clear()
            for piece in _split_long_steps(run):
                _append(merged, piece)
        _append_each(merged, alone)
        return cls(tuple(merged))

    @property
    def count(self) -> int:
        return self._ends[-1]

    @property
    def farthest(self) -> int:
        """The largest magnitude of the positions."""
        return self.farthest_from(0)

    @property
    def least(self) -> int:
        return min(min(run.first, run.last) for run in self.runs)

    @property
    def most(self) -> int:
        return max(max(run.first, run.last) for run in self.runs)

    def farthest_from(self, origin: int) -> int:
        """Return the largest distance from an origin."""
        return max(max(abs(run.first - origin), abs(run.last - origin)) for run in self.runs)

    @property
    def is_contiguous(self) -> bool:
        """True if each position is one more than the one before it."""
        return len(self.runs) == 1 and self.runs[0].step == 1

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(accumulate(run.count for run in self.runs))

    def at(self, start: int, stop: int) -> Int64s:
        """Return the positions of the rows start to stop, shape (stop - start,)."""
        if start == stop:
            return np.empty(0, dtype=np.int64)
        index, last = bisect_right(self._ends, start), bisect_right(self._ends, stop - 1)
        run, skipped = self.runs[index], start - (self._ends[index] - self.runs[index].count)
        if index == last:
            offsets = np.arange(stop - start, dtype=np.int64) * run.step
            return offsets + (run.first + run.step * skipped)
        first, step, count = (column[index : last + 1].copy() for column in self._columns)
        first[0] = run.first + run.step * skipped
        count[0] -= skipped
        count[-1] -= self._ends[last] - stop
        numbers = np.arange(stop - start, dtype=np.int64)
        begin = np.repeat(np.cumsum(count) - count, count)
        return np.repeat(first, count) + (numbers - begin) * np.repeat(step, count)

    @cached_property
    def _columns(self) -> tuple[Int64s, Int64s, Int64s]:
        """First, step and count of all runs."""
        names = ("first", "step", "count")
        first, step, count = (
            np.array([getattr(run, name) for run in self.runs], dtype=np.int64) for name in names
        )
        return first, step, count

    def moved(self, distance: int) -> "Positions":
        """Add a distance to every position."""
        if distance == 0:
            return self
        return Positions(tuple(Run(run.first + distance, run.step, run.count) for run in self.runs))

    def parameters(self) -> dict[str, int | str]:
        """Return the canonical parameters: start and seq_len where they suffice, else positions."""
        if self.is_contiguous:
            return {"start": self.runs[0].first, "seq_len": self.count}
        return {"positions": str(self)}

    def __str__(self) -> str:
        """Format as integers and half-open ranges: ``0,5,9:20:2``."""
        return ",".join(part for run in self.runs for part in _format_run(run))


def _split_long_steps(run: Run) -> list[Run]:
    """Split a run whose step is meaningless or exceeds 64 bits into runs of one position."""
    if run.count == 1 or abs(run.step) >= _STEP_LIMIT:
        return [Run(run.first + run.step * index, 1, 1) for index in range(run.count)]
    return [run]


def _append(runs: list[Run], run: Run) -> None:
    """Append a run; the last run grows as far as its step goes."""
    while runs:
        last = runs[-1]
        step = last.step if last.count > 1 else run.first - last.first
        if last.first + step * last.count != run.first or abs(step) >= _STEP_LIMIT:
            break
        if run.count == 1 or run.step == step:
            runs[-1] = Run(last.first, step, last.count + run.count)
            return
        runs[-1] = Run(last.first, step, last.count + 1)
        run = Run(run.first + run.step, run.step if run.count > 2 else 1, run.count - 1)
    runs.append(run)


def _append_each(runs: list[Run], positions: list[int]) -> None:
    """Append positions as runs of one, without an object for each of millions."""
    if not positions:
        return
    each = iter(positions)
    last = runs.pop() if runs else Run(next(each), 1, 1)
    first, step, count = last.first, last.step, last.count
    following = first + step * count
    for position in each:
        if position == following and count > 1:
            count += 1
        elif count == 1 and abs(position - first) < _STEP_LIMIT:
            step, count = position - first, 2
            following = position
        else:
            runs.append(Run(first, step, count))
            first, step, count = position, 1, 1
        following += step
    runs.append(Run(first, step, count))


def _format_run(run: Run) -> list[str]:
    if run.count <= 2 or run.step == 0:
        # Two positions, or one repeated, read better as a list.
        return [str(run.first + run.step * index) for index in range(run.count)]
    stop = run.last + (1 if run.step > 0 else -1)
    return [f"{run.first}:{stop}" if run.step == 1 else f"{run.first}:{stop}:{run.step}"]


MIN_REAL_POSITION = 1e-30
"""The smallest position but 0: times the slowest frequency of a base of MAX_SCALED_BASE its last
bit is in the range of phases."""


# Units are 2^0, 2^-8, 2^-16, …: an odd integer of 53 bits has 60 bits in the unit below its own.
_UNIT_BITS = 8


_SIGNIFICAND_BITS = 53


# The last bit of MIN_REAL_POSITION is 2^-152.
_UNITS = 20


def first_out_of_range(values: Float64s) -> float | None:
    """Return the first of values (n,) that has no exact angle, or None.

    Such a value is too large, too small without being 0, infinite or NaN.
    """
    sizes = np.abs(values)
    is_exact = (sizes <= MAX_POSITION) & ((sizes >= MIN_REAL_POSITION) | (sizes == 0))
    return None if is_exact.all() else float(values[is_exact.argmin()])


@dataclass(frozen=True)
class RealPositions:
    """A list of positions that need not be whole.

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
        """The first position that has no exact angle, or None."""
        return first_out_of_range(self._array)

    def whole(self) -> Positions:
        """Convert to integer positions; all values must be whole."""
        return Positions.of_runs(map(int, self.values))

    def parameters(self) -> dict[str, tuple[float, ...]]:
        return {"positions": self.values}

    def at(self, start: int, stop: int) -> Float64s:
        return self._array[start:stop]

    @cached_property
    def _array(self) -> Float64s:
        return np.array(self.values)


AnyPositions: TypeAlias = Positions | RealPositions


def split_units(values: Float64s) -> tuple[Int64s, Int64s]:
    """Write values (n,) as integers times a power of two each: the integers and the exponents.

    The exponents are multiples of 8, none above 0; that of a whole number is 0. The integers are
    within ±2^62 where the values are.
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
    """Bound the number of different exponents among so many values in range."""
    return min(values, _UNITS)
