"""Mistakes in numbers of which nothing is known: a factor, and rows that are elsewhere."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.checks import Subject, Suspect, check, sampled
from service.analysis.mistakes.slips import LEAST_FACTOR, factor_mistake

_SHIFTS = 64


def of_values(subject: Subject, straight: Suspect, epsilon: float) -> Iterator[Suspect]:
    """Give what may have been done to numbers of which nothing is known."""
    rows = sampled(straight.rows, len(straight.extent.want))
    wanted, _ = straight.expected(subject, rows)
    found = straight.found(subject, rows)
    factor = float((found * wanted).sum() / ((wanted * wanted).sum() or 1.0))
    if factor >= LEAST_FACTOR and abs(factor - 1) > 4 * epsilon:
        yield replace(straight, mistakes=(factor_mistake(factor),), factor=factor)
    for shift in range(1, min(_SHIFTS, straight.rows - 1)):
        moved = replace(straight, shift=shift)
        if check(subject, moved, np.arange(2)).is_whole:
            named = Mistake("position-offset", {"rows": shift})
            yield replace(moved, mistakes=(named,))
