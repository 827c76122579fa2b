"""Find the positions of rows from the phases of known frequencies, which are known modulo 2π.

The phase of the slowest pair gives a coarse position, each faster pair a finer one. Positions
beyond half a period of the slowest pair are looked for among its whole periods.
"""

import numpy as np

from service.analysis.explanation.measured import UNIT, fold
from service.numerics.phase import Float64s, Int64s

_TWO_PI = 2 * np.pi
# The relative error of an angle in float32: a few roundings.
_ENGINE_ERROR = 8 * UNIT

# Integer positions: periods tried in each direction, positions returned at most, and the largest
# position whose angle float64 resolves.
_WHOLE_PERIODS, _MAX_WHOLE = 4096, 4
_FARTHEST_WHOLE = 2.0**40
# With an error up to this bound, a position rounds to the right integer.
_CERTAIN = 0.25
# One frequency fits any position of many decimals.
_MOST_DECIMALS, _FEW_DECIMALS = 7, 2
# The most rows beyond half a period of the slowest frequency, each of which takes a search.
_MAX_FAR_ROWS, _FEW_ROWS = 64, 4
_LEAST = 1e-300
# Near positions are taken with phases so far off, as one wrong number among many makes them.
_LOOSE = 2.0**-10
# The highest probability of a match by chance.
_MAX_CHANCE = 0.02


def decoded(
    phases: Float64s, omega: Float64s, noise: float, far: float = 0.0, *, is_far: bool = True
) -> Float64s | None:
    """Return the position of each row, (S,), with few decimals; None if a row has none.

    Args:
        phases: the angle of each row and frequency, in radians, (S, K).
        omega: the frequencies, (K,); those that are 0 are left out.
        noise: a bound of the error of an angle.
        far: a distance over which phases were averaged: its angles have float32 errors, too.
        is_far: whether to look beyond half a period of the slowest frequency.
    """
    kept = np.flatnonzero(np.abs(omega) > _LEAST)
    if not len(kept):
        return None
    rates, angles = omega[kept], phases[:, kept]
    position = refined(angles, rates)
    found = np.full(len(angles), np.nan)
    for decimals in range((_MOST_DECIMALS if is_far and len(rates) > 1 else _FEW_DECIMALS) + 1):
        left = np.flatnonzero(np.isnan(found))
        near = np.round(position[left], decimals)
        fits = _fit(near, angles[left], rates, noise, far)
        found[left[fits]] = near[fits]
        left = left[~fits]
        if not len(left):
            return found + 0.0
        if is_far and decimals == _FEW_DECIMALS and len(left) <= _MAX_FAR_ROWS:
            # A distant integer is likelier than a fraction of many digits.
            for row in left:
                whole = whole_positions(angles[row], rates, noise)
                if len(whole) and _is_unlikely(float(whole[0]), rates, noise):
                    found[row] = whole[0]
                elif len(left) > _FEW_ROWS:
                    return None
            if not np.isnan(found).any():
                return found + 0.0
    return None


def refined(phases: Float64s, omega: Float64s) -> Float64s:
    """Return positions (S,) within half a period of the slowest frequency, as they are measured."""
    position = np.zeros(len(phases))
    for k in np.argsort(np.abs(omega)):
        position += fold(phases[:, k] - position * omega[k]) / omega[k]
    return position


def _fit(
    places: Float64s, angles: Float64s, rates: Float64s, noise: float, far: float
) -> np.ndarray:
    residual = np.abs(fold(angles - places[:, None] * rates))
    reach = (np.abs(places)[:, None] + far) * np.abs(rates)
    return np.asarray((residual <= 2 * noise + _ENGINE_ERROR * reach).all(axis=1))


def _is_unlikely(place: float, rates: Float64s, noise: float) -> bool:
    """Return whether no integer up to a position fits by chance."""
    allowed = 2 * noise + _ENGINE_ERROR * abs(place) * np.abs(rates)
    return float(np.minimum(allowed / np.pi, 1.0).prod()) * (2 * abs(place) + 1) <= _MAX_CHANCE


def start_of(phases: Float64s, omega: Float64s, noise: float, far: float) -> float | None:
    """Return the one position of phases (K,), for whole coordinates from it; None if none fits."""
    for near, is_far in ((max(noise, _LOOSE), False), (noise, True)):
        found = decoded(phases[np.newaxis], omega, near, far, is_far=is_far)
        if found is not None:
            return float(found[0])
    return None


def whole_positions(angles: Float64s, omega: Float64s, error: float) -> Int64s:
    """Return at most 4 integers p with p·omega = angles modulo 2π, the nearest to 0 first.

    Args:
        angles: the angles of one row, in radians, (K,).
        omega: frequencies in radians per position, in any order, not negative, (K,).
        error: a bound of the absolute errors of the angles.
    """
    # Slower frequencies give angles below the error at all positions searched: leave them out.
    order = np.argsort(omega, kind="stable")
    order = order[omega[order] * _FARTHEST_WHOLE > error]
    if not len(order):
        return np.zeros(0, dtype=np.int64)
    phases, rates = angles[order], omega[order]
    periods = np.arange(-_WHOLE_PERIODS, _WHOLE_PERIODS + 1.0)
    values = (phases[0] + _TWO_PI * periods) / rates[0]
    bounds = error / rates[0] + np.abs(values) * _ENGINE_ERROR
    k = 0
    while len(values) and bounds.max() > _CERTAIN and k + 1 < len(order):
        # The fastest frequency whose full periods the values determine, or else the next one.
        k = max(k + 1, int(np.count_nonzero(rates * bounds.max() < 1)) - 1)
        phase, rate = phases[k], rates[k]
        finer = (phase + _TWO_PI * np.round((values * rate - phase) / _TWO_PI)) / rate
        values = finer[np.abs(finer - values) <= bounds + error / rate]
        bounds = error / rate + np.abs(values) * _ENGINE_ERROR
    positions = np.unique(np.round(values[np.abs(values) < _FARTHEST_WHOLE])).astype(np.int64)
    positions = positions[np.argsort(np.abs(positions), kind="stable")]
    allowed = 2 * error + np.outer(np.abs(positions), rates) * _ENGINE_ERROR
    residuals = fold(np.outer(positions, rates) - phases)
    return positions[(np.abs(residuals) <= allowed).all(axis=1)][:_MAX_WHOLE]
