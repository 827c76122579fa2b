"""Positions of the rows of a sinusoidal table, and how a request spells them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from service.analysis.plain import plain_numbers
from service.analysis.sinusoids.row_places import Places, locate, locate_whole
from service.analysis.sinusoids.row_series import ENGINE_SHARE
from service.analysis.sinusoids.rows import View
from service.analysis.sinusoids.series import Course
from service.grammar import spelled
from service.tables.angle import Float64s
from service.tables.document import ParameterValue
from service.tables.positions import Positions

# Rows that are listed one by one: a longer list is no URL.
_MOST_LISTED = 4096

# Rows that are looked at before all of them are.
_TRIED_ROWS = 8

# Frequencies by which all rows are located.
_MOST_PAIRS = 64

_WHOLE = 1e-6
_MOST_DIGITS = 9

# A start that is no whole number is doubted if it takes more to write it.
_FEW_CHARACTERS = 5
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class Positioned:
    """Where rows are.

    Attributes:
        values: the position of each row, (S,), that of a row of zeros where its neighbours are
            evenly spaced, and NaN otherwise.
        residual: how far angles are from those of the positions at most, in radians, where it
            was looked.
        step: from row to row; None where they are not evenly spaced.
    """

    values: Float64s
    residual: float
    step: float | None

    @property
    def is_whole(self) -> bool:
        """Tell whether all are whole numbers."""
        known = self.values[~np.isnan(self.values)]
        return bool((known == np.round(known)).all())

    def moved(self, distance: float) -> Float64s:
        """Give them so much further on."""
        return self.values + distance


def positions_of(view: View, course: Course, omega: Float64s) -> Positioned | None:
    """Find the positions that rows have, if frequencies are those; None if there are none.

    Args:
        view: the rows.
        course: how their angles run.
        omega: radians per position, (K,) or more.
    """
    omega = omega[: view.pairs]
    if not course.window:
        return _each(view, omega)
    step = _step(course, float(omega[0]))
    where = course.places[view.kept[course.window]]
    turns, angle_errors = view.part(course.window)
    straight = turns * np.exp(-1j * step * np.outer(where, omega))
    phases = np.angle(straight.sum(axis=0))[np.newaxis]
    # Frequencies that engines have in float32 are off by as much as rows are far.
    engine = ENGINE_SHARE * abs(step) * omega * np.abs(where).max()
    errors = (np.median(angle_errors, axis=0) + engine)[np.newaxis]
    found = _one(phases, errors, omega)
    if found is None:
        return None
    start = float(found.rounded()[0])
    if not _is_written(start) or not _is_written(step):
        return None
    apart = np.diff(course.places)
    is_even = len(apart) > 0 and bool((apart == apart[0]).all())
    between = step * float(apart[0]) if is_even else None
    return Positioned(start + step * course.places, found.residual, between)


def _each(view: View, omega: Float64s) -> Positioned | None:
    some = np.unique(np.linspace(0, len(view.kept) - 1, _TRIED_ROWS).astype(np.intp))
    turns, errors = view.part(some)
    if locate(np.angle(turns), errors, omega) is None:
        return None
    # Of many frequencies some say as much, the slowest among them: each is near enough to the next.
    step = -(-view.pairs // _MOST_PAIRS)
    pairs = slice((view.pairs - 1) % step, None, step)
    turns, errors = view.part(slice(None), pairs)
    omega = omega[pairs]
    find = _one if len(turns) == 1 else locate
    found = find(np.angle(turns), errors, omega)
    if found is None:
        return None
    values = np.full(len(view.rows.values), np.nan)
    values[view.kept] = found.rounded()
    return Positioned(values, found.residual, None)


def _one(phases: Float64s, errors: Float64s, omega: Float64s) -> Places | None:
    """Locate one row, (1, K): at a whole position if it is at no short fraction."""
    found = locate(phases, errors, omega)
    if found is None:
        return None
    start = float(found.rounded()[0])
    if not np.isfinite(start):
        return None
    if start != round(start) and len(spelled(start)) > _FEW_CHARACTERS:
        return locate_whole(phases, errors, omega) or found
    return found


def _step(course: Course, fastest: float) -> float:
    """Give the step between rows: whole if it may be, and otherwise in few digits."""
    step = course.series.first / fastest
    error = max(2 * course.series.first_error, _WHOLE)
    if round(step) and abs(step - round(step)) <= min(error * step, 0.5):
        return course.sign * float(round(step))
    return course.sign * next(plain_numbers(step, error), step)


def _is_written(number: float) -> bool:
    """Tell whether somebody may have written a number down, as a float32 at the most."""
    return number == round(number) or float(f"{number:.{_MOST_DIGITS - 1}e}") == number


def spelled_positions(values: Float64s) -> Mapping[str, ParameterValue] | None:
    """Spell positions as parameters, as shortly as they can be; None where they cannot be.

    Args:
        values: one for each row, none of them NaN.
    """
    if np.abs(values).max() >= _LARGEST:
        return None
    if (values == np.round(values)).all():
        positions = Positions.of_runs(map(int, values.tolist()))
        if positions.is_contiguous:
            start = positions.runs[0].first
            return {"seq_len": positions.count, **({"start": start} if start else {})}
        if len(positions.runs) > _MOST_LISTED:
            return None
        return {"positions": str(positions)}
    listed = listed_numbers(values)
    return None if listed is None else {"positions": listed}


def listed_numbers(values: Float64s) -> str | None:
    """List numbers with commas between them; None where there are too many of them."""
    if len(values) > _MOST_LISTED:
        return None
    return spelled(tuple((values + 0.0).tolist()))
