"""An honest engine: the published formulas, each computed once in float32 with NumPy.

It shares no code with the service. Tables may be float16 or bfloat16: a rotation then runs in that
type, as in a model. In float64 it says what float32 rounds. Every step is a method, so that a
broken engine replaces one.

    python -m tests.conformance.engines.honest [float32 | float16 | bfloat16 | float64]
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

# Of reals of the engine's type, or of integers: mypy has no types for operators of both.
Array: TypeAlias = Any
Given: TypeAlias = Mapping[str, Any]

TWO_PI = 2 * math.pi


# The name of the array, and the method that makes it.
_ARRAYS = {
    "/rope/apply": ("rotated", "rotated"),
    "/positions": ("position_ids", "position_ids"),
    "/encoding": ("encoding", "sinusoid"),
    "/encoding/timesteps": ("timesteps", "timesteps"),
    "/encoding/grid": ("encoding", "grid"),
    "/relative/alibi/slopes": ("slopes", "alibi_slopes"),
    "/relative/alibi": ("bias", "alibi"),
    "/relative/alibi/bias": ("bias", "alibi"),
    "/relative/t5": ("array", "t5"),
    "/relative/t5/bias": ("bias", "t5_bias"),
    "/relative/deberta": ("array", "deberta"),
    "/relative/kerple": ("bias", "kerple"),
    "/relative/kerple/bias": ("bias", "kerple"),
}


_SINUSOIDS = {
    "vaswani": "vaswani",
    "positional-encodings": "even",
    "tensor2tensor": "tensor2tensor",
    "fairseq": "fairseq",
    "m2m100": "fairseq",
    "diffusers": "diffusers",
    "x-transformers": "x_transformers",
    "mlx": "mlx",
    "perceiver": "perceiver",
}


class Unsupported(Exception):
    """The engine has no such table."""


def in_type(array: Array, dtype: str) -> Array:
    """Return numbers rounded to a type; bfloat16 by hand, to nearest and ties to even."""
    if dtype == "bfloat16":
        bits = array.astype(np.float32).view(np.uint32)
        even = (bits >> np.uint32(16)) & np.uint32(1)
        kept = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
        return kept.view(np.float32).astype(array.dtype)
    return array.astype(dtype).astype(array.dtype)


class HonestEngine:
    """Answers cases in a type.

    Attributes:
        dtype: that of the answers.
        real: the type in which formulas are computed.
    """

    name = "honest"

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.real: type[Any] = np.float64 if dtype == "float64" else np.float32

    def answer(self, case: Given) -> dict[str, Array]:
        """Return the arrays of a case; raises Unsupported."""
        beside = {name: case[name] for name in ("positions", "x") if name in case}
        given = {**case["parameters"], **beside}
        match case["kind"], case["resource"]:
            case "model", _:
                return self.table({**self.settings(given), **beside})
            case "table", "/rope":
                return self.table(given)
            case _, resource if resource in _ARRAYS:
                name, method = _ARRAYS[resource]
                return {name: self.stored(getattr(self, method)(given))}
        raise Unsupported(case["resource"])

    def reals(self, values: Any) -> Array:
        """Return numbers in the type of the computation."""
        return np.array(values, dtype=self.real)

    def stored(self, array: Array) -> Array:
        """Return numbers rounded to the type of the answers; integers as they are."""
        return array if array.dtype.kind in "iu" else in_type(array, self.dtype)

    # Rotary tables.

    def settings(self, given: Given) -> Given:
        """Return the parameters of the table of a model's config."""
        config = given["config"]
        scaling = dict(config.get("rope_scaling") or {})
        rule = self.rule_of(scaling)
        if rule == "mrope":
            rule = "default"
        if given.get("layer_type") == "sliding_attention":
            return self.sliding(config)
        heads = config["num_attention_heads"]
        found = {
            "head_dim": config.get("head_dim", config["hidden_size"] // heads),
            "partial_rotary_factor": config.get("rotary_pct", 1.0),
            "rope_theta": config.get("rope_theta", config.get("rotary_emb_base")),
            "max_position_embeddings": config["max_position_embeddings"],
        }
        if "original_max_position_embeddings" in config:
            found["original_max_position_embeddings"] = config["original_max_position_embeddings"]
        if "context_length" in given:
            found["context_length"] = given["context_length"]
        return {**found, **scaling, "rope_type": rule}

    def rule_of(self, scaling: Given) -> str:
        """Return the rule that a config names, under the new key or the old one."""
        return str(scaling.get("rope_type", scaling.get("type", "default")))

    def sliding(self, config: Given) -> Given:
        """Return the parameters of Gemma 3's layers with a sliding window."""
        return {"head_dim": config["head_dim"], "rope_theta": config["rope_local_base_freq"]}

    def base(self, given: Given) -> float:
        """Return the base of the frequencies."""
        return float(given.get("rope_theta", 10000.0))

    def rotary_width(self, given: Given) -> int:
        """Return how many channels of a head turn."""
        share = given.get("partial_rotary_factor", 1.0)
        return int(given.get("rotary_dim", int(given["head_dim"] * share)))

    def exponents(self, given: Given, width: int) -> Array:
        """Return the exponent of each pair of channels."""
        del given
        return np.arange(0, width, 2, dtype=self.real) / self.real(width)

    def powers(self, base: float, exponents: Array) -> Array:
        """Return the frequencies without a rule."""
        return self.real(1) / self.real(base) ** exponents

    def plain(self, given: Given, base: float | None = None) -> Array:
        """Return the frequencies of a base, without a rule."""
        width = self.rotary_width(given)
        return self.powers(base or self.base(given), self.exponents(given, width))

    def frequencies(self, given: Given) -> Array:
        """Return the frequencies of a rule, or those that are given."""
        if "inv_freq" in given:
            return self.reals(given["inv_freq"])
        rule: Callable[[Given], Array] = getattr(self, given.get("rope_type", "default"))
        return rule(given)

    def attention(self, given: Given) -> float:
        """Return the factor of cosines and sines."""
        if "attention_factor" in given:
            return float(given["attention_factor"])
        match given.get("rope_type"):
            case "yarn":
                return self.yarn_attention(given)
            case "longrope":
                return self.longrope_attention(given)
        return 1.0

    def default(self, given: Given) -> Array:
        """Return the frequencies without a rule, or with a divisor for each."""
        return self.divided(self.plain(given), given.get("freq_factors", [1.0]))

    def linear(self, given: Given) -> Array:
        """Return the frequencies of position interpolation."""
        return self.plain(given) / self.real(given["factor"])

    def longrope(self, given: Given) -> Array:
        """Return LongRoPE's frequencies."""
        return self.divided(self.plain(given), self.longrope_factors(given))

    def divided(self, omega: Array, factors: Sequence[float]) -> Array:
        """Return frequencies, each divided by its own factor."""
        return omega / self.reals(factors)

    def dynamic(self, given: Given) -> Array:
        """Return the frequencies of dynamic NTK scaling, or of HunYuan's alpha."""
        width = self.rotary_width(given)
        alpha = given["alpha"] if "alpha" in given else self.dynamic_alpha(given)
        return self.plain(given, self.base(given) * alpha ** (width / (width - 2)))

    def dynamic_alpha(self, given: Given) -> float:
        """Return what the base grows by, before the exponent."""
        original = given["max_position_embeddings"]
        length = max(given["context_length"], original)
        return float(given["factor"] * length / original - (given["factor"] - 1))

    def ntk(self, given: Given) -> Array:
        """Return the frequencies of NTK-aware scaling by a fixed factor, mixed or not."""
        width, factor = self.rotary_width(given), given["factor"]
        if "mixed_b" in given:
            growth = math.log(factor) / (width / 2) ** given["mixed_b"]
            numbers = np.arange(1, width // 2 + 1, dtype=self.real)
            spread = self.real(growth) * numbers ** self.real(given["mixed_b"])
            return self.plain(given) / np.exp(spread)
        return self.plain(given, self.base(given) * factor) / self.real(factor ** (2 / width))

    def proportional(self, given: Given) -> Array:
        """Return Gemma 4's frequencies: the first of the whole head, then zeros."""
        width = given["head_dim"]
        omega = self.powers(self.base(given), self.exponents(given, width))
        turning = int(given.get("partial_rotary_factor", 1.0) * width // 2)
        omega[turning:] = 0
        return omega / self.real(given.get("factor", 1.0))

    def llama3(self, given: Given) -> Array:
        """Return the frequencies of Llama 3.1."""
        omega = self.plain(given)
        share = np.clip(self.llama3_share(given, omega), 0, 1)
        return (1 - share) * omega / self.real(given["factor"]) + share * omega

    def llama3_share(self, given: Given, omega: Array) -> Array:
        """Return how much of each frequency is kept, before it is clipped."""
        low, high = given["low_freq_factor"], given["high_freq_factor"]
        turns = self.real(self.original_length(given)) / (self.real(TWO_PI) / omega)
        return (turns - self.real(low)) / self.real(high - low)

    def original_length(self, given: Given) -> int:
        """Return the length that a model was trained with before its rule."""
        return int(given["original_max_position_embeddings"])

    def longrope_factors(self, given: Given) -> Sequence[float]:
        """Return the list of factors for the length of the context."""
        is_short = given["context_length"] <= self.original_length(given)
        factors: list[float] = given["short_factor"] if is_short else given["long_factor"]
        return factors

    def longrope_attention(self, given: Given) -> float:
        """Return LongRoPE's factor of cosines and sines."""
        original, factor = self.original_length(given), self.length_factor(given)
        return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0

    def length_factor(self, given: Given) -> float:
        """Return the factor, or else the quotient of the lengths after the rule and before it."""
        if "factor" in given:
            return float(given["factor"])
        return float(given["max_position_embeddings"] / self.original_length(given))

    def yarn(self, given: Given) -> Array:
        """Return YaRN's frequencies."""
        omega, share = self.plain(given), self.yarn_ramp(given)
        factor = self.real(self.length_factor(given))
        return (1 - share) * omega + share * (omega / factor)

    def yarn_ramp(self, given: Given) -> Array:
        """Return how much of each frequency is divided."""
        low, high = self.yarn_range(given)
        count = self.rotary_width(given) // 2
        numbers = np.arange(count, dtype=self.real)
        return np.clip((numbers - self.real(low)) / self.real(high - low or 0.001), 0, 1)

    def yarn_range(self, given: Given) -> tuple[float, float]:
        """Return the pairs at which the ramp begins and ends."""
        width, base = self.rotary_width(given), self.base(given)

        def pair_of(turns: float) -> float:
            turned = self.original_length(given) / (turns * TWO_PI)
            return width * math.log(turned) / (2 * math.log(base))

        low, high = map(pair_of, self.yarn_turns(given))
        if given.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        return max(low, 0), min(high, width - 1)

    def yarn_turns(self, given: Given) -> tuple[float, float]:
        """Return beta_fast and beta_slow."""
        return given.get("beta_fast", 32), given.get("beta_slow", 1)

    def yarn_attention(self, given: Given) -> float:
        """Return YaRN's factor of cosines and sines."""
        factor = self.length_factor(given)

        def grown(scale: float) -> float:
            return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

        if given.get("mscale") and given.get("mscale_all_dim"):
            return grown(given["mscale"]) / grown(given["mscale_all_dim"])
        return grown(1)

    def rows_of(self, given: Given) -> Array:
        """Return the positions of rows: (S,), (B, S), or (3, S) of M-RoPE."""
        if "positions_t" in given:
            return np.array([given[f"positions_{axis}"] for axis in "thw"])
        if "positions" in given:
            return np.array(given["positions"])
        count = np.arange(np.shape(given["x"])[-2])
        if "seqlen_offsets" in given:
            return np.array(given["seqlen_offsets"])[:, None] + count
        return count + int(given.get("start", 0))

    def held(self, positions: Array) -> Array:
        """Return positions as they are multiplied."""
        return positions.astype(self.real)

    def axes(self, given: Given, pairs: int) -> Array:
        """Return the axis of M-RoPE, 0 to 2, of each frequency."""
        sections = given["mrope_section"]
        if not given.get("mrope_interleaved"):
            return np.repeat([0, 1, 2], sections)
        numbers = np.arange(pairs)
        within = numbers < 3 * np.array(sections)[numbers % 3]
        return np.where(within, numbers % 3, 0)

    def angles(self, given: Given, positions: Array, omega: Array) -> Array:
        """Return the angle of each row and frequency."""
        held = self.held(positions)
        if positions.ndim > 1 and "mrope_section" in given:
            return held[self.axes(given, len(omega))].T * omega
        return held[..., None] * omega

    def table(self, given: Given) -> dict[str, Array]:
        """Return cosines and sines, (S, r/2) each."""
        positions = self.rows_of(given)
        angles = self.angles(given, positions, self.frequencies(given))
        cos, sin = self.scaled(np.cos(angles), np.sin(angles), self.real(self.attention(given)))
        if "xpos" in given:
            growth = self.xpos(given, positions)
            cos, sin = cos * growth, sin * growth
        return {"cos": self.stored(cos), "sin": self.stored(sin)}

    def scaled(self, cos: Array, sin: Array, factor: Any) -> tuple[Array, Array]:
        """Return cosines and sines times the attention factor."""
        return cos * factor, sin * factor

    def xpos(self, given: Given, positions: Array) -> Array:
        """Return what xPos multiplies the rows of queries, or of keys, with."""
        width = self.rotary_width(given)
        zeta = (np.arange(0, width, 2, dtype=self.real) + self.real(0.4 * width)) / self.real(
            1.4 * width
        )
        power = self.held(positions - given["xpos_centre"]) / self.real(
            given.get("xpos_scale_base", 512.0)
        )
        return zeta ** (self.xpos_sign(given) * power)[..., None]

    def xpos_sign(self, given: Given) -> int:
        """Return the sign of the exponent: keys shrink where queries grow."""
        return 1 if given["xpos"] == "query" else -1

    # Rotations.

    def rotated(self, given: Given) -> Array:
        """Return queries or keys, rotated; each product and sum is rounded to the type."""
        x, table = self.reals(given["x"]), self.table(given)
        cos, sin = table["cos"], self.turned(given, table["sin"])
        pairs, layout = cos.shape[-1], given.get("layout", "interleaved")
        start = self.rotary_start(given)
        first, second = (start + each for each in self.pairs_of(given, layout, pairs))
        a, b = x[..., first], x[..., second]
        layout = given.get("output_layout", layout)
        first, second = (start + each for each in self.pairs_of(given, layout, pairs))
        result = x.copy()
        result[..., first] = self.stored(self.stored(a * cos) - self.stored(b * sin))
        result[..., second] = self.stored(self.stored(b * cos) + self.stored(a * sin))
        return result

    def turned(self, given: Given, sin: Array) -> Array:
        """Return sines for the direction of the rotation."""
        return -sin if given.get("inverse") else sin

    def rotary_start(self, given: Given) -> int:
        """Return the first rotary channel."""
        return int(given.get("rotary_offset", 0))

    def pairs_of(self, given: Given, layout: str, pairs: int) -> tuple[Array, Array]:
        """Return the first and the second channel of each pair."""
        del given
        numbers = np.arange(pairs)
        if layout == "half":
            return numbers, numbers + pairs
        return 2 * numbers, 2 * numbers + 1

    # Position ids.

    def position_ids(self, given: Given) -> Array:
        """Return position ids; raises Unsupported."""
        match given["convention"]:
            case "mask":
                mask = self.mask_of(given)
                return np.where(mask, self.counted(mask) - 1, given["masked"])
            case "padding_idx":
                mask = np.array(given["input_ids"]) != given["padding_idx"]
                return self.counted(mask) * mask + given["padding_idx"]
            case "opt":
                mask = self.mask_of(given)
                return self.counted(mask) * mask - 1 + self.opt_offset()
            case "packed":
                return self.packed(given["lengths"])[None]
            case "arange":
                texts = [sum(each["text"] for each in row) for row in given["rows"]]
                return np.stack([np.arange(each) + given["past"] for each in texts])
        raise Unsupported(given["convention"])

    def mask_of(self, given: Given) -> Array:
        """Return 1 for each token and 0 for padding."""
        return np.array(given["attention_mask"])

    def counted(self, mask: Array) -> Array:
        """Return how many tokens there are up to each, padding not counted."""
        return np.cumsum(mask, axis=-1)

    def opt_offset(self) -> int:
        """Return what OPT adds to positions."""
        return 2

    def packed(self, lengths: Sequence[int]) -> Array:
        """Return the positions of packed sequences, each of which begins at 0."""
        return np.concatenate([np.arange(each) for each in lengths])

    # Sinusoids.

    def sinusoid(self, given: Given) -> Array:
        """Return rows of a table of sinusoids; raises Unsupported."""
        method = _SINUSOIDS.get(given["convention"])
        if method is None:
            raise Unsupported(given["convention"])
        return getattr(self, method)(given)

    def vaswani(self, given: Given) -> Array:
        """Return the paper's rows."""
        width, omega = given["d_model"], self.paper(given, given["d_model"])
        is_concatenated = given.get("layout") == "concatenated"
        return self.joined(given, omega, width, is_concatenated=is_concatenated)

    def even(self, given: Given) -> Array:
        """Return the first channels of the paper's rows of an even width."""
        width = given["d_model"]
        omega = self.paper(given, width + width % 2)
        return self.joined(given, omega, width, is_concatenated=False)

    def tensor2tensor(self, given: Given) -> Array:
        """Return tensor2tensor's rows: frequencies between two timescales."""
        least, most = given.get("min_timescale", 1.0), given.get("max_timescale", 10000.0)
        omega = self.spaced(given["d_model"] // 2, math.log(most / least))
        return self.joined(given, self.real(least) * omega, given["d_model"])

    def fairseq(self, given: Given) -> Array:
        """Return fairseq's rows: that of padding is zeros."""
        width, padding = given["d_model"], given.get("padding_idx", 1)
        rows = np.array(given["positions"])
        if given["convention"] == "m2m100":
            rows = rows + self.first_row(padding)
        omega = self.spaced(width // 2, math.log(10000.0))
        table = self.joined({**given, "positions": rows}, omega, width)
        table[rows == padding] = 0
        return table

    def first_row(self, padding: int) -> int:
        """Return the row of position 0."""
        return padding + 1

    def diffusers(self, given: Given) -> Array:
        """Return the rows of latent diffusion."""
        width = given["d_model"]
        table = self.joined(given, self.paper(given, width), width)
        return np.roll(table, width // 2, axis=-1) if self.is_flipped(given) else table

    def x_transformers(self, given: Given) -> Array:
        """Return rows that are scaled."""
        width = given["d_model"]
        return self.joined(given, self.paper(given, width), width) * self.real(width**-0.5)

    def mlx(self, given: Given) -> Array:
        """Return mlx's rows: logarithms of frequencies are evenly spaced."""
        width = given["d_model"]
        omega = self.spaced(width // 2, -math.log(given.get("min_freq", 0.0001)))
        return self.joined(given, omega, width) * self.real(math.sqrt(2 / width))

    def paper(self, given: Given, width: int) -> Array:
        """Return the paper's frequencies: those of an odd width have one more sine."""
        exponents = np.arange(0, width, 2, dtype=self.real) / self.real(width)
        return self.real(1) / self.real(given.get("base", 10000.0)) ** exponents

    def spaced(self, pairs: int, logarithm: float) -> Array:
        """Return frequencies from 1 on, of which the last has that logarithm, negated."""
        step = self.real(-logarithm / (pairs - 1))
        return np.exp(np.arange(pairs, dtype=self.real) * step)

    def joined(
        self, given: Given, omega: Array, width: int, *, is_concatenated: bool = True
    ) -> Array:
        """Return sines and cosines, all sines first or in turn; an odd width ends with zeros."""
        angles = self.held(self.rows_of(given))[:, None] * omega
        sines, cosines = np.sin(angles), np.cos(angles)
        if is_concatenated:
            table = np.concatenate([sines, cosines], axis=-1)[:, :width]
            return np.pad(table, ((0, 0), (0, width - table.shape[-1])))
        return np.stack([sines, cosines], axis=-1).reshape(len(angles), -1)[:, :width]

    def perceiver(self, given: Given) -> Array:
        """Return Perceiver's rows: a coordinate from −1 to 1, sines and cosines of its bands."""
        count, pairs = given["seq_len"], (given["d_model"] - 1) // 2
        x = np.linspace(-1, 1, count).astype(self.real)[:, None]
        bands = np.linspace(1, given["max_resolution"] / 2, pairs).astype(self.real)
        angles = x * bands * self.real(math.pi)
        return np.concatenate([x, np.sin(angles), np.cos(angles)], axis=-1)

    def timesteps(self, given: Given) -> Array:
        """Return rows for diffusion timesteps."""
        width, pairs = given["d_model"], given["d_model"] // 2
        step = math.log(given.get("max_period", 10000.0)) / (pairs - self.shift(given))
        omega = np.exp(np.arange(pairs, dtype=self.real) * self.real(-step))
        angles = self.steps(given)[:, None] * omega * self.real(given.get("scale", 1.0))
        halves = [np.sin(angles), np.cos(angles)]
        table = np.concatenate(halves[::-1] if self.is_flipped(given) else halves, axis=-1)
        return np.pad(table, ((0, 0), (0, width % 2)))

    def steps(self, given: Given) -> Array:
        """Return the timesteps as numbers."""
        return self.reals(given["timesteps"])

    def shift(self, given: Given) -> float:
        """Return what the number of pairs is reduced by, in the denominator of the exponent."""
        return float(given.get("downscale_freq_shift", 1.0))

    def is_flipped(self, given: Given) -> bool:
        """Whether cosines come first."""
        return bool(given.get("flip_sin_to_cos", False))

    def grid(self, given: Given) -> Array:
        """Return MAE's table of an image: the first half of the channels encodes columns."""
        if given["convention"] != "mae":
            raise Unsupported(given["convention"])
        half = given["d_model"] // 2
        omega = self.paper(given, half)
        rows, columns = (each.ravel() for each in self.places(given))
        halves = (
            self.joined({"positions": each}, omega, half) for each in self.halves(rows, columns)
        )
        table = np.concatenate([*halves], axis=-1)
        return np.pad(table, ((int(given.get("cls_token", False)), 0), (0, 0)))

    def halves(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Return the coordinates of the first half of the channels, and of the second."""
        return columns, rows

    def places(self, given: Given) -> tuple[Array, Array]:
        """Return the row and the column of each token, in the order of tokens."""
        rows, columns = np.indices((given["height"], given["width"]))
        return rows, columns

    # Biases.

    def distances(self, given: Given) -> Array:
        """Return key − query, (queries, keys)."""
        return self.keys(given)[None] - self.queries(given)[:, None]

    def queries(self, given: Given) -> Array:
        """Return the positions of queries."""
        if "query_positions" in given:
            return np.array(given["query_positions"])
        return np.arange(given["query_len"]) + given.get("query_start", 0)

    def keys(self, given: Given) -> Array:
        """Return the positions of keys."""
        if "key_positions" in given:
            return np.array(given["key_positions"])
        return np.arange(given.get("key_len", given.get("query_len")))

    def slopes(self, heads: int) -> Array:
        """Return the slopes of ALiBi's own code."""
        power = 2 ** int(math.log2(heads))
        found = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
        found += [2.0 ** (-4 * (2 * head + 1) / power) for head in range(heads - power)]
        return self.reals(found)

    def alibi(self, given: Given) -> Array:
        """Return ALiBi's bias in the form of a library."""
        slopes = self.slopes(given["num_heads"])[:, None, None]
        if "attention_mask" in given:
            mask = self.mask_of(given)
            places = (self.counted(mask) - 1) * mask
            return slopes * places[:, None, None].astype(self.real)
        match given.get("convention", "original"):
            case "bloom":
                distances = self.keys(given)[None]
            case "mpt":
                distances = self.keys(given)[None] - given["key_len"] + 1
            case "x-transformers":
                distances = -np.abs(self.distances(given))
            case _:
                distances = self.distances(given)
        return slopes * distances.astype(self.real)

    def kerple(self, given: Given) -> Array:
        """Return KERPLE's bias; keys after the query have 0."""
        distances = np.maximum(-self.distances(given), 0).astype(self.real)
        ones = [1.0] * given.get("num_heads", 1)
        a, p = (self.reals(given.get(name, ones)) for name in ("a", "p"))
        if given.get("clamp"):
            a, p = np.maximum(a, self.real(0.01)), np.maximum(p, self.real(0.01))
        a, p = a[:, None, None], p[:, None, None]
        match given["convention"]:
            case "power":
                return -a * distances**p
            case "nemo":
                slopes = self.slopes(given["num_heads"])[:, None, None]
                return -slopes * self.logarithm(a * distances**p)
        return -p * self.logarithm(a * distances)

    def logarithm(self, grown: Array) -> Array:
        """Return ln(1 + x)."""
        return np.log1p(grown)

    # Buckets: logarithms of whole numbers are compared as powers, so none is rounded.

    def alibi_slopes(self, given: Given) -> Array:
        """Return the slopes of ALiBi alone."""
        return self.slopes(given["num_heads"])

    def t5_bias(self, given: Given) -> Array:
        """Return T5's biases from its learned table, (heads, queries, keys)."""
        weight = np.array(given["weight"])
        return np.moveaxis(weight[self.t5(given, len(weight))], -1, 0)

    def t5(self, given: Given, count: int | None = None) -> Array:
        """Return T5's buckets."""
        distances = self.t5_distances(given)
        buckets = count or given.get("num_buckets", 32)
        offset = np.zeros_like(distances)
        if self.is_bidirectional(given):
            buckets //= 2
            offset = (distances > 0) * buckets
            distances = np.abs(distances)
        else:
            distances = np.maximum(-distances, 0)
        most = given.get("max_distance", 128)
        found = [self.t5_bucket(int(each), buckets, most) for each in distances.ravel()]
        return offset + np.reshape(found, distances.shape)

    def t5_distances(self, given: Given) -> Array:
        """Return key − query."""
        return self.distances(given)

    def is_bidirectional(self, given: Given) -> bool:
        """Whether keys after the query have buckets of their own."""
        return bool(given.get("bidirectional", True))

    def t5_bucket(self, distance: int, buckets: int, most: int) -> int:
        """Return the bucket of a distance: exact ones first, then logarithmic ones."""
        exact = buckets // 2
        if distance < exact:
            return distance
        wide = buckets - exact
        steps = range(1, wide)
        reached = (distance**wide * exact**step >= most**step * exact**wide for step in steps)
        return exact + int(sum(reached))

    def deberta(self, given: Given) -> Array:
        """Return DeBERTa-v2's buckets."""
        distances = self.deberta_distances(given)
        size, most = given["bucket_size"], given["max_position"]
        if size < 0 or most < 0:
            return distances
        found = [self.deberta_bucket(abs(int(each)), size // 2, most) for each in distances.flat]
        return np.sign(distances) * np.reshape(found, distances.shape)

    def deberta_distances(self, given: Given) -> Array:
        """Return query − key."""
        return -self.distances(given)

    def deberta_bucket(self, distance: int, middle: int, most: int) -> int:
        """Return the bucket of a distance: the logarithm is rounded up."""
        if distance <= middle:
            return distance
        top, step = middle - 1, 0
        while distance**top * middle**step > (most - 1) ** step * middle**top:
            step += 1
        return int(middle + step)


def serve(engine: HonestEngine) -> None:
    """Answer the runner on standard input and output until it ends."""
    for message in map(json.loads, sys.stdin):
        if message["type"] == "hello":
            answer = {"type": "hello", "protocol": 1, "name": engine.name, "language": "Python"}
        elif message["type"] == "case":
            answer = reply(engine, message)
        else:
            return
        print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol.


def _listed(array: Array) -> Any:
    """Return an array as nested lists; what is not finite is None."""
    finite: Array = np.where(np.isfinite(array), array.astype(object), None)
    return finite.tolist()


def reply(engine: HonestEngine, message: Given) -> dict[str, Any]:
    """Return the answer to a message that asks a case."""
    try:
        arrays = engine.answer(message)
    except Unsupported as reason:
        return {"type": "unsupported", "reason": str(reason)}
    listed = {name: _listed(each) for name, each in arrays.items()}
    return {"type": "answer", "dtype": engine.dtype, "arrays": listed}


if __name__ == "__main__":
    serve(HonestEngine(*sys.argv[1:]))
