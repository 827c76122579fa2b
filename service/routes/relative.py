"""``/relative``: the shift operator of the sinusoidal encoding, and the similarity of positions."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Integer, Real
from service.routes.parameters import (
    AbsoluteLayout,
    PositionList,
    RealDType,
    absolute_layout_field,
    base_field,
    d_model_field,
    dtype_field,
    impossible,
)
from service.tables import relative
from service.tables.angle import MAX_POSITION
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.positions import Positions

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
    return relative.operator(
        d_model=parameters.d_model,
        base=parameters.base,
        offsets=parameters.offsets or Positions.contiguous(parameters.offset or 0, 1),
        stacked=stacked,
        layout=parameters.layout,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _similarity(parameters: SimilarityParameters) -> Document:
    return relative.similarity(
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
