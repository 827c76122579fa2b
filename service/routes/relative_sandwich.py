"""``/relative/sandwich``: the similarity of sinusoidal encodings as a bias."""

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import RealDType, dtype_field, impossible, num_heads_field
from service.routes.query_key import QueryKeyParameters
from service.tables import sandwich
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_CHANNELS


class SandwichParameters(ArrayParameters, QueryKeyParameters):
    """Parameters of Sandwich."""

    num_heads: Integer = num_heads_field()
    head_dim: Integer = Field(
        ge=2,
        le=MAX_CHANNELS,
        multiple_of=2,
        description="Channels of a head, even: half as many frequencies. NeMo's hidden_size is "
        "this times num_attention_heads.",
        examples=[64],
    )
    base: Real = Field(
        default=10000.0,
        ge=1,
        le=sandwich.MAX_BASE,
        description="Base n of the frequencies n^(-2k/head_dim), k from 1.",
        examples=[10000],
    )
    causal: Boolean = Field(
        default=True,
        description="Whether keys after the query have the bias 0 of distance 0; they are not "
        "masked. Otherwise they have the bias of |d|.",
        examples=[False],
    )
    head: Integer | None = Field(
        default=None,
        ge=0,
        description="One head alone, counted from 0: shape (query, key). All unless given.",
        examples=[0],
    )
    dtype: RealDType = dtype_field()


def _sandwich(parameters: SandwichParameters) -> Document:
    heads, head = parameters.num_heads, parameters.head
    if head is not None and head >= heads:
        raise impossible("head", head, f"head must be less than the {heads} there are")
    rule = sandwich.HalfFrequencies(parameters.base, parameters.head_dim)
    return sandwich.bias(
        sandwich=sandwich.Sandwich(rule, heads, parameters.causal),
        pairs=parameters.pairs(),
        head=head,
        dtype=REAL_DTYPES[parameters.dtype],
    )


SANDWICH = Resource(
    path="/relative/sandwich",
    operation="RelativeSandwich",
    summary="Sandwich's bias of every head, query and key",
    parameters=SandwichParameters,
    document=_sandwich,
    example="num_heads=4&head_dim=16&head=0&query_len=4",
)
