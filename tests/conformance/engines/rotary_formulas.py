"""Rotary tables and rotations of the honest engine."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.conformance.engines.formulas import Array, Formulas, Given

TWO_PI = 2 * math.pi


class RotaryFormulas(Formulas):
    """Frequencies by every rule, cosines and sines, and rotations."""

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
        result[..., first], result[..., second] = self.rotated_pairs(a, b, cos, sin)
        return result

    def rotated_pairs(self, a: Array, b: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        """Return the two channels of each pair, rotated."""
        first = self.stored(self.stored(a * cos) - self.stored(b * sin))
        return first, self.stored(self.stored(b * cos) + self.stored(a * sin))

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
