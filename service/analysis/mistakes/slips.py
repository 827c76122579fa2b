"""The slips of tutorials: cosines of other frequencies than the sines beside them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.turns import NARROWINGS, Turned
from service.analysis.mistakes.waves import Waves
from service.tables.angle import Float64s

# With a slip no frequency can be measured by the turning of a pair: other mistakes beside it are
# tried as they are most common.
_BASES = (10000.0, 500000.0, 1000000.0)
_FACTORS = (2.0, 4.0, 8.0)
_SHIFTS = 64
# A number that bfloat16 holds is off by 2^-8 at most; what float32 makes of angles is far less.
_NEAR = 2.0**-7

_LEAST_IN_USE = 1.01

LEAST_FACTOR = 2.0**-64
"""What is smaller is no factor that anyone multiplies by."""


def slips(waves: Waves, rows: Float64s) -> Iterator[Turned]:
    """Give what loops of tutorials make of waves, alone and with one mistake more.

    Where a loop counts channels i in steps of 2, the exponent of both is i/d. Written are (i + 1)/d
    for the cosine, and 2i/d, 2(i + 1)/d and the like for a loop that is thought to count pairs.

    Args:
        waves: what is wanted; without a base there is no exponent to be wrong.
        rows: the first rows of what somebody has.
    """
    if waves.base is None:
        return
    base, span = waves.base
    for found in _written(waves, base, span):
        yield found
        yield from _beside(found, waves, rows)
    for other in _BASES:
        if other != base:
            said = Mistake("wrong-base", {"have": other, "want": base})
            for found in _written(waves, other, span):
                yield replace(found, mistakes=(*found.mistakes, said))


def _written(waves: Waves, base: float, span: int) -> Iterator[Turned]:
    pair = np.arange(len(waves.omega), dtype=np.float64)

    def powers(exponents: Float64s) -> Float64s:
        return np.asarray(base ** (-exponents / span), dtype=np.float64)

    right = powers(2 * pair)
    written = {
        "(i + 1)/d": (powers(2 * pair + 1), right),
        "(i + 2)/d": (powers(2 * pair + 2), right),
        "2(i + 1)/d, and 2i/d for sines": (powers(4 * pair + 2), powers(4 * pair)),
        "2i/d": (powers(4 * pair), powers(4 * pair)),
    }
    for exponent, (cosine, sine) in written.items():
        yield Turned((Mistake("tutorial-slip", {"exponent": exponent}),), cosine, sine)


def _beside(found: Turned, waves: Waves, rows: Float64s) -> Iterator[Turned]:
    named = found.mistakes
    for shift in _shifts(found, waves, rows[0]):
        said = Mistake("position-offset", {"rows": shift})
        yield replace(found, mistakes=(*named, said), shift=float(shift))
    yield replace(found, mistakes=(*named, Mistake("sine-sign")), sine=-found.sine)
    for narrowing in NARROWINGS:
        every = (*named, *narrowing.mistakes)
        yield replace(found, mistakes=every, narrowing=narrowing)
    for factor in _FACTORS:
        for how, ratio in (("multiplied", factor), ("divided", 1 / factor)):
            values = {"ratio": ratio, "factor": factor, "how": how}
            said = Mistake("linear-factor", values)
            if ratio == 2:
                said = Mistake("rotated-twice")
            cosine, sine = ratio * found.cosine, ratio * found.sine
            yield replace(found, mistakes=(*named, said), cosine=cosine, sine=sine)
    table, _ = found.table(waves, np.arange(len(rows)))
    factor = float((table * rows).sum() / (table * table).sum())
    if factor >= LEAST_FACTOR:
        yield replace(found, mistakes=(*named, factor_mistake(factor)), factor=factor)


def _shifts(found: Turned, waves: Waves, first: Float64s) -> list[int]:
    """Find the shifts, none larger than _SHIFTS, that the first row allows."""
    shifts = np.arange(-_SHIFTS, _SHIFTS + 1)
    moved = replace(waves, positions=waves.positions[0] + shifts)
    table, _ = found.table(moved, np.arange(len(shifts)))
    is_near = np.abs(table - first).max(axis=1) <= _NEAR * waves.scale
    return [int(shift) for shift in shifts[is_near] if shift]


def factor_mistake(factor: float) -> Mistake:
    """Name what all numbers are multiplied by.

    Of the factors in use, the attention factor of YaRN is the smallest: 0.1·ln 2 + 1 for twice the
    length, and that of longrope, √(1 + ln 2/ln L) for L positions, is above 1.01 up to L = 2^40.
    """
    if max(factor, 1 / factor) < _LEAST_IN_USE:
        return Mistake("wrong-factor", {"factor": factor})
    if factor > 1:
        return Mistake("extra-factor", {"factor": factor})
    return Mistake("missing-factor", {"ratio": factor, "factor": 1 / factor})
