"""Mistakes that ports make again and again: ramps, rotations in place, small integers."""

# ruff: noqa: ARG002 - what is wrong often needs less.

import math

import numpy as np

from tests.conformance.engines.broken_engine import BrokenEngine
from tests.conformance.engines.formulas import Array, Given
from tests.conformance.engines.rotary_formulas import TWO_PI

# Ramps.


class _OtherRange(BrokenEngine):
    """An engine whose ramp of YaRN begins or ends at another pair."""

    name = "honest"
    turn = TWO_PI

    def raw_range(self, given: Given) -> tuple[float, float]:
        width, base = self.rotary_width(given), self.base(given)

        def pair_of(turns: float) -> float:
            turned = self.original_length(given) / (turns * self.turn)
            return width * math.log(turned) / (2 * math.log(base))

        low, high = map(pair_of, self.yarn_turns(given))
        return low, high

    def yarn_range(self, given: Given) -> tuple[float, float]:
        low, high = self.raw_range(given)
        if given.get("truncate", True):
            low, high = self.rounded(low, high)
        return max(low, 0), min(high, self.most(self.rotary_width(given)))

    def rounded(self, low: float, high: float) -> tuple[float, float]:
        return math.floor(low), math.ceil(high)

    def most(self, width: int) -> int:
        return width - 1


class YarnClampedToPairs(_OtherRange):
    name = "yarn-clamped-to-pairs"
    sentence = "YaRN's ramp ends at the last pair r/2 - 1 at most, not at channel r - 1."

    def most(self, width: int) -> int:
        return width // 2 - 1


class YarnFloorForCeiling(_OtherRange):
    name = "yarn-floor-for-ceiling"
    sentence = "The beginning of YaRN's ramp is rounded up and its end down."

    def rounded(self, low: float, high: float) -> tuple[float, float]:
        return math.ceil(low), math.floor(high)


class YarnBothDown(_OtherRange):
    name = "yarn-both-down"
    sentence = "Both ends of YaRN's ramp are rounded down."

    def rounded(self, low: float, high: float) -> tuple[float, float]:
        return math.floor(low), math.floor(high)


class YarnWithoutTurns(_OtherRange):
    name = "yarn-without-turns"
    sentence = "The ends of YaRN's ramp lack 2π: they count radians, not turns."
    turn = 1.0


class YarnInChannels(_OtherRange):
    name = "yarn-in-channels"
    sentence = "YaRN's ramp counts channels, 2k, where it should count pairs, k."

    def yarn_ramp(self, given: Given) -> Array:
        low, high = self.yarn_range(given)
        numbers = 2 * np.arange(self.rotary_width(given) // 2, dtype=self.real)
        return np.clip((numbers - self.real(low)) / self.real(high - low or 0.001), 0, 1)


class YarnNarrowed(_OtherRange):
    name = "yarn-narrowed"
    sentence = "YaRN's ramp ends one pair early: no other setting has its numbers in all cases."

    def yarn_range(self, given: Given) -> tuple[float, float]:
        low, high = super().yarn_range(given)
        return low, max(high - 1.25, low)


class LlamaBandDivided(BrokenEngine):
    name = "llama-band-divided"
    sentence = "Llama 3's band is missing: its frequencies are divided as those below it."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        length = self.real(self.original_length(given) / given["high_freq_factor"])
        return (self.real(TWO_PI) / omega < length).astype(self.real)


class LlamaBandHalved(BrokenEngine):
    name = "llama-band-halved"
    sentence = "Llama 3's band is missing: each of its frequencies is half kept and half divided."

    def llama3_share(self, given: Given, omega: Array) -> Array:
        share = np.clip(super().llama3_share(given, omega), 0, 1)
        return np.where((share > 0) & (share < 1), self.real(0.5), share)


# Rotations.


class RotatedInPlace(BrokenEngine):
    name = "rotated-in-place"
    sentence = "The second channel of a pair is computed from the first one after its rotation."

    def rotated_pairs(self, a: Array, b: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        first, _ = super().rotated_pairs(a, b, cos, sin)
        return first, super().rotated_pairs(first, b, cos, sin)[1]


class SinesForCosines(BrokenEngine):
    name = "sines-for-cosines"
    sentence = "A rotation multiplies by sines in the place of cosines, and the reverse."

    def table(self, given: Given) -> dict[str, Array]:
        found = super().table(given)
        return {**found, "cos": found["sin"], "sin": found["cos"]} if "x" in given else found


class RestScaled(BrokenEngine):
    name = "rest-scaled"
    sentence = "Channels that pass through are multiplied by the attention factor as well."

    def rotated(self, given: Given) -> Array:
        result = super().rotated(given)
        start, pairs = self.rotary_start(given), len(self.frequencies(self.sized(given)))
        rest = np.ones(result.shape[-1], dtype=bool)
        rest[start : start + 2 * pairs] = False
        result[..., rest] = self.stored(result[..., rest] * self.real(self.attention(given)))
        return result

    def sized(self, given: Given) -> Given:
        return {"head_dim": np.shape(given["x"])[-1], **given}


class FirstOffset(BrokenEngine):
    name = "first-offset"
    sentence = "Every sequence of a batch has the offset of the first one."

    def rows_of(self, given: Given) -> Array:
        if "seqlen_offsets" in given:
            offsets = given["seqlen_offsets"]
            return super().rows_of({**given, "seqlen_offsets": offsets[:1] * len(offsets)})
        return super().rows_of(given)


class SmallIntegers(BrokenEngine):
    name = "small-integers"
    sentence = "Positions are integers of 16 bits without a sign: 65536 is 0."

    def rows_of(self, given: Given) -> Array:
        return super().rows_of(given) % 65536


class StaleRow(BrokenEngine):
    name = "stale-row"
    sentence = "The last row of a table is that of the row before: the loop ends one too early."

    def table(self, given: Given) -> dict[str, Array]:
        found = super().table(given)
        for each in found.values():
            each[..., -1, :] = each[..., -2, :]
        return found


# Biases.


class QueryAtZero(BrokenEngine):
    name = "query-at-zero"
    sentence = "The first query has the position 0, though tokens are cached."

    def queries(self, given: Given) -> Array:
        return super().queries({**given, "query_start": 0})


class SlopesFromZero(BrokenEngine):
    name = "slopes-from-zero"
    sentence = "The slopes of ALiBi's heads are 2^(-8h/n) from h = 0 on."

    def slopes(self, heads: int, most: float) -> Array:
        return self.reals([2.0 ** (-most * head / heads) for head in range(heads)])


class SameBucketForward(BrokenEngine):
    name = "zero-is-forward"
    sentence = "T5's distance 0 has a bucket of keys after the query: >= where it should be >."

    def t5(self, given: Given, count: int | None = None) -> Array:
        found = super().t5(given, count)
        if not self.is_bidirectional(given):
            return found
        half = (count or given.get("num_buckets", 32)) // 2
        return found + half * (self.t5_distances(given) == 0)


class ExactThroughout(BrokenEngine):
    name = "exact-throughout"
    sentence = "T5's exact buckets are all of a direction's but one, not half of them."

    def t5_bucket(self, distance: int, buckets: int, most: int) -> int:
        return min(distance, buckets - 1)
