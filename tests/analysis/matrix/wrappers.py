"""Wrappers: the axes, copies and empty rows that files have around a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tests.analysis.matrix.floats import Floats
from tests.analysis.matrix.recipes import Packed
from tests.analysis.matrix.rules import Rng


@dataclass(frozen=True)
class Wrapped:
    """Arrays with their wrapper; ``valid_rows`` are followed by rows of ``filler``."""

    arrays: Packed
    valid_rows: int | None = None
    filler: str = ""


def _each(change: Callable[[Floats], Floats]) -> Callable[[Rng, Packed], Packed]:
    def wrap(_: Rng, arrays: Packed) -> Packed:
        return {name: change(array) for name, array in arrays.items()}

    return wrap


def _batches(rng: Rng, arrays: Packed) -> Packed:
    count = int(rng.integers(2, 4))
    return {name: np.stack([array] * count) for name, array in arrays.items()}


def _heads(rng: Rng, arrays: Packed) -> Packed:
    count = int(rng.integers(2, 5))
    return {name: np.stack([array] * count, axis=1) for name, array in arrays.items()}


def _stacked(axis: int) -> Callable[[Rng, Packed], Packed]:
    def wrap(_: Rng, arrays: Packed) -> Packed:
        return {"table": np.stack([arrays["cos"], arrays["sin"]], axis=axis)}

    return wrap


WRAPPERS: Mapping[str, Callable[[Rng, Packed], Packed]] = {
    "plain": _each(lambda array: array),
    "1SD": _each(lambda array: array[None]),
    "11SD": _each(lambda array: array[None, None]),
    "S1D": _each(lambda array: array[:, None]),
    "BSD": _batches,
    "SHD": _heads,
    "2SK": _stacked(0),
    "S2K": _stacked(1),
}

_STACKED = ("2SK", "S2K")
_LARGE = 200_000


def draw_wrapper(rng: Rng, arrays: Packed) -> str:
    """Return the name of a wrapper that the arrays can have."""
    if rng.random() < 0.45:
        return "plain"
    first = next(iter(arrays.values()))
    names = ["1SD", "11SD", "S1D"] if first.ndim == 2 else ["1SD"]
    if len(arrays) == 2:
        names += [*_STACKED, *_STACKED]
    if first.ndim == 2 and first.size < _LARGE:
        names += ["BSD", "SHD"]
    return str(rng.choice(names))


def with_empty_rows(rng: Rng, arrays: Packed, filler: str) -> Packed:
    """Return arrays (S, …) with rows of NaN or zeros after their own."""
    first = next(iter(arrays.values()))
    rows = len(first)
    more = int(rng.integers(1, max(2, rows // 2)))
    number = np.nan if filler == "nan" else 0.0
    return {
        name: np.concatenate([array, np.full((more, *array.shape[1:]), number)])
        for name, array in arrays.items()
    }
