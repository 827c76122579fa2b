"""Partial faults: right tables with wrong numbers in a known place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tests.analysis.matrix.floats import Floats
from tests.analysis.matrix.recipes import Packed, Recipe, packed, rounded_any
from tests.analysis.matrix.rules import Rng


@dataclass(frozen=True)
class Place:
    """Where numbers are wrong.

    Attributes:
        kind: the name of the finding, ``rows``, ``lanes``, ``element``, ``batch``,
            ``sine-offset``, or nothing where all numbers are wrong.
        numbers: what a finding states, for example ``from`` and ``every``, both ends included; of
            an element ``row``, and ``channel`` or ``lane``, the pair.
    """

    kind: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Faulty:
    """Arrays (S, …) with a fault; of ``batch``, with a leading axis of batches."""

    arrays: Packed
    place: Place
    has_batches: bool = False


def _garbage(rng: Rng, shape: tuple[int, ...]) -> Floats:
    """Return numbers as memory has them: noise, or heavy-tailed."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.normal(size=shape)
    if kind == 1:
        return rng.uniform(-1, 1, shape)
    if kind == 2:
        return np.clip(rng.standard_cauchy(shape) * 0.1, -30000, 30000)
    numbers: Floats = np.exp(rng.uniform(-30, 8, shape)) * rng.choice([-1.0, 1.0], shape)
    return numbers


def _replaced(rng: Rng, recipe: Recipe, rows: slice, lanes: slice) -> Packed:
    cosines, sines = (wave.copy() for wave in recipe.waves())
    for wave in (cosines, sines):
        wave[rows, lanes] = _garbage(rng, wave[rows, lanes].shape)
    return _packed(recipe, cosines, sines)


def _packed(recipe: Recipe, cosines: Floats, sines: Floats) -> Packed:
    arrays = packed(cosines, sines, recipe.pack, exchanged=recipe.exchanged)
    return {name: rounded_any(array, recipe.kind) for name, array in arrays.items()}


def _rows_from(rng: Rng, recipe: Recipe) -> Faulty:
    start = int(rng.integers(max(1, recipe.rows // 3), recipe.rows - 1))
    arrays = _replaced(rng, recipe, slice(start, None), slice(None))
    return Faulty(arrays, Place("rows", {"from": start}))


def _rows_every(rng: Rng, recipe: Recipe) -> Faulty:
    every = int(rng.integers(2, min(9, max(3, recipe.rows // 2))))
    start = int(rng.integers(1, every + 1))
    arrays = _replaced(rng, recipe, slice(start, None, every), slice(None))
    return Faulty(arrays, Place("rows", {"every": every, "from": start}))


def _lanes_every(rng: Rng, recipe: Recipe) -> Faulty:
    every = int(rng.integers(2, min(5, max(3, recipe.rule.count // 2))))
    start = int(rng.integers(0, every))
    arrays = _replaced(rng, recipe, slice(None), slice(start, None, every))
    return Faulty(arrays, Place("lanes", {"every": every, "from": start}))


def _lanes_range(rng: Rng, recipe: Recipe) -> Faulty:
    count = recipe.rule.count
    start = int(rng.integers(1, count - 2))
    stop = int(rng.integers(start + 1, min(count - 1, start + count // 2) + 1))
    arrays = _replaced(rng, recipe, slice(None), slice(start, stop))
    return Faulty(arrays, Place("lanes", {"from": start, "to": stop - 1}))


def _element(rng: Rng, recipe: Recipe) -> Faulty:
    arrays = dict(recipe.tables())
    name = str(rng.choice(list(arrays)))
    array = arrays[name].copy()
    index = tuple(int(rng.integers(size)) for size in array.shape)
    change = float(rng.choice([0.5, -0.3, 5.0, 100.0]))
    array[index] = rounded_any(np.asarray(array[index] + change)[None], recipe.kind)[0]
    arrays[name] = array
    lane = _lane(index[1], recipe)
    return Faulty(arrays, Place("element", {"row": index[0], "channel": index[1], "lane": lane}))


def _lane(channel: int, recipe: Recipe) -> int:
    """Return the pair of a channel."""
    if recipe.pack in {"interleaved", "flat", "paper"}:
        return channel // 2
    return channel % recipe.rule.count


def _batch(rng: Rng, recipe: Recipe) -> Faulty:
    right = recipe.tables()
    wrong = _replaced(rng, recipe, slice(None), slice(None))
    count = int(rng.integers(2, 4))
    arrays = {name: np.stack([right[name]] + [wrong[name]] * (count - 1)) for name in right}
    return Faulty(arrays, Place("batch", {"from": 1}), has_batches=True)


def _sine_offset(rng: Rng, recipe: Recipe) -> Faulty:
    offset = int(rng.choice([1, 2, 3, 8, 17]))
    cosines, _ = recipe.waves()
    _, sines = recipe.on(recipe.positions + offset).waves()
    return Faulty(_packed(recipe, cosines, sines), Place("sine-offset", {"offset": offset}))


def _uninitialised(rng: Rng, recipe: Recipe) -> Faulty:
    return Faulty(_replaced(rng, recipe, slice(None), slice(None)), Place())


def _noise(rng: Rng, recipe: Recipe) -> Faulty:
    size = float(10 ** rng.uniform(-2.3, -0.7))
    cosines, sines = recipe.waves()
    cosines = cosines + rng.normal(size=cosines.shape) * size
    sines = sines + rng.normal(size=sines.shape) * size
    return Faulty(_packed(recipe, cosines, sines), Place())


FAULTS: Mapping[str, Callable[[Rng, Recipe], Faulty]] = {
    "rows-from": _rows_from,
    "rows-every": _rows_every,
    "lanes-every": _lanes_every,
    "lanes-range": _lanes_range,
    "element": _element,
    "batch": _batch,
    "sine-offset": _sine_offset,
    "uninitialised": _uninitialised,
    "noise": _noise,
}


def can_have(name: str, recipe: Recipe) -> bool:
    """Return whether a table can have the fault."""
    is_one_wave = recipe.pack in {"cos", "sin"}
    if name == "sine-offset":
        return not is_one_wave
    if name == "batch":
        return recipe.pack not in {"complex", "pair"} and recipe.rows * recipe.width < 200_000
    return recipe.rule.count >= 6 and recipe.rows >= 8
