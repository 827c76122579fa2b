"""Polynomials that are the same on every machine: additions and products one after the other."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def horner(coefficients: Sequence[float], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate a polynomial at every x, in any shape, by Horner's rule.

    Args:
        coefficients: two at least, that of the highest power first.
        x: where.
    """
    total = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total
