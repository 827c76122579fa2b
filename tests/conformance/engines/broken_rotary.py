"""Mistakes in rotary tables and rotations, as ports have made them."""

# ruff: noqa: ARG002 - what is wrong often needs less.

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conformance.engines.broken_engine import BrokenEngine
from tests.conformance.engines.formulas import Array, Given, in_type

# Layout, direction and width.


class OtherLayout(BrokenEngine):
    name = "other-layout"
    sentence = "Pairs (2k, 2k + 1) are taken for (k, k + r/2), and the other way round."

    def pairs_of(self, given: Given, layout: str, pairs: int) -> tuple[Array, Array]:
        other = {"half": "interleaved", "interleaved": "half"}[layout]
        return super().pairs_of(given, other, pairs)


class Backwards(BrokenEngine):
    name = "backwards"
    sentence = "Queries and keys are rotated the other way: the sine has the wrong sign."

    def turned(self, given: Given, sin: Array) -> Array:
        return -super().turned(given, sin)


class TiledForPairs(BrokenEngine):
    name = "tiled-for-pairs"
    sentence = (
        "Neighbours are paired, but the table is that of halves: [f, f] for [f0, f0, f1, f1]."
    )

    def rotated(self, given: Given) -> Array:
        if given.get("layout", "interleaved") == "half":
            return super().rotated(given)
        x, table = self.reals(given["x"]), self.table(given)
        cos = np.concatenate([table["cos"]] * 2, axis=-1)
        sin = np.concatenate([self.turned(given, table["sin"])] * 2, axis=-1)
        start, width = self.rotary_start(given), cos.shape[-1]
        part = x[..., start : start + width]
        swapped = np.stack([-part[..., 1::2], part[..., ::2]], axis=-1).reshape(part.shape)
        turned = part * cos + swapped * sin
        if given.get("output_layout") == "half":
            turned = np.concatenate([turned[..., ::2], turned[..., 1::2]], axis=-1)
        result = x.copy()
        result[..., start : start + width] = turned
        return self.stored(result)


class HalvesOfTheHead(BrokenEngine):
    name = "halves-of-the-head"
    sentence = (
        "A partial rotation pairs channel k with k + d/2 of the whole head, not with k + r/2."
    )

    def pairs_of(self, given: Given, layout: str, pairs: int) -> tuple[Array, Array]:
        first, second = super().pairs_of(given, layout, pairs)
        is_half = layout == "half" and "output_layout" not in given
        return first, first + given["head_dim"] // 2 if is_half else second


class FirstChannels(BrokenEngine):
    name = "first-channels"
    sentence = "The first channels of a head turn, where the last ones should."

    def rotary_start(self, given: Given) -> int:
        return 0


class InputLayoutKept(BrokenEngine):
    name = "input-layout-kept"
    sentence = "The result keeps the layout of the input, where the model wants halves."

    def rotated(self, given: Given) -> Array:
        return super().rotated({**given, "output_layout": given.get("layout", "interleaved")})


class WholeHead(BrokenEngine):
    name = "whole-head"
    sentence = "The partial width is ignored: the whole head turns."

    def rotary_width(self, given: Given) -> int:
        return int(given["head_dim"])

    def rotary_start(self, given: Given) -> int:
        return 0


class ExponentsOfTheHead(BrokenEngine):
    name = "exponents-of-the-head"
    sentence = "Of a partial rotation, the exponents are divided by the width of the head."

    def exponents(self, given: Given, width: int) -> Array:
        return np.arange(0, width, 2, dtype=self.real) / self.real(given["head_dim"])


class ExponentsOfThePart(BrokenEngine):
    name = "exponents-of-the-part"
    sentence = "Gemma 4's turning pairs have the exponents of a head of their width alone."

    def proportional(self, given: Given) -> Array:
        width = int(given["head_dim"] * given.get("partial_rotary_factor", 1.0))
        omega = self.powers(self.base(given), self.exponents(given, width))
        still = np.zeros(given["head_dim"] // 2 - len(omega), dtype=self.real)
        return np.concatenate([omega / self.real(given.get("factor", 1.0)), still])


# Base and rules.


class FixedBase(BrokenEngine):
    name = "fixed-base"
    sentence = "The base is always 10000, whatever the config says."

    def base(self, given: Given) -> float:
        return 10000.0


class ExponentsHalved(BrokenEngine):
    name = "exponents-halved"
    sentence = "The exponent of pair k is k/r, not 2k/r."

    def exponents(self, given: Given, width: int) -> Array:
        return super().exponents(given, width) / 2


class ExponentsToOne(BrokenEngine):
    name = "exponents-to-one"
    sentence = "The exponents go up to 1: k/(n − 1) of n pairs, as in tensor2tensor's sinusoids."

    def exponents(self, given: Given, width: int) -> Array:
        return super().exponents(given, width) * self.real(width / (width - 2))


class RuleIgnored(BrokenEngine):
    name = "rule-ignored"
    sentence = "rope_scaling is ignored: the frequencies and the factor are those of no rule."

    def table(self, given: Given) -> dict[str, Array]:
        if given.get("rope_type") == "proportional":
            return super().table(given)
        return super().table({**given, "rope_type": "default"})


class OldKeyIgnored(BrokenEngine):
    name = "old-key-ignored"
    sentence = "A config's rule is read from rope_type alone; an older config says type."

    def rule_of(self, scaling: Given) -> str:
        return str(scaling.get("rope_type", "default"))


class LinearStretches(BrokenEngine):
    name = "linear-stretches"
    sentence = "Linear scaling multiplies positions by the factor, and should divide them."

    def linear(self, given: Given) -> Array:
        return self.plain(given) * self.real(given["factor"])


class LinearOnTheBase(BrokenEngine):
    name = "linear-on-the-base"
    sentence = "The factor of linear scaling multiplies the base, not the wavelengths."

    def linear(self, given: Given) -> Array:
        return self.plain(given, self.base(given) * given["factor"])


class GlobalRuleForLocal(BrokenEngine):
    name = "global-rule-for-local"
    sentence = "Layers with a sliding window have the base and the rule of full attention."

    def sliding(self, config: Given) -> Given:
        return self.settings({"config": config})


class DynamicAtOnce(BrokenEngine):
    name = "dynamic-at-once"
    sentence = "Dynamic scaling has its full factor at any length, also within the trained one."

    def dynamic_alpha(self, given: Given) -> float:
        return float(given["factor"])


class DynamicOneShort(BrokenEngine):
    name = "dynamic-one-short"
    sentence = "Dynamic scaling takes the last position for the length, one less than it is."

    def dynamic_alpha(self, given: Given) -> float:
        return super().dynamic_alpha({**given, "context_length": given["context_length"] - 1})


class NtkWithoutExponent(BrokenEngine):
    name = "ntk-without-exponent"
    sentence = "NTK scaling multiplies the base by alpha itself, not by alpha to the d/(d − 2)."

    def dynamic(self, given: Given) -> Array:
        alpha = given["alpha"] if "alpha" in given else self.dynamic_alpha(given)
        return self.plain(given, self.base(given) * alpha)


class LlamaSwitch(BrokenEngine):
    name = "llama-switch"
    sentence = "Llama 3's rule has no smooth band: what is no high frequency is divided."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        return np.where(super().llama3_share(given, omega) >= 1, 1, 0).astype(self.real)


class LlamaByWavelength(BrokenEngine):
    name = "llama-by-wavelength"
    sentence = "Llama 3's band is linear in the wavelength, not in the frequency."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        original, low, high = (
            self.real(given[name])
            for name in (
                "original_max_position_embeddings",
                "low_freq_factor",
                "high_freq_factor",
            )
        )
        longest, shortest = original / low, original / high
        return (longest - self.real(2 * math.pi) / omega) / (longest - shortest)


class LlamaFactorFixed(BrokenEngine):
    name = "llama-factor-fixed"
    sentence = "Llama 3's rule has Llama 3.1's factor 8 in the code."

    def llama3(self, given: Given) -> Array:
        return super().llama3({**given, "factor": 8.0})


class OriginalLengthFixed(BrokenEngine):
    name = "original-length-fixed"
    sentence = "Llama 3's rule has the original length 8192 in the code."

    def llama3(self, given: Given) -> Array:
        return super().llama3({**given, "original_max_position_embeddings": 8192})


class YarnWithoutFactor(BrokenEngine):
    name = "yarn-without-attention"
    sentence = "YaRN's attention factor is missing: the frequencies are right."

    def attention(self, given: Given) -> float:
        return 1.0 if given.get("rope_type") == "yarn" else super().attention(given)


class AttentionTwice(BrokenEngine):
    name = "attention-twice"
    sentence = "The attention factor is applied twice: its square multiplies cosines and sines."

    def attention(self, given: Given) -> float:
        return super().attention(given) ** 2


class AttentionOnCosines(BrokenEngine):
    name = "attention-on-cosines"
    sentence = "The attention factor multiplies the cosines, but not the sines."

    def scaled(self, cos: Array, sin: Array, factor: Any) -> tuple[Array, Array]:
        return cos * factor, sin


class MscaleIgnored(BrokenEngine):
    name = "mscale-ignored"
    sentence = "YaRN's factor is 0.1 ln f + 1 although the config has mscale and mscale_all_dim."

    def yarn_attention(self, given: Given) -> float:
        return super().yarn_attention({**given, "mscale": 0})


class MscaleOnly(BrokenEngine):
    name = "mscale-only"
    sentence = "YaRN's factor is that of mscale alone: it is not divided by that of mscale_all_dim."

    def yarn_attention(self, given: Given) -> float:
        scale = given.get("mscale", 1.0)
        return 0.1 * float(scale) * math.log(self.length_factor(given)) + 1


class GivenFactorIgnored(BrokenEngine):
    name = "given-attention-ignored"
    sentence = "YaRN's factor is computed, also where the config gives it."

    def attention(self, given: Given) -> float:
        if given.get("rope_type") != "yarn":
            return super().attention(given)
        return self.yarn_attention(given)


class YarnRounded(BrokenEngine):
    name = "yarn-rounded"
    sentence = "The ends of YaRN's ramp are rounded, although the config says truncate: false."

    def yarn_range(self, given: Given) -> tuple[float, float]:
        return super().yarn_range({**given, "truncate": True})


class YarnInverted(BrokenEngine):
    name = "yarn-inverted"
    sentence = "YaRN's ramp is upside down: high frequencies are divided, low ones kept."

    def yarn_ramp(self, given: Given) -> Array:
        return 1 - super().yarn_ramp(given)


class YarnBetasFixed(BrokenEngine):
    name = "yarn-betas-fixed"
    sentence = "beta_fast and beta_slow are 32 and 1, whatever the config says."

    def yarn_turns(self, given: Given) -> tuple[float, float]:
        return 32, 1


class AlwaysLong(BrokenEngine):
    name = "always-long"
    sentence = "LongRoPE uses the long list of factors for short contexts, too."

    def longrope_factors(self, given: Given) -> Sequence[float]:
        factors: list[float] = given["long_factor"]
        return factors


class AlwaysShort(BrokenEngine):
    name = "always-short"
    sentence = "LongRoPE uses the short list of factors for long contexts, too."

    def longrope_factors(self, given: Given) -> Sequence[float]:
        factors: list[float] = given["short_factor"]
        return factors


class FactorsMultiply(BrokenEngine):
    name = "factors-multiply"
    sentence = "The factors of a list multiply the frequencies, and should divide them."

    def divided(self, omega: Array, factors: Sequence[float]) -> Array:
        return omega * self.reals(factors)


# Positions and types.


class FromOne(BrokenEngine):
    name = "from-one"
    sentence = "Positions are counted from 1."

    def angles(self, given: Given, positions: Array, omega: Array) -> Array:
        return super().angles(given, positions + 1, omega)


class CacheForgotten(BrokenEngine):
    name = "cache-forgotten"
    sentence = "A step of a decoder begins at position 0 again: the cached rows are not counted."

    def rows_of(self, given: Given) -> Array:
        if "positions_t" in given:
            return super().rows_of(given)
        rows = super().rows_of(given)
        is_step = (np.diff(rows) == 1).all() and rows.min() > 0
        return rows - rows[..., :1] if is_step else rows


class SmallTable(BrokenEngine):
    name = "small-table"
    sentence = "The table has 4096 rows: later positions have its last one."

    def held(self, positions: Array) -> Array:
        return super().held(np.minimum(positions, 4095))


class NarrowPositions(BrokenEngine):
    name = "narrow-positions"
    sentence = "Positions are bfloat16, which counts to 256."

    def held(self, positions: Array) -> Array:
        return in_type(super().held(positions), "bfloat16")


class HalfPositions(BrokenEngine):
    name = "half-positions"
    sentence = "Positions are float16, which counts to 2048 and ends at 65504."

    def held(self, positions: Array) -> Array:
        with np.errstate(over="ignore"):
            return in_type(super().held(positions), "float16")

    def answer(self, case: Given) -> dict[str, Array]:
        with np.errstate(invalid="ignore"):
            return super().answer(case)


class NarrowFrequencies(BrokenEngine):
    name = "narrow-frequencies"
    sentence = "inv_freq is a buffer of the model, which was converted to bfloat16."

    def frequencies(self, given: Given) -> Array:
        return in_type(super().frequencies(given), "bfloat16")


class NarrowAngles(BrokenEngine):
    name = "narrow-angles"
    sentence = "The angles are rounded to bfloat16 before their cosines are taken."

    def angles(self, given: Given, positions: Array, omega: Array) -> Array:
        return in_type(super().angles(given, positions, omega), "bfloat16")


class Degrees(BrokenEngine):
    name = "degrees"
    sentence = "Angles are taken for degrees."

    def angles(self, given: Given, positions: Array, omega: Array) -> Array:
        return super().angles(given, positions, omega) * self.real(math.pi / 180)


class TimeForAll(BrokenEngine):
    name = "time-for-all"
    sentence = "M-RoPE's sections are ignored: all frequencies turn by the position in time."

    def axes(self, given: Given, pairs: int) -> Array:
        return np.zeros(pairs, dtype=int)


class SectionsInBlocks(BrokenEngine):
    name = "sections-in-blocks"
    sentence = "M-RoPE's sections are blocks, where the model wants the axes in turn."

    def axes(self, given: Given, pairs: int) -> Array:
        return super().axes({**given, "mrope_interleaved": False}, pairs)


class HeightForWidth(BrokenEngine):
    name = "height-for-width"
    sentence = "M-RoPE's height and width are exchanged."

    def axes(self, given: Given, pairs: int) -> Array:
        return np.array([0, 2, 1])[super().axes(given, pairs)]


class XposForKeys(BrokenEngine):
    name = "xpos-for-keys"
    sentence = "xPos scales keys as it scales queries."

    def xpos_sign(self, given: Given) -> int:
        return 1
