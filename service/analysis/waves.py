"""Pairs of a cosine and a sine that turn along rows: how fast, from where on, how large."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.tables.angle import Float64s

Complexes = NDArray[np.complex128]

_TWO_PI = 2 * np.pi

# What engines get wrong far out is still right in the first rows.
EARLY_ROWS = 256


@dataclass(frozen=True, eq=False)
class Waves:
    """Turns that were measured; K pairs, each e^(i(ω·row + φ)) times a scale.

    Attributes:
        scale: what cosines and sines are multiplied by: the median of their norms.
        unevenness: how far norms are from it at most, as a share of it.
        omega: radians per unit of the rows' places, (K,), within ±π/(the smallest step).
        omega_error: how far each may be from what is meant, (K,).
        phase: angle at place 0, (K,), within ±π.
        crookedness: how far angles are from the straight line at most, in radians, (K,).
        step: the smallest step between places: frequencies are known modulo 2π over it.
    """

    scale: float
    unevenness: float
    omega: Float64s
    omega_error: Float64s
    phase: Float64s
    crookedness: Float64s
    step: float


def measure(turns: Complexes, places: Float64s | None = None) -> Waves:
    """Measure turns, each doubling of a step refining what the steps before it said.

    Args:
        turns: cosine + i·sine, shape (S, K), S of 2 at least.
        places: where each row is, (S,), rising; 0, 1, 2, … unless given. Only the first rows are
            looked at.
    """
    norms = np.abs(turns)
    scale = float(np.median(norms)) or 1.0
    unevenness = float(np.max(np.abs(norms / scale - 1)))
    early = turns[:EARLY_ROWS]
    where = np.arange(len(turns), dtype=np.float64) if places is None else places
    where = where[: len(early)]
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.nan_to_num(early / np.abs(early))
    omega, step = _frequencies(unit, where)
    middle = where - where.mean()
    for _ in range(2):
        straight = unit * np.exp(-1j * np.outer(middle, omega))
        centre = np.angle(straight.sum(axis=0))
        bent = np.angle(straight * np.exp(-1j * centre))
        omega = omega + middle @ bent / float(middle @ middle)
    straight = unit * np.exp(-1j * np.outer(middle, omega))
    centre = np.angle(straight.sum(axis=0))
    crookedness = np.abs(np.angle(straight * np.exp(-1j * centre))).max(axis=0)
    reach = float(where[-1] - where[0])
    error = 4 * (crookedness + 2.0**-52) / reach
    phase = _folded(centre - omega * where.mean())
    return Waves(scale, unevenness, omega, error, phase, crookedness, step)


def _frequencies(unit: Complexes, where: Float64s) -> tuple[Float64s, float]:
    """Estimate frequencies from rows ever farther apart, and give the smallest step."""
    step = float(np.diff(where).min())
    omega = np.zeros(unit.shape[1])
    lag, known = 1, 0.0
    while lag < len(unit):
        gaps = where[lag:] - where[:-lag]
        ahead = unit[lag:] * unit[:-lag].conj()
        narrow = gaps == gaps.min()
        gap = float(gaps.min())
        if gap > known:
            turned = np.angle(ahead[narrow].sum(axis=0))
            whole = np.round((gap * omega - turned) / _TWO_PI) if known else 0.0
            omega = (turned + _TWO_PI * whole) / gap
            known = gap
        lag = lag * 2
    return omega, step


def _folded(angles: Float64s) -> Float64s:
    return (angles + np.pi) % _TWO_PI - np.pi
