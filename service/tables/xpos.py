"""The growth of xPos: cosines and sines that fall off with the distance from a centre.

"A Length-Extrapolatable Transformer" (Sun et al. 2023), §3.3.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from math import inf, nextafter

import numpy as np

from service.tables.angle import Float64s, Int64s, exact_context
from service.tables.scaling import Decimals
from service.tables.stretches import STRIDE

# 3.5 to this power is the last within the range of float64.
_MAX_POWER = 566


@dataclass(frozen=True)
class XPos:
    """The multipliers ζ_k^((p − centre)/scale_base) with ζ_k = (2k + 0.4·r)/(1.4·r).

    torchscale ``XPOS`` at commit 4d1e0e8, flash-attn 2.8.3, rotary-embedding-torch 0.9.1,
    x-transformers 2.31.10. Each is within 3·2^-53 of its own size.

    Attributes:
        rotary_dim: channels that turn, r.
        scale_base: positions after which ζ_k itself is reached.
        centre: the position where all are 1.
        inverse: whether keys are multiplied, by the reciprocals.
    """

    rotary_dim: int
    scale_base: float
    centre: int
    inverse: bool

    def at(self, positions: Int64s) -> Float64s:
        """Give the multipliers of positions (m,), shape (m, r/2)."""
        offsets = positions - np.int64(self.centre)
        if self.inverse:
            offsets = -offsets
        fine = np.fmod(offsets, np.int64(STRIDE))
        runs, run = np.unique(offsets - fine, return_inverse=True)
        rows: Float64s = _powers(self.logarithms, runs)[run]
        rests: Float64s = _fine(self)[fine + (STRIDE - 1)]
        return rows * rests

    def peak(self, distance: int) -> float:
        """Give a size that no multiplier of positions up to a distance from the centre exceeds."""
        power = distance / self.scale_base
        # The smallest ζ is 0.4/1.4; the rest makes up for the roundings of both.
        return 3.5 ** nextafter(power, inf) * (1 + 2.0**-50) if power < _MAX_POWER else inf

    @cached_property
    def logarithms(self) -> Decimals:
        """Give ln ζ_k/scale_base for every frequency."""
        context, r = exact_context(), self.rotary_dim
        zetas = (context.divide(Decimal(10 * k + r + r), Decimal(7 * r)) for k in range(r // 2))
        return [context.divide(context.ln(zeta), Decimal(self.scale_base)) for zeta in zetas]


@lru_cache(maxsize=16)
def _fine(xpos: XPos) -> Float64s:
    """Give the multipliers of the offsets −63 … 63, shape (127, r/2)."""
    return _powers(xpos.logarithms, np.arange(1 - STRIDE, STRIDE, dtype=np.int64))


def _powers(logarithms: Decimals, offsets: Int64s) -> Float64s:
    """Give exp(n·l) of rising offsets n, each the one before times exp of the step between."""
    context = exact_context()
    ratios: dict[int, Decimals] = {}
    rows, last, powers = [], 0, [Decimal(1)] * len(logarithms)
    for offset in map(int, offsets):
        step = offset - last
        if step not in ratios:
            ratios[step] = [
                context.exp(context.multiply(each, Decimal(step))) for each in logarithms
            ]
        powers = list(map(context.multiply, powers, ratios[step]))
        rows.append([float(power) for power in powers])
        last = offset
    return np.array(rows)
