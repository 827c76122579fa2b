"""What somebody may have made in place of waves: measured, and named by known mistakes."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.mistakes.catalogue import MOST_MISTAKES, Mistake
from service.analysis.mistakes.frequencies import frequency_mistakes
from service.analysis.mistakes.slips import LEAST_FACTOR, factor_mistake, slips
from service.analysis.mistakes.turns import NARROWINGS, Turned
from service.analysis.mistakes.waves import Waves, offset_of
from service.analysis.waves import EARLY_ROWS, Complexes, measure
from service.tables.angle import Float64s


def turned(waves: Waves, rows: Float64s, epsilon: float) -> Iterator[Turned]:
    """Give what known mistakes make of waves, as far as rows speak for it.

    Args:
        waves: what is wanted.
        rows: what somebody has, in the order that is wanted: the first of them, at most
            EARLY_ROWS.
        epsilon: by how much a number of size 1 may be off by rounding.
    """
    turns = waves.turns(rows)
    norms = np.abs(turns)
    size = float(np.median(norms))
    if size < LEAST_FACTOR:
        return
    scaled = _scaled(waves, size, epsilon)
    yield from slips(waves, rows)
    if float(np.median(np.abs(norms / size - 1))) > 8 * epsilon:
        return
    plain = list(_speeds(waves, turns, epsilon))
    for named, speeds, shift in plain:
        for factor_named, factor in scaled:
            mistakes = (*named, *factor_named)
            found = Turned(mistakes, speeds, speeds, shift, None, factor)
            if len(mistakes) <= MOST_MISTAKES:
                yield found
            for narrowing in NARROWINGS:
                every = (*mistakes, *narrowing.mistakes)
                if len(every) <= MOST_MISTAKES:
                    yield replace(found, mistakes=every, narrowing=narrowing)


def _scaled(waves: Waves, size: float, epsilon: float) -> list[tuple[tuple[Mistake, ...], float]]:
    """Name what numbers are multiplied by, beside what they should be."""
    ratio = size / waves.scale
    if abs(ratio - 1) <= 4 * epsilon:
        return [((), 1.0)]
    if abs(size - 1) <= 4 * epsilon:
        values = {"ratio": 1 / waves.scale, "factor": waves.scale}
        return [((Mistake("missing-factor", values),), 1 / waves.scale)]
    return [((factor_mistake(ratio),), ratio)]


def _speeds(
    waves: Waves, turns: Complexes, epsilon: float
) -> Iterator[tuple[tuple[Mistake, ...], Float64s, float]]:
    """Give frequencies and shifts that what was measured allows."""
    early = turns[:EARLY_ROWS]
    positions = waves.positions[: len(early)]
    if len(early) < 2:
        for named, speeds in frequency_mistakes(waves, waves.omega, waves.omega * 0.0):
            yield from _shifts(named, speeds, np.angle(early[0]) - positions[0] * speeds)
        return
    measured = measure(early, positions)
    error = measured.omega_error + epsilon * np.abs(measured.omega)
    # What was held in bfloat16 is off by 2^-9 of it at most.
    loose = np.maximum(error, 2.0**-8 * np.abs(measured.omega))
    tried: set[bytes] = set()
    for errors in (error, loose):
        for named, speeds in frequency_mistakes(waves, measured.omega, errors):
            if speeds.tobytes() in tried:
                continue
            tried.add(speeds.tobytes())
            centre = positions.mean()
            moved = measured.phase + centre * (measured.omega - speeds)
            yield from _shifts(named, speeds, moved, measured.phase)


def _shifts(
    named: tuple[Mistake, ...], speeds: Float64s, *phases: Float64s
) -> Iterator[tuple[tuple[Mistake, ...], Float64s, float]]:
    yield named, speeds, 0.0
    for shift in {offset_of(phase, speeds, 0.2) for phase in phases}:
        if shift:
            yield (*named, Mistake("position-offset", {"rows": int(shift)})), speeds, shift
