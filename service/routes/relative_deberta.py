"""``/relative/deberta``: DeBERTa's buckets of distances."""

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Integer
from service.routes.gathered import check_fits
from service.routes.parameters import IndexDType, impossible, index_dtype_field
from service.routes.query_key import QueryKeyParameters
from service.tables.buckets import MAX_EDGES, BucketRule, DebertaBuckets, Unbucketed, buckets
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES
from service.tables.limits import MAX_CHANNELS, MAX_LENGTH

_NO_BUCKETS = -1


class DebertaParameters(ArrayParameters, QueryKeyParameters):
    """Parameters of DeBERTa's buckets."""

    bucket_size: Integer = Field(
        default=256,
        ge=_NO_BUCKETS,
        le=MAX_CHANNELS,
        description="position_buckets of a config: distances up to half of it are their own "
        "buckets. At least 2, or -1 for distances without buckets.",
        examples=[4],
    )
    max_position: Integer = Field(
        default=512,
        ge=_NO_BUCKETS,
        le=MAX_LENGTH,
        description="max_relative_positions of a config, or its max_position_embeddings where that "
        "is -1; -1 for distances without buckets.",
        examples=[12],
    )
    dtype: IndexDType = index_dtype_field()


def _buckets(parameters: DebertaParameters) -> Document:
    pairs, dtype = parameters.pairs(), INDEX_DTYPES[parameters.dtype]
    rule: BucketRule = Unbucketed()
    if _NO_BUCKETS in {parameters.bucket_size, parameters.max_position}:
        _check_unsized(parameters)
        check_fits(dtype, pairs.farthest)
    else:
        rule = _rule(parameters, pairs.farthest)
    return buckets("relative-deberta", "bucket", rule, pairs, dtype)


def _check_unsized(parameters: DebertaParameters) -> None:
    """Refuse the size of buckets that there are none of."""
    for name, other in (("bucket_size", "max_position"), ("max_position", "bucket_size")):
        value = getattr(parameters, name)
        if name in parameters.model_fields_set and value != _NO_BUCKETS:
            rule = f"{name} does not go with {other}=-1, which is for distances without buckets"
            raise impossible(name, value, rule)


def _rule(parameters: DebertaParameters, farthest: int) -> DebertaBuckets:
    rule = DebertaBuckets(parameters.bucket_size, parameters.max_position, farthest)
    if rule.mid < 1:
        detail = "bucket_size must be at least 2, or -1 for distances without buckets"
        raise impossible("bucket_size", rule.bucket_size, detail)
    if rule.max_position - 1 <= rule.mid:
        detail = f"max_position must be at least {rule.mid + 2}, as bucket_size has it"
        raise impossible("max_position", rule.max_position, detail)
    if rule.edge_count() > MAX_EDGES:
        detail = f"more than {MAX_EDGES} buckets reach that far: max_position must be larger"
        raise impossible("max_position", rule.max_position, detail)
    return rule


BUCKETS = Resource(
    path="/relative/deberta",
    operation="RelativeDeberta",
    summary="DeBERTa's bucket of every query and key",
    parameters=DebertaParameters,
    document=_buckets,
    example="query_len=3&key_len=9&bucket_size=4&max_position=12",
)
