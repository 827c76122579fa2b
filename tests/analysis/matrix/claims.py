"""The tables that a diagnosis claims, rebuilt: from its URL, or from the names of its mistakes."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
from safetensors.numpy import load

from tests.analysis.matrix.cases import Case, same
from tests.analysis.matrix.floats import NARROW_KINDS, Floats, rounded, step
from tests.analysis.matrix.recipes import SWAPPED, TWO_ARRAYS, Packed, Recipe, packed, spread
from tests.analysis.matrix.rotations import rotated
from tests.analysis.matrix.rules import Rule, numbers_in
from tests.client import Client

_MOST_REBUILT, _MOST_OF_ONE = 300, 40
CLAIMED_ERROR = 2.0**-16
"""The relative error of angles that a claimed table may have: bases are written shortly."""
_CONSUMERS = {
    "transformers": "half",
    "cohere": "interleaved",
    "diffusers": "interleaved",
    "vllm": "concat",
    "gptj": "sin_concat",
    "ggml": "flat",
    "llama": "complex",
    "flash_attn": "compact",
    "torchtune": "pair",
}
_PACKS = {*TWO_ARRAYS, "concat", "sin_concat", "flat", "pair", "complex", "half_concat"}


Waves: TypeAlias = tuple[Floats, Floats]
Remade: TypeAlias = Iterator[Recipe]

_AXES = {"seq_len", "start", "positions", "cu_seqlens", "grid", "positions_t"}


def table_of(client: Client, url: str, rows: int | None = None) -> Packed | None:
    """Return the exact table of a URL, packed as it says; None if the URL has none."""
    path, query = _split(url)
    if not query.keys() & _AXES - {"start"} and rows is not None:
        query["seq_len"] = str(rows)
    if path not in {"/rope", "/rope/axial"}:
        arrays = _loaded(client, path, query)
        return {"table": next(iter(arrays.values()))} if arrays and len(arrays) == 1 else None
    waves = _waves(client, path, query)
    pack = _CONSUMERS.get(query.get("pack", "pair"), query.get("pack", "pair"))
    if waves is None or pack not in _PACKS:
        return None
    if "part" in query:
        return {"table": spread(waves[query["part"] == "sin"], pack)}
    return packed(*waves, pack)


def _split(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    return parts.path.rsplit(".", 1)[0], dict(parse_qsl(parts.query))


def _loaded(client: Client, path: str, query: Mapping[str, str]) -> Packed | None:
    kind = query.get("dtype", "float64")
    wide = urlencode({**query, "dtype": "float64"}, safe=",:")
    answer = client.get(f"{path}.safetensors?{wide}")
    if answer.status_code != 200:
        return None
    return {name: rounded(array, kind) for name, array in load(answer.content).items()}


def _waves(client: Client, path: str, query: Mapping[str, str]) -> Waves | None:
    asked = {key: value for key, value in query.items() if key != "part"}
    arrays = _loaded(client, path, {**asked, "pack": "compact"})
    return None if arrays is None else (arrays["cos"], arrays["sin"])


def claimed_tables(client: Client, case: Case, url: str, names: frozenset[str]) -> Iterator[Packed]:
    """Return the table of a claimed URL; and the same with the other mistakes that are named."""
    recipe = case.recipe
    if recipe is None or case.vectors is not None:
        return
    table = table_of(client, url, recipe.rows)
    if table is not None:
        yield table
    path, query = _split(url)
    others = case.expected & names
    if path != "/rope" or recipe.section or not others or recipe.narrow not in {"", "tables"}:
        return
    asked = {key: value for key, value in query.items() if key not in _AXES}
    asked["positions"] = ",".join(str(int(position)) for position in recipe.positions)
    waves = _waves(client, path, asked)
    if waves is not None:
        cosines, sines = waves[0], waves[1] * recipe.sine_sign
        if recipe.narrow:
            cosines, sines = (rounded(wave, recipe.narrow_kind) for wave in (cosines, sines))
        yield recipe.arranged(cosines, sines)


def agrees(case: Case, claimed: Packed) -> bool:
    """Return whether a claimed table has the numbers of the case."""
    noise, coarse = case.noise, None
    if case.recipe is not None and case.vectors is None:
        coarse = _coarse(case.recipe)
        noise = case.recipe.noise(CLAIMED_ERROR)
    return any(
        same(case.made, form, noise, case.kind, steps=2.01, coarse=coarse)
        for form in _forms(claimed, case.made)
    )


def _coarse(recipe: Recipe) -> Callable[[Floats], Floats] | None:
    """Return the spacing of numbers that are rounded once more than to their type, if they are."""
    if recipe.decimals is not None:
        size = 10.0**-recipe.decimals
        return lambda values: np.full(values.shape, size)
    if recipe.narrow == "tables":
        kind = recipe.narrow_kind
        return lambda values: step(values, kind)
    return None


def _forms(claimed: Packed, made: Packed) -> Iterator[Packed]:
    """Return the claimed table as it is, and by the names of the arrays of the case."""
    yield claimed
    if len(claimed) == len(made) == 1:
        yield {next(iter(made)): next(iter(claimed.values()))}


def rebuilt(case: Case, mistakes: list[Mapping[str, Any]]) -> bool:
    """Return whether the names and numbers of mistakes give the arrays of the case."""
    if case.right_recipe is None or case.recipe is None:
        return False
    right = replace(case.right_recipe, kind=case.kind)
    candidates: Iterator[Recipe] = iter([right])
    for mistake in mistakes:
        candidates = _changed(candidates, str(mistake.get("name")), numbers_in(mistake), case)
    return any(agrees(case, _numbers(recipe, case)) for recipe in islice(candidates, _MOST_REBUILT))


def _changed(recipes: Iterator[Recipe], name: str, numbers: list[float], case: Case) -> Remade:
    for recipe in recipes:
        yield from islice(_rebuilt(name, recipe, numbers, case), _MOST_OF_ONE)


def _numbers(recipe: Recipe, case: Case) -> Packed:
    if case.vectors is None:
        return recipe.tables()
    return {"rotated": rotated(recipe, case.vectors)}


def _rebuilt(name: str, recipe: Recipe, numbers: list[float], case: Case) -> Remade:
    """Return the recipes that a name and its numbers may mean."""
    if name.startswith("narrow-"):
        stage = name.partition("-")[2]
        return (replace(recipe, narrow=stage, narrow_kind=kind) for kind in NARROW_KINDS)
    if name in _FIXED:
        return iter([_FIXED[name](recipe)])
    if name in _NUMBERED:
        return _NUMBERED[name](recipe, numbers)
    if name in {"truncated", "longer"} and case.recipe is not None:
        return iter([recipe.on(_of_length(recipe.positions, case.recipe.rows))])
    if name in {"positions-reset", "other-positions"} and case.recipe is not None:
        # Their rows are in the answer, in a form that is not fixed: those of the case are taken.
        return iter([recipe.on(case.recipe.positions)])
    return iter([])


_FIXED: Mapping[str, Callable[[Recipe], Recipe]] = {
    "missing-factor": lambda recipe: replace(recipe, attention_power=0),
    "extra-factor": lambda recipe: replace(recipe, attention_power=2),
    "sine-sign": lambda recipe: replace(recipe, sine_sign=-recipe.sine_sign),
    "inverse": lambda recipe: replace(recipe, sine_sign=-recipe.sine_sign),
    "layout-swapped": lambda recipe: replace(recipe, pack=SWAPPED.get(recipe.pack, recipe.pack)),
    "halves-swapped": lambda recipe: replace(recipe, exchanged=not recipe.exchanged),
    "transposed": lambda recipe: replace(recipe, transposed=True),
    "not-rotated": lambda recipe: replace(recipe.on(recipe.positions * 0), attention_power=0),
    "positions-reversed": lambda recipe: recipe.on(recipe.positions[..., ::-1]),
    "rotated-twice": lambda recipe: replace(recipe, frequency_factor=2.0),
    "yarn-betas-exchanged": lambda recipe: _with_slip(recipe, "betas-exchanged"),
    "llama3-band": lambda recipe: _with_slip(recipe, "band-of-wavelengths"),
    "sections-interleaved": lambda recipe: replace(
        recipe, is_interleaved=not recipe.is_interleaved
    ),
}


def _with_slip(recipe: Recipe, slip: str) -> Recipe:
    return replace(recipe, rule=replace(recipe.rule, slip=slip))


def _bases(recipe: Recipe, numbers: list[float]) -> Remade:
    rules = (replace(recipe.rule, base=number) for number in numbers if number > 1)
    return (replace(recipe, rule=rule) for rule in rules)


def _plain(recipe: Recipe, numbers: list[float]) -> Remade:
    """Return the unscaled frequencies of the base, and of another that the answer states."""
    rotary = recipe.rule.rotary
    bases = [recipe.rule.base, *(number for number in numbers if number > 1)]
    return (replace(recipe, rule=Rule("none", base, rotary)) for base in bases)


def _factors(recipe: Recipe, numbers: list[float]) -> Remade:
    for number in filter(None, numbers):
        yield from (replace(recipe, frequency_factor=f) for f in (number, 1 / number))


def _degrees(recipe: Recipe, _: list[float]) -> Remade:
    return _factors(recipe, [180 / math.pi])


def _offsets(recipe: Recipe, numbers: list[float]) -> Remade:
    differences = (one - other for one, other in product(numbers, numbers))
    for offset in dict.fromkeys([*numbers, *differences]):
        yield from (recipe.on(recipe.positions + sign * offset) for sign in (1, -1))


def _stuck(recipe: Recipe, numbers: list[float]) -> Remade:
    for number in numbers:
        lasts = (number, number - 1)
        yield from (recipe.on(np.minimum(recipe.positions, last)) for last in lasts)


def _attention(recipe: Recipe, numbers: list[float]) -> Remade:
    """Return the rule with other attention factors, that the answer states or their ratios."""
    given = [*numbers, *(recipe.rule.attention() * number for number in numbers)]
    rules = (recipe.rule.having(attention_factor=number) for number in given if number > 0)
    return (replace(recipe, rule=rule) for rule in rules)


def _decimals(recipe: Recipe, numbers: list[float]) -> Remade:
    digits = {round(number) for number in numbers if 0 < number < 12}
    digits |= {round(-math.log10(number)) for number in numbers if 0 < number < 1}
    return (replace(recipe, decimals=count) for count in digits)


_NUMBERED: Mapping[str, Callable[[Recipe, list[float]], Remade]] = {
    "wrong-base": _bases,
    "config-key-ignored": _plain,
    "linear-factor": _factors,
    "angles-in-degrees": _degrees,
    "position-offset": _offsets,
    "padding-counted": _offsets,
    "cache-offset": _offsets,
    "positions-stuck": _stuck,
    "rounded-decimals": _decimals,
    "wrong-factor": _attention,
}


def _of_length(positions: Floats, rows: int) -> Floats:
    more = np.arange(1.0, max(rows - len(positions), 0) + 1)
    return np.concatenate([positions, positions[-1] + more])[:rows]
