"""Readings of an array: a view, the rows that are examined first, and what is known of them.

Up to 512 rows all are examined. Of more: the first 96, 2^k − 1, 2^k and 2^k + 1, the last 16, 64
evenly spaced ones, and these 64 times 7919 modulo the number of rows. A fault that begins at a row
and goes on is seen in the last rows; one of a sixty-third of the rows or more, and one with a
period of up to 96 rows, too; a random share q of the rows is missed with (1 − q)^128. What narrow
integers do shows at powers of two. The last pass, over every number, finds the rest.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from service.analysis.array import LARGEST
from service.analysis.explanation.arithmetic import Waves
from service.analysis.explanation.candidates import Candidate
from service.analysis.explanation.measured import Measured, measure
from service.analysis.explanation.target import Target
from service.analysis.explanation.views import (
    HALF_STEP,
    Note,
    View,
    is_constant,
    views,
    without_tail,
)
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices
from service.numerics.tables import StoredTable

ALL_ROWS = 512
"""Up to this many rows all are examined."""

_FIRST, _LAST, _EVEN, _SCATTER = 96, 16, 64, 7919
# A few rows tell whether the others are worth a look.
_FEW_ROWS, _MOST_DECIMALS = 4, 6
# Numbers are looked at in so many rows first; fewer numbers may have few decimals by chance; and
# a last decimal below this share of the largest number is lost in float32.
_FIRST_ROWS, _FEWEST_FRACTIONS, _COARSE = 16, 3, 12 * 2.0**-24
DESCRIPTION = "the first 96 rows, those around powers of two, the last 16, and 128 spread ones"


def sampled_rows(rows: int) -> Indices:
    """Return the indices of the rows to examine, rising."""
    if rows <= ALL_ROWS:
        return np.arange(rows)
    powers = [2**k + near for k in range(5, 63) if 2**k <= rows for near in (-1, 0, 1)]
    even = np.linspace(0, rows - 1, _EVEN).astype(np.int64)
    chosen: Iterable[int] = (
        *range(_FIRST),
        *powers,
        *range(rows - _LAST, rows),
        *even.tolist(),
        *(even * _SCATTER % rows).tolist(),
    )
    return np.unique([row for row in chosen if row < rows])


@dataclass(frozen=True, eq=False)
class Reading:
    """A view of the arrays, its sampled rows, and what is known of them.

    Attributes:
        view: all rows.
        sample: the sampled rows, as float64.
        rows: their indices.
        places: the expected position of each row of the view, (S, 1) or (S, K).
        dtype: the narrowest type that holds the sampled numbers.
        decimals: the number of decimals to which all of them are rounded; 0 if to none.
        tail: a note about rows of padding at the end.
        blank: the position whose row should be zero; None if none should.
        scale: the size that cosines and sines should have.
    """

    view: View
    sample: View
    rows: Indices
    places: Float64s
    dtype: DType
    decimals: int
    tail: Note | None
    blank: float | None = None
    scale: float = 1.0

    def waves(self, candidate: Candidate, rows: Indices | slice) -> Waves:
        """Return what a candidate predicts of some rows of the view."""
        moved = candidate
        if candidate.places is not None:
            moved = replace(candidate, places=candidate.places[rows])
        waves = moved.waves(self.places[rows])
        if self.blank is None:
            return waves
        where = candidate.places[rows] if candidate.places is not None else self.places[rows]
        return replace(waves, blank=(where + candidate.shift)[:, 0] == self.blank)

    @property
    def sent(self) -> int:
        """The number of rows of the array, with those of padding at the end."""
        return self.view.rows if self.tail is None else int(self.tail.values["to"]) + 1

    @cached_property
    def is_finite(self) -> bool:
        """True if no sampled number is NaN or infinite."""
        return all(bool(np.isfinite(part).all()) for part in self.sample.parts)

    @cached_property
    def moves(self) -> bool:
        """True if rows differ, or if there is only one."""
        parts = self.sample.parts
        return len(self.rows) < 2 or any(bool((part != part[:1]).any()) for part in parts)

    @cached_property
    def is_constant(self) -> bool:
        tolerance = (
            16 * HALF_STEP[self.dtype] + 1e-5 + 4 * (10.0**-self.decimals if self.decimals else 0)
        )
        return is_constant(self._of_positions, tolerance)

    @property
    def _of_positions(self) -> View:
        """The sampled rows that are not those of padding."""
        return self.sample if self.blank is None else self.sample.at(self._with_numbers)

    @property
    def _with_numbers(self) -> Indices:
        if self.blank is None:
            return np.arange(len(self.rows))
        known = np.flatnonzero(np.any([part.any(axis=1) for part in self.sample.parts], axis=0))
        return known if len(known) else np.arange(len(self.rows))

    @cached_property
    def measured(self) -> Measured | None:
        """The frequencies, if the rows have one position each and there are several."""
        if len(self.rows) < 2 or self.places.shape[1] > 1:
            return None
        positions = self.places[self.rows, 0][self._with_numbers]
        if not self.sample.has_pairs and positions[0] != 0:
            # One of cosines and sines shows its angles only from position 0 on.
            return None
        steps = np.diff(np.unique(positions))
        # Frequencies are known modulo 2π over the smallest step, if all steps are multiples of it.
        if not len(steps) or (steps % steps.min()).any() or not self.is_constant:
            return None
        return measure(self._of_positions, positions, self.scale)


def readings_of(arrays: Mapping[str, StoredTable], target: Target) -> Iterator[Reading]:
    """Yield the readings of arrays as a target, lazily, the most plausible first.

    Once a reading has a possible number of frequencies, those with an impossible one are left out.
    """
    is_any_possible = False
    for found in views(arrays, target.wanted):
        is_possible = target.may_have(found.count)
        if is_any_possible and not is_possible:
            continue
        is_any_possible |= is_possible
        view, tail = without_tail(found)
        rows = sampled_rows(view.rows)
        places = target.places(view.rows)
        if places is None:
            continue
        sample = view.at(rows)
        # Squares of larger numbers overflow, and no table has any.
        is_finite = all((np.abs(part) <= LARGEST).all() for part in sample.parts)
        dtype = held_dtype(sample) if is_finite else view.dtype
        decimals = _decimals(sample) if is_finite and dtype in {FLOAT32, FLOAT64} else 0
        if decimals:
            sample = replace(sample, slack=0.5 * 10.0**-decimals + 1e-12)
        sample = replace(sample, dtype=dtype)
        blank = target.structure.blank
        yield Reading(view, sample, rows, places, dtype, decimals, tail, blank, target.scale)


def held_dtype(view: View) -> DType:
    """Return the narrowest real type that holds all numbers of a view."""
    for narrow in (BFLOAT16, FLOAT16, FLOAT32):
        if HALF_STEP[narrow] <= HALF_STEP[view.dtype]:
            break
        first = all(
            np.array_equal(rounded(part[:_FEW_ROWS], narrow), part[:_FEW_ROWS])
            for part in view.parts
        )
        if first and all(np.array_equal(rounded(part, narrow), part) for part in view.parts):
            return narrow
    return view.dtype


def _decimals(view: View) -> int:
    """Return to how many decimals, 2 to 6, all numbers are rounded; 0 if to none."""
    if not all(_is_rounded(part[:_FEW_ROWS], _MOST_DECIMALS) for part in view.parts):
        return 0
    first = [part[:_FIRST_ROWS] for part in view.parts]
    fractions = np.concatenate([part[part % 1 != 0] for part in first])
    # Fewer numbers may have few decimals by chance.
    if len(np.unique(fractions)) < _FEWEST_FRACTIONS:
        return 0
    largest = max(float(np.abs(part).max(initial=0)) for part in view.parts)
    for decimals in range(2, _MOST_DECIMALS + 1):
        if 10.0**-decimals < _COARSE * largest:
            return 0
        if all(_is_rounded(part[:_FEW_ROWS], decimals) for part in view.parts) and all(
            _is_rounded(part, decimals) for part in view.parts
        ):
            return decimals
    return 0


def _is_rounded(numbers: Float64s, decimals: int) -> bool:
    close = 2.0**-24 * np.abs(numbers).max(initial=0)
    return bool(np.abs(np.round(numbers, decimals) - numbers).max(initial=0) <= close)
