"""Sequences of integer positions, of any length, in a canonical form."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from service.tables.angle import Int64s

_STEP_LIMIT = 2**63


@dataclass(frozen=True)
class Run:
    """Positions a constant step apart: first, first + step, …, count of them (at least one)."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        """The last of them."""
        return self.first + self.step * (self.count - 1)


@dataclass(frozen=True)
class Positions:
    """A sequence of positions as the fewest runs a reader from the left finds.

    Equal sequences are equal objects however they were spelled; make them with ``of_runs`` or
    ``contiguous``. Nothing is ever expanded: a run of 2^60 positions takes no room.
    """

    runs: tuple[Run, ...]

    @classmethod
    def contiguous(cls, start: int, count: int) -> "Positions":
        """Make the positions start, start + 1, …, count of them (at least one)."""
        return cls.of_runs([Run(start, 1, count)])

    @classmethod
    def of_runs(cls, runs: Iterable[Run]) -> "Positions":
        """Make a sequence from any runs, in canonical form."""
        merged: list[Run] = []
        for run in runs:
            for piece in _stored(run):
                _append(merged, piece)
        return cls(tuple(merged))

    @property
    def count(self) -> int:
        """How many there are."""
        return self._ends[-1]

    @property
    def farthest(self) -> int:
        """The largest magnitude of them."""
        return self.farthest_from(0)

    def farthest_from(self, origin: int) -> int:
        """Give the largest distance of them from an origin."""
        return max(max(abs(run.first - origin), abs(run.last - origin)) for run in self.runs)

    @property
    def is_contiguous(self) -> bool:
        """Tell whether each is one more than the one before it."""
        return len(self.runs) == 1 and self.runs[0].step == 1

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return tuple(accumulate(run.count for run in self.runs))

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions numbered start to stop, shape (stop - start,)."""
        result = np.empty(stop - start, dtype=np.int64)
        index, filled = bisect_right(self._ends, start), 0
        while filled < stop - start:
            run = self.runs[index]
            skipped = start + filled - (self._ends[index] - run.count)
            taken = min(run.count - skipped, stop - start - filled)
            offsets = np.arange(taken, dtype=np.int64) * run.step
            result[filled : filled + taken] = offsets + (run.first + run.step * skipped)
            index, filled = index + 1, filled + taken
        return result

    def moved(self, distance: int) -> "Positions":
        """Give the positions that are so much further on."""
        return Positions(tuple(Run(run.first + distance, run.step, run.count) for run in self.runs))

    def parameters(self) -> dict[str, int | str]:
        """Spell them as canonical parameters: start and seq_len where that says it all."""
        if self.is_contiguous:
            return {"start": self.runs[0].first, "seq_len": self.count}
        return {"positions": str(self)}

    def __str__(self) -> str:
        """Spell them as integers and half-open ranges: ``0,5,9:20:2``."""
        return ",".join(part for run in self.runs for part in _spelled(run))


def _stored(run: Run) -> list[Run]:
    """Give a run as runs whose steps mean something and fit in 64 bits."""
    if run.count == 1 or abs(run.step) >= _STEP_LIMIT:
        return [Run(run.first + run.step * index, 1, 1) for index in range(run.count)]
    return [run]


def _append(runs: list[Run], run: Run) -> None:
    """Add a run, letting the last one grow as far as its step goes."""
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


def _spelled(run: Run) -> list[str]:
    if run.count <= 2 or run.step == 0:
        # Two positions, or one repeated, read better as a list.
        return [str(run.first + run.step * index) for index in range(run.count)]
    stop = run.last + (1 if run.step > 0 else -1)
    return [f"{run.first}:{stop}" if run.step == 1 else f"{run.first}:{stop}:{run.step}"]
