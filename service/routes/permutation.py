"""``/rope/permutation``: the order of weights whose rotation has another layout."""

from typing import Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Integer
from service.routes.parameters import impossible
from service.routes.rope_widths import WidthParameters, paired, rotary_offset_field
from service.tables import permutation
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES, INT32
from service.tables.limits import MAX_CHANNELS

_MAX_INT32_ROWS = 2**31


class PermutationParameters(ArrayParameters, WidthParameters):
    """Parameters of an index vector of weights."""

    rotary_offset: Integer = rotary_offset_field()
    layout: Literal["interleaved", "half"] = Field(
        default="interleaved",
        description="Layout of the weights there are: interleaved, as Meta's, or half, as those of "
        "transformers.",
        examples=["interleaved"],
    )
    output_layout: Literal["interleaved", "half"] | None = Field(
        default=None,
        description="Layout of the weights wanted; the other one unless given.",
        examples=["half"],
    )
    num_attention_heads: Integer = Field(
        default=1, ge=1, le=MAX_CHANNELS, description="Heads of queries.", examples=[32]
    )
    num_key_value_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Heads of keys, for two vectors q and k.",
        examples=[8],
    )
    part: Literal["q", "k"] | None = Field(
        default=None, description="Answer one of the two vectors alone.", examples=["k"]
    )
    dtype: Literal["int32", "int64"] = Field(
        default="int32", description="Type of the elements.", examples=["int32"]
    )

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


def _permutation(parameters: PermutationParameters) -> Document:
    order = _order(parameters)
    heads = max(parameters.num_attention_heads, parameters.num_key_value_heads or 1)
    dtype = INDEX_DTYPES[parameters.dtype]
    if dtype is INT32 and heads * order.head_dim > _MAX_INT32_ROWS:
        raise impossible("dtype", "int32", "so many rows need dtype=int64")
    return permutation.permutation(
        order=order,
        query_heads=parameters.num_attention_heads,
        key_heads=parameters.num_key_value_heads,
        dtype=dtype,
    )


def _order(parameters: PermutationParameters) -> permutation.HeadOrder:
    head_dim, offset = parameters.head_dim, parameters.rotary_offset
    if head_dim is None:
        raise impossible("head_dim", None, "head_dim is required")
    if offset and offset > head_dim - 2:
        rule = f"rotary_offset must leave a pair of the {head_dim} channels of a head"
        raise impossible("rotary_offset", offset, rule)
    named = parameters.rotary_dim or parameters.partial_rotary_factor
    if named is None:
        origin = ("rotary_offset", offset) if offset else ("head_dim", head_dim)
        rotary_dim = paired(*origin, head_dim - offset)
    else:
        rotary_dim = parameters.turning_channels(head_dim)
    assert rotary_dim is not None
    if offset + rotary_dim > head_dim:
        rule = f"{rotary_dim} rotary channels from {offset} on do not fit into {head_dim}"
        raise impossible("rotary_offset", offset, rule)
    other = {"interleaved": "half", "half": "interleaved"}[parameters.layout]
    layouts = parameters.layout, parameters.output_layout or other
    return permutation.HeadOrder(head_dim, rotary_dim, offset, *layouts)


PERMUTATION = Resource(
    path="/rope/permutation",
    operation="RopePermutation",
    summary="The order in which weights of queries and keys have the other rotary layout",
    parameters=PermutationParameters,
    document=_permutation,
    example="head_dim=8&num_attention_heads=2",
)
