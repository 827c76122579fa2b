"""Mistakes that tables have: each changes a recipe, and says what a diagnosis should answer."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tests.analysis.matrix.floats import NARROW_KINDS
from tests.analysis.matrix.recipes import LAST_IS_ONE, SWAPPED, Recipe
from tests.analysis.matrix.rules import (
    SCALED_RULES,
    USUAL_BASES,
    Rng,
    Rule,
    draw_factor,
    draw_rule,
)

Names: TypeAlias = frozenset[str]


@dataclass(frozen=True)
class Made:
    """A recipe with a mistake.

    Attributes:
        values: the numbers that the diagnosis may state, by the name of the mistake they belong to.
        also: other names that say the same of such a table; + joins several.
        asked: the query parameters of positions of the right table, if the mistake needs its own.
        right: the recipe of the right table, if the mistake needs its own.
    """

    recipe: Recipe
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    right: Recipe | None = None


Maker: TypeAlias = Callable[[Rng, Recipe], Made | None]


@dataclass(frozen=True)
class Mistake:
    """A maker of a mistake; two mistakes of one aspect do not go together.

    Attributes:
        rules: the rules that it needs, or any.
        is_in_url: whether the URL of a table can have the mistake.
        needs: what the right table must be: ``mrope``, ``rope``, ``encoding`` or anything.
    """

    name: str
    make: Maker
    aspect: str
    rules: tuple[str, ...] = ()
    is_in_url: bool = False
    needs: str = ""
    is_paired: bool = True


# The base and the rule.


def _wrong_base(rng: Rng, recipe: Recipe) -> Made | None:
    base = recipe.rule.base
    if rng.random() < 0.5:
        base = float(rng.choice([b for b in USUAL_BASES if b != base]))
    elif rng.random() < 0.5:
        base = float(round(base * rng.choice([0.5, 0.9, 1.05, 1.3, 2, 7])))
    else:
        base = round(float(10 ** rng.uniform(2, 7)), 1)
    if abs(base / recipe.rule.base - 1) < 0.01:
        return None
    return Made(replace(recipe, rule=replace(recipe.rule, base=base)), {"wrong-base": (base,)})


def _key_ignored(_: Rng, recipe: Recipe) -> Made | None:
    plain = Rule("none", recipe.rule.base, recipe.rule.rotary)
    also: tuple[str, ...] = (
        "linear-factor",
        "missing-factor",
        "wrong-rule",
        "dynamic-length",
        "wrong-base",
    )
    if recipe.rule.attention() != 1:
        also += tuple(f"{name}+missing-factor" for name in ("config-key-ignored", *also))
    return Made(replace(recipe, rule=plain), also=also)


_CHANGED: Mapping[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "alpha": ("alpha",),
    "ntk": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow"),
    "llama3": (
        "factor",
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
    ),
    "longrope": ("factor",),
}


def _wrong_parameter(rng: Rng, recipe: Recipe) -> Made | None:
    rule = recipe.rule
    if rule.name not in _CHANGED:
        return None
    key = str(rng.choice(_CHANGED[rule.name]))
    defaults = {"beta_fast": 32.0, "beta_slow": 1.0}
    value = rule.number(key, defaults.get(key, 0.0)) * float(rng.choice([0.5, 2, 2, 4, 1.5]))
    changed: float = round(value) if key.startswith("original") else round(value, 3)
    wrong = rule.having(**{key: changed})
    low, high = wrong.number("low_freq_factor", 0), wrong.number("high_freq_factor", 1)
    if low >= high or wrong.number("beta_slow", 1) >= wrong.number("beta_fast", 32):
        return None
    if rule.name == "dynamic" and wrong.base_used <= 1:
        return None
    also = ("wrong-base", "linear-factor", "dynamic-length", "missing-factor", "extra-factor")
    return Made(replace(recipe, rule=wrong), {"wrong-parameter": (float(changed),)}, also)


def _wrong_rule(rng: Rng, recipe: Recipe) -> Made | None:
    name = str(rng.choice([name for name in SCALED_RULES if name != recipe.rule.name]))
    wrong = replace(draw_rule(rng, name, recipe.rule.rotary, recipe.rows), base=recipe.rule.base)
    factor = recipe.rule.number("factor", 0)
    if factor and "factor" in wrong.keys and rng.random() < 0.7:
        wrong = wrong.having(factor=factor)
    also = ("wrong-base", "linear-factor", "config-key-ignored", "wrong-parameter")
    return Made(replace(recipe, rule=wrong), also=also)


def _dynamic_length(rng: Rng, recipe: Recipe) -> Made | None:
    original = recipe.rule.number("original_max_position_embeddings")
    length = recipe.rule.number("context_length")
    chosen = int(rng.choice([original, recipe.rows, 2 * length, round(1.3 * length)]))
    if chosen == length or max(chosen, original) == max(length, original):
        return None
    rule = recipe.rule.having(context_length=chosen)
    also = ("wrong-parameter", "config-key-ignored", "wrong-base")
    return Made(replace(recipe, rule=rule), {"dynamic-length": (float(chosen),)}, also)


def _short_for_long(_: Rng, recipe: Recipe) -> Made | None:
    original = recipe.rule.number("original_max_position_embeddings")
    is_long = recipe.rule.number("context_length") > original
    length = int(original if is_long else 4 * original)
    rule = recipe.rule.having(context_length=length)
    return Made(replace(recipe, rule=rule), also=("wrong-parameter",))


def _list_by_position(_: Rng, recipe: Recipe) -> Made | None:
    original = int(recipe.rule.number("original_max_position_embeddings"))
    if not recipe.positions.min() < original < recipe.positions.max() - 2:
        return None
    long = recipe.rule.having(context_length=4 * original)
    short = recipe.rule.having(context_length=original)
    return Made(
        replace(recipe, rule=short, late_rule=long, late_from=original),
        {"list-by-position": (float(original), original - 1.0, original + 1.0)},
    )


def _mscale_exchanged(_: Rng, recipe: Recipe) -> Made | None:
    keys = recipe.rule.keys
    if "mscale" not in keys or recipe.rule.number("factor") <= 1:
        return None
    rule = recipe.rule.having(mscale=keys["mscale_all_dim"], mscale_all_dim=keys["mscale"])
    return Made(replace(recipe, rule=rule), also=("wrong-parameter", "missing-factor"))


def _range_rounded(_: Rng, recipe: Recipe) -> Made | None:
    is_rounded = bool(recipe.rule.keys.get("truncate", True))
    rule = recipe.rule.having(truncate=not is_rounded)
    return Made(replace(recipe, rule=rule), also=("wrong-parameter",))


def _betas_exchanged(_: Rng, recipe: Recipe) -> Made | None:
    return Made(replace(recipe, rule=replace(recipe.rule, slip="betas-exchanged")))


def _llama3_band(_: Rng, recipe: Recipe) -> Made | None:
    return Made(replace(recipe, rule=replace(recipe.rule, slip="band-of-wavelengths")))


# Frequencies and angles.


def _linear_factor(rng: Rng, recipe: Recipe) -> Made | None:
    factor = draw_factor(rng)
    factor = factor if rng.random() < 0.3 else 1 / factor
    made = replace(recipe, frequency_factor=factor)
    also = ("wrong-rule", "wrong-parameter", "rotated-twice", "config-key-ignored")
    return Made(made, {"linear-factor": (factor, 1 / factor)}, also)


def _rotated_twice(_: Rng, recipe: Recipe) -> Made | None:
    if recipe.rule.attention() != 1:
        return None
    return Made(replace(recipe, frequency_factor=2.0), also=("linear-factor", "wrong-parameter"))


def _degrees(rng: Rng, recipe: Recipe) -> Made | None:
    factor = 180 / math.pi if rng.random() < 0.6 else math.pi / 180
    return Made(replace(recipe, frequency_factor=factor), also=("linear-factor",))


def _tutorial_slip(rng: Rng, recipe: Recipe) -> Made | None:
    if recipe.rule.name != "none" or recipe.section or recipe.width < 8:
        return None
    base, width = recipe.rule.base, recipe.rule.rotary
    if recipe.convention in LAST_IS_ONE:
        slips = {"not-last-one": base ** ((width / 2 - 1) / (width / 2))}
    else:
        slips = {
            "channel": math.sqrt(base),
            "last-one": base ** (width / (width - 2)),
            "doubled": base**2,
            "log10": math.exp(math.log10(base)),
        }
    if not recipe.is_rope and recipe.convention not in LAST_IS_ONE:
        slips |= {"cosine-channel": 0.0, "cosine-doubled": 0.0}
    slip = str(rng.choice(list(slips)))
    if slip == "log10":
        made = replace(recipe, rule=replace(recipe.rule, base=math.exp(math.log10(base))))
    else:
        made = replace(recipe, slip=slip)
    also = ("wrong-base", "wrong-convention") if slips[slip] else ()
    return Made(made, {"wrong-base": (slips[slip],)}, also)


def _partial_width(rng: Rng, recipe: Recipe) -> Made | None:
    count = recipe.rule.count
    turned = int(count * float(rng.choice([0.25, 0.5, 0.75])))
    if turned < 2 or recipe.section:
        return None
    is_alone = recipe.rule.name in {"none", "linear"} and rng.random() < 0.5
    made = replace(recipe, turned=turned, turned_alone=is_alone)
    also = ("wrong-rule", "config-key-ignored")
    return Made(made, {"partial-width": (turned, 2 * turned, turned / count)}, also)


def _missing_factor(_: Rng, recipe: Recipe) -> Made | None:
    if abs(recipe.rule.attention() - 1) < 0.01:
        return None
    return Made(replace(recipe, attention_power=0), also=("wrong-parameter",))


def _extra_factor(_: Rng, recipe: Recipe) -> Made | None:
    if abs(recipe.rule.attention() - 1) < 0.01:
        return None
    return Made(replace(recipe, attention_power=2), also=("wrong-parameter",))


# Channels.


def _layout_swapped(_: Rng, recipe: Recipe) -> Made | None:
    if recipe.pack not in SWAPPED or (recipe.is_rope and recipe.pack == "sin_concat"):
        return None
    if not recipe.is_rope and recipe.convention != "vaswani":
        return None
    return Made(replace(recipe, pack=SWAPPED[recipe.pack]), also=("wrong-convention",))


def _halves_swapped(_: Rng, recipe: Recipe) -> Made | None:
    if recipe.pack in {"cos", "sin"}:
        return None
    return Made(replace(recipe, exchanged=True))


def _sine_sign(_: Rng, recipe: Recipe) -> Made | None:
    if recipe.pack == "cos":
        return None
    return Made(replace(recipe, sine_sign=-1), also=("inverse", "positions-negated"))


def _not_rotated(_: Rng, recipe: Recipe) -> Made | None:
    if not recipe.is_rope or recipe.pack in {"cos", "sin"}:
        return None
    also = ("positions-stuck", "other-positions", "linear-factor", "partial-width")
    return Made(recipe.on(recipe.positions * 0), also=also)


def _transposed(_: Rng, recipe: Recipe) -> Made | None:
    if (
        recipe.pack in {"pair", "complex"}
        or recipe.rows == next(iter(recipe.tables().values())).shape[-1]
    ):
        return None
    return Made(replace(recipe, transposed=True))


# Precision.


def _narrow(stage: str) -> Maker:
    def make(rng: Rng, recipe: Recipe) -> Made | None:
        kind = str(rng.choice(NARROW_KINDS))
        if stage == "positions" and (kind == "float16" or recipe.positions.max() < 300):
            kind = "bfloat16" if recipe.positions.max() < 2500 else kind
        asked = recipe.kind
        if recipe.kind == "float64":
            recipe = replace(recipe, kind="float32")
        if stage == "tables" and recipe.kind != "float32":
            return None
        if kind == "float16" and recipe.positions.max() > 60000:
            return None
        others = [name for name in _STAGES if name != f"narrow-{stage}"]
        if stage == "throughout":
            others.append("narrow-throughout+narrow-tables")
        made = replace(recipe, narrow=stage, narrow_kind=kind)
        right = None if asked == recipe.kind else recipe
        return Made(made, also=tuple(others), right=right)

    return make


_STAGES = (
    "narrow-tables",
    "narrow-positions",
    "narrow-frequencies",
    "narrow-angles",
    "narrow-throughout",
)


def _decimals(rng: Rng, recipe: Recipe) -> Made | None:
    if recipe.kind not in {"float32", "float64"}:
        return None
    decimals = int(rng.choice([2, 3, 4]))
    made = replace(recipe, decimals=decimals)
    return Made(made, {"rounded-decimals": (float(decimals), 10.0**-decimals)})


# Positions.


def _offset(rng: Rng, recipe: Recipe) -> Made | None:
    offset = int(rng.choice([1, 1, -1, 2, 3, 7, 16, 100, recipe.rows]))
    if recipe.section:
        return None
    return Made(
        recipe.on(recipe.positions + offset),
        {"position-offset": (float(offset), -float(offset))},
        ("padding-counted", "cache-offset", "other-positions"),
    )


def _padding_counted(rng: Rng, recipe: Recipe) -> Made | None:
    if recipe.section or "cu_seqlens" in recipe.asked:
        return None
    pads = int(rng.integers(1, max(2, min(recipe.rows // 3, 40))))
    also = ("position-offset", "other-positions", "cache-offset")
    values = {name: (float(pads), -float(pads)) for name in ("padding-counted", "position-offset")}
    return Made(recipe.on(recipe.positions + pads), values, also)


def _cache_offset(rng: Rng, recipe: Recipe) -> Made | None:
    if recipe.section:
        return None
    start = int(rng.choice([5, 17, 64, 100, 333]))
    steps = np.arange(recipe.rows, dtype=np.float64)
    right = replace(recipe, positions=steps + start, asked={"start": str(start)})
    made = right.on(steps + (2 * start if rng.random() < 0.5 else 0))
    also = ("position-offset", "other-positions", "padding-counted")
    offsets = (float(start), -float(start))
    return Made(made, {"cache-offset": offsets, "position-offset": offsets}, also, right)


def _truncated(rng: Rng, recipe: Recipe) -> Made | None:
    rows = int(rng.integers(max(recipe.rows // 2, 2), recipe.rows))
    if recipe.section or rows >= recipe.rows:
        return None
    right = replace(recipe, asked={**recipe.asked, "seq_len": str(recipe.rows)})
    return Made(recipe.on(recipe.positions[:rows]), also=("rows", "wrong-length"), right=right)


def _longer(rng: Rng, recipe: Recipe) -> Made | None:
    more = int(rng.integers(1, recipe.rows + 1))
    if recipe.section or recipe.asked.get("cu_seqlens"):
        return None
    right = replace(recipe, asked={**recipe.asked, "seq_len": str(recipe.rows)})
    last = recipe.positions[-1]
    positions = np.concatenate([recipe.positions, last + np.arange(1.0, more + 1)])
    return Made(recipe.on(positions), also=("rows", "wrong-length"), right=right)


def _reversed(_: Rng, recipe: Recipe) -> Made | None:
    return Made(recipe.on(recipe.positions[..., ::-1]), also=("other-positions",))


def _stuck(rng: Rng, recipe: Recipe) -> Made | None:
    if recipe.section:
        return None
    last = float(recipe.positions[int(rng.integers(1, max(2, recipe.rows - 3)))])
    positions = np.minimum(recipe.positions, last)
    return Made(recipe.on(positions), {"positions-stuck": (last, last + 1)}, ("other-positions",))


def _reset(rng: Rng, recipe: Recipe) -> Made | None:
    rows = recipe.rows
    if recipe.section or rows < 12 or recipe.positions[0] != 0:
        return None
    cuts = np.sort(rng.choice(np.arange(2, rows - 1), int(rng.integers(1, 4)), replace=False))
    if rng.random() < 0.4:
        length = int(rng.integers(3, rows // 2))
        cuts = np.arange(length, rows, length)
    starts = np.concatenate([[0], cuts])
    steps = np.arange(rows)
    restarting = (steps - starts[np.searchsorted(starts, steps, side="right") - 1]).astype(float)
    also = ("other-positions",)
    if rng.random() < 0.5:
        return Made(recipe.on(restarting), also=also)
    ends = ",".join(map(str, [*starts.tolist(), rows]))
    right = replace(recipe, positions=restarting, asked={"cu_seqlens": ends})
    return Made(right.on(steps.astype(float)), also=also, right=right)


def _other_positions(rng: Rng, recipe: Recipe) -> Made | None:
    rows = recipe.rows
    if recipe.section:
        return None
    if rng.random() < 0.5:
        positions = rng.permutation(recipe.positions)
    else:
        positions = np.sort(rng.choice(3 * rows, rows, replace=False)).astype(float)
    return Made(recipe.on(positions), also=("position-offset",))


# M-RoPE.


def _sections_exchanged(rng: Rng, recipe: Recipe) -> Made | None:
    if recipe.is_interleaved:
        return None
    order = [(0, 2, 1), (2, 1, 0), (1, 0, 2)][int(rng.integers(3))]
    # The lengths keep their order, and other axes have them.
    made = recipe.on(recipe.positions[list(order)])
    return Made(made, also=("sections-interleaved", "other-positions", "axes-exchanged"))


def _sections_interleaved(_: Rng, recipe: Recipe) -> Made | None:
    return Made(replace(recipe, is_interleaved=not recipe.is_interleaved))


MISTAKES: Mapping[str, Mistake] = {
    mistake.name: mistake
    for mistake in (
        Mistake("wrong-base", _wrong_base, "base", is_in_url=True),
        Mistake("config-key-ignored", _key_ignored, "rule", SCALED_RULES, True, "rope"),
        Mistake("wrong-parameter", _wrong_parameter, "rule", SCALED_RULES, True, "rope"),
        Mistake("wrong-rule", _wrong_rule, "rule", (), True, "rope"),
        Mistake("dynamic-length", _dynamic_length, "rule", ("dynamic",), True, "rope"),
        Mistake("short-for-long-factors", _short_for_long, "rule", ("longrope",), True, "rope"),
        Mistake("list-by-position", _list_by_position, "rule", ("longrope",), needs="rope"),
        Mistake("mscale-exchanged", _mscale_exchanged, "rule", ("yarn",), True, "rope"),
        Mistake("yarn-range-rounded", _range_rounded, "rule", ("yarn",), True, "rope"),
        Mistake("yarn-betas-exchanged", _betas_exchanged, "rule", ("yarn",), needs="rope"),
        Mistake("llama3-band", _llama3_band, "rule", ("llama3",), needs="rope"),
        Mistake("linear-factor", _linear_factor, "angle"),
        Mistake("rotated-twice", _rotated_twice, "angle", needs="rope"),
        Mistake("angles-in-degrees", _degrees, "angle"),
        Mistake("tutorial-slip", _tutorial_slip, "base", ("none",)),
        Mistake("partial-width", _partial_width, "angle", needs="rope"),
        Mistake("missing-factor", _missing_factor, "attention", ("yarn", "longrope"), True, "rope"),
        Mistake("extra-factor", _extra_factor, "attention", ("yarn", "longrope"), True, "rope"),
        Mistake("layout-swapped", _layout_swapped, "channels", is_in_url=True),
        Mistake("halves-swapped", _halves_swapped, "channels"),
        Mistake("sine-sign", _sine_sign, "sign"),
        Mistake("not-rotated", _not_rotated, "positions", is_paired=False),
        Mistake("transposed", _transposed, "shape"),
        *(
            Mistake(name, _narrow(name.partition("-")[2]), "precision", is_paired=False)
            for name in _STAGES[1:]
        ),
        Mistake("narrow-tables", _narrow("tables"), "precision"),
        Mistake("rounded-decimals", _decimals, "precision"),
        Mistake("position-offset", _offset, "positions", is_in_url=True),
        Mistake("padding-counted", _padding_counted, "positions", is_in_url=True),
        Mistake("cache-offset", _cache_offset, "positions", is_in_url=True),
        Mistake("truncated", _truncated, "length"),
        Mistake("longer", _longer, "length"),
        Mistake("positions-reversed", _reversed, "positions"),
        Mistake("positions-stuck", _stuck, "positions"),
        Mistake("positions-reset", _reset, "positions"),
        Mistake("other-positions", _other_positions, "positions", is_paired=False),
        Mistake("sections-exchanged", _sections_exchanged, "sections", ("none",), needs="mrope"),
        Mistake(
            "sections-interleaved", _sections_interleaved, "sections", ("none",), True, "mrope"
        ),
    )
}
