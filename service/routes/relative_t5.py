"""``/relative/t5``: T5's buckets of distances, and the biases that they select."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.delivery.parameters import Parameters
from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Boolean, Integer
from service.routes.gathered import GatheredParameters, agreed, wrong_rows
from service.routes.parameters import IndexDType, impossible, index_dtype_field
from service.routes.query_key import QueryKeyParameters
from service.tables.buckets import T5Buckets, buckets, looked_up
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES
from service.tables.limits import MAX_CHANNELS, MAX_LENGTH
from service.tables.table import StoredTable


class BucketParameters(Parameters):
    """How far buckets reach, and in which directions."""

    max_distance: Integer = Field(
        default=128,
        ge=1,
        le=MAX_LENGTH,
        description="The distance from which on all share the last bucket.",
        examples=[20],
    )
    bidirectional: Boolean = Field(
        default=True,
        description="Whether keys after the query have the second half of the buckets; in a "
        "decoder (false) they are all in bucket 0.",
        examples=[True],
    )

    def buckets_of(self, num_buckets: int) -> T5Buckets:
        """Give the rule of so many buckets; raises InvalidParameters where there is none."""
        rule = T5Buckets(num_buckets, self.max_distance, self.bidirectional)
        if self.max_distance <= rule.single:
            detail = f"max_distance must be more than {rule.single}, where shared buckets begin"
            raise impossible("max_distance", self.max_distance, detail)
        return rule

    @property
    def fewest_buckets(self) -> int:
        """How many buckets there have to be: two for each direction."""
        return 4 if self.bidirectional else 2


class T5Parameters(ArrayParameters, QueryKeyParameters, BucketParameters):
    """Parameters of T5's buckets."""

    num_buckets: Integer = Field(
        default=32,
        ge=2,
        le=MAX_CHANNELS,
        description="Number of buckets, of both directions together; at least 4 for two.",
        examples=[8],
    )
    dtype: IndexDType = index_dtype_field()


class T5BiasParameters(QueryKeyParameters, BucketParameters, GatheredParameters):
    """Parameters of T5's biases."""

    num_buckets: Integer | None = Field(
        default=None,
        ge=2,
        le=MAX_CHANNELS,
        description="Number of buckets; the rows of the array unless given.",
        examples=[8],
    )


def _buckets(parameters: T5Parameters) -> Document:
    fewest, given = parameters.fewest_buckets, parameters.num_buckets
    if given < fewest:
        detail = f"num_buckets must be at least {fewest} where buckets are for both directions"
        raise impossible("num_buckets", given, detail)
    rule, dtype = parameters.buckets_of(given), INDEX_DTYPES[parameters.dtype]
    return buckets("relative-t5", "bucket", rule, parameters.pairs(), dtype)


def _bias(parameters: T5BiasParameters, arrays: Mapping[str, StoredTable]) -> Document:
    weight = arrays["weight"]
    rows = agreed("num_buckets", parameters.num_buckets, weight.shape[0])
    if not parameters.fewest_buckets <= rows <= MAX_CHANNELS:
        raise wrong_rows(rows, f"{parameters.fewest_buckets} to {MAX_CHANNELS}, one a bucket")
    rule, pairs = parameters.buckets_of(rows), parameters.pairs()
    described = {**rule.parameters(), **pairs.parameters()}
    return parameters.of_heads("relative-t5-bias", described, weight, looked_up(rule, pairs))


BUCKETS = Resource(
    path="/relative/t5",
    operation="RelativeT5",
    summary="T5's bucket of every query and key",
    parameters=T5Parameters,
    document=_buckets,
    example="query_len=4&key_len=6&num_buckets=8&max_distance=20",
)
BIAS = Composition(
    path="/relative/t5/bias",
    operation="RelativeT5Bias",
    summary="T5's bias of every head, query and key, from its learned table",
    parameters=T5BiasParameters,
    inputs=(
        InputArray(
            name="weight",
            description="the learned table, (num_buckets, heads)",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0], [-0.75, 4.0]],
        ),
    ),
    document=_bias,
    example="query_len=2&key_len=3&max_distance=20&head=0",
)
