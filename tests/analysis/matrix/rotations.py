"""Applied rotations: vectors, and the same vectors rotated, right and with mistakes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tests.analysis.matrix.floats import Floats, rounded
from tests.analysis.matrix.recipes import SWAPPED, Recipe
from tests.analysis.matrix.rules import SCALED_RULES, Rng, Rule

LAYOUTS = ("interleaved", "half")


def rotated(recipe: Recipe, x: Floats) -> Floats:
    """Return vectors (…, S, D) rotated as engines do, rounded to the type of the recipe.

    The packing of the recipe is the layout of the pairs.
    """
    r = recipe.rule.rotary
    cosines, sines = recipe.waves()
    if recipe.pack == "half":
        first, second = np.arange(r // 2), np.arange(r // 2, r)
    else:
        first, second = np.arange(0, r, 2), np.arange(1, r, 2)
    result = x.copy()
    ones, others = x[..., first], x[..., second]
    result[..., first] = ones * cosines - others * sines
    result[..., second] = others * cosines + ones * sines
    return rounded(result, recipe.kind)


def rotation_noise(recipe: Recipe, x: Floats) -> Floats:
    """Return the largest deviation of each rotated number by the engine's arithmetic."""
    worst = np.max(recipe.angle_noise()[0], axis=-1, keepdims=True)
    size = np.max(np.abs(x), axis=-1, keepdims=True) * 2
    noise: Floats = size * (worst + 2.0**-21) * max(1.0, abs(recipe.rule.attention()))
    return np.broadcast_to(noise, x.shape)


@dataclass(frozen=True)
class Turned:
    """A rotation with a mistake, and the one that is right."""

    made: Recipe
    right: Recipe
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    also: tuple[str, ...] = ()


def _none(_: Rng, right: Recipe) -> Turned:
    return Turned(right, right)


def _layout_swapped(_: Rng, right: Recipe) -> Turned:
    return Turned(replace(right, pack=SWAPPED[right.pack]), right)


def _inverse(_: Rng, right: Recipe) -> Turned:
    return Turned(replace(right, sine_sign=-1), right, also=("sine-sign",))


def _not_rotated(_: Rng, right: Recipe) -> Turned:
    made = replace(right.on(right.positions * 0), attention_power=0)
    return Turned(made, right, also=("positions-stuck",))


def _wrong_base(rng: Rng, right: Recipe) -> Turned:
    base = float(round(right.rule.base * float(rng.choice([0.1, 0.5, 1.2, 3, 50]))))
    made = replace(right, rule=replace(right.rule, base=base))
    return Turned(made, right, {"wrong-base": (base,)})


def _key_ignored(_: Rng, right: Recipe) -> Turned:
    made = replace(right, rule=Rule("none", right.rule.base, right.rule.rotary))
    names = ("wrong-rule", "linear-factor", "wrong-base", "config-key-ignored+missing-factor")
    return Turned(made, right, also=names)


def _offset(rng: Rng, right: Recipe) -> Turned:
    offset = float(rng.choice([1, -1, 2, 5, 64]))
    made = right.on(right.positions + offset)
    also = ("padding-counted", "cache-offset")
    return Turned(made, right, {"position-offset": (offset, -offset)}, also)


def _partial_width(rng: Rng, right: Recipe) -> Turned | None:
    width = right.width
    narrower = max(4, int(width * float(rng.choice([0.25, 0.5])) / 2) * 2)
    if right.rule.name not in {"none", "linear"} or narrower >= width:
        return None
    pair = [replace(right, rule=replace(right.rule, rotary=r)) for r in (narrower, width)]
    made, asked = pair if rng.random() < 0.6 else pair[::-1]
    rotary = made.rule.rotary
    values = {"partial-width": (rotary, rotary // 2, rotary / width)}
    return Turned(made, asked, values, ("config-key-ignored", "wrong-parameter"))


def _missing_factor(_: Rng, right: Recipe) -> Turned | None:
    if abs(right.rule.attention() - 1) < 0.01:
        return None
    return Turned(replace(right, attention_power=0), right, also=("wrong-parameter",))


ROTATIONS: Mapping[str, Callable[[Rng, Recipe], Turned | None]] = {
    "right": _none,
    "layout-swapped": _layout_swapped,
    "inverse": _inverse,
    "wrong-base": _wrong_base,
    "config-key-ignored": _key_ignored,
    "position-offset": _offset,
    "partial-width": _partial_width,
    "not-rotated": _not_rotated,
    "missing-factor": _missing_factor,
}

ROTATION_RULES: Mapping[str, tuple[str, ...]] = {
    "config-key-ignored": SCALED_RULES,
    "missing-factor": ("yarn", "longrope"),
}
"""The rules that a mistake needs; others have any of ``USUAL_RULES``."""

USUAL_RULES = ("none", "none", "linear", "yarn", "llama3")
