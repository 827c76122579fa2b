"""Exact numbers with error bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.parity.golden import Array


@dataclass(frozen=True)
class Truth:
    """An exact number, and the error that an answer may have."""

    value: Any
    bound: float

    def __float__(self) -> float:
        return float(self.value)


def truths(numbers: Sequence[Truth], *shape: int) -> Array:
    """Return exact numbers as an array."""
    array = np.empty(len(numbers), dtype=object)
    array[:] = numbers
    return array.reshape(shape)
