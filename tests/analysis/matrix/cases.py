"""Cases: arrays, the URL that they are compared with, and what a diagnosis may answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from tests.analysis.matrix.engines import ENGINES, SINUSOIDS
from tests.analysis.matrix.faults import FAULTS, Place, can_have
from tests.analysis.matrix.floats import KINDS, Floats, rounded, step, stored
from tests.analysis.matrix.mistakes import MISTAKES, Made, Mistake
from tests.analysis.matrix.recipes import CONCAT_CONVENTIONS, Packed, Recipe
from tests.analysis.matrix.rotations import (
    LAYOUTS,
    ROTATION_RULES,
    ROTATIONS,
    USUAL_RULES,
    Turned,
    rotated,
    rotation_noise,
)
from tests.analysis.matrix.rules import (
    RULE_NAMES,
    USUAL_BASES,
    Rng,
    Rule,
    draw_rule,
)
from tests.analysis.matrix.wrappers import WRAPPERS, draw_wrapper, with_empty_rows

Names = frozenset[str]

WIDTHS = (16, 32, 64, 64, 80, 96, 128, 128, 256)
MOST_NUMBERS = 250_000
DRAWS = 60
MOST_FLIPS = 0.05


@dataclass(frozen=True)
class Case:
    """A case of /diagnose.

    Attributes:
        group: ``right``, ``mistake``, ``pair``, ``partial``, ``rotation`` or ``empty-rows``.
        label: the names of the mistakes, or of the fault, for the counts.
        arrays: the arrays by name, as stored; uint16 are the bits of bfloat16.
        to: the URL of the right table.
        expected: the names that a diagnosis should have; none of a right table or a fault.
        also: other sets of names that say the same.
        values: the numbers that belong to a name, any of which the diagnosis may state.
        place: where a partial fault is.
        made: the numbers of the arrays without their wrapper.
        right: those of the right table, by the same engine, where shapes agree.
        noise: the largest deviations by the engine's arithmetic.
        recipe: that of the arrays.
        is_in_url: whether a URL can name the arrays' table.
        vectors: those that a rotation turns.
    """

    name: str
    group: str
    label: str
    arrays: Packed
    kind: str
    to: str
    expected: Names = frozenset()
    also: tuple[Names, ...] = ()
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    place: Place | None = None
    made: Packed = field(default_factory=dict)
    right: Packed = field(default_factory=dict)
    noise: Packed = field(default_factory=dict)
    recipe: Recipe | None = None
    right_recipe: Recipe | None = None
    is_in_url: bool = False
    vectors: Floats | None = None

    def simplified(self) -> "Case":
        """Return the case without a wrapper, with a URL that says the number of rows."""
        if self.right_recipe is None or self.group in {"empty-rows", "rotation"}:
            return self
        arrays = _stored(self.made, self.kind)
        return replace(self, arrays=arrays, to=url_of(self.right_recipe, with_length=True))

    @property
    def is_visible(self) -> bool:
        """Whether the arrays differ from the right ones by more than an engine's arithmetic."""
        return not same(self.made, self.right, self.noise, self.kind)


def named(names: str) -> Names:
    """Return the set of names that are joined by +."""
    return frozenset(names.split("+"))


def same(
    ones: Packed,
    others: Packed,
    noise: Packed,
    kind: str,
    steps: float = 1.01,
    coarse: Callable[[Floats], Floats] | None = None,
) -> bool:
    """Return whether arrays agree within steps of their type and the noise.

    Args:
        coarse: the spacing of numbers that were rounded once more, of which a few may be rounded
            to the other neighbour.
    """
    if ones.keys() != others.keys():
        return False
    for name, one in ones.items():
        other = others[name]
        if one.shape != other.shape:
            return False
        allowed = noise[name] if name in noise and noise[name].shape == one.shape else 0.0
        for left, right, slack in _real_parts(one, other, allowed):
            distances = np.abs(left - right)
            spacing = np.maximum(step(left, kind), step(right, kind))
            is_off = ~(distances <= spacing * steps + slack)
            if coarse is None and is_off.any():
                return False
            if coarse is not None and not (
                is_off.mean() <= MOST_FLIPS and np.all(distances <= coarse(left) * 1.01 + slack)
            ):
                return False
    return True


def _real_parts(one: NDArray[Any], other: NDArray[Any], allowed: Any) -> list[tuple[Any, Any, Any]]:
    if not np.iscomplexobj(one) and not np.iscomplexobj(other):
        return [(one, other, allowed)]
    slack = np.maximum(np.real(allowed), np.imag(allowed))
    return [(one.real, other.real, slack), (one.imag, other.imag, slack)]


def draw_rows(rng: Rng, width: int) -> int:
    """Return a number of rows, mostly 8 to 1500."""
    rows = 2 ** rng.uniform(3, 10.6)
    if rng.random() < 0.04:
        rows = 2 ** rng.uniform(10.6, 13)
    return int(min(rows, MOST_NUMBERS // width))


def draw_rope(rng: Rng, rule_names: tuple[str, ...] = (), needs: str = "") -> Recipe:
    """Return the recipe of a right rotary table."""
    engine = ENGINES[str(rng.choice(list(ENGINES)))]
    width = int(rng.choice(WIDTHS))
    rows = draw_rows(rng, width)
    kind = str(rng.choice(KINDS, p=[0.5, 0.25, 0.15, 0.1]))
    if kind == "float64" and (not engine.is_double or rng.random() < 0.2):
        kind = "float32"
    pack = str(rng.choice(engine.packs))
    kind = "float32" if pack == "complex" else kind
    names = rule_names or (RULE_NAMES if rng.random() < 0.6 else ("none",))
    rotary = width
    if rng.random() < 0.12:
        rotary = int(width * float(rng.choice([0.25, 0.5, 0.75])) / 4) * 4 or width
    rule = draw_rule(rng, str(rng.choice(names)), rotary, rows)
    positions = np.arange(rows, dtype=np.float64)
    recipe = Recipe(engine.name, kind, pack, width, rule, positions)
    if needs == "mrope" or (not needs and rule.name == "none" and rng.random() < 0.06):
        return _with_sections(rng, recipe)
    if rng.random() < 0.08:
        start = int(rng.choice([1, 5, 100, 1000]))
        recipe = replace(recipe, positions=positions + start, asked={"start": str(start)})
    return recipe


def _with_sections(rng: Rng, recipe: Recipe) -> Recipe:
    n = recipe.rule.count
    h = int(n * 3 / 8) if n % 8 == 0 else n // 3
    grid = tuple(int(rng.integers(2, 10)) for _ in range(3))
    axes = np.meshgrid(*(np.arange(length) for length in grid), indexing="ij")
    positions = np.stack([axis.ravel() for axis in axes]).astype(np.float64)
    is_interleaved = bool(rng.random() < 0.4)
    h = min(h, n // 3) if is_interleaved else h
    return replace(
        recipe,
        section=(n - 2 * h, h, h),
        is_interleaved=is_interleaved,
        positions=positions,
        asked={"grid": ",".join(map(str, grid))},
    )


def draw_sinusoids(rng: Rng) -> Recipe:
    """Return the recipe of a right sinusoidal table."""
    engine = SINUSOIDS[str(rng.choice(list(SINUSOIDS)))]
    pack = str(rng.choice(engine.packs))
    named = {"fairseq": "fairseq", "tensor2tensor": "tensor2tensor"}
    convention = named.get(engine.name, "vaswani")
    if pack == "sin_concat" and convention == "vaswani" and rng.random() < 0.6:
        convention = str(rng.choice(["whisper", "marian"]))
    assert convention == "vaswani" or convention in CONCAT_CONVENTIONS
    width = int(rng.choice(WIDTHS))
    rows = draw_rows(rng, width)
    kind = str(rng.choice(KINDS, p=[0.6, 0.2, 0.1, 0.1]))
    kind = "float32" if kind == "float64" and not engine.is_double else kind
    base = 10000.0 if rng.random() < 0.8 else float(rng.choice(USUAL_BASES))
    zero_row = 1 if convention == "fairseq" else None
    rule = Rule("none", base, width)
    positions = np.arange(rows, dtype=np.float64)
    return Recipe(
        engine.name, kind, pack, width, rule, positions, convention=convention, zero_row=zero_row
    )


def url_of(recipe: Recipe, *, with_length: bool) -> str:
    """Return the URL of a recipe's table."""
    query = {**recipe.query(), **recipe.asked}
    if with_length and not query.keys() & {"grid", "cu_seqlens", "seq_len"}:
        query["seq_len"] = str(recipe.rows)
    path = "/rope" if recipe.is_rope else "/encoding"
    return f"{path}?{urlencode(query, safe=',')}"


def draw_right(rng: Rng, rules: tuple[str, ...] = (), needs: str = "") -> Recipe:
    if not rules and needs in {"", "encoding"} and (needs or rng.random() < 0.2):
        return draw_sinusoids(rng)
    return draw_rope(rng, rules, needs)


@dataclass(frozen=True)
class _Attempt:
    right: Recipe
    made: Recipe
    expected: Names
    also: tuple[Names, ...]
    values: Mapping[str, tuple[float, ...]]


def _mistaken(rng: Rng, chosen: list[Mistake]) -> _Attempt | None:
    """Return a right recipe and one with the mistakes, or None if they do not go together."""
    needed = [set(mistake.rules) for mistake in chosen if mistake.rules]
    rules = tuple(sorted(set.intersection(*needed))) if needed else ()
    if needed and not rules:
        return None
    needs = next((mistake.needs for mistake in chosen if mistake.needs), "")
    if "mrope" in {mistake.needs for mistake in chosen}:
        needs = "mrope"
    if any(mistake.name == "tutorial-slip" for mistake in chosen):
        needs, rules = "encoding" if rng.random() < 0.6 else "rope", ()
    if any(mistake.name == "layout-swapped" for mistake in chosen) and not needs:
        needs = "encoding" if rng.random() < 0.2 else "rope"
    right = draw_right(rng, rules, needs)
    current = right
    made: list[Made] = []
    for index, mistake in enumerate(chosen):
        result = mistake.make(rng, current)
        if result is None or (result.right is not None and index):
            return None
        right = result.right or right
        current = result.recipe
        made.append(result)
    names = [[mistake.name, *one.also] for mistake, one in zip(chosen, made, strict=True)]
    sets = dict.fromkeys(named("+".join(one)) for one in product(*names))
    expected, *also = sets
    values = {name: values for one in made for name, values in one.values.items()}
    return _Attempt(right, current, expected, tuple(also), values)


def draw_mistake(rng: Rng, name: str, chosen: list[Mistake]) -> Case | None:
    """Return a case with the mistakes, which its numbers show if they can."""
    last: Case | None = None
    ordered = sorted(chosen, key=lambda mistake: mistake.aspect != "length")
    if any(mistake.name in {"positions-reset", "cache-offset"} for mistake in chosen):
        first = ("positions-reset", "cache-offset")
        ordered = sorted(chosen, key=lambda mistake: mistake.name not in first)
    for _ in range(DRAWS):
        attempt = _mistaken(rng, ordered)
        if attempt is None:
            continue
        last = _case_of(rng, name, chosen, attempt)
        if last.is_visible:
            return last
    return last


def _case_of(rng: Rng, name: str, chosen: list[Mistake], attempt: _Attempt) -> Case:
    right, made = attempt.right, attempt.made
    tables, right_tables = made.tables(), replace(right, kind=made.kind).tables()
    is_plain = made.transposed or rng.random() < 0.5
    wrapper = "plain" if is_plain else draw_wrapper(rng, tables)
    wrapped = WRAPPERS[wrapper](rng, tables)
    label = "+".join(sorted(attempt.expected))
    return Case(
        name=f"{name}:{label}:{_described(made, wrapper)}",
        group="mistake" if len(chosen) == 1 else "pair",
        label=label,
        arrays=_stored(wrapped, made.kind),
        kind=made.kind,
        to=url_of(right, with_length=bool(rng.random() < 0.6)),
        expected=attempt.expected,
        also=attempt.also,
        values=attempt.values,
        made=tables,
        right=right_tables,
        noise=made.noise(),
        recipe=made,
        right_recipe=right,
        is_in_url=all(mistake.is_in_url for mistake in chosen),
    )


def _described(recipe: Recipe, wrapper: str) -> str:
    rule = recipe.rule.name if recipe.is_rope else recipe.convention
    parts = (recipe.engine, rule, recipe.kind, recipe.pack, wrapper)
    return "-".join((*parts, f"{recipe.rows}x{recipe.width}"))


def _stored(arrays: Packed, kind: str) -> Packed:
    return {name: stored(array, kind) for name, array in arrays.items()}


def draw_right_case(rng: Rng, name: str) -> Case:
    recipe = draw_right(rng)
    tables = recipe.tables()
    wrapper = draw_wrapper(rng, tables)
    return Case(
        name=f"{name}:right:{_described(recipe, wrapper)}",
        group="right",
        label="right",
        arrays=_stored(WRAPPERS[wrapper](rng, tables), recipe.kind),
        kind=recipe.kind,
        to=url_of(recipe, with_length=bool(rng.random() < 0.6)),
        made=tables,
        right=tables,
        noise=recipe.noise(),
        recipe=recipe,
        right_recipe=recipe,
    )


def draw_empty_rows(rng: Rng, name: str) -> Case:
    """Return a right table with rows of NaN or zeros at the end, as a cache that is not full."""
    recipe = draw_right(rng, ("none", "linear", "yarn"), "rope")
    while recipe.section or recipe.asked or recipe.pack == "complex":
        recipe = draw_right(rng, ("none", "linear", "yarn"), "rope")
    filler = str(rng.choice(["nan", "zero"]))
    tables = with_empty_rows(rng, recipe.tables(), filler)
    rows = len(next(iter(tables.values())))
    full = recipe.on(np.arange(rows, dtype=np.float64))
    asked = [url_of(recipe, with_length=True), url_of(recipe, with_length=False)]
    to = str(rng.choice([*asked, url_of(full, with_length=True)]))
    valid = recipe.rows
    return Case(
        name=f"{name}:{filler}-tail-{valid}:{_described(full, 'plain')}",
        group="empty-rows",
        label=f"{filler}-tail",
        arrays=_stored(tables, recipe.kind),
        kind=recipe.kind,
        to=to,
        place=Place("rows", {"from": valid}),
        made=tables,
        right=full.tables(),
        recipe=full,
        right_recipe=full,
    )


def draw_fault(rng: Rng, name: str, fault: str) -> Case:
    recipe = draw_right(rng)
    while not can_have(fault, recipe) or recipe.section:
        recipe = draw_right(rng)
    faulty = FAULTS[fault](rng, recipe)
    wrapper = "BSD" if faulty.has_batches else "plain"
    arrays = faulty.arrays
    if not faulty.has_batches:
        wrapper = draw_wrapper(rng, arrays)
        if fault == "element" and wrapper in {"BSD", "SHD"}:
            wrapper = "plain"
        arrays = WRAPPERS[wrapper](rng, arrays)
    numbers = "-".join(f"{key}{number}" for key, number in faulty.place.numbers.items())
    return Case(
        name=f"{name}:{fault}-{numbers}:{_described(recipe, wrapper)}",
        group="partial",
        label=f"partial {fault}",
        arrays=_stored(arrays, recipe.kind),
        kind=recipe.kind,
        to=url_of(recipe, with_length=bool(rng.random() < 0.6)),
        place=faulty.place,
        made=faulty.arrays,
        right=recipe.tables(),
        noise=recipe.noise(),
        recipe=recipe,
        right_recipe=recipe,
    )


def draw_rotation(rng: Rng, name: str, mistake: str) -> Case | None:
    """Return a case of vectors and the same rotated; ``right`` is no mistake."""
    for _ in range(DRAWS):
        recipe = draw_rope(rng, ROTATION_RULES.get(mistake, USUAL_RULES))
        if recipe.section:
            continue
        kind = "float32" if recipe.kind == "float64" else recipe.kind
        recipe = replace(recipe, kind=kind, pack=str(rng.choice(LAYOUTS)))
        recipe = recipe.on(recipe.positions[: int(rng.integers(6, 200))])
        result = ROTATIONS[mistake](rng, recipe)
        if result is not None:
            return _rotation_case(rng, name, mistake, result)
    return None


def _rotation_case(rng: Rng, name: str, mistake: str, result: Turned) -> Case:
    made, right = result.made, result.right
    shape: tuple[int, ...] = (right.rows, right.width)
    if rng.random() < 0.4:
        shape = (int(rng.integers(1, 4)), *shape)
    x: Floats = rounded(rng.normal(size=shape), right.kind)
    query = {key: value for key, value in right.query().items() if key not in {"pack", "part"}}
    query |= {"layout": right.pack, **right.asked}
    turned = rotated(made, x)
    return Case(
        name=f"{name}:rotation-{mistake}:{_described(made, 'plain')}",
        group="rotation",
        label=f"rotation {mistake}",
        arrays=_stored({"x": x, "rotated": turned}, right.kind),
        kind=right.kind,
        to=f"/rope/apply?{urlencode(query, safe=',')}",
        expected=frozenset() if mistake == "right" else frozenset({mistake}),
        also=tuple(map(named, result.also)),
        values=result.values,
        made={"rotated": turned},
        right={"rotated": rotated(right, x)},
        noise={"rotated": rotation_noise(made, x)},
        recipe=made,
        right_recipe=right,
        vectors=x,
    )


def draw_case(seed: int, index: int) -> Case | None:
    """Return the case of a seed and an index, or None if the draw has none."""
    rng = np.random.default_rng([seed, index])
    name = f"{seed}/{index}"
    group = str(
        rng.choice(
            ["right", "mistake", "pair", "partial", "rotation", "empty-rows"],
            p=[0.17, 0.4, 0.17, 0.13, 0.1, 0.03],
        )
    )
    if group == "right":
        return draw_right_case(rng, name)
    if group == "empty-rows":
        return draw_empty_rows(rng, name)
    if group == "partial":
        return draw_fault(rng, name, str(rng.choice(list(FAULTS))))
    if group == "rotation":
        return draw_rotation(rng, name, str(rng.choice(list(ROTATIONS))))
    mistakes = list(MISTAKES.values())
    if group == "mistake":
        return draw_mistake(rng, name, [mistakes[int(rng.integers(len(mistakes)))]])
    while True:
        paired = [mistake for mistake in mistakes if mistake.is_paired]
        first, second = (paired[int(i)] for i in rng.choice(len(paired), 2, replace=False))
        both = {first.aspect, second.aspect}
        if len(both) == 2 and both != {"length", "positions"} and _fit(first, second):
            return draw_mistake(rng, name, [first, second])


def _fit(first: Mistake, second: Mistake) -> bool:
    """Return whether two mistakes can be in one table and be told apart."""
    rules = [set(mistake.rules or RULE_NAMES) for mistake in (first, second)]
    needs = {first.needs, second.needs} - {""}
    return bool(rules[0] & rules[1]) and needs != {"mrope", "rope"}
