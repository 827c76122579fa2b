"""Numbers that were cut to a few decimals, as they are when they are printed and read again."""

from collections.abc import Iterator

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.tables.angle import Float64s

# float32 has some seven decimals: with more of them numbers are as good as they were.
_MOST_DECIMALS = 7

# How near the float32 of a decimal is to that decimal: 2^-24 of it. Beside the last of seven
# decimals, 10^-7, that of 1 is 0.6: as numbers of float32 all have seven decimals.
_NEAR = 2.0**-24

# Fewer numbers than this may be of a few decimals by chance, or because they are 0 and 1.
_FEWEST = 3


def decimals_of(numbers: Float64s) -> int | None:
    """Count the decimals that all numbers have been rounded to; None where they have more.

    Numbers that are whole say nothing.
    """
    if not np.isfinite(numbers).all() or np.unique(numbers[numbers % 1 != 0]).size < _FEWEST:
        return None
    for decimals in range(1, _MOST_DECIMALS + 1):
        power = 10.0**decimals
        nearest = np.round(numbers * power) / power
        if (np.abs(numbers - nearest) <= _NEAR * np.abs(numbers)).all():
            return decimals
    return None


def cuts(numbers: Float64s) -> Iterator[tuple[float, tuple[Mistake, ...]]]:
    """Give how far numbers may be from what they were, and why: cut to decimals, or not at all."""
    decimals = decimals_of(numbers)
    if decimals is not None:
        yield 0.5 * 10.0**-decimals, (rounded(decimals),)
    yield 0.0, ()


def rounded(decimals: int) -> Mistake:
    """Say that numbers were rounded to so many decimals."""
    return Mistake("rounded-decimals", {"decimals": decimals})
