"""Bands of tokens from −1 to 1: frequencies π·b that go up to half of some whole number."""

import numpy as np
from numpy.typing import NDArray

from service.analysis.grids.grid_series import STRUCTURE, AxisTurns
from service.tables.angle import Float64s

_TWO_PI = 2 * np.pi
_MOST_BANDS = 2048


def pixel_bands(along: AxisTurns, factor: float = 1.0) -> list[tuple[int, bool]]:
    """Find twice the highest of bands from 1 on, for tokens from −1 to 1.

    Band b turns by π·b·x. Both the rates, π·b·2/(L − 1), and the phases, −π·b, go round, so each
    whole number is looked at that the highest band may be half of.

    Args:
        along: the axis.
        factor: what coordinates are multiplied by.

    Returns:
        the numbers, and whether bands are evenly spaced, for those that fit.
    """
    count = len(along.rates)
    if not count or not _fit_bands(np.array([[factor]]), along).all():
        return []
    highest = np.arange(1, _MOST_BANDS + 1) / 2
    share = np.arange(count) / max(count - 1, 1)
    found = []
    for is_linear in (True, False):
        bands = (
            1 + share * (highest[:, np.newaxis] - 1)
            if is_linear
            else highest[:, np.newaxis] ** share
        )
        fits = _fit_bands(factor * bands, along)
        found += [(int(2 * highest[place]), is_linear) for place in np.flatnonzero(fits)]
    return sorted(found, key=lambda each: each[0])


def _fit_bands(bands: Float64s, along: AxisTurns) -> NDArray[np.bool_]:
    """Tell which rows of bands (M, K) turn like the first K of an axis from −1 to 1."""
    count = bands.shape[1]
    angles = 64 * along.noise + STRUCTURE
    fits: NDArray[np.bool_]
    fits = np.abs(_folded(-np.pi * bands - along.phases[:count])).max(axis=1) <= angles
    if along.length > 1:
        rates = np.pi * bands * (2 / (along.length - 1))
        allowed = 4 * along.errors[:count] + angles / (along.length - 1)
        fits &= (np.abs(_folded(rates - along.rates[:count])) <= allowed).all(axis=1)
    return fits


def _folded(angles: Float64s) -> Float64s:
    folded: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return folded


def sine_bands(sines: Float64s, rounding: float) -> AxisTurns | None:
    """Read sines (L, K) of evenly spaced bands whose cosines are not there.

    sin(π·x) is the first of them at the tokens from −1 to 1, whatever the highest band; each whole
    number is looked at that the highest may be half of.
    """
    length, count = sines.shape
    x = -1 + np.arange(length) * (2 / max(length - 1, 1))
    loose = 8 * rounding + STRUCTURE
    if np.abs(np.sin(np.pi * x) - sines[:, 0]).max() > loose:
        return None
    highest = np.arange(1, _MOST_BANDS + 1) / 2
    share = np.arange(count) / max(count - 1, 1)
    bands = 1 + share * (highest[:, np.newaxis] - 1)
    left = np.ones(len(highest), dtype=np.bool_)
    for token in range(min(length, 16)):
        made = np.sin(np.pi * bands[left] * x[token])
        left[left] = np.abs(made - sines[token]).max(axis=1) <= loose
    if not left.any():
        return None
    chosen = np.pi * bands[np.argmax(left)]
    errors = np.full(count, loose)
    return AxisTurns(chosen * (x[1] - x[0] if length > 1 else 0.0), -chosen, errors, loose, length)
