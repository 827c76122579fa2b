"""Angles as engines compute them, in float32, and the exact sines and cosines of those.

An engine rounds each frequency to float32, the position too, and their product once more. Far out
that is another angle: what it costs is bounded here, and what the engine then should give is what
these sines and cosines are. Every operation is one that IEEE 754 fixes to the last bit.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.tables.angle import (
    FixedPointFrequencies,
    Float64s,
    Int64s,
    exact_context,
    fixed_point,
    sin_cos_of_each,
)

Float32s: TypeAlias = NDArray[np.float32]

# A float32 is an integer of 24 bits times a power of two from the first exponent on.
_SIGNIFICAND_BITS = 24
_FIRST_EXPONENT = -149
_POWERS = 254

_UNIT = exact_context().power(2, -_SIGNIFICAND_BITS)
_HALF_SUBNORMAL = exact_context().power(2, _FIRST_EXPONENT - 1)
_LARGEST_COUNTED = 2**24


def float32_frequencies(frequencies: Sequence[Decimal]) -> Float32s:
    """Round frequencies, none below 0, to float32, as engines keep them: once, ties to even."""
    nearest = np.array([float(frequency) for frequency in frequencies])
    exceeds = [Decimal(float(n)) > f for n, f in zip(nearest, frequencies, strict=True)]
    below = np.where(exceeds, np.nextafter(nearest, -np.inf), nearest)
    is_cut = [Decimal(float(b)) != f for b, f in zip(below, frequencies, strict=True)]
    # With its last bit set, what was cut off cannot make a tie of two float32.
    return (
        (below.view(np.uint64) | np.array(is_cut, dtype=np.uint64))
        .view(np.float64)
        .astype(np.float32)
    )


def float32_angles(frequencies: Float32s, positions: Int64s) -> Float32s:
    """Multiply positions (m,), rounded to float32, and frequencies (n,) in float32: (m, n)."""
    return np.multiply(positions.astype(np.float32)[:, np.newaxis], frequencies)


def float32_sin_cos(frequencies: Float32s, positions: Int64s) -> tuple[Float64s, Float64s]:
    """Evaluate sine and cosine of the float32 product of position and frequency.

    Args:
        frequencies: n of them.
        positions: integers within ±2^62, shape (m,).

    Returns:
        Sine and cosine, each of shape (m, n), within 0.9·2^-53 of those of the rounded angle.
    """
    angles = float32_angles(frequencies, positions)
    significands, exponents = np.frexp(angles.reshape(-1))
    integers = (significands * np.float32(2**_SIGNIFICAND_BITS)).astype(np.int64)
    # A subnormal has fewer bits: what lies below the first exponent is 0.
    missing = np.maximum(_FIRST_EXPONENT + _SIGNIFICAND_BITS - exponents, 0)
    powers = exponents - _SIGNIFICAND_BITS + missing - _FIRST_EXPONENT
    integers = np.where(integers < 0, -(-integers >> missing), integers >> missing)
    sine, cosine = sin_cos_of_each(_powers_of_two().part(powers), integers)
    return sine.reshape(angles.shape), cosine.reshape(angles.shape)


@cache
def _powers_of_two() -> FixedPointFrequencies:
    context = exact_context()
    exponents = range(_FIRST_EXPONENT, _FIRST_EXPONENT + _POWERS)
    return fixed_point([context.power(Decimal(2), Decimal(exponent)) for exponent in exponents])


def float32_distance(frequencies: Sequence[Decimal], farthest: int) -> Decimal:
    """Bound how far float32 angles are from the exact ones, in radians.

    A position p is rounded by at most u·p, u = 2^-24, and not at all up to 2^24; a frequency by
    what it is seen to be; the product by u of itself, or by 2^-150.

    Args:
        frequencies: the exact ones, in radians per position.
        farthest: the largest magnitude of the positions.

    Returns:
        The bound, for all these frequencies and all positions up to the farthest.
    """
    context = exact_context()
    counted = Decimal(0) if farthest <= _LARGEST_COUNTED else _UNIT
    # (1 + counted)(1 + u) − 1
    roundings = context.fma(counted, _UNIT, context.add(counted, _UNIT))
    distances = [Decimal(0)]
    for exact, rounded in zip(frequencies, float32_frequencies(frequencies), strict=True):
        kept = Decimal(float(rounded))
        change = context.abs(context.subtract(kept, exact))
        per_position = context.add(change, context.multiply(kept, roundings))
        distances.append(context.multiply(per_position, Decimal(farthest)))
    return context.add(max(distances), _HALF_SUBNORMAL)
