"""What all formulas of the honest engine share: their type, rounding, and the positions of rows."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

# Of reals of the engine's type, or of integers: mypy has no types for operators of both.
Array: TypeAlias = Any
Given: TypeAlias = Mapping[str, Any]


class Unsupported(Exception):
    """The engine has no such table."""


def in_type(array: Array, dtype: str) -> Array:
    """Return numbers rounded to a type; bfloat16 by hand, to nearest and ties to even."""
    if dtype == "bfloat16":
        bits = array.astype(np.float32).view(np.uint32)
        even = (bits >> np.uint32(16)) & np.uint32(1)
        kept = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
        return kept.view(np.float32).astype(array.dtype)
    return array.astype(dtype).astype(array.dtype)


class Formulas:
    """Formulas that are computed in a type.

    Attributes:
        dtype: that of the answers.
        real: the type in which formulas are computed.
    """

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.real: type[Any] = np.float64 if dtype == "float64" else np.float32

    def reals(self, values: Any) -> Array:
        """Return numbers in the type of the computation."""
        return np.array(values, dtype=self.real)

    def stored(self, array: Array) -> Array:
        """Return numbers rounded to the type of the answers; integers as they are."""
        return array if array.dtype.kind in "iu" else in_type(array, self.dtype)

    def rows_of(self, given: Given) -> Array:
        """Return the positions of rows: (S,), (B, S), or (3, S) of M-RoPE."""
        if "positions_t" in given:
            return np.array([given[f"positions_{axis}"] for axis in "thw"])
        if "positions" in given:
            return np.array(given["positions"])
        count = np.arange(np.shape(given["x"])[-2])
        if "seqlen_offsets" in given:
            return np.array(given["seqlen_offsets"])[:, None] + count
        return count + int(given.get("start", 0))

    def held(self, positions: Array) -> Array:
        """Return positions as they are multiplied."""
        return positions.astype(self.real)

    def mask_of(self, given: Given) -> Array:
        """Return 1 for each token and 0 for padding."""
        return np.array(given["attention_mask"])

    def counted(self, mask: Array) -> Array:
        """Return how many tokens there are up to each, padding not counted."""
        return np.cumsum(mask, axis=-1)
