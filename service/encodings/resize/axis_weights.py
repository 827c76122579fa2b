"""The weights by which an axis of a learned table is resized: exact rationals, rounded once.

A new place is a sum of old places, its taps, times their weights. Numerators and denominators are
integers of Python; a quotient of two is rounded to float64 once.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

import numpy as np

from service.numerics.phase import Float64s, Int64s
from service.numerics.setups import TURN_SECONDS, KeptSetup, Steps

AxisMode: TypeAlias = Literal[
    "nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "geometric"
]

_ROW_SECONDS, _TAP_SECONDS = 3e-6, 1e-6


@dataclass(frozen=True, eq=False)
class Taps:
    """The taps of every new place, (new, taps): unused ones repeat the last and weigh 0."""

    index: Int64s
    weight: Float64s

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.weight.nbytes


@dataclass(frozen=True)
class AxisWeights(KeptSetup[Taps], capacity_bytes=8 * 2**20):
    """The weights of one axis.

    Attributes:
        old, new: the number of places.
        mode: of torch's ``interpolate``; bilinear is linear along an axis. Geometric is linear
            between knots 0, ±1, ±(1 + q), … of timm.
        scale_factor: if given, its inverse is the step of the old places, not old/new.
        a: of Keys' kernel.
        padding: what taps outside are: the border, or zeros.
    """

    old: int
    new: int
    mode: AxisMode
    align_corners: bool = False
    antialias: bool = False
    scale_factor: float | None = None
    a: float = 0.0
    padding: Literal["border", "zeros"] = "border"

    @cached_property
    def step(self) -> Fraction:
        """The distance between the places of two consecutive new ones."""
        if self.align_corners:
            return Fraction(self.old - 1, self.new - 1) if self.new > 1 else Fraction(0)
        if self._is_scaled:
            return 1 / Fraction(self.scale_factor or 1)
        return Fraction(self.old, self.new)

    @property
    def _is_scaled(self) -> bool:
        """True if the step is the inverse of a scale factor; torch ignores that at some sizes."""
        is_always = self.mode == "nearest-exact" or (self.mode == "bicubic" and not self.antialias)
        ignored = (self.old, 2 * self.old if self.mode == "nearest" else self.old)
        return self.scale_factor is not None and (is_always or self.new not in ignored)

    @cached_property
    def taps(self) -> int:
        """The most taps that a place can have."""
        if self.mode == "area":
            return min(self.old, -(-self.old // self.new) + 1)
        reach = 4 if self.mode == "bicubic" else 2
        if self.antialias:
            reach = -(-reach * max(self.step, Fraction(1)) // 1)
        return 1 if self.mode in {"nearest", "nearest-exact"} else min(self.old, reach)

    @property
    def largest_sum(self) -> float:
        """The most that the sizes of the weights of a place add up to."""
        if self.mode != "bicubic":
            return 1.0
        return 4.0 if self.antialias else 1 - self.a / 2

    @property
    def new_seconds(self) -> float:
        return self.new * (_ROW_SECONDS + self.taps * _TAP_SECONDS)

    def compute(self) -> Steps[Taps]:
        index = np.zeros((self.new, self.taps), dtype=np.int64)
        weight = np.zeros((self.new, self.taps))
        per_turn = max(1, int(TURN_SECONDS / (self.new_seconds / self.new)))
        for place, (numerators, denominator) in enumerate(self.rationals()):
            if place and place % per_turn == 0:
                yield
            index[place, : len(numerators)] = [*numerators]
            index[place, len(numerators) :] = [*numerators][-1]
            weight[place, : len(numerators)] = [
                numerator / denominator for numerator in numerators.values()
            ]
        return Taps(index, weight)

    def rationals(self) -> Iterator[tuple[dict[int, int], int]]:
        """Yield for each new place the numerators by old place, and their denominator."""
        for place in range(self.new):
            if self.mode in {"nearest", "nearest-exact"}:
                yield {self._nearest(place): 1}, 1
            elif self.mode == "area":
                stop = -(-(place + 1) * self.old // self.new)
                covered = range(place * self.old // self.new, stop)
                yield dict.fromkeys(covered, 1), len(covered)
            elif self.mode == "geometric":
                yield self._between_knots(place)
            else:
                yield self._convolved(place)

    def _nearest(self, place: int) -> int:
        """Return the nearest old place in float32: as torch finds it, whatever the rounding."""
        half = np.float32(0.5 if self.mode == "nearest-exact" else 0)
        step = np.float32(self.old) / np.float32(self.new)
        if self._is_scaled:
            step = np.float32(1 / (self.scale_factor or 1))
        return min(int((np.float32(place) + half) * step), self.old - 1)

    def _convolved(self, place: int) -> tuple[dict[int, int], int]:
        p, q = self.step.numerator, self.step.denominator
        is_cubic, numerators = self.mode == "bicubic", {}
        if self.antialias:
            # In units of 1/(2·unit) of the width of the kernel, stretched if places are left out.
            unit = max(p, q)
            centre, reach = (2 * place + 1) * p, (4 if is_cubic else 2) * unit
            first = max((centre - reach + q) // (2 * q), 0)
            last = min((centre + reach + q) // (2 * q), self.old)
            numerators = {
                tap: self._kernel((2 * tap + 1) * q - centre, 2 * unit)
                for tap in range(first, last)
            }
            return numerators, sum(numerators.values())
        at, unit = (place * p, q) if self.align_corners else ((2 * place + 1) * p - q, 2 * q)
        floor = at // unit
        for tap in range(floor - 1, floor + 3) if is_cubic else (floor, floor + 1):
            inside = min(max(tap, 0), self.old - 1)
            own = (
                0
                if self.padding == "zeros" and inside != tap
                else self._kernel(tap * unit - at, unit)
            )
            numerators[inside] = numerators.get(inside, 0) + own
        return numerators, self._kernel(0, unit)

    def _kernel(self, distance: int, unit: int) -> int:
        """Return the kernel at distance/unit, times its value at 0.

        The values at 0 are powers of the unit, so that a row of them needs no fractions.
        """
        x = abs(distance)
        if self.mode != "bicubic":
            return max(unit - x, 0)
        a, one = self.a.as_integer_ratio()
        if x <= unit:
            return ((a + 2 * one) * x - (a + 3 * one) * unit) * x * x + one * unit**3
        return a * (x**3 - 5 * x * x * unit + 8 * x * unit * unit - 4 * unit**3) * (x < 2 * unit)

    @cached_property
    def _knots(self) -> list[Fraction]:
        """The places of the old ones: 0, ±1, ±(1 + q), …, ±(1 + … + q^k), in float64.

        q is where a bisection of 1.01 to 1.5 ends at which 1 + … + q^(k - 1) is half the new width.
        """
        count, half = self.old // 2, self.new // 2
        left, right, q = 1.01, 1.5, 1.0
        while right - left > 1e-6:
            q = (left + right) / 2
            *_, total = 0.0, *accumulate(_powers(q, count))
            left, right = (left, q) if total > half else (q, right)
        after = [Fraction(each) for each in accumulate(_powers(q, count))]
        return [*(-each for each in reversed(after)), Fraction(0), *after]

    def _between_knots(self, place: int) -> tuple[dict[int, int], int]:
        knots, at = self._knots, place - self.new // 2
        right = bisect_left(knots, at)
        if right in {0, len(knots)}:
            return {min(right, len(knots) - 1): 1}, 1
        before, after = knots[right - 1 : right + 1]
        weight = (at - before) / (after - before)
        numerators = {right - 1: weight.denominator - weight.numerator, right: weight.numerator}
        return numerators, weight.denominator


def _powers(q: float, count: int) -> list[float]:
    """Return 1, q, q², …: each a product, because a power differs between processors."""
    return list(accumulate([q] * (count - 1), initial=1.0, func=lambda x, y: x * y))[:count]
