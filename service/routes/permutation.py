"""``/rope/permutation``: the order of weights whose rotation has another layout."""

from typing import Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Integer, Real
from service.routes.parameters import MAX_CHANNELS, impossible
from service.tables import permutation
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES, INT32

_MAX_HEADS = 65_536
_MAX_INT32_ROWS = 2**31


class PermutationParameters(ArrayParameters):
    """Parameters of an index vector of weights."""

    head_dim: Integer = Field(
        ge=2, le=MAX_CHANNELS, description="Channels of a head.", examples=[128]
    )
    rotary_dim: Integer | None = Field(
        default=None,
        ge=2,
        le=MAX_CHANNELS,
        multiple_of=2,
        description="Channels of a head that turn; all unless given.",
        examples=[64],
    )
    partial_rotary_factor: Real | None = Field(
        default=None,
        gt=0,
        le=1,
        description="In place of rotary_dim: its share of head_dim, cut to an integer.",
        examples=[0.5],
    )
    rotary_offset: Integer = Field(
        default=0,
        ge=0,
        le=MAX_CHANNELS,
        description="Channels of a head before the first that turns.",
        examples=[0],
    )
    layout: Literal["interleaved", "half"] = Field(
        default="interleaved",
        description="Layout of the weights there are: interleaved, as Meta's, or half, as those of "
        "transformers.",
        examples=["interleaved"],
    )
    output_layout: Literal["interleaved", "half"] = Field(
        default="half", description="Layout of the weights wanted.", examples=["half"]
    )
    num_attention_heads: Integer = Field(
        default=1, ge=1, le=_MAX_HEADS, description="Heads of queries.", examples=[32]
    )
    num_key_value_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=_MAX_HEADS,
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
    heads = max(parameters.num_attention_heads, parameters.num_key_value_heads or 1)
    dtype = INDEX_DTYPES[parameters.dtype]
    if dtype is INT32 and heads * parameters.head_dim > _MAX_INT32_ROWS:
        raise impossible("dtype", "int32", "so many rows need dtype=int64")
    order = permutation.HeadOrder(
        parameters.head_dim,
        _rotary_dim(parameters),
        parameters.rotary_offset,
        parameters.layout,
        parameters.output_layout,
    )
    return permutation.permutation(
        order=order,
        query_heads=parameters.num_attention_heads,
        key_heads=parameters.num_key_value_heads,
        dtype=dtype,
    )


def _rotary_dim(parameters: PermutationParameters) -> int:
    head_dim, share = parameters.head_dim, parameters.partial_rotary_factor
    rotary_dim, name = parameters.rotary_dim or head_dim, "rotary_dim"
    if share is not None:
        if parameters.rotary_dim is not None:
            rule = "partial_rotary_factor does not go with rotary_dim"
            raise impossible("partial_rotary_factor", share, rule)
        rotary_dim, name = int(head_dim * share), "partial_rotary_factor"
    elif parameters.rotary_dim is None:
        rotary_dim = head_dim - parameters.rotary_offset
        name = "rotary_offset" if parameters.rotary_offset else "head_dim"
    if rotary_dim < 2 or rotary_dim % 2:
        rule = f"channels turn in pairs: {name} gives {rotary_dim}, not an even number from 2 on"
        raise impossible(name, getattr(parameters, name), rule)
    if rotary_dim + parameters.rotary_offset > head_dim:
        rule = f"{rotary_dim} rotary channels do not fit into {head_dim}"
        name = "rotary_offset" if parameters.rotary_offset else name
        raise impossible(name, getattr(parameters, name), rule)
    return rotary_dim


PERMUTATION = Resource(
    path="/rope/permutation",
    operation="RopePermutation",
    summary="The order in which weights of queries and keys have the other rotary layout",
    parameters=PermutationParameters,
    document=_permutation,
    example="head_dim=8&num_attention_heads=2",
)
