"""Exact numbers to hold answers against."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.parity.golden import Array


@dataclass(frozen=True)
class Truth:
    """An exact number, and how far an answer may be from it."""

    value: Any
    bound: float

    def __float__(self) -> float:
        return float(self.value)


def truths(numbers: Sequence[Truth], *shape: int) -> Array:
    """Put exact numbers into an array of a shape."""
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array.reshape(shape)
