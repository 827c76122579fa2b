"""Independent evaluation of formulas in 90 digits, and of roundings."""

from fractions import Fraction
from typing import Any

import mpmath

mpmath.mp.dps = 90

UNIT = 2.0**-53


def frequency(base: float, dim: int, pair: int) -> Any:
    """Evaluate base^(−2·pair/dim)."""
    return mpmath.mpf(base) ** (mpmath.mpf(-2 * pair) / dim)


def yarn_mscale(factor: float, mscale: float, slope: str = "0.1") -> Any:
    """Evaluate slope·mscale·ln factor + 1."""
    return mpmath.mpf(slope) * mscale * mpmath.log(factor) + 1


# Bits of the significand, and exponent of the smallest subnormal number.
NARROW_TYPES = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}


def rounded(value: Fraction, dtype: str) -> Fraction:
    """Round to nearest, ties to even, without overflow."""
    if value == 0:
        return value
    bits, least_exponent = NARROW_TYPES[dtype]
    exponent = abs(value).numerator.bit_length() - abs(value).denominator.bit_length() - 1
    if abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    ulp = Fraction(2) ** max(exponent - bits + 1, least_exponent)
    return round(value / ulp) * ulp
