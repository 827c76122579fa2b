"""Where rows are, from the angles of channels whose frequencies are known."""

from collections.abc import Iterator

import numpy as np

from service.tables.angle import Float64s, Int64s

_MOST_TURNS = 4096
_MOST_KEPT = 4

# Farther out than this float64 has no room for an angle beside its turns.
_FARTHEST = 2.0**40
_TWO_PI = 2 * np.pi

# Frequencies in float32 are a few units of the last place off, and an angle by as much.
_FREQUENCY_ERROR = 2.0**-21


def positions_of(angles: Float64s, omega: Float64s, error: float) -> Iterator[Int64s]:
    """Find integers p with p·ω_k the angle of each channel, modulo whole turns.

    The slowest channel says p up to whole turns of its own; each faster one after it says it more
    exactly. Where the slowest turns often, several p are left: those near 0 come first.

    Args:
        angles: in radians, (K,) or, for many rows, (S, K).
        omega: radians per position, (K,), none below 0.
        error: how far angles may be off, in radians.

    Yields:
        For each row those that fit, at most four.
    """
    turning = np.flatnonzero(omega > 0)
    order = turning[np.argsort(omega[turning])]
    rows = np.atleast_2d(angles)
    return (_of_row(row, omega, order, error) for row in rows)


def _of_row(row: Float64s, omega: Float64s, order: Int64s, error: float) -> Int64s:
    if not len(order):
        return np.zeros(0, dtype=np.int64)
    # A channel slower than this turns by no more than its own error on the way to the farthest.
    order = order[omega[order] * _FARTHEST > error]
    first = order[0]
    turns = np.arange(-_MOST_TURNS, _MOST_TURNS + 1)
    kept = (row[first] + _TWO_PI * turns) / omega[first]
    off = error / omega[first] + np.abs(kept) * _FREQUENCY_ERROR
    place = 0
    while len(kept) and (off > 0.25).any() and place + 1 < len(order):
        place = _next(order, omega, place, float(off.max()))
        channel = order[place]
        turned = np.round((kept * omega[channel] - row[channel]) / _TWO_PI)
        finer = (row[channel] + _TWO_PI * turned) / omega[channel]
        fits = np.abs(finer - kept) <= off + error / omega[channel]
        kept = finer[fits]
        off = error / omega[channel] + np.abs(kept) * _FREQUENCY_ERROR
    kept = kept[np.abs(kept) < _FARTHEST]
    whole = np.unique(np.round(kept)).astype(np.int64)
    whole = whole[np.argsort(np.abs(whole), kind="stable")]
    allowed = 2 * error + np.outer(np.abs(whole), omega[order]) * _FREQUENCY_ERROR
    left = np.outer(whole, omega[order]) - row[order]
    fits = np.abs((left + np.pi) % _TWO_PI - np.pi) <= allowed
    return whole[fits.all(axis=1)][:_MOST_KEPT]


def _next(order: Int64s, omega: Float64s, place: int, off: float) -> int:
    """Give the fastest channel that what is known so far leaves no doubt of a turn in."""
    clear = np.flatnonzero(omega[order] * off < 1.0)
    return max(place + 1, int(clear[-1]) if len(clear) else 0)
