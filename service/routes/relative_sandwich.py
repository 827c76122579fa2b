"""``/relative/sandwich``: the similarity of sinusoidal encodings as a bias."""

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import RealDType, dtype_field, num_heads_field
from service.routes.query_key import HeadParameters, QueryKeyParameters, causal_field
from service.tables import sandwich
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_CHANNELS


class SandwichParameters(ArrayParameters, QueryKeyParameters, HeadParameters):
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
    causal: Boolean = causal_field()
    dtype: RealDType = dtype_field()


def _sandwich(parameters: SandwichParameters) -> Document:
    heads = parameters.num_heads
    rule = sandwich.HalfFrequencies(parameters.base, parameters.head_dim)
    return sandwich.bias(
        sandwich=sandwich.Sandwich(rule, heads, parameters.causal),
        pairs=parameters.pairs(),
        head=parameters.checked_head(heads),
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
