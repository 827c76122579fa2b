"""Mistakes in position ids, sinusoids, biases and buckets, as ports have made them."""

# ruff: noqa: ARG002 - what is wrong often needs less.

import math
from collections.abc import Sequence

import numpy as np

from tests.conformance.engines.broken_engine import BrokenEngine
from tests.conformance.engines.formulas import Array, Given

# Position ids and sinusoids.


class PaddingCounted(BrokenEngine):
    name = "padding-counted"
    sentence = "Padding is counted: a token's position is its place in the padded row."

    def counted(self, mask: Array) -> Array:
        return np.broadcast_to(np.arange(1, mask.shape[-1] + 1), mask.shape)


class MaskIgnored(BrokenEngine):
    name = "mask-ignored"
    sentence = "The attention mask is ignored: every row counts from its first place."

    def mask_of(self, given: Given) -> Array:
        return np.ones_like(super().mask_of(given))


class NoReset(BrokenEngine):
    name = "no-reset"
    sentence = "Packed sequences are counted on, and do not begin at 0 again."

    def packed(self, lengths: Sequence[int]) -> Array:
        return np.arange(sum(lengths))


class OptWithoutOffset(BrokenEngine):
    name = "opt-without-offset"
    sentence = "OPT's offset of 2 is missing."

    def opt_offset(self) -> int:
        return 0


class RowOfThePosition(BrokenEngine):
    name = "row-of-the-position"
    sentence = "The first token has row 0 of a fairseq table, not the row after that of padding."

    def first_row(self, padding: int) -> int:
        return 0


class SinesFirst(BrokenEngine):
    name = "sines-first"
    sentence = "All sines come first, where they should alternate with the cosines."

    def vaswani(self, given: Given) -> Array:
        return super().vaswani({**given, "layout": "concatenated"})


class ExponentOfTheChannel(BrokenEngine):
    name = "exponent-of-the-channel"
    sentence = "The exponent of channel i is 2i/d, not 2⌊i/2⌋/d: pairs have two frequencies."

    def exponent(self, channels: Array) -> Array:
        return 2 * channels

    def vaswani(self, given: Given) -> Array:
        width = given["d_model"]
        channels = np.arange(width)
        exponents = self.exponent(channels).astype(self.real) / self.real(width)
        omega = self.real(1) / self.real(given.get("base", 10000.0)) ** exponents
        angles = self.held(np.array(given["positions"]))[:, None] * omega
        table = np.where(channels % 2, np.cos(angles), np.sin(angles))
        if given.get("layout") == "concatenated":
            return np.concatenate([table[:, ::2], table[:, 1::2]], axis=-1)
        return table


class ExponentNotFloored(ExponentOfTheChannel):
    name = "exponent-not-floored"
    sentence = "The exponent of channel i is 2·(i/2)/d, and should be 2·⌊i/2⌋/d."

    def exponent(self, channels: Array) -> Array:
        return channels


class ExponentTwice(ExponentOfTheChannel):
    name = "exponent-twice"
    sentence = "i runs over the even channels, and the exponent is 2i/d for both of a pair."

    def exponent(self, channels: Array) -> Array:
        return 4 * (channels // 2)


class ExponentOfThePair(ExponentOfTheChannel):
    name = "exponent-of-the-pair"
    sentence = "The exponent of channel i is ⌊i/2⌋/d: it lacks a 2."

    def exponent(self, channels: Array) -> Array:
        return channels // 2


class SinesOfTimesteps(BrokenEngine):
    name = "sines-of-timesteps"
    sentence = "flip_sin_to_cos is ignored: the sines come first."

    def is_flipped(self, given: Given) -> bool:
        return False


class OneShift(BrokenEngine):
    name = "one-shift"
    sentence = "downscale_freq_shift is always 1."

    def shift(self, given: Given) -> float:
        return 1.0


class WholeTimesteps(BrokenEngine):
    name = "whole-timesteps"
    sentence = "Timesteps are converted to integers, so fractions are cut."

    def steps(self, given: Given) -> Array:
        return np.trunc(super().steps(given))


class RowsFirst(BrokenEngine):
    name = "rows-first"
    sentence = "The first half of the channels of an image encodes rows, not columns."

    def halves(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        return rows, columns


class ColumnByColumn(BrokenEngine):
    name = "column-by-column"
    sentence = "Tokens of an image are numbered column by column."

    def places(self, given: Given) -> tuple[Array, Array]:
        columns, rows = np.indices((given["width"], given["height"]))
        return rows, columns


# Biases.


class OneSeriesOfSlopes(BrokenEngine):
    name = "one-series-of-slopes"
    sentence = "Slopes are one geometric series, also where the heads are no power of two."

    def slopes(self, heads: int, most: float) -> Array:
        return self.reals([2.0 ** (-most * (head + 1) / heads) for head in range(heads)])


class SlopesFromOne(BrokenEngine):
    name = "slopes-from-one"
    sentence = "The first head has the slope 1: the exponents begin at 0."

    def slopes(self, heads: int, most: float) -> Array:
        power = 2 ** int(math.log2(heads))
        return super().slopes(heads, most) * self.real(2.0 ** (most / power))


class RewardedDistance(BrokenEngine):
    name = "rewarded-distance"
    sentence = "ALiBi's bias is slope·(query − key): the farther key is preferred."

    def alibi(self, given: Given) -> Array:
        return -super().alibi(given)


class T5Backwards(BrokenEngine):
    name = "t5-backwards"
    sentence = "T5's distance is query − key: keys before and after the query are exchanged."

    def t5_distances(self, given: Given) -> Array:
        return -super().t5_distances(given)


class T5BothWays(BrokenEngine):
    name = "t5-both-ways"
    sentence = "T5's decoder has an encoder's buckets: half of them for keys after the query."

    def is_bidirectional(self, given: Given) -> bool:
        return True


class DebertaBackwards(BrokenEngine):
    name = "deberta-backwards"
    sentence = "DeBERTa's distance is key − query, as T5's."

    def deberta_distances(self, given: Given) -> Array:
        return -super().deberta_distances(given)


class DebertaRoundsDown(BrokenEngine):
    name = "deberta-rounds-down"
    sentence = "The logarithm of DeBERTa's buckets is rounded down, and should be rounded up."

    def deberta_bucket(self, distance: int, middle: int, most: int) -> int:
        upper = super().deberta_bucket(distance, middle, most)
        top, step = middle - 1, upper - middle
        is_exact = distance**top * middle**step == (most - 1) ** step * middle**top
        return upper if distance <= middle or is_exact else upper - 1


class KerpleExchanged(BrokenEngine):
    name = "kerple-exchanged"
    sentence = "KERPLE's two learned arrays are exchanged."

    def kerple(self, given: Given) -> Array:
        if "a" not in given:
            return super().kerple(given)
        return super().kerple({**given, "a": given["p"], "p": given["a"]})


class KerpleBaseTwo(BrokenEngine):
    name = "kerple-base-two"
    sentence = "KERPLE's logarithm has base 2."

    def logarithm(self, grown: Array) -> Array:
        return super().logarithm(grown) / self.real(math.log(2))
