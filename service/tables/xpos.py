"""The growth of xPos: cosines and sines that fall off with the distance from a centre.

"A Length-Extrapolatable Transformer" (Sun et al. 2023), §3.3.
"""

from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter

import numpy as np

from service.lru import ByteBoundedLRU
from service.tables.angle import Float64s, Int64s, exact_context
from service.tables.scaling import Decimals

# 3.5 to this power is the last within the range of float64.
_MAX_POWER = 566

_SQUARINGS = 6
_RADIX = 2**_SQUARINGS


@dataclass(frozen=True)
class XPos:
    """The multipliers ζ_k^((p − centre)/scale_base) with ζ_k = (2k + 0.4·r)/(1.4·r).

    torchscale ``XPOS`` at commit 4d1e0e8, flash-attn 2.8.3, rotary-embedding-torch 0.9.1,
    x-transformers 2.31.10. Each is within (2d − 1)·2^-53 of its own size, where p − centre has d
    digits to the base of 64: a factor for each, rounded once, and d − 1 products.

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
        rest = positions - np.int64(self.centre)
        if self.inverse:
            rest = -rest
        total = np.ones((len(positions), self.rotary_dim // 2))
        place = 0
        while rest.any():
            digits = np.fmod(rest, np.int64(_RADIX))
            if digits.any():
                total *= _factors(self.rotary_dim, self.scale_base, place)[digits + _RADIX - 1]
            rest = (rest - digits) // _RADIX
            place += 1
        return total

    def peak(self, distance: int) -> float:
        """Give a size that no multiplier of positions up to a distance from the centre exceeds."""
        power = distance / self.scale_base
        # The smallest ζ is 0.4/1.4; the rest makes up for the roundings of both.
        return 3.5 ** nextafter(power, inf) * (1 + 2.0**-48) if power < _MAX_POWER else inf


_kept: ByteBoundedLRU[tuple[int, float, int], Float64s] = ByteBoundedLRU(32 * 1024 * 1024)


def _factors(rotary_dim: int, scale_base: float, place: int) -> Float64s:
    """Give the multipliers of the offsets d·64^place for d = −63 … 63, shape (127, r/2)."""
    key = rotary_dim, scale_base, place
    found = _kept.get(key)
    if found is None:
        ones = _digit_factors(rotary_dim, scale_base, place)
        found = np.array([*reversed(ones[1]), [1.0] * (rotary_dim // 2), *ones[0]])
        _kept.put(key, found, found.nbytes + 256)
    return found


def _digit_factors(rotary_dim: int, scale_base: float, place: int) -> tuple[list[list[float]], ...]:
    """Give those of the digits 1 … 63, and of −1 … −63."""
    context = exact_context()
    ahead = [_at_place(k, rotary_dim, scale_base, place) for k in range(rotary_dim // 2)]
    back: Decimals = [context.divide(Decimal(1), step) for step in ahead]
    sides = []
    for step in (ahead, back):
        powers, rows = step, [[float(power) for power in step]]
        for _ in range(_RADIX - 2):
            powers = list(map(context.multiply, powers, step))
            rows.append([float(power) for power in powers])
        sides.append(rows)
    return tuple(sides)


def _at_place(k: int, rotary_dim: int, scale_base: float, place: int) -> Decimal:
    """Give ζ_k^(64^place/scale_base)."""
    context = exact_context()
    zeta = context.divide(Decimal(10 * k + 2 * rotary_dim), Decimal(7 * rotary_dim))
    power = context.exp(context.divide(context.ln(zeta), Decimal(scale_base)))
    for _ in range(_SQUARINGS * place):
        power = context.multiply(power, power)
    return power
