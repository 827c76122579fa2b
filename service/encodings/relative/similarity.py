"""The similarity of sinusoidal encodings: the sum of the cosines of an offset.

A product of matrices, whose last bits depend on the machine, proposes the sums, and never decides a
byte. With offsets k = m·a + b,

    Σ cos(k·ω) = Σ cos(m·a·ω)·cos(b·ω) − sin(m·a·ω)·sin(b·ω)

is a product of (blocks, 2n) by (2n, m). Both the proposal and the sum that ``exact_sums`` adds in a
fixed order are near the same real number S. In units of u = 2^-53, for n frequencies:

- ``exact_sums`` is within n·(5 + 2·⌈log2 n⌉) of S (see Similarity).
- Each sine and cosine of the product is within 0.9 of its own, so that a term is within
  0.9·(|c| + |s| + |C| + |S|) ≤ 2.6: n·2.6 together.
- 2n products are added in any order, with or without fused additions. Each term is part of at most
  2n roundings, and |C·c| + |S·s| ≤ 1: at most n·2n, times 1 + 2^-30 for their products.
- Adding a bound to the proposal, or subtracting it, rounds by at most n.

n is at most 2^11 (see _LEAST_LENGTH), so the sum of these is below n·(2n + 64). Rounding is
monotonic: if the proposal plus and minus that bound round to the same number of the element type,
the exact sum does, too. Everywhere else the exact sum is computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from service.encodings.family import (
    EvenChannelCount,
    PositionList,
    RealDType,
    SeriesBase,
    TableFamily,
)
from service.encodings.meaning import Meaning, Selection
from service.encodings.relative.operator import OFFSETS
from service.numerics.double_double import pairwise_sum
from service.numerics.dtypes import FLOAT64, DType, round_into
from service.numerics.evaluation import sin_cos
from service.numerics.phase import MAX_POSITION, Float64s, FrequencyRule, Int64s, geometric
from service.numerics.phasors import Frequencies, component, component_phasors, phasor_seconds
from service.numerics.setups import TURN_SECONDS, KeptSetup, Setups, Steps
from service.numerics.tables import FormulaTable, Table, row_steps


class Similarity(TableFamily, path="/relative/similarity"):
    """The dot product of the sinusoidal encodings of two positions, for each offset: (offset,).

    Formula: PE(p) · PE(p + k) = Σ cos(kω_i), i = 0 … n − 1, n = d_model/2, at every p; n for k = 0.
    Source: "Attention Is All You Need" (Vaswani et al. 2017), §3.5.
    Bound: n·(5 + 2·⌈log2 n⌉)·2^-53: 5 for each term, and one rounding of at most n for each
        of the 2·⌈log2 n⌉ additions that a term is part of.
    Trap: the similarity is the same for k and −k, so it does not show the direction; and it does
        not decrease monotonically with |k|.
    """

    example: ClassVar[str] = "d_model=4&offsets=0:4&base=100"
    array: ClassVar[str] = "similarity"
    axes: ClassVar[tuple[str, ...]] = ("offset",)
    states_axes: ClassVar[bool] = False

    d_model: EvenChannelCount
    base: SeriesBase = 10000.0
    offsets: Annotated[PositionList, OFFSETS]
    dtype: RealDType = "float32"

    def selections(self) -> Mapping[str, Selection]:
        return {"offset": Selection("offsets", self.offsets)}

    def meaning(self) -> Meaning:
        most = self.d_model // 2
        return Meaning(value_range=(-most, most), frequencies="/encoding/frequencies")

    def table(self) -> Table:
        rule, dtype, offsets = geometric(self.d_model, self.base), self.element_type, self.offsets
        setup: Setups = Setups((component_phasors(rule, "cos"),))
        seconds = 2 * rule.count * phasor_seconds(rule.count, offsets)
        blocks = BlockPhasors(rule)
        is_proposed = (
            dtype is not FLOAT64
            and offsets.is_contiguous
            and min(offsets.count, blocks.length) >= _LEAST_LENGTH
            and offsets.farthest <= MAX_POSITION - blocks.length
        )
        if is_proposed:
            setup = Setups((*setup.parts, blocks))
            seconds = _PROPOSED_SECONDS + rule.count * (
                _PRODUCT_SECONDS + _PHASOR_SECONDS / blocks.length
            )

        def evaluate(rows: range, _: range) -> Float64s:
            some = offsets.at(rows.start, rows.stop)
            sums = checked_sums(blocks, some, dtype) if is_proposed else exact_sums(rule, some)
            return sums[:, np.newaxis]

        return FormulaTable(
            (offsets.count,), dtype, 1, evaluate, element_seconds=seconds, setup=setup
        )


def exact_sums(rule: FrequencyRule, offsets: Int64s) -> Float64s:
    """Return the sums of cosines of offsets (m,), added in a fixed order: (m,)."""
    sums = np.empty(len(offsets))
    for part in row_steps(len(offsets), rule.count):
        sums[part] = pairwise_sum(component(rule, "cos", offsets[part]))
    return sums


# The most offsets in a block, and the most numbers of its phasors.
_MOST_LENGTH = 512
_BLOCK_ELEMENTS = 2**18
# With fewer offsets the sums take less time one by one.
_LEAST_LENGTH = 64

# The processor seconds of an offset, of one of its frequencies in a product of matrices, and of a
# phasor.
_PROPOSED_SECONDS = 2e-8
_PRODUCT_SECONDS = 2e-10
_PHASOR_SECONDS = 3e-8


@dataclass(frozen=True)
class BlockPhasors(KeptSetup[Float64s], capacity_bytes=8 * 2**20):
    """The cosines of the offsets 0, 1, … of a block and the negative sines: (2n, length)."""

    rule: FrequencyRule

    @property
    def length(self) -> int:
        """The number of offsets in a block."""
        return min(_MOST_LENGTH, _BLOCK_ELEMENTS // (2 * self.rule.count))

    @property
    def new_seconds(self) -> float:
        return Frequencies(self.rule).seconds + _PHASOR_SECONDS * self.length * self.rule.count

    def compute(self) -> Steps[Float64s]:
        frequencies = yield from Frequencies(self.rule).steps()
        count = self.rule.count
        both = np.empty((2 * count, self.length))
        step = max(1, int(TURN_SECONDS / (2 * _PHASOR_SECONDS * count)))
        for first in range(0, self.length, step):
            offsets = np.arange(first, min(first + step, self.length), dtype=np.int64)
            sine, cosine = sin_cos(frequencies, offsets)
            both[:count, offsets], both[count:, offsets] = cosine.T, -sine.T
            yield
        return both

    def propose(self, offsets: Int64s) -> Float64s:
        """Return the sums of consecutive offsets (m,), each within ``error_bound``: (m,)."""
        first, last = (int(end) // self.length for end in (offsets[0], offsets[-1]))
        starts = np.arange(first, last + 1, dtype=np.int64) * self.length
        sine, cosine = sin_cos(Frequencies(self.rule).get(), starts)
        sums = (np.concatenate([cosine, sine], axis=1) @ self.get()).reshape(-1)
        skipped = int(offsets[0]) - int(starts[0])
        return sums[skipped : skipped + len(offsets)]


def error_bound(count: int) -> float:
    """Bound the distance of a proposal, plus the rounding of the bound, from ``exact_sums``."""
    return count * (2 * count + 64) * 2.0**-53


def checked_sums(blocks: BlockPhasors, offsets: Int64s, dtype: DType) -> Float64s:
    """Return numbers (m,) that round to the elements to which the exact sums of offsets round.

    The offsets are consecutive.
    """
    sums, bound = blocks.propose(offsets), error_bound(blocks.rule.count)
    (unsure,) = np.nonzero(_rounded_bits(sums - bound, dtype) != _rounded_bits(sums + bound, dtype))
    sums[unsure] = exact_sums(blocks.rule, offsets[unsure])
    return sums


def _rounded_bits(values: Float64s, dtype: DType) -> NDArray[np.unsignedinteger]:
    elements = np.empty(len(values), dtype=dtype.storage)
    round_into(values, elements, dtype)
    return elements.view(f"u{dtype.itemsize_bytes}")
