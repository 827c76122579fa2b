"""Consecutive positions, cut where 64·a + b changes its a."""

from collections.abc import Iterator
from dataclasses import dataclass

STRIDE = 64


@dataclass(frozen=True)
class Stretch:
    """The positions of a few b's in consecutive runs: all 64 b's of a sign, unless runs is 1.

    Attributes:
        run: the first a.
        runs: how many a's.
        fine: the b's.
    """

    run: int
    runs: int
    fine: range

    def __len__(self) -> int:
        """Count the positions."""
        return self.runs * len(self.fine)


def run_of(position: int) -> int:
    """Give the a of a position, rounded towards 0 so that a and b have the position's sign."""
    return position // STRIDE if position >= 0 else -(-position // STRIDE)


def stretches(positions: range) -> Iterator[Stretch]:
    """Cut consecutive positions into stretches."""
    first = positions.start
    while first < positions.stop:
        stretch = _stretch(first, positions.stop if first >= 0 else min(positions.stop, 0))
        yield stretch
        first += len(stretch)


def _stretch(first: int, stop: int) -> Stretch:
    """Make the longest stretch from a position on, up to another of its sign."""
    lowest = 0 if first >= 0 else 1 - STRIDE
    run = run_of(first)
    fine = first - run * STRIDE
    whole_runs = (stop - first) // STRIDE
    if fine == lowest and whole_runs:
        return Stretch(run, whole_runs, range(lowest, lowest + STRIDE))
    return Stretch(run, 1, range(fine, min(lowest + STRIDE, fine + stop - first)))
