"""What series of frequencies the rows of a sinusoidal table turn with, and how far apart they are.

Rows that are evenly spaced, or whose places are told, say their frequencies by how they turn from
one to the next. Any row says the ratio of frequencies on its own, as all of its angles are its
position times them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from service.analysis.progression import Geometric
from service.analysis.sinusoids.row_series import climb
from service.analysis.sinusoids.rows import View
from service.analysis.waves import EARLY_ROWS, measure
from service.tables.angle import Float64s

# Rows that are looked at together: all that are early, or a few of them where one is spoilt.
_WINDOWS = ((0, EARLY_ROWS), (0, 8), (8, 24), (24, 56))

# Rows of which some, from the slowest angles to the fastest, say the ratio on their own.
_SEEN_ROWS, _MOST_ROWS = 64, 6

# How crooked rows may be that are evenly spaced: what float32 adds at 2^20 is below it.
_MOST_CROOKED = 0.3

# A ratio of 1 has no base: that of 65,536 channels with a base of 2 is below this.
_MOST_RATIO = 1 - 2.0**-17

_NOTHING_KNOWN = Geometric(1.0, 1.0, np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Course:
    """How the angles of rows run.

    Attributes:
        series: ω_0 times what rows are apart for each unit of their places, and the ratio of
            frequencies; where places say nothing its first number means nothing.
        sign: 1 where angles grow from row to row, −1 where they shrink.
        window: the rows that it was measured on; None where places say nothing.
        places: of every row, as they are told or as they follow each other, (S,): positions are
            these times something, and something more.
    """

    series: Geometric
    sign: int
    window: slice | None
    places: Float64s

    @property
    def is_even(self) -> bool:
        """Tell whether positions follow from the places."""
        return self.window is not None


def courses(view: View, told: Float64s | None = None) -> Iterator[Course]:
    """Give how angles may run: as places are told, from row to row, and each row on its own.

    Args:
        view: the rows.
        told: where they are, rising, as far as that is known.
    """
    rows = np.arange(len(view.rows.values), dtype=np.float64)
    if told is not None and told.shape == rows.shape and (np.diff(told) > 0).all():
        yield from _along(view, told)
    yield from _along(view, rows)
    yield uneven_course(view)


def _along(view: View, places: Float64s) -> Iterator[Course]:
    """Give how angles run along places, if they do in any window."""
    found = (_even(view, slice(*window), places) for window in _WINDOWS)
    yield from islice((course for course in found if course is not None), 1)


def _even(view: View, window: slice, places: Float64s) -> Course | None:
    where = places[view.kept[window]]
    if len(where) < 2:
        return None
    turns, errors = view.part(window)
    waves = measure(turns, where)
    if waves.crookedness.max() > _MOST_CROOKED or waves.unevenness > _MOST_CROOKED:
        return None
    error = waves.omega_error + 2 * errors.max(axis=0) / (where[-1] - where[0])
    if len(waves.omega) == 1:
        return _single(float(waves.omega[0]), float(error[0]), window, places)
    climbed = climb(waves.omega, error)
    if climbed is None or climbed.series.ratio > _MOST_RATIO:
        return None
    return Course(climbed.series, climbed.sign, window, places)


def _single(omega: float, error: float, window: slice, places: Float64s) -> Course | None:
    if abs(omega) <= error:
        return None
    size = abs(omega)
    series = Geometric(size, 1.0, error / size, np.inf)
    return Course(series, 1 if omega > 0 else -1, window, places)


def uneven_course(view: View) -> Course:
    """Give how the angles of each row run on its own, whatever the rows beside it."""
    places = np.linspace(0, len(view.kept) - 1, _SEEN_ROWS).astype(np.intp)
    turns, errors = view.part(np.unique(places))
    angles: Float64s = np.angle(turns)
    order = np.argsort(np.abs(angles[:, -1]))
    some = order[np.unique(np.linspace(0, len(order) - 1, _MOST_ROWS).astype(np.intp))]
    climbed = [climb(angles[row], errors[row]) for row in some]
    found = [each.series for each in climbed if each and each.series.ratio <= _MOST_RATIO]
    series = min(found, key=lambda series: series.ratio_error, default=_NOTHING_KNOWN)
    return Course(series, 1, None, np.arange(len(view.rows.values), dtype=np.float64))
