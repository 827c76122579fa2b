"""Honest implementations of rotary tables and rotations, in NumPy float32.

Each computes the formula once, from exact keys, with one rounding a step: in one of several ways
that libraries compute a power, and for rules that blend in one of two.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, floor, log, pi, prod
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from service.conformance.questions import Question
from tests.conformance.rotary_cases import query_of

F: TypeAlias = np.float32
# The stubs of NumPy lose the type of a product of float32.
Floats: TypeAlias = Any
Keys: TypeAlias = Mapping[str, Any]

NARROW: Mapping[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _exponents(width: int) -> Floats:
    return np.arange(0, width, 2).astype(F) / F(width)


def _by_power(base: float, width: int) -> Floats:
    return F(1) / np.power(F(base), _exponents(width))


def _by_a_rounded_power(base: float, width: int) -> Floats:
    return F(1) / np.power(np.float64(base), _exponents(width).astype(np.float64)).astype(F)


def _by_exp_of_a_quotient(base: float, width: int) -> Floats:
    return np.exp(-(np.arange(0, width, 2).astype(F) * np.log(F(base))) / F(width))


def _by_exp_of_a_product(base: float, width: int) -> Floats:
    return np.exp(-np.log(F(base)) * _exponents(width))


def _by_exp2(base: float, width: int) -> Floats:
    return np.exp2(-_exponents(width) * np.log2(F(base)))


WAYS: Mapping[str, Callable[[float, int], Floats]] = {
    "power": _by_power,
    "rounded power": _by_a_rounded_power,
    "exp of a quotient": _by_exp_of_a_quotient,
    "exp of a product": _by_exp_of_a_product,
    "exp2": _by_exp2,
}
FORMULAS = (0, 1)


def iterated(base: float, width: int) -> Floats:
    """Return frequencies that are multiplied on and on, which is no honest way."""
    ratio, found = np.power(F(base), F(-2 / width)), [F(1)]
    for _ in range(width // 2 - 1):
        found.append(found[-1] * ratio)
    return np.array(found)


def powers_of_a_step(base: float, width: int) -> Floats:
    """Return powers of the second frequency, which is rounded: no honest way either."""
    step = np.power(F(base), F(-2 / width))
    return np.power(step, np.arange(width // 2, dtype=F))


class Honest:
    """Answers questions in float32, or with tables in a narrow type.

    Attributes:
        way: computes the powers of a base.
        formula: 0 or 1, which of two for rules that blend.
        dtype: of the answer.
    """

    def __init__(
        self, way: Callable[[float, int], Floats], formula: int = 0, dtype: str = "float32"
    ) -> None:
        self.way, self.formula, self.dtype = way, formula, dtype
        self.narrow = NARROW.get(dtype, F)

    def answer(self, question: Question) -> dict[str, Floats]:
        """Return the arrays of an answer by name."""
        cos, sin = (each.astype(self.narrow) for each in self._table(question))
        if question.x is None:
            return {"cos": cos.astype(np.float64), "sin": sin.astype(np.float64)}
        x = np.array(question.x).astype(self.narrow)
        return {"rotated": self._rotated(question, x, cos, sin).astype(np.float64)}

    def _table(self, question: Question) -> tuple[Floats, Floats]:
        keys = query_of(question)
        if "axial" in question.resource:
            given = {} if question.x is None else {"head_dim": np.shape(question.x)[-1]}
            angles = self._axial({**given, **keys})
            return np.cos(angles), np.sin(angles)
        omega, factor = self._frequencies({"head_dim": None, **keys})
        places = self._places(question, keys)
        angles = places * omega
        cos, sin = np.cos(angles), np.sin(angles)
        if "xpos" in keys:
            growth = _growth(keys, places[..., :1], len(omega))
            return cos * growth, sin * growth
        return (cos, sin) if factor == 1 else (cos * F(factor), sin * F(factor))

    def _places(self, question: Question, keys: Keys) -> Floats:
        if "mrope_section" in keys:
            rows = np.array([keys[f"positions_{axis}"] for axis in "thw"]).T
            axes = _mrope_axes(keys["mrope_section"], keys.get("mrope_interleaved", False))
            return rows[:, axes].astype(F)
        if "positions" in keys:
            return np.array(keys["positions"]).astype(F)[:, None]
        rows = np.arange(np.shape(question.x)[-2])[:, None]
        starts = keys.get("seqlen_offsets", [keys.get("start", 0)])
        found = np.stack([rows + start for start in starts]).astype(F)
        return found if "seqlen_offsets" in keys else found[0]

    def _frequencies(self, keys: Keys) -> tuple[Floats, float]:
        if "inv_freq" in keys:
            return np.array(keys["inv_freq"]).astype(F), keys.get("attention_factor", 1.0)
        rule, head_dim = keys.get("rope_type", "default"), keys["head_dim"]
        width = keys.get("rotary_dim", head_dim)
        if "partial_rotary_factor" in keys and rule != "proportional":
            width = int(head_dim * keys["partial_rotary_factor"])
        base = keys.get("rope_theta", 10000.0)
        omega = _RULES[rule](self, base, width, keys)
        if "freq_factors" in keys:
            omega = omega / np.array(keys["freq_factors"]).astype(F)
        return omega, _attention_factor(keys)

    def _axial(self, keys: Keys) -> Floats:
        along, rates = _axial_coordinates(keys), _axial_rates(self.way, keys)
        name = keys["convention"]
        order = list(range(len(rates)))
        if name in {"llama4", "sam2", "kimi_k25"}:
            order.reverse()
        blocks = [along[axis][:, None] * own for axis, own in zip(order, rates, strict=True)]
        if name in {"lumina", "efficientloftr", "kimi_k25"}:
            return np.stack(blocks, axis=-1).reshape(len(blocks[0]), -1)
        return np.concatenate(blocks, axis=1)

    def _rotated(self, question: Question, x: Floats, cos: Floats, sin: Floats) -> Floats:
        keys, result, count = question.parameters, x.copy(), cos.shape[-1]
        offset, layout = keys.get("rotary_offset", 0), keys.get("layout", "interleaved")
        read = _channels(layout, count, len(keys.get("grid", [0])))
        write = _channels(keys.get("output_layout", layout), count, len(keys.get("grid", [0])))
        first, second = x[..., offset + read[0]], x[..., offset + read[1]]
        sine = -sin if keys.get("inverse") else sin
        result[..., offset + write[0]] = first * cos - second * sine
        result[..., offset + write[1]] = second * cos + first * sine
        return result


def _channels(layout: str, count: int, axes: int) -> tuple[Floats, Floats]:
    k = np.arange(count)
    if layout == "interleaved":
        return 2 * k, 2 * k + 1
    own = count // axes if layout == "half_by_axis" else count
    return k + k // own * own, k + k // own * own + own


def _mrope_axes(section: Sequence[int], is_interleaved: bool) -> list[int]:
    if not is_interleaved:
        return [axis for axis, count in enumerate(section) for _ in range(count)]
    return [k % 3 if k < 3 * section[k % 3] else 0 for k in range(sum(section))]


def _attention_factor(keys: Keys) -> float:
    if "attention_factor" in keys:
        return float(keys["attention_factor"])
    rule = keys.get("rope_type")
    if rule == "yarn":
        grown = 0.1 * log(_factor(keys))
        one, other = keys.get("mscale"), keys.get("mscale_all_dim")
        return (one * grown + 1) / (other * grown + 1) if one and other else grown + 1
    if rule == "longrope":
        logarithm = log(_factor(keys)) / log(keys["original_max_position_embeddings"])
        return float(np.sqrt(1 + logarithm))
    return 1.0


def _factor(keys: Keys) -> float:
    lengths = keys.get("max_position_embeddings", 1), keys["original_max_position_embeddings"]
    return float(keys.get("factor", lengths[0] / lengths[1]))


def _growth(keys: Keys, places: Floats, count: int) -> Floats:
    width = F(2 * count)
    zeta = (np.arange(0, 2 * count, 2).astype(F) + F(0.4) * width) / (F(1.4) * width)
    scale = (places - F(keys["xpos_centre"])) / F(keys.get("xpos_scale_base", 512.0))
    return np.power(zeta, -scale if keys["xpos"] == "key" else scale)


def _default(engine: Honest, base: float, width: int, _: Keys) -> Floats:
    return engine.way(base, width)


def _linear(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    return engine.way(base, width) / F(keys["factor"])


def _dynamic(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    original = keys.get("original_max_position_embeddings", keys.get("max_position_embeddings"))
    growth = F(keys.get("alpha", 1))
    if "alpha" not in keys:
        factor = F(keys["factor"])
        length = F(max(keys.get("context_length", original), original))
        growth = factor * length / F(original) - (factor - F(1))
    grown = F(base) * np.power(growth, F(width) / F(width - 2))
    return engine.way(float(grown), width)


def _ntk(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    factor = F(keys["factor"])
    if "mixed_b" in keys:
        mixed, k = F(keys["mixed_b"]), np.arange(1, width // 2 + 1).astype(F)
        a = np.log(factor) / np.power(F(width / 2), mixed)
        return engine.way(base, width) / np.exp(a * np.power(k, mixed))
    scaled = engine.way(float(F(base) * factor), width)
    return scaled / np.power(factor, F(2) / F(width))


def _longrope(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    original = keys["original_max_position_embeddings"]
    is_long = keys.get("context_length", original) > original
    factors = np.array(keys["long_factor" if is_long else "short_factor"]).astype(F)
    omega = engine.way(base, width)
    return omega / factors if engine.formula else F(1) / (factors * (F(1) / omega))


def _llama3(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    omega, factor = engine.way(base, width), F(keys["factor"])
    length = F(keys["original_max_position_embeddings"])
    low, high = F(keys["low_freq_factor"]), F(keys["high_freq_factor"])
    if engine.formula:
        share = np.clip((length * omega / F(2 * pi) - low) / (high - low), F(0), F(1))
        return omega * ((F(1) - share) / factor + share)
    wavelength = F(2 * pi) / omega
    smooth = (length / wavelength - low) / (high - low)
    blended = (F(1) - smooth) * omega / factor + smooth * omega
    scaled = np.where(wavelength > length / low, omega / factor, blended)
    return np.where(wavelength < length / high, omega, scaled)


def _yarn(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    omega, factor = engine.way(base, width), F(_factor(keys))
    length = keys["original_max_position_embeddings"]

    def pair_of(turns: float) -> float:
        return width * log(length / (turns * 2 * pi)) / (2 * log(base))

    low, high = pair_of(keys.get("beta_fast", 32.0)), pair_of(keys.get("beta_slow", 1.0))
    if keys.get("truncate", True):
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = high + 0.001 if low == high else high
    ramp = (np.arange(width // 2).astype(F) - F(low)) / (F(high) - F(low))
    ramp = np.clip(ramp, F(0), F(1))
    if engine.formula:
        return omega * ((F(1) - ramp) + ramp / factor)
    powers, kept = F(1) / omega, F(1) - ramp
    return F(1) / (factor * powers) * (F(1) - kept) + F(1) / powers * kept


def _proportional(engine: Honest, base: float, width: int, keys: Keys) -> Floats:
    turning = int(keys.get("partial_rotary_factor", 1.0) * width // 2)
    omega = engine.way(base, width) / F(keys.get("factor", 1.0))
    return np.where(np.arange(width // 2) < turning, omega, F(0))


_RULES: Mapping[str, Callable[[Honest, float, int, Keys], Floats]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "longrope": _longrope,
    "llama3": _llama3,
    "yarn": _yarn,
    "proportional": _proportional,
}


# Twice the highest band of pixels, by default.
_PIXELS = {"timm_pixels": 224.0, "rotary_embedding_torch_pixel": 10.0}


def _axial_coordinates(keys: Keys) -> list[Floats]:
    """Return the coordinates of all tokens along each axis."""
    if "axes_dim" in keys:
        return [np.array(keys[f"positions_{axis}"]).astype(F) for axis in "thw"]
    grid, name = keys["grid"], keys["convention"]
    along = []
    for axis, length in enumerate(grid):
        places = np.arange(length).astype(F)
        if name in {"llama4", "efficientloftr"}:
            places = places + F(1)
        if name in {"cogvideox", "allegro"}:
            places = np.linspace(0, length * (length - 1) / length, length, dtype=F)
        if name in _PIXELS:
            places = np.linspace(-1, 1, length, dtype=F)
        if name == "dinov3":
            side = {"max": max(grid), "min": min(grid)}.get(
                keys.get("normalize_coords", ""), length
            )
            places = F(2) * ((places + F(0.5)) / F(side)) - F(1)
        if "reference_grid" in keys:
            places = places / F(length) * F(keys["reference_grid"][axis])
        along.append(places)
    merged = keys.get("spatial_merge_size", 1)
    blocks = np.arange(prod(grid)).reshape(-1, merged, grid[-1] // merged, merged)
    order = blocks.swapaxes(1, 2).reshape(-1)
    return [each.reshape(-1)[order] for each in np.meshgrid(*along, indexing="ij")]


def _axial_rates(way: Callable[[float, int], Floats], keys: Keys) -> list[Floats]:
    name, base = keys["convention"], keys.get("rope_theta", 10000.0)
    if "axes_dim" in keys:
        return [way(base, width) for width in keys["axes_dim"]]
    head_dim, axes = keys["head_dim"], len(keys["grid"])
    widths = [head_dim // axes] * axes
    if name == "cogvideox":
        widths = [head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3]
    if name == "wan":
        widths = [head_dim - 4 * (head_dim // 6), *[2 * (head_dim // 6)] * 2]
    if name == "pixtral":
        series = way(base, head_dim)
        return [series[axis::axes] for axis in range(axes)]
    series_of = partial(way, base)
    if name == "dinov3":
        return [F(2 * pi) / _periods(way, keys, width) for width in widths]
    if name in _PIXELS:
        return [_bands(keys)] * axes
    return [series_of(width) for width in widths]


def _periods(way: Callable[[float, int], Floats], keys: Keys, width: int) -> Floats:
    """Return the periods of DINOv3: powers of a base, or from one to another."""
    if "min_period" not in keys:
        return F(1) / way(keys.get("rope_theta", 100.0), width)
    shortest, longest = F(keys["min_period"]), F(keys["max_period"])
    shares = np.linspace(0, 1, width // 2, dtype=F)
    return shortest * (longest / shortest) ** shares


def _bands(keys: Keys) -> Floats:
    """Return the bands of pixels: evenly spaced, or in equal ratios."""
    name, count = keys["convention"], keys["head_dim"] // 4
    highest = F(keys.get("max_freq", _PIXELS[name]) / 2)
    if keys.get("linear_bands", name != "timm_pixels"):
        return np.linspace(F(1), highest, count, dtype=F) * F(pi)
    return np.exp2(np.linspace(0, np.log2(highest), count, dtype=F)) * F(pi)
