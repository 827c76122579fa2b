"""``/relative/xlnet``: the sinusoids of XLNet's relative positions."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import (
    RealDType,
    base_field,
    d_model_field,
    dtype_field,
    impossible,
)
from service.routes.relative_transformer_xl import clamp_len_field, relative_key_len_field
from service.tables import relative_sines
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_LENGTH
from service.tables.relative_sines import AttentionType


class XLNetParameters(ArrayParameters):
    """Parameters of the sinusoids of XLNet."""

    d_model: Integer = d_model_field()
    query_len: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="Number of queries: positions end with 1 - query_len. Required with "
        "attn_type=bi; with uni there is none.",
        examples=[2],
    )
    key_len: Integer = relative_key_len_field()
    attn_type: AttentionType = Field(
        default="bi",
        description="Attention to both sides, or to keys on the left only: positions end with 0.",
        examples=["bi"],
    )
    bi_data: Boolean = Field(
        default=False,
        description="Add a second direction, of the opposite positions: (rows, 2, channels).",
        examples=[False],
    )
    clamp_len: Integer = clamp_len_field()
    base: Real = base_field()
    dtype: RealDType = dtype_field()

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the second direction."""
        return {"direction": "leave out bi_data"}


def _xlnet(parameters: XLNetParameters) -> Document:
    if parameters.attn_type == "bi" and parameters.query_len is None:
        raise impossible("query_len", None, "query_len is required with attn_type=bi")
    if parameters.attn_type == "uni" and parameters.query_len is not None:
        rule = "query_len does not go with attn_type=uni, whose positions end with 0"
        raise impossible("query_len", parameters.query_len, rule)
    return relative_sines.xlnet(
        d_model=parameters.d_model,
        base=parameters.base,
        query_len=parameters.query_len,
        key_len=parameters.key_len,
        attn_type=parameters.attn_type,
        bi_data=parameters.bi_data,
        clamp_len=parameters.clamp_len,
        dtype=REAL_DTYPES[parameters.dtype],
    )


XLNET = Resource(
    path="/relative/xlnet",
    operation="RelativeXLNet",
    summary="The sinusoids of XLNet's relative positions, the farthest to the left first",
    parameters=XLNetParameters,
    document=_xlnet,
    example="d_model=4&query_len=2&key_len=3&base=100",
)
