"""Rows of distances with gaps between them: where each one is, by what it holds."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from service.tables.angle import Int64s

OfDistances: TypeAlias = Callable[[Int64s], Int64s]
"""Gives the number of each distance key - query."""

# Rows are looked for one after another, among places as far as this from the first key.
_MOST_ROWS = 1024
_REACH = 4096
_PROBES = 6


def aligned(rows: Int64s, of_distances: OfDistances, sign: int) -> Int64s | None:
    """Find where each row (R, K) is, if all are what a rule says of K neighbours and that place.

    Args:
        rows: what is known of them.
        of_distances: the rule.
        sign: 1 where rows are of queries, -1 where they are of keys.

    Returns:
        How far each row is after the first of its columns, or None where one is nowhere. Of
        several places the one is taken that goes on from its neighbours.
    """
    count, width = rows.shape
    if count > _MOST_ROWS:
        return None
    reach = _REACH + width
    offsets = np.arange(-reach, reach + width, dtype=np.int64)
    windows = sliding_window_view(of_distances(sign * offsets), width)
    probes = np.unique(np.linspace(0, width - 1, _PROBES, dtype=np.int64))
    probed = windows[:, probes]
    found: list[Int64s] = []
    for row in rows:
        likely = np.flatnonzero((probed == row[probes]).all(axis=1))
        exact = likely[(windows[likely] == row).all(axis=1)]
        if not len(exact):
            return None
        # A window that starts at distance d is of a row that is at -d, its first column at 0.
        found.append(-offsets[exact])
    return _going_on(found)


def _going_on(found: list[Int64s]) -> Int64s:
    """Choose of several places those nearest to the line through rows with one place only."""
    known = np.array([row for row, places in enumerate(found) if len(places) == 1])
    if not len(known):
        return np.array([places[np.abs(places).argmin()] for places in found])
    exact = np.array([found[row][0] for row in known])
    step = 1.0
    if len(known) > 1:
        step = float(exact[-1] - exact[0]) / float(known[-1] - known[0])
    chosen = []
    for row, places in enumerate(found):
        beside = np.abs(known - row).argmin()
        expected = exact[beside] + step * (row - known[beside])
        chosen.append(places[np.abs(places - expected).argmin()])
    return np.array(chosen, dtype=np.int64)
