"""``/relative/shaw``: clipped distances, and the embeddings that they select."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Integer
from service.routes.gathered import agreed, check_fits, wrong_rows
from service.routes.parameters import IndexDType, index_dtype_field
from service.routes.query_key import QueryKeyParameters
from service.tables.buckets import Clipped, buckets, looked_up
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES
from service.tables.gathered import embeddings
from service.tables.table import StoredTable

# Twice as many are still a signed integer of 64 bits.
_MAX_CLIPPED = 2**61


class ShawParameters(ArrayParameters, QueryKeyParameters):
    """Parameters of clipped distances."""

    max_relative_position: Integer = Field(
        ge=0,
        le=_MAX_CLIPPED,
        description="The distance K beyond which all distances count as K.",
        examples=[2],
    )
    dtype: IndexDType = index_dtype_field()


class ShawEmbeddingParameters(QueryKeyParameters):
    """Parameters of embeddings of clipped distances."""

    max_relative_position: Integer | None = Field(
        default=None,
        ge=0,
        description="The distance K; (rows - 1)/2 of the array unless given.",
        examples=[1],
    )


def _index(parameters: ShawParameters) -> Document:
    rule, pairs = Clipped(parameters.max_relative_position), parameters.pairs()
    dtype = INDEX_DTYPES[parameters.dtype]
    check_fits(dtype, rule.largest(pairs.farthest))
    return buckets("relative-shaw", "index", rule, pairs, dtype)


def _embeddings(parameters: ShawEmbeddingParameters, arrays: Mapping[str, StoredTable]) -> Document:
    weight = arrays["weight"]
    rows = weight.shape[0]
    if rows % 2 == 0:
        raise wrong_rows(rows, "an odd number, 2·max_relative_position + 1")
    clipped = agreed("max_relative_position", parameters.max_relative_position, rows // 2)
    rule, pairs = Clipped(clipped), parameters.pairs()
    return Document(
        "relative-shaw-embeddings",
        {**rule.parameters(), **pairs.parameters()},
        {"embeddings": embeddings(weight, looked_up(rule, pairs))},
        axes=("query", "key", "channel"),
        states_axes=True,
    )


INDEX = Resource(
    path="/relative/shaw",
    operation="RelativeShaw",
    summary="Shaw's clipped distance of every query and key",
    parameters=ShawParameters,
    document=_index,
    example="query_len=4&key_len=6&max_relative_position=2",
)
EMBEDDINGS = Composition(
    path="/relative/shaw/embeddings",
    operation="RelativeShawEmbeddings",
    summary="Shaw's embedding of every query and key, from its learned table",
    parameters=ShawEmbeddingParameters,
    inputs=(
        InputArray(
            name="weight",
            description="the learned table, (2·max_relative_position + 1, channels)",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]],
        ),
    ),
    document=_embeddings,
    example="query_len=2&key_len=3",
)
