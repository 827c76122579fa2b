"""The tolerance rule: what an honest implementation in a narrow type may cost, number by number.

Honest is an implementation that computes the formula once in float32 from exact keys: each step is
rounded once, and logarithms, powers, sines and cosines are within an ulp or two. What it costs is
the ``angle`` of a case, an absolute error for every number, which ``allowed`` holds an answer to:

    |got − want| ≤ angle·q + |want|·ε + scale·n·u_T + t

u_T is the unit roundoff of the type T of the answer, u that of float32. q is 1, and 2^−29 in
float64, which is narrower by that. ε is 2 units of the type that the implementation computes in, 4
where a factor multiplies the numbers, and one unit of T more where T is narrower. n is 3 for a
rotation that runs in a narrow type: its table, its products and their sum. t is half of the least
number of T; in float64 it is the bound of the expected numbers themselves.

The angle follows from the formula. An angle p·ω is wrong by at most |p|·ω·c·u, where c counts the
roundings of the frequency and of the product, and a sine moves by no more than its angle. A
frequency b^−e costs 3·e·ln b (logarithm, quotient and product, each of a number that is
exponentiated), the power 2, its reciprocal 1, and the product with the position 1. A frequency of 0
or 1 costs nothing; a position beyond 2^24 is rounded as well. The modules of ``expectations`` add
what other steps of a formula cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from service.conformance.questions import Numbers, Question
from service.numerics.phase import Float64s

UNIT_ROUNDOFF: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
"""u_T of each type of an answer."""

# Tables are within 6·2^−53 of the formula, times the factor, which is below 2; of xPos, whose
# multipliers are larger, the angle has more.
_LEAST = {
    "float64": 12 * 2.0**-53,
    "float32": 2.0**-150,
    "float16": 2.0**-25,
    "bfloat16": 2.0**-134,
}
UNIT = UNIT_ROUNDOFF["float32"]
# The roundings of a power, its reciprocal, and the product with a position.
POWER = 4.0
# float32 has every integer up to this.
MOST_COUNTED = 2.0**24
# Where a phase may be off by so much, nothing can be told.
MOST_ANGLE = 2.0
_NARROW_STEPS = 3


@dataclass(frozen=True, eq=False)
class Expectation:
    """The exact numbers of a question, and the tolerance of each.

    Attributes:
        arrays: what an answer is held to, by name; of one shape.
        angle: the error of an honest implementation in float32, of that shape; None of integers,
            which are exact.
        scale: what the roundings of narrow products are relative to: the attention factor of a
            table, that times |x0| + |x1| of a rotation, of that shape.
        factor: the factor that multiplies cosines and sines.
        details: other numbers of the case, which no answer is held to.
        is_rotation: whether products and sums are part of the answer.
    """

    arrays: Mapping[str, Numbers]
    angle: Float64s | None = None
    scale: Float64s | float = 1.0
    factor: float = 1.0
    details: Mapping[str, Any] | None = None
    is_rotation: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays."""
        return next(iter(self.arrays.values())).shape

    def allowed(self, name: str, dtype: str = "float32") -> Float64s:
        """Return how far each number of an array may be from what is expected.

        Args:
            name: the array.
            dtype: the type of the answer; another one than those of UNIT_ROUNDOFF is as float64.
        """
        want = np.abs(self.arrays[name])
        if self.angle is None:
            return np.zeros(want.shape)
        dtype = dtype if dtype in UNIT_ROUNDOFF else "float64"
        unit = UNIT_ROUNDOFF[dtype]
        is_narrow = unit > UNIT
        share = 2.0**-29 if dtype == "float64" else 1.0
        steps = 2 if self.factor == 1 else 4
        relative = steps * min(unit, UNIT) + (unit if is_narrow else 0.0)
        products = _NARROW_STEPS * unit if is_narrow and self.is_rotation else 0.0
        allowed: Float64s = (
            self.angle * share + want * relative + self.scale * products + _LEAST[dtype]
        )
        return allowed

    def distances(self, arrays: Mapping[str, Numbers], dtype: str = "float32") -> Float64s:
        """Return how far an answer is from what is expected, in shares of what is allowed.

        More than 1 is wrong; what is not finite is infinitely far, unless that is expected, of a
        mistake. Shape (arrays, …).

        Args:
            arrays: those of an answer, by name, of the expected shape; or several copies of each,
                (copies, …), of which the farthest counts.
            dtype: their type.
        """
        shares = []
        for name, want in self.arrays.items():
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                # In float64: the least int64 has no absolute value.
                apart = np.abs(np.asarray(arrays[name], dtype=np.float64) - want)
                is_same = (apart == 0) | (np.isnan(want) & np.isnan(arrays[name]))
                share = np.where(is_same, 0.0, apart / self.allowed(name, dtype))
            share = np.where(np.isnan(share), np.inf, share)
            shares.append(share if share.ndim == want.ndim else share.max(axis=0))
        return np.stack(shares)


Keys: TypeAlias = Mapping[str, Any]
"""The parameters of a question."""
Expected: TypeAlias = Callable[[Question], Expectation]
"""Returns the expectation of a question; raises PosrefError."""
Errors: TypeAlias = Callable[[Keys, Float64s], Float64s]
"""Returns the errors of the only array of a question, in units of float32, given its sizes."""


def rounded_up(numbers: Float64s) -> Float64s:
    """Return numbers rounded up to two decimal digits, as a case states its tolerance."""
    flat = [0.0 if each <= 0 else _two_digits(float(each)) for each in numbers.ravel()]
    return np.array(flat).reshape(numbers.shape)


def _two_digits(number: float) -> float:
    """Return the least decimal of two digits that is not below a positive number."""
    near = f"{number:.1e}"
    if float(near) >= number:
        return float(near)
    digits, _, exponent = near.partition("e")
    return float(f"{round(float(digits) * 10) + 1}e{int(exponent) - 1}")
