"""Products of integers and exact decimals, the same on every machine."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from service.tables.angle import Float64s, Int64s, exact_context

# A part times half of a position has at most 53 bits, and so is exact.
_PART_BITS = 21
_PARTS = 4
_HALF_BITS = np.int64(32)
_LOW_HALF = np.int64(2**32 - 1)


def products(parts: Sequence[Float64s], positions: Int64s) -> Float64s:
    """Multiply positions (m,) within ±2^62 and n factors cut into parts, as float64 (m, n).

    Products of parts with the halves of a position are exact; only their sums, all of one sign,
    are rounded: each product is within 8·2^-53 of its own size.
    """
    magnitudes = np.abs(positions)
    high = (magnitudes >> _HALF_BITS).astype(np.float64)[:, np.newaxis] * 2.0**32
    low = (magnitudes & _LOW_HALF).astype(np.float64)[:, np.newaxis]
    total = np.zeros((len(positions), len(parts[0])))
    for part in reversed(parts):
        total += low * part
        total += high * part
    np.negative(total, out=total, where=(positions < 0)[:, np.newaxis])
    return total


def cut(factors: Sequence[Decimal]) -> list[Float64s]:
    """Cut factors (n,) into sums of float64 of few bits, the largest first, each part (n,)."""
    context = exact_context()
    parts = []
    rest = list(factors)
    for _ in range(_PARTS):
        part = [_leading(float(value)) for value in rest]
        rest = [context.subtract(value, Decimal(p)) for value, p in zip(rest, part, strict=True)]
        parts.append(np.array(part))
    return parts


def _leading(value: float) -> float:
    """Cut a float64, towards 0, to its leading bits."""
    significand, exponent = np.frexp(value)
    return float(np.ldexp(np.trunc(significand * 2.0**_PART_BITS), int(exponent) - _PART_BITS))
