"""xPos: the multipliers of cosines and sines that decay with the distance of query and key.

"A Length-Extrapolatable Transformer" (Sun et al. 2023), §3.3.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nextafter

import numpy as np

from service.numerics.phase import Decimals, Float64s, Int64s, exact_context
from service.numerics.setups import TURN_SECONDS, KeptSetup, Setups, Steps

# The largest power of 3.5 in the range of float64.
_MAX_POWER = 566

_SQUARINGS = 6
_RADIX = 2**_SQUARINGS

# The processor seconds of the multipliers of a frequency.
_FACTOR_SECONDS = 4e-4


@dataclass(frozen=True)
class XPos:
    """The multipliers ζ_k^((p − centre)/scale_base) with ζ_k = (2k + 0.4·r)/(1.4·r).

    torchscale ``XPOS`` at commit 4d1e0e8, flash-attn 2.8.3, rotary-embedding-torch 0.9.1,
    x-transformers 2.31.10. The relative error of each is at most (2d − 1)·2^-53 if p − centre has
    d digits to base 64: a factor for each digit, rounded once, and d − 1 products.

    Attributes:
        rotary_dim: the number of rotary channels, r.
        scale_base: the distance p − centre at which the multiplier is ζ_k.
        centre: the position whose multipliers are 1.
        inverse: whether to return the reciprocals, for keys.
    """

    rotary_dim: int
    scale_base: float
    centre: int
    inverse: bool

    def at(self, positions: Int64s) -> Float64s:
        """Return the multipliers of positions (m,), shape (m, r/2)."""
        total = np.ones((len(positions), self.rotary_dim // 2))
        for place, digits in self._digits(positions):
            total *= self._factors(place).get()[digits + _RADIX - 1]
        return total

    def setup(self, positions: Int64s) -> Setups:
        """Return the factors of every digit of positions (m,)."""
        return Setups(tuple(self._factors(place) for place, _ in self._digits(positions)))

    def _factors(self, place: int) -> "DigitFactors":
        return DigitFactors(self.rotary_dim, self.scale_base, place)

    def _digits(self, positions: Int64s) -> Iterator[tuple[int, Int64s]]:
        """Yield the places, from the last, at which a distance has a digit, and the digits."""
        rest, place = positions - np.int64(self.centre), 0
        if self.inverse:
            rest = -rest
        while rest.any():
            digits = np.fmod(rest, np.int64(_RADIX))
            if digits.any():
                yield place, digits
            rest = (rest - digits) // _RADIX
            place += 1

    def peak(self, distance: int) -> float:
        """Return an upper bound of the multipliers up to this distance from the centre."""
        power = distance / self.scale_base
        # The smallest ζ is 0.4/1.4 = 1/3.5; nextafter and 1 + 2^-48 allow for rounding errors.
        return 3.5 ** nextafter(power, inf) * (1 + 2.0**-48) if power < _MAX_POWER else inf


@dataclass(frozen=True)
class DigitFactors(KeptSetup[Float64s], capacity_bytes=32 * 2**20):
    """The multipliers of the offsets d·64^place for d = −63 … 63, shape (127, r/2)."""

    rotary_dim: int
    scale_base: float
    place: int

    @property
    def new_seconds(self) -> float:
        return _FACTOR_SECONDS * self.rotary_dim / 2

    def compute(self) -> Steps[Float64s]:
        context, count, parts = exact_context(), self.rotary_dim // 2, []
        step = int(TURN_SECONDS / _FACTOR_SECONDS)
        for first in range(0, count, step):
            some = range(first, min(first + step, count))
            base = [_at_place(k, self.rotary_dim, self.scale_base, self.place) for k in some]
            inverse = [context.divide(Decimal(1), factor) for factor in base]
            rows = [*_powers(inverse)[::-1], [1.0] * len(some), *_powers(base)]
            parts.append(np.array(rows))
            if some.stop < count:
                yield
        return np.concatenate(parts, axis=1)


def _powers(base: Decimals) -> list[list[float]]:
    """Return the powers 1 … 63 of every number, each rounded once to float64."""
    powers, rows = base, [list(map(float, base))]
    for _ in range(_RADIX - 2):
        powers = list(map(exact_context().multiply, powers, base))
        rows.append(list(map(float, powers)))
    return rows


def _at_place(k: int, rotary_dim: int, scale_base: float, place: int) -> Decimal:
    """Return ζ_k^(64^place/scale_base)."""
    context = exact_context()
    zeta = context.divide(Decimal(10 * k + 2 * rotary_dim), Decimal(7 * rotary_dim))
    power = context.exp(context.divide(context.ln(zeta), Decimal(scale_base)))
    for _ in range(_SQUARINGS * place):
        power = context.multiply(power, power)
    return power
