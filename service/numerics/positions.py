"""Positions of rows: sequences of integers in a canonical form, real numbers, and arrays.

Of an array, each distinct number is kept once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import ceil, floor
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.numerics.phase import MAX_POSITION, Float64s, Int64s, UInt64s

_MIN_INT64 = -(2**63)

MIN_REAL_POSITION = 1e-30
"""The smallest position but 0: times the slowest frequency of a base of MAX_SCALED_BASE its last
bit is in the range of phases."""

# Units are 2^0, 2^-8, 2^-16, …: an odd integer of 53 bits has 60 bits in the unit below its own.
_UNIT_BITS = 8
_SIGNIFICAND_BITS = 53


Numbers: TypeAlias = NDArray[Any]
"""Integers as int64, or numbers of which some are fractions as float64."""


class RowPositions(Protocol):
    """One position for each row."""

    @property
    def farthest(self) -> int:
        """The largest magnitude of the positions, rounded up."""

    def at(self, start: int, stop: int) -> Numbers:
        """Return the positions of the rows start to stop, shape (stop - start,)."""


@dataclass(frozen=True, eq=False)
class Distinct:
    """The few distinct positions of rows.

    Attributes:
        positions: the distinct positions, and perhaps some that no row has.
        count: how many they are.
        index: which of them each row has.
    """

    positions: RowPositions
    count: int
    index: RowPositions


def distinct_of(positions: RowPositions) -> Distinct | None:
    """Return the distinct positions of rows; None where they are not known to be few.

    They are the attribute ``distinct`` of the positions.
    """
    distinct: Distinct | None = getattr(positions, "distinct", None)
    return distinct


@dataclass(frozen=True, slots=True)
class Run:
    """Positions a constant step apart: first, first + step, …, count of them (at least one)."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        return self.first + self.step * (self.count - 1)


@dataclass(frozen=True, eq=False)
class Positions:
    """A sequence of positions as the fewest runs that a reader from the left finds.

    Equal sequences are equal objects however they were written; make them with one of the
    class methods. Nothing is expanded: a run of 2^60 positions takes no memory.

    Attributes:
        columns: first, step and count − 1 of each run, int64 (3, runs).
    """

    columns: Int64s

    @classmethod
    def contiguous(cls, start: int, count: int) -> "Positions":
        """Return the positions start, start + 1, …, count of them (at least one)."""
        return cls(np.array([[start], [1], [count - 1]], dtype=np.int64))

    @classmethod
    def of_runs(cls, runs: Iterable[Run | int]) -> "Positions":
        """Return the canonical form of any runs and single positions, at least one."""
        rows = [_row(run) for run in runs]
        return cls.of_columns(*np.array(rows, dtype=np.int64).T)

    @classmethod
    def of_integers(cls, positions: Int64s) -> "Positions":
        """Return the canonical form of single positions (n,), at least one."""
        return cls.of_columns(positions, np.ones_like(positions), np.zeros_like(positions))

    @classmethod
    def of_columns(cls, first: Int64s, step: Int64s, more: Int64s) -> "Positions":
        """Return the canonical form of runs (n,), at least one, each of 1 + more positions.

        The last run grows by as many of the following positions as continue it.
        """
        # The differences of neighbours, in the order of positions, and how often each occurs.
        differences, times = np.empty((2, 2 * len(first)), dtype=np.int64)
        last = first + step * more
        differences[0::2], differences[1:-1:2] = step, first[1:] - last[:-1]
        times[0::2], times[1:-1:2], times[-1] = more, 1, 0
        differences, times = differences[times > 0], times[times > 0]
        if len(times) == 0:
            return cls.contiguous(int(first[0]), 1)
        # The step from -2^62 to 2^62 or back is out of range: both are in different runs.
        is_jump = differences == _MIN_INT64
        begins = np.flatnonzero(np.append(True, np.diff(differences) != 0) | is_jump)
        differences, times = differences[begins], np.add.reduceat(times, begins)
        is_jump = is_jump[begins]
        # Of a difference that follows a run the first leads to the next run. After one that occurs
        # more often there is a run, after one that occurs once there is if there was none before.
        index = np.arange(len(times) + 1)
        decided = np.append(-1, np.where(is_jump | (times > 1), index[:-1], -1))
        decided = np.maximum.accumulate(decided)
        skipped = (decided >= 0) & ~is_jump[decided]
        skipped ^= (index - decided) % 2 == 0
        left = np.append(times - skipped[:-1], ~skipped[-1])
        starts = first[0] + np.append(0, np.cumsum(differences * times))
        starts[:-1] += differences * skipped[:-1]
        # The last position, and one before a jump, may be alone.
        is_alone = np.append(is_jump, True)
        steps, more = np.where(is_alone, [[1], [0]], [np.append(differences, 1), left])
        return cls(np.stack([starts, steps, more])[:, left > 0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and np.array_equal(self.columns, other.columns)

    def __hash__(self) -> int:
        return hash(self.columns.tobytes())

    @property
    def first(self) -> int:
        """The first position."""
        return int(self.columns[0, 0])

    @property
    def count(self) -> int:
        return int(self._ends[-1])

    @property
    def is_whole(self) -> bool:
        """True if no position is a fraction."""
        return True

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes of rows: sequences, if there are several, and positions."""
        return (self.count,)

    @property
    def farthest(self) -> int:
        return self.farthest_from(0)

    @property
    def least(self) -> int:
        return self._least_and_most[0]

    @property
    def most(self) -> int:
        return self._least_and_most[1]

    @cached_property
    def _least_and_most(self) -> tuple[int, int]:
        first, step, more = self.columns
        ends = np.concatenate([first, first + step * more])
        return int(ends.min()), int(ends.max())

    def farthest_from(self, origin: int) -> int:
        """Return the largest distance from an origin."""
        return max(self.most - origin, origin - self.least)

    @property
    def is_contiguous(self) -> bool:
        """True if each position is one more than the one before it."""
        return self.columns.shape[1] == 1 and bool(self.columns[1, 0] == 1)

    def count_blocks(self, length: int) -> int:
        """Return about how many blocks of consecutive integers the runs meet, one by one."""
        _, step, more = self.columns.astype(np.float64)
        return int((1 + np.minimum(more, more * np.abs(step) // length)).sum())

    @property
    def distinct(self) -> Distinct | None:
        """All integers from the least to the most; None if they are more than half of all rows."""
        least, span = self.least, self.most - self.least + 1
        if 2 * span > self.count:
            return None
        return Distinct(Positions.contiguous(least, span), span, self.moved(-least))

    @cached_property
    def _ends(self) -> UInt64s:
        return np.cumsum(self.columns[2].astype(np.uint64) + np.uint64(1))

    def at(self, start: int, stop: int) -> Int64s:
        if start == stop:
            return np.empty(0, dtype=np.int64)
        index, last = np.searchsorted(self._ends, np.array([start, stop - 1], np.uint64), "right")
        begin = int(self._ends[index - 1]) if index else 0
        first, step, more = self.columns[:, index : last + 1].copy()
        first[0] += step[0] * (start - begin)
        if index == last:
            return np.asarray(np.arange(stop - start, dtype=np.int64) * step + first)
        count = more + 1
        count[0] -= start - begin
        count[-1] = stop - int(self._ends[last - 1])
        numbers = np.arange(stop - start, dtype=np.int64)
        numbers -= np.repeat(np.cumsum(count) - count, count)
        positions: Int64s = np.repeat(first, count) + numbers * np.repeat(step, count)
        return positions

    def beginning(self, count: int) -> "Positions":
        """Return the first positions, count of them (at least one)."""
        return Positions.of_integers(self.at(0, count))

    def moved(self, distance: int) -> "Positions":
        """Add a distance to every position; none may leave the range of int64."""
        first, step, more = self.columns
        return Positions(np.stack([first + distance, step, more])) if distance else self

    def parameters(self) -> dict[str, Any]:
        """Return the canonical parameters: start and seq_len if contiguous, else positions."""
        if self.is_contiguous:
            return {"start": self.first, "seq_len": self.count}
        return {"positions": str(self)}

    def __str__(self) -> str:
        """Format as integers and half-open ranges: ``0,5,9:20:2``."""
        return self._text

    @cached_property
    def _text(self) -> str:
        # Two positions, or one repeated, read better as a list.
        return ",".join(
            [
                f"{first},{first + step}" if more == 1 else _format_run(first, step, more)
                for first, step, more in zip(*self.columns.tolist(), strict=True)
            ]
        )


@dataclass(frozen=True, eq=False)
class OffsetPositions(Positions):
    """Sequences of one length, each of consecutive positions from an offset on, as one sequence."""

    offsets: tuple[int, ...]

    @classmethod
    def of(cls, offsets: tuple[int, ...], length: int) -> "OffsetPositions":
        """Return the positions of sequences (at least one) of a length (at least one)."""
        runs = Positions.of_runs(Run(offset, 1, length) for offset in offsets)
        return cls(runs.columns, offsets)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.offsets), self.count // len(self.offsets)

    def parameters(self) -> dict[str, Any]:
        return {"seqlen_offsets": self.offsets, "seq_len": self.shape[1]}


def _row(run: Run | int) -> tuple[int, int, int]:
    """Return the column of a run; the step of a single position may be any."""
    if isinstance(run, int) or run.count == 1:
        return run if isinstance(run, int) else run.first, 1, 0
    # A step of 2^63 is a jump as one of -2^63 is.
    return run.first, run.step if run.step < -_MIN_INT64 else _MIN_INT64, run.count - 1


def _format_run(first: int, step: int, more: int) -> str:
    if more == 0 or step == 0:
        return ",".join([str(first)] * (more + 1))
    stop = first + step * more + (1 if step > 0 else -1)
    return f"{first}:{stop}" if step == 1 else f"{first}:{stop}:{step}"


def are_out_of_range(values: Float64s) -> NDArray[np.bool_]:
    """Return which values are out of range.

    Values in range are 0, or MIN_REAL_POSITION to MAX_POSITION in size; their angles are exact.
    """
    sizes = np.abs(values)
    are_exact = (sizes <= MAX_POSITION) & ((sizes >= MIN_REAL_POSITION) | (sizes == 0))
    return np.asarray(~are_exact)


def farthest_of(values: Iterable[float], origin: int) -> int:
    """Return the largest distance of numbers from an origin, rounded up."""
    return max(max(ceil(value) - origin, origin - floor(value)) for value in values)


def first_out_of_range(values: Float64s) -> float | None:
    """Return the first of values (n,) that is out of range, or None."""
    are_out = are_out_of_range(values)
    return float(values[are_out.argmax()]) if are_out.any() else None


@dataclass(frozen=True, eq=False)
class RealPositions:
    """A list of positions that may be fractions.

    Attributes:
        numbers: int64, or float64 if some may be fractions; at least one, and none of them −0.
    """

    numbers: Numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RealPositions) and np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return hash(self.numbers.tobytes())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    @property
    def count(self) -> int:
        return self.numbers.size

    @property
    def least(self) -> float:
        return float(self.numbers.min())

    @property
    def farthest(self) -> int:
        return self.farthest_from(0)

    def farthest_from(self, origin: int) -> int:
        """Return the largest distance from an origin, rounded up."""
        return farthest_of((self.numbers.min().item(), self.numbers.max().item()), origin)

    @property
    def is_whole(self) -> bool:
        """True if no position is a fraction."""
        return bool((self.numbers == np.trunc(self.numbers)).all())

    @cached_property
    def is_contiguous(self) -> bool:
        """True if each position is one more than the one before it."""
        return bool((np.diff(self.flat) == 1).all())

    def whole(self) -> Positions:
        """Return the positions as integers; all of them must be whole."""
        return Positions.of_integers(self.numbers.astype(np.int64))

    @cached_property
    def flat(self) -> Numbers:
        """The positions in C order (n,)."""
        return self.numbers.reshape(-1)

    def at(self, start: int, stop: int) -> Numbers:
        return self.flat[start:stop]

    def moved(self, distance: int) -> Self:
        """Add a distance to every position, integers that stay within the range of int64."""
        return replace(self, numbers=self.numbers + distance) if distance else self

    def beginning(self, count: int) -> "RealPositions":
        """Return the first positions, count of them (at least one)."""
        return RealPositions(self.flat[:count])

    def parameters(self) -> dict[str, Any]:
        """Return the canonical parameters."""
        return {"positions": tuple(self.numbers.tolist())}

    def __str__(self) -> str:
        """Format as numbers with commas: ``0.5,2``."""
        return ",".join(repr(value).removesuffix(".0") for value in self.numbers.tolist())


# Integers in a range below this many times their count are counted rather than sorted.
_DENSE = 4


@dataclass(frozen=True, eq=False)
class PositionArray(RealPositions):
    """Positions as an array, of which each distinct one may be computed once.

    Attributes:
        numbers: int64, or float64 if some are fractions; each in range, and none of them −0. An
            axis of coordinates is the first one (``along``); the others are those of rows.
        names: the names of its coordinates, if more than one are known.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, numbers: Numbers) -> "PositionArray":
        """Return the positions of an array of any integers, or of float64 in range."""
        if numbers.dtype.kind == "f" and (numbers != np.trunc(numbers)).any():
            return cls(numbers + 0.0)
        return cls(numbers.astype(np.int64))

    @property
    def is_whole(self) -> bool:
        """True if they are integers; fractions may happen to be whole along one axis."""
        return self.numbers.dtype.kind == "i"

    def count_blocks(self, length: int) -> int:
        """Return how many blocks of consecutive integers the positions meet, one by one."""
        return 1 + int(np.count_nonzero(np.diff(self.flat // length)))

    @property
    def first(self) -> int:
        """The first of whole positions."""
        return int(self.flat[0])

    @property
    def most(self) -> int:
        """The largest of whole positions."""
        return int(self.flat.max())

    @cached_property
    def distinct(self) -> Distinct | None:
        """The distinct positions, in C order; None if they are more than half of all positions."""
        flat = self.flat
        low = flat.min()
        if self.is_whole and int(flat.max()) - int(low) < _DENSE * len(flat):
            places = flat - low
            is_used = np.bincount(places) > 0
            numbers, index = np.flatnonzero(is_used) + low, (np.cumsum(is_used) - 1)[places]
        elif 2 * (np.count_nonzero(np.diff(np.sort(flat))) + 1) > len(flat):
            # To sort numbers takes a tenth of the time of sorting their places, too.
            return None
        else:
            numbers, index = np.unique(flat, return_inverse=True)
        if 2 * len(numbers) > len(flat):
            return None
        return Distinct(PositionArray(numbers), len(numbers), PositionArray(index))

    def along(self) -> tuple["PositionArray", ...]:
        """Return the positions along each axis of coordinates."""
        return tuple(map(PositionArray, self.numbers))

    def parameters(self) -> dict[str, Any]:
        """Return the canonical parameters: the shape, and a hash of the numbers in C order."""
        digest = sha256(np.ascontiguousarray(self.numbers).data).hexdigest()
        return {"positions_shape": self.shape, "positions_sha256": digest}

    def __str__(self) -> str:
        """Name the array in a problem."""
        return f"array of shape {list(self.shape)}"


AnyPositions: TypeAlias = Positions | RealPositions


def split_units(values: Float64s) -> tuple[Int64s, Int64s]:
    """Return integers and exponents with values = integers·2^exponents, each (n,).

    Exponents are multiples of 8 from -152 to 0; whole numbers have 0. Values within ±2^62 have
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
