"""Further mistakes in rotary tables and rotations, most of them in the scaling of frequencies."""

# ruff: noqa: ARG002 - what is wrong often needs less.

import math

import numpy as np

from tests.conformance.engines.broken_engine import BrokenEngine
from tests.conformance.engines.formulas import Array, Given

# Llama 3.


class LlamaSwitchAtLow(BrokenEngine):
    name = "llama-switch-at-low"
    sentence = "Llama 3's two limits are exchanged in Meta's loop: one switch at the slow limit."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        length = self.real(self.original_length(given) / given["low_freq_factor"])
        return (self.real(2 * math.pi) / omega < length).astype(self.real)


class LlamaFactorsExchanged(BrokenEngine):
    name = "llama-factors-exchanged"
    sentence = "low_freq_factor and high_freq_factor are exchanged in a clipped share."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        low, high = given["high_freq_factor"], given["low_freq_factor"]
        exchanged = {**given, "low_freq_factor": low, "high_freq_factor": high}
        return super().llama3_share(exchanged, omega)


class LlamaBlendExchanged(BrokenEngine):
    name = "llama-blend-exchanged"
    sentence = "Inside Llama 3's band the two ends of the blend are exchanged."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        share = super().llama3_share(given, omega)
        return np.where((share > 0) & (share < 1), 1 - share, share)


class LlamaCoarsePi(BrokenEngine):
    name = "llama-coarse-pi"
    sentence = "Llama 3's wavelengths are 6.28/ω."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        low, high = given["low_freq_factor"], given["high_freq_factor"]
        turns = self.real(self.original_length(given)) / (self.real(6.28) / omega)
        return (turns - self.real(low)) / self.real(high - low)


# Factors.


class AttentionRoot(BrokenEngine):
    name = "attention-root"
    sentence = "The square root of the attention factor multiplies cosines and sines."

    def attention(self, given: Given) -> float:
        return math.sqrt(super().attention(given))


class AttentionOne(BrokenEngine):
    name = "attention-one"
    sentence = "Cosines and sines have no attention factor, whatever the rule."

    def attention(self, given: Given) -> float:
        return 1.0


class ProportionalStretches(BrokenEngine):
    name = "proportional-stretches"
    sentence = "Gemma 4's factor multiplies the frequencies, and should divide them."

    def proportional(self, given: Given) -> Array:
        factor = self.real(given.get("factor", 1.0))
        return super().proportional(given) * factor * factor


# Axes.


class SectionsReversed(BrokenEngine):
    name = "sections-reversed"
    sentence = "M-RoPE's section sizes are read from the last one on."

    def axes(self, given: Given, pairs: int) -> Array:
        return super().axes({**given, "mrope_section": given["mrope_section"][::-1]}, pairs)


class WidthFirst(BrokenEngine):
    name = "width-first"
    sentence = "M-RoPE's fast frequencies are those of the width, the slow ones those of time."

    def axes(self, given: Given, pairs: int) -> Array:
        reversed_ = {**given, "mrope_section": given["mrope_section"][::-1]}
        return 2 - super().axes(reversed_, pairs)


class HeightForAll(BrokenEngine):
    name = "height-for-all"
    sentence = "All frequencies of M-RoPE turn by the row of the image."

    def axes(self, given: Given, pairs: int) -> Array:
        return np.ones(pairs, dtype=int)


class HeadsForPositions(BrokenEngine):
    name = "heads-for-positions"
    sentence = "The first axis of x counts positions from the start; it is that of heads."

    def rotated(self, given: Given) -> Array:
        x = self.reals(given["x"])
        if x.ndim < 3:
            return super().rotated(given)
        kept = {name: each for name, each in given.items() if name != "seqlen_offsets"}
        first = kept.get("start", 0)
        moved = {"x": np.swapaxes(x, 0, 1), "positions": first + np.arange(len(x))}
        return np.swapaxes(super().rotated({**kept, **moved}), 0, 1)
