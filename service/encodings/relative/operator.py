"""Relative positions inside the sinusoidal encoding: the shift operator and the similarity.

"Attention Is All You Need" (Vaswani et al. 2017), §3.5, rests on it: for any fixed offset k,
PE(pos + k) is a linear function of PE(pos).

``/relative``: the shift operator of the sinusoidal encoding, and the similarity of positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pydantic import Field

from service.delivery.resources import Resource
from service.encodings.absolute.sinusoidal import geometric
from service.encodings.fields import (
    AbsoluteLayout,
    ArrayParameters,
    PositionList,
    RealDType,
    absolute_layout_field,
    base_field,
    d_model_field,
    dtype_field,
    impossible,
)
from service.grammar import Integer, Real
from service.numerics.document import Document, ParameterValue
from service.numerics.double_double import pairwise_sum
from service.numerics.dtypes import REAL_DTYPES, DType, Elements, round_into
from service.numerics.frequencies import Geometric
from service.numerics.phase import MAX_POSITION, Float64s, Int64s
from service.numerics.phasors import component, sines_and_cosines
from service.numerics.positions import Positions
from service.numerics.tables import FREQUENCY_WORK, RowTable, row_steps


def operator(
    *, d_model: int, base: float, offsets: Positions, stacked: bool, layout: str, dtype: DType
) -> Document:
    """Describe the matrix M_k, independent of pos, with PE(pos + k) = M_k · PE(pos).

    Args:
        d_model: channels, an even number.
        base: as in the encoding.
        offsets: the k's.
        stacked: whether the shape is (n, d_model, d_model), or, for one offset, (d_model, d_model).
        layout: that of the encoding, ``interleaved`` or ``concatenated``.
        dtype: a real element type; each element is within 5·2^-53 before it is rounded to it.
    """
    parameters: dict[str, ParameterValue] = {"d_model": d_model, "base": base, "layout": layout}
    first = offsets.runs[0].first
    parameters |= {"offsets": str(offsets)} if stacked else {"offset": first}
    shape = (*((offsets.count,) if stacked else ()), d_model, d_model)
    table = OperatorTable(geometric(d_model, base), offsets, layout, dtype, shape)
    axes = (*(("offset",) if stacked else ()), "to channel", "from channel")
    return Document("relative", parameters, {"relative": table}, axes=axes)


@dataclass(frozen=True, eq=False)
class OperatorTable(RowTable):
    """The shift operators of offsets, row under row.

    In the plane of the channels (sin pω, cos pω) an offset k is the rotation

        sin((p + k)ω) = cos(kω)·sin(pω) + sin(kω)·cos(pω)
        cos((p + k)ω) = −sin(kω)·sin(pω) + cos(kω)·cos(pω)
    """

    rule: Geometric
    offsets: Positions
    layout: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def setup_work(self) -> int:
        """Its frequencies."""
        return FREQUENCY_WORK * self.rule.count

    @property
    def row_width(self) -> int:
        """Channels of the encoding."""
        return self.rule.dim

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
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


def similarity(*, d_model: int, base: float, offsets: Positions, dtype: DType) -> Document:
    """Describe PE(p)·PE(p + k) = Σ cos(kω_i), which depends on the offset k only.

    Args:
        d_model: channels, an even number; at k = 0 the similarity is d_model/2.
        base: as in the encoding.
        offsets: the k's, one element of the table each.
        dtype: a real element type. With n = d_model/2 terms the error before rounding to it is
            below n·(5 + 2·⌈log2 n⌉)·2^-53: 5 for each term, and one rounding of at most n for
            each addition that a term goes through, two a halving.
    """
    parameters: dict[str, ParameterValue] = {
        "d_model": d_model,
        "base": base,
        "offsets": str(offsets),
    }
    table = SimilarityTable(geometric(d_model, base), offsets, dtype)
    arrays = {"similarity": table}
    return Document("relative-similarity", parameters, arrays, axes=("offset",))


@dataclass(frozen=True, eq=False)
class SimilarityTable(RowTable):
    """Sums of cosines over all frequencies, one for each offset."""

    rule: Geometric
    offsets: Positions
    dtype: DType

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """One element for each offset."""
        return (self.offsets.count,)

    @property
    def work_per_element(self) -> int:
        """As many cosines as there are frequencies."""
        return self.rule.count

    @property
    def setup_work(self) -> int:
        """Its frequencies."""
        return FREQUENCY_WORK * self.rule.count

    @property
    def row_width(self) -> int:
        """A row is one sum."""
        return 1

    def fill(self, first: int, rows: Elements) -> None:
        """Compute sums from the one numbered first on."""
        for part in row_steps(len(rows), self.rule.count):
            offsets = self.offsets.at(first + part.start, first + part.stop)
            sums = pairwise_sum(component(self.rule, "cos", offsets))
            round_into(sums, rows[part, 0], self.dtype)


_OFFSETS = "Offsets k: integers and half-open ranges."


class OperatorParameters(ArrayParameters):
    """Parameters of the shift operator."""

    d_model: Integer = d_model_field(even=True)
    offset: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="The offset k of one operator, (d_model, d_model); or give offsets.",
        examples=[3],
    )
    offsets: PositionList | None = Field(default=None, description=_OFFSETS, examples=["-3:4"])
    base: Real = base_field()
    layout: AbsoluteLayout = absolute_layout_field()
    dtype: RealDType = dtype_field()

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the stack."""
        return {"offset": "give offset in place of offsets"}


class SimilarityParameters(ArrayParameters):
    """Parameters of the similarity."""

    d_model: Integer = d_model_field(even=True)
    offsets: PositionList = Field(description=_OFFSETS, examples=["0:4"])
    base: Real = base_field()
    dtype: RealDType = dtype_field()


def _operator(parameters: OperatorParameters) -> Document:
    if (parameters.offset is None) == (parameters.offsets is None):
        rule = "give offset for one operator or offsets for several, and not both"
        raise impossible("offset", parameters.offset, rule)
    stacked = parameters.offsets is not None
    return operator(
        d_model=parameters.d_model,
        base=parameters.base,
        offsets=parameters.offsets or Positions.contiguous(parameters.offset or 0, 1),
        stacked=stacked,
        layout=parameters.layout,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _similarity(parameters: SimilarityParameters) -> Document:
    return similarity(
        d_model=parameters.d_model,
        base=parameters.base,
        offsets=parameters.offsets,
        dtype=REAL_DTYPES[parameters.dtype],
    )


OPERATOR = Resource(
    path="/relative",
    operation="Relative",
    summary="The matrix M_k with PE(pos + k) = M_k · PE(pos)",
    parameters=OperatorParameters,
    document=_operator,
    example="d_model=4&offset=1&base=100",
)
SIMILARITY = Resource(
    path="/relative/similarity",
    operation="RelativeSimilarity",
    summary="PE(p) · PE(p + k) as a function of k",
    parameters=SimilarityParameters,
    document=_similarity,
    example="d_model=4&offsets=0:4&base=100",
)
