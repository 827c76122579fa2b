"""Cosines and sines by NumPy alone, in every packing, and what explains them."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.engine import Explanation, explain
from service.analysis.explanation.target import Target
from service.analysis.precision import round_array
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable
from service.routes.expected_tables import Expected, expected_at

Arrays: TypeAlias = Mapping[str, StoredTable]
Pack: TypeAlias = Callable[[Float64s, Float64s], NDArray[Any] | tuple[Float64s, Float64s]]

DTYPES: Mapping[str, DType] = {each.name: each for each in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16)}
UNIT = 2.0**-24


def powers(width: int, base: float = 10000.0) -> Float64s:
    """Return base^(−2k/width), (width/2,)."""
    omega: Float64s = base ** (-np.arange(0, width, 2) / width)
    return omega


def turned(
    omega: Float64s, positions: Float64s | int, scale: float = 1.0
) -> tuple[Float64s, Float64s]:
    """Return cosines and sines (S, K) of frequencies at positions (S,), or at 0 … S − 1."""
    where = np.arange(positions) if isinstance(positions, int) else positions
    angles = np.outer(where, omega)
    return scale * np.cos(angles), scale * np.sin(angles)


def _interleaved(*parts: Float64s) -> Float64s:
    return np.stack(parts, axis=-1).reshape(len(parts[0]), -1)


def half(part: Float64s) -> Float64s:
    return np.hstack([part, part])


def twice(part: Float64s) -> Float64s:
    return np.repeat(part, 2, axis=1)


PACKS: Mapping[str, Pack] = {
    "half": lambda cosine, sine: (half(cosine), half(sine)),
    "interleaved": lambda cosine, sine: (twice(cosine), twice(sine)),
    "compact": lambda cosine, sine: (cosine, sine),
    "concat": lambda cosine, sine: np.hstack([cosine, sine]),
    "flat": _interleaved,
    "pair": lambda cosine, sine: np.stack([cosine, sine], axis=2),
    "complex": lambda cosine, sine: cosine + 1j * sine,
    "half_concat": lambda cosine, sine: np.hstack([half(cosine), half(sine)]),
    "interleaved_concat": lambda cosine, sine: np.hstack([twice(cosine), twice(sine)]),
}
"""The packings of a table, by their names in URLs."""

SINES_FIRST = ("concat", "flat", "pair", "half_concat", "interleaved_concat")
"""The packings that have a form with sines first, ``sin_…``."""


def packed(cosine: Float64s, sine: Float64s, pack: str, dtype: DType = FLOAT32) -> Arrays:
    """Return the arrays of a packing, rounded to a type; complex ones are complex64."""
    if pack.startswith("sin_"):
        cosine, sine, pack = sine, cosine, pack.removeprefix("sin_")
    made = PACKS[pack](cosine, sine)
    if isinstance(made, tuple):
        return {
            name: round_array(each, dtype) for name, each in zip(("cos", "sin"), made, strict=True)
        }
    if pack == "complex":
        return {"x": StoredTable(made.astype("<c8"), COMPLEX64)}
    return {"x": round_array(made, dtype)}


@cache
def expected(url: str, rows: int) -> Expected:
    return expected_at(url, rows)


def target_at(url: str, rows: int) -> Target:
    """Return the target that a URL names for an array of so many rows."""
    target = expected(url, rows).target
    assert target is not None
    return target


def explained(arrays: Arrays, url: str) -> Explanation:
    """Return what arrays are in place of the table of a URL."""
    rows = max(length for each in arrays.values() for length in each.shape)
    return explain(arrays, target_at(url, rows))


def names(found: Explanation) -> list[str]:
    """Return the names of the mistakes in the order of the alphabet, or the verdict."""
    return sorted(each.name for each in found.mistakes) or [found.verdict]
