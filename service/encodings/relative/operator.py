"""Relative positions inside the sinusoidal encoding: the shift operator and the similarity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from service.encodings.family import (
    AbsoluteLayout,
    EvenChannelCount,
    PositionList,
    RealDType,
    SeriesBase,
    TableFamily,
    about,
    impossible,
)
from service.grammar import Integer
from service.numerics.double_double import pairwise_sum
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.phase import MAX_POSITION, Float64s, Geometric, Int64s, geometric
from service.numerics.phasors import component, sines_and_cosines
from service.numerics.positions import Positions
from service.numerics.tables import FREQUENCY_WORK, RowTable, Table, row_steps

_OFFSETS = about("Offsets k: integers and half-open ranges.", "-3:4")


class ShiftOperator(TableFamily, path="/relative"):
    """The matrix M_k with PE(pos + k) = M_k · PE(pos), the same for every pos.

    Formula: in the plane of the channels (sin pω, cos pω) an offset k is the rotation
        sin((p + k)ω) = cos(kω)·sin(pω) + sin(kω)·cos(pω),
        cos((p + k)ω) = −sin(kω)·sin(pω) + cos(kω)·cos(pω); other elements are 0.
    Source: "Attention Is All You Need" (Vaswani et al. 2017), §3.5: for any fixed offset k,
        PE(pos + k) is a linear function of PE(pos).
    Bound: 5·2^-53. The shape is (d_model, d_model) for offset, and (n, d_model, d_model) for
        offsets.
    Trap: M_k multiplies a column of channels from the left; rows of a table need PE · M_kᵀ.
    """

    example: ClassVar[str] = "d_model=4&offset=1&base=100"
    array: ClassVar[str] = "relative"
    states_axes: ClassVar[bool] = False

    d_model: EvenChannelCount
    base: SeriesBase = 10000.0
    layout: AbsoluteLayout = about(
        "Sine and cosine in turn, or all sines and then all cosines.",
        "interleaved",
        default="interleaved",
    )
    offset: Annotated[
        Integer | None,
        about(
            "The offset k of one operator, (d_model, d_model); or give offsets.",
            3,
            ge=-MAX_POSITION,
            le=MAX_POSITION,
        ),
    ] = None
    offsets: Annotated[PositionList | None, _OFFSETS] = None
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"offset": "give offset in place of offsets"}

    @property
    def axes(self) -> tuple[str, ...]:
        stack = () if self.offsets is None else ("offset",)
        return (*stack, "to channel", "from channel")

    def table(self) -> Table:
        if (self.offset is None) == (self.offsets is None):
            rule = "give offset for one operator or offsets for several, and not both"
            raise impossible("offset", self.offset, rule)
        offsets = self.offsets or Positions.contiguous(self.offset or 0, 1)
        stack = () if self.offsets is None else (offsets.count,)
        shape = (*stack, self.d_model, self.d_model)
        rule_of_pairs = geometric(self.d_model, self.base)
        return OperatorTable(rule_of_pairs, offsets, self.layout, self.element_type, shape)


@dataclass(frozen=True, eq=False)
class OperatorTable(RowTable):
    """The shift operators of offsets, row under row."""

    rule: Geometric
    offsets: Positions
    layout: AbsoluteLayout
    dtype: DType
    shape: tuple[int, ...]

    @property
    def setup_work(self) -> int:
        return FREQUENCY_WORK * self.rule.count

    @property
    def row_width(self) -> int:
        return self.rule.dim

    def fill(self, first: int, rows: Elements) -> None:
        number = np.arange(first, first + len(rows))
        matrix, channel = np.divmod(number, self.row_width)
        pair, is_cosine = self._pair_of(channel)
        offsets = self.offsets.at(int(matrix[0]), int(matrix[-1]) + 1)
        both, row = sines_and_cosines(self.rule, offsets), matrix - matrix[0]
        sin, cos = both[row, pair], both[row, pair + self.rule.count]

        to_sine, to_cosine = self._channels_of(pair)
        rows[...] = 0
        self._put(rows, to_sine, np.where(is_cosine, 0.0 - sin, cos))
        self._put(rows, to_cosine, np.where(is_cosine, cos, sin))

    def _pair_of(self, channel: Int64s) -> tuple[Int64s, Int64s]:
        if self.layout == "interleaved":
            return channel // 2, channel % 2
        return channel % self.rule.count, channel // self.rule.count

    def _channels_of(self, pair: Int64s) -> tuple[Int64s, Int64s]:
        if self.layout == "interleaved":
            return 2 * pair, 2 * pair + 1
        return pair, pair + self.rule.count

    def _put(self, rows: Elements, channels: Int64s, values: Float64s) -> None:
        elements = np.empty(len(rows), dtype=self.dtype.storage)
        round_into(values, elements, self.dtype)
        rows[np.arange(len(rows)), channels] = elements


class Similarity(TableFamily, path="/relative/similarity"):
    """The similarity of two positions of the sinusoidal encoding, by their offset alone.

    Formula: PE(p) · PE(p + k) = Σ cos(kω_i), i = 0 … n − 1, n = d_model/2; n at k = 0.
    Source: "Attention Is All You Need" (Vaswani et al. 2017), §3.5.
    Bound: n·(5 + 2·⌈log2 n⌉)·2^-53: 5 for each term, and one rounding of at most n for each
        addition that a term goes through, two a halving.
    Trap: it is the same for k and −k, so it does not tell before from after; and it does not fall
        steadily with the distance.
    """

    example: ClassVar[str] = "d_model=4&offsets=0:4&base=100"
    array: ClassVar[str] = "similarity"
    states_axes: ClassVar[bool] = False

    d_model: EvenChannelCount
    base: SeriesBase = 10000.0
    offsets: Annotated[PositionList, _OFFSETS]
    dtype: RealDType = "float32"

    @property
    def axes(self) -> tuple[str, ...]:
        return ("offset",)

    def table(self) -> Table:
        return SimilarityTable(geometric(self.d_model, self.base), self.offsets, self.element_type)


@dataclass(frozen=True, eq=False)
class SimilarityTable(RowTable):
    """Sums of cosines over all frequencies, one for each offset."""

    rule: Geometric
    offsets: Positions
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.offsets.count,)

    @property
    def work_per_element(self) -> int:
        return self.rule.count

    @property
    def setup_work(self) -> int:
        return FREQUENCY_WORK * self.rule.count

    @property
    def row_width(self) -> int:
        return 1

    def fill(self, first: int, rows: Elements) -> None:
        for part in row_steps(len(rows), self.rule.count):
            offsets = self.offsets.at(first + part.start, first + part.stop)
            sums = pairwise_sum(component(self.rule, "cos", offsets))
            round_into(sums, rows[part, 0], self.dtype)
