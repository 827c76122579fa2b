"""The matrix of an offset: it turns the sinusoidal encoding of a position into that of another."""

from collections.abc import Mapping
from functools import partial
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
    optional,
)
from service.encodings.meaning import Meaning
from service.grammar import Integer
from service.numerics.phase import MAX_POSITION, Float64s, Geometric, geometric
from service.numerics.phasors import both_phasors, sines_and_cosines
from service.numerics.positions import Positions
from service.numerics.tables import ELEMENT_SECONDS, FormulaTable, Table

OFFSETS = about("The offsets k: integers and half-open ranges.", "-3:4")


class ShiftOperator(TableFamily, path="/relative"):
    """The matrix M_k of an offset k, for which PE(pos + k) = M_k · PE(pos) at every pos.

    Formula: M_k rotates the two channels (sin pω, cos pω) of each frequency ω:
        sin((p + k)ω) = cos(kω)·sin(pω) + sin(kω)·cos(pω),
        cos((p + k)ω) = −sin(kω)·sin(pω) + cos(kω)·cos(pω); other elements are 0.
    Source: "Attention Is All You Need" (Vaswani et al. 2017), §3.5: for any fixed offset k,
        PE(pos + k) is a linear function of PE(pos).
    Bound: 5·2^-53. The shape is (d_model, d_model) with offset, and (n, d_model, d_model) with
        n offsets.
    Trap: M_k multiplies a column vector of channels from the left; a table, whose rows are
        positions, needs PE · M_kᵀ.
    """

    example: ClassVar[str] = "d_model=4&offset=1&base=100"
    array: ClassVar[str] = "relative"
    states_axes: ClassVar[bool] = False

    d_model: EvenChannelCount
    base: SeriesBase = 10000.0
    layout: AbsoluteLayout = about(
        "interleaved: sine and cosine alternate; concatenated: all sines, then all cosines.",
        "interleaved",
        default="interleaved",
    )
    offset: Integer | None = optional(
        "The offset k of a single matrix, (d_model, d_model); required unless offsets is given.",
        3,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
    )
    offsets: Annotated[PositionList | None, OFFSETS] = None
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"offset": "give offset in place of offsets"}

    @property
    def axes(self) -> tuple[str, ...]:
        stack = () if self.offsets is None else ("offset",)
        return (*stack, "to channel", "from channel")

    def meaning(self) -> Meaning:
        return Meaning(value_range=(-1, 1), frequencies="/encoding/frequencies")

    def table(self) -> Table:
        if (self.offset is None) == (self.offsets is None):
            rule = "give either offset, for one matrix, or offsets, for several"
            raise impossible("offset", self.offset, rule)
        offsets = self.offsets or Positions.contiguous(self.offset or 0, 1)
        stack = () if self.offsets is None else (offsets.count,)
        rule_of_pairs = geometric(self.d_model, self.base)
        return FormulaTable(
            (*stack, self.d_model, self.d_model),
            self.element_type,
            self.d_model,
            partial(self._rows, rule_of_pairs, offsets),
            element_seconds=1.5 * ELEMENT_SECONDS,
            least_elements=self.d_model,
            setup=both_phasors(rule_of_pairs),
        )

    def _rows(self, rule: Geometric, offsets: Positions, rows: range, columns: range) -> Float64s:
        """Return some rows of the matrices of all offsets, stacked one below the other."""
        matrix, channel = np.divmod(np.arange(rows.start, rows.stop), self.d_model)
        some = offsets.at(int(matrix[0]), int(matrix[-1]) + 1)
        (sines, cosines), index = sines_and_cosines(rule, some), matrix - matrix[0]
        # The number of channels from one pair to the next, and from a sine to its cosine.
        across, beside = (2, 1) if self.layout == "interleaved" else (1, rule.count)
        pair = channel // across % rule.count
        is_cosine = channel // beside % 2
        sin, cos = sines[index, pair], cosines[index, pair]

        values = np.zeros((len(rows), self.d_model))
        row, sine = np.arange(len(rows)), across * pair
        values[row, sine] = np.where(is_cosine, 0.0 - sin, cos)
        values[row, sine + beside] = np.where(is_cosine, cos, sin)
        return values[:, columns.start : columns.stop]
