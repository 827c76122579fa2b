"""Where rows are, by the angles that known frequencies have there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.sinusoids.row_series import ENGINE_SHARE
from service.tables.angle import Float64s

_TWO_PI = 2 * np.pi

# How far a place is looked for: the turns of the slowest frequency on the way there, at most.
_MOST_TURNS = 2**15
_FARTHEST = 2.0**24

# How likely it may be that none of the places that were tried is meant, and one fits.
_MOST_CHANCE = 0.02

# Rows that are looked for one by one when they are not within half a turn of the slowest.
_MOST_FAR_ROWS = 64

# Phases of float64 that sums and products of it have gone through.
_EXACT_SHARE = 2.0**-48

_LEEWAY = 2.0
_HALF = 0.5


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows are.

    Attributes:
        values: the place of each row, (R,).
        errors: how far each may be from what is meant, (R,).
        residual: how far angles are from those of the places at most, in radians.
    """

    values: Float64s
    errors: Float64s
    residual: float

    def rounded(self) -> Float64s:
        """Give whole numbers where the errors allow them, and otherwise those of few digits."""
        rounded = np.round(self.values)
        is_whole = np.abs(self.values - rounded) <= np.minimum(_LEEWAY * self.errors, _HALF)
        for row in np.flatnonzero(~is_whole):
            rounded[row] = _shortest(float(self.values[row]), float(self.errors[row]))
        return rounded + 0.0


def _shortest(number: float, error: float) -> float:
    shorter = (float(f"{number:.{digits}e}") for digits in range(17))
    return next((short for short in shorter if abs(short - number) <= error), number)


def locate(phases: Float64s, errors: Float64s, omega: Float64s) -> Places | None:
    """Find places p whose angles p·omega are the phases, whole turns left out; None if none are.

    From the slowest frequency on each one tells, to its own error over itself, where within its
    turn a row is, and those before it which turn that is. Angles are taken to be exact first, and
    then as engines have them that count in float32.

    Args:
        phases: within ±π, (R, K).
        errors: how far each may be from what is meant, (R, K).
        omega: radians per unit, falling, none of them 0, (K,).
    """
    return _located(phases, errors, omega, _EXACT_SHARE) or _located(
        phases, errors, omega, ENGINE_SHARE
    )


def locate_whole(phases: Float64s, errors: Float64s, omega: Float64s) -> Places | None:
    """Find the whole place of one row, (1, K), however many turns away; None if there is none."""
    for share in (_EXACT_SHARE, ENGINE_SHARE):
        far = _far(phases[0], errors[0], omega, share, is_whole=True)
        if far is not None:
            place, doubt, missed = (np.array([part]) for part in far)
            return _places(place, doubt, missed, share)
    return None


def _located(phases: Float64s, errors: Float64s, omega: Float64s, share: float) -> Places | None:
    values, doubts, missed, fits, _ = _near(phases, errors, omega, np.zeros(1), share)
    rows = np.flatnonzero(~fits)
    if len(rows) > _MOST_FAR_ROWS:
        return None
    for row in rows:
        far = _far(phases[row], errors[row], omega, share, is_whole=False)
        if far is None:
            return None
        values[row], doubts[row], missed[row] = far
    return _places(values, doubts, missed, share)


def _places(values: Float64s, doubts: Float64s, missed: Float64s, share: float) -> Places:
    return Places(values, doubts + share * np.abs(values), float(missed.max()))


def _far(
    phases: Float64s, errors: Float64s, omega: Float64s, share: float, *, is_whole: bool
) -> tuple[float, float, float] | None:
    """Find the place of a row, its error and how far angles miss theirs; None if chance may do it.

    Where most places fit in the end that many were tried for, fitting says nothing.
    """
    most = int(min(np.ceil(_FARTHEST * omega[-1] / _TWO_PI), _MOST_TURNS))
    turns = np.arange(-most, most + 1, dtype=np.float64)
    places, doubts, missed, fits, chance = _near(phases, errors, omega, turns, share)
    among = np.flatnonzero(fits)
    if not len(among):
        return None
    doubt = _LEEWAY * doubts[among] + share * np.abs(places[among])
    whole = np.abs(places[among] - np.round(places[among])) <= doubt
    if whole.any():
        chance = chance * float(np.minimum(2 * doubt[whole], 1.0).max())
        among = among[whole]
    elif is_whole:
        return None
    best = among[np.abs(places[among]).argmin()]
    if chance * np.count_nonzero(np.abs(places) <= abs(places[best])) > _MOST_CHANCE:
        return None
    return float(places[best]), float(doubts[best]), float(missed[best])


def _near(
    phases: Float64s, errors: Float64s, omega: Float64s, turns: Float64s, share: float
) -> tuple[Float64s, Float64s, Float64s, NDArray[np.bool_], float]:
    """Refine places from the slowest frequency on, for each row, or for each number of its turns.

    Returns:
        Places, their errors, how far angles miss theirs, whether all miss it by no more than the
        errors say, each (R,) or (T,); and how likely it is that any place at all fits.
    """
    places = (phases[..., -1] + _TWO_PI * turns) / omega[-1]
    doubts = errors[..., -1] / omega[-1] + 0 * places
    missed, alive, chance = np.zeros_like(places), np.arange(len(places)), 1.0
    for k in range(len(omega) - 2, -1, -1):
        if not len(alive):
            break
        place, doubt = places[alive], doubts[alive]
        phase, error = (part if part.ndim == 0 else part[alive] for part in _at(phases, errors, k))
        off = phase - place * omega[k]
        off -= _TWO_PI * np.round(off / _TWO_PI)
        allowed = _LEEWAY * ((doubt + share * np.abs(place)) * omega[k] + error)
        missed[alive] = np.maximum(missed[alive], np.abs(off))
        chance *= float(np.minimum(allowed / np.pi, 1.0).max(initial=0.0))
        better = (error / omega[k] < doubt) & (allowed < np.pi)
        places[alive] = np.where(better, place + off / omega[k], place)
        doubts[alive] = np.where(better, error / omega[k], doubt)
        alive = alive[np.abs(off) <= allowed]
    fits = np.zeros(len(places), dtype=np.bool_)
    fits[alive] = True
    return places, doubts, missed, fits, chance


def _at(phases: Float64s, errors: Float64s, k: int) -> tuple[Float64s, Float64s]:
    return np.asarray(phases[..., k]), np.asarray(errors[..., k])
