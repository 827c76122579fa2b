"""One array alone, as real numbers or as integers, of few enough axes."""

import numpy as np

from service.analysis.question import Question
from service.tables.angle import Float64s, Int64s

# So many numbers tell most arrays of fractions apart, at no cost.
_FIRST = 64


def lone_reals(question: Question, axes: tuple[int, ...]) -> Float64s | None:
    """Give the numbers of an array, or None.

    Args:
        question: it has no answer where there are two arrays, complex numbers or none at all.
        axes: how many there may be.
    """
    values = question.sample.values
    if question.is_pair or question.sample.is_complex or values.ndim not in axes or not values.size:
        return None
    return np.asarray(values, dtype=np.float64)


def lone_finite(question: Question, axes: tuple[int, ...]) -> Float64s | None:
    """Give the numbers of an array that are all finite, or None."""
    values = lone_reals(question, axes)
    return values if values is not None and np.isfinite(values).all() else None


def lone_integers(question: Question, axes: tuple[int, ...]) -> Int64s | None:
    """Give the numbers of an array that are all integers, or None."""
    values = lone_reals(question, axes)
    if values is None:
        return None
    first = values.reshape(-1)[:_FIRST]
    return question.sample.integers() if (first == np.round(first)).all() else None
