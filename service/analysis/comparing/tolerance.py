"""How far two numbers may be apart: some ulp of the narrower of two types, or what is asked for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.sample import spacing
from service.tables.angle import Float64s
from service.tables.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    DType,
)

ULPS = 4
"""How many ulp are allowed unless something else is asked for.

Half of one is lost where a number is rounded, and engines' own sines and powers are up to 2 off.
"""

_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
_NARROW_FIRST = (BFLOAT16, FLOAT16, FLOAT32, FLOAT64)


def narrower(dtype: DType, other: DType) -> DType | None:
    """Give the type of fewer bits of two, of their parts where they are complex.

    Integers are exact: beside a real type they are as wide as any; None if both are integers.
    """
    kinds = {_PARTS.get(dtype, dtype), _PARTS.get(other, other)}
    return next((known for known in _NARROW_FIRST if known in kinds), None)


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from the one in the table.

    Attributes:
        atol: what any may be off, if that is asked for.
        rtol: what it may be off as a share of the one in the table, if that is asked for.
        dtype: the type that ulp are of; None for integers, which have none.
        floor: below this size of a number ulp are not taken finer than at it: sines near 0 are
            differences of larger numbers.
    """

    atol: float | None
    rtol: float | None
    dtype: DType | None
    floor: float = 0.0

    @property
    def is_asked_for(self) -> bool:
        """Tell whether it is other than the usual one."""
        return self.atol is not None or self.rtol is not None

    def allowed(self, exact: Float64s) -> Float64s:
        """Give how far each number may be off."""
        if self.is_asked_for:
            sizes = np.where(np.isfinite(exact), np.abs(exact), 0.0)
            with np.errstate(over="ignore"):
                return (self.atol or 0.0) + (self.rtol or 0.0) * sizes
        return ULPS * self.ulp(exact)

    def is_exceeded(self, error: Float64s, exact: Float64s) -> NDArray[np.bool_]:
        """Tell of each error whether it is more than allowed; one that is infinite always is."""
        exceeded: NDArray[np.bool_] = (error > self.allowed(exact)) | np.isinf(error)
        return exceeded

    def ulp(self, exact: Float64s) -> Float64s:
        """Give the distance from each number to the next in the type; 0 where there is none."""
        if self.dtype is None:
            return np.zeros_like(exact)
        return spacing(np.maximum(np.abs(exact), self.floor), self.dtype)
