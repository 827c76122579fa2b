"""Integers between which the powers of a ratio lie, decided by comparing integers.

Numbers of buckets of distances: T5's and DeBERTa's by logarithms, Shaw's by clipping.

Libraries take the logarithms in float32, where the last bit decides at the edge of a bucket. Here
each edge is an integer, found by comparing integers, and so is every number.

``/relative/t5``: T5's buckets of distances, and the biases that they select.

``/relative/deberta``: DeBERTa's buckets of distances.

``/relative/shaw``: clipped distances, and the embeddings that they select.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice, takewhile
from math import gcd, log, log1p
from typing import Protocol

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition, Resource
from service.encodings.family import InputArray
from service.encodings.fields import (
    ArrayParameters,
    IndexDType,
    Parameters,
    impossible,
    index_dtype_field,
)
from service.encodings.relative.distance import (
    DistanceFunction,
    GatheredParameters,
    QueryKey,
    QueryKeyParameters,
    RelativeTable,
    agreed,
    check_fits,
    wrong_rows,
)
from service.grammar import Boolean, Integer
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import INDEX_DTYPES, INT64, DType
from service.numerics.limits import MAX_CHANNELS, MAX_LENGTH
from service.numerics.phase import Int64s, exact_context
from service.numerics.tables import StoredTable, gather_rows

# A power within this of an integer is compared with it exactly. Its own error, of at most 2^18
# multiplications in 80 digits of numbers below 10^19, is below 10^-50.
_NEAR = Decimal("1e-40")

# Sets of edges that are kept: 1 MiB each at most.
_KEPT = 16


@lru_cache(maxsize=_KEPT)
def ceilings(low: int, high: int, steps: int) -> Int64s:
    """Give the first integer from each low·(high/low)^(j/steps) on, 0 < j < steps."""
    powers = islice(_powers(low, high, steps), 1, steps)
    return np.array([whole + (not is_whole) for whole, is_whole in powers], dtype=np.int64)


@lru_cache(maxsize=_KEPT)
def floors(low: int, high: int, steps: int, limit: int) -> Int64s:
    """Give the last integer up to each low·(high/low)^(j/steps), 0 ≤ j, below a limit."""
    powers = _powers(low, high, steps) if steps else ()
    return np.array(list(takewhile(limit.__gt__, (whole for whole, _ in powers))), dtype=np.int64)


def _powers(low: int, high: int, steps: int) -> Iterator[tuple[int, bool]]:
    """Cut each low·(high/low)^(j/steps), j = 0, 1, …, to an integer; tell whether it is one."""
    context = exact_context()
    whole_growth = context.ln(context.divide(Decimal(high), Decimal(low)))
    growth = context.exp(context.divide(whole_growth, Decimal(steps)))
    power = Decimal(low)
    for step in count():
        near = int(context.to_integral_value(power))
        if context.subtract(power, Decimal(near)).copy_abs() > _NEAR:
            yield int(power), False
        else:
            order = _compared(Fraction(near, low), Fraction(high, low), step, steps)
            yield near - (order > 0), order == 0
        power = context.multiply(power, growth)


def _compared(ratio: Fraction, growth: Fraction, step: int, steps: int) -> int:
    """Tell on which side of growth^(step/steps) a ratio is, by integers alone: -1, 0 or 1."""
    shared = gcd(step, steps)
    left, right = ratio ** (steps // shared), growth ** (step // shared)
    return (left > right) - (left < right)


MAX_EDGES = 2**17
"""Edges of buckets, as far as a table reaches: they take a third of a second to find, once."""


class BucketRule(DistanceFunction, Protocol):
    """A number for every distance."""

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""


@dataclass(frozen=True)
class T5Buckets:
    """T5's buckets: near distances have one each, far ones share those that grow as they do.

    With n buckets for a direction, h = ⌊n/2⌋ and the largest distance D > h, a distance m is in
    bucket m if it is below h, and otherwise in

        min(h + ⌊ln(m/h) / ln(D/h) · (n − h)⌋, n − 1),

    that is h + j for the largest j < n − h with (m/h)^(n−h) ≥ (D/h)^j. m is |key − query|, and keys
    after the query have the second half of the buckets; or, where buckets are for one direction
    only, m is query − key, and 0 for keys after the query.

    Source: "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"
    (Raffel et al. 2020); mesh_tensorflow, and transformers 5.23.0 ``_relative_position_bucket``.

    Attributes:
        num_buckets: of both directions together.
        max_distance: D, from which on all distances share the last bucket.
        bidirectional: whether keys after the query have buckets of their own.
    """

    num_buckets: int
    max_distance: int
    bidirectional: bool

    @property
    def of_direction(self) -> int:
        """How many buckets there are for a direction; of an odd number for both, one is unused."""
        return self.num_buckets // 2 if self.bidirectional else self.num_buckets

    @property
    def single(self) -> int:
        """How many distances have a bucket of their own."""
        return self.of_direction // 2

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
        }

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Give the bucket of each distance key − query, the same for every head."""
        far = np.abs(distances) if self.bidirectional else np.maximum(-distances, 0)
        shared = self.of_direction - self.single
        edges = ceilings(self.single, self.max_distance, shared)
        buckets = np.minimum(far, self.single) + np.searchsorted(edges, far, side="right")
        if self.bidirectional:
            buckets += self.of_direction * (distances > 0)
        return np.asarray(buckets)


@dataclass(frozen=True)
class DebertaBuckets:
    """DeBERTa-v2's buckets, numbered by sign: positive where the query comes after the key.

    With mid = ⌊bucket_size/2⌋ and P = max_position − 1 > mid, a distance r = query − key up to mid
    in size is its own bucket, and any other is in

        sign(r) · (⌈ln(|r|/mid) / ln(P/mid) · (mid − 1)⌉ + mid),

    where the ceiling is the smallest j with (|r|/mid)^(mid−1) ≤ (P/mid)^j. Nothing is clipped:
    |r| > P gives numbers beyond bucket_size − 1.

    Source: "DeBERTa: Decoding-enhanced BERT with Disentangled Attention" (He et al. 2021);
    transformers 5.23.0 ``make_log_bucket_position``.

    Attributes:
        bucket_size: twice the largest distance that is its own bucket.
        max_position: one more than the distance P whose bucket is 2·mid − 1.
        farthest: the largest distance that is asked for.
    """

    bucket_size: int
    max_position: int
    farthest: int

    @property
    def mid(self) -> int:
        """The largest distance that is its own bucket."""
        return self.bucket_size // 2

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {"bucket_size": self.bucket_size, "max_position": self.max_position}

    @property
    def limit(self) -> int:
        """A power of 2 past that distance, so that tables of other lengths share their edges."""
        return 1 << self.farthest.bit_length()

    def edge_count(self) -> float:
        """Estimate how many edges of buckets there are up to the limit."""
        growth = log1p((self.max_position - 1 - self.mid) / self.mid)
        return (self.mid - 1) * max(0.0, log(self.limit / self.mid)) / growth

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Give the bucket of each distance key − query, the same for every head."""
        far = np.abs(distances)
        edges = floors(self.mid, self.max_position - 1, self.mid - 1, self.limit)
        buckets = np.minimum(far, self.mid) + np.searchsorted(edges, far, side="left")
        return np.asarray(-np.sign(distances) * buckets)


@dataclass(frozen=True)
class Unbucketed:
    """DeBERTa's distances without buckets: query − key."""

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {"bucket_size": -1}

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Give each distance key − query with the other sign."""
        return -distances


@dataclass(frozen=True)
class Clipped:
    """Shaw's rows of a table of 2K + 1 embeddings: min(max(key − query, −K), K) + K.

    Source: "Self-Attention with Relative Position Representations" (Shaw et al. 2018);
    tensor2tensor 1.15.7 ``_generate_relative_positions_matrix``.

    Attributes:
        max_relative_position: K, the largest distance that has an embedding of its own.
    """

    max_relative_position: int

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {"max_relative_position": self.max_relative_position}

    def largest(self, farthest: int) -> int:
        """Bound the numbers of distances up to one."""
        return self.max_relative_position + min(self.max_relative_position, farthest)

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Give the row of each distance key − query, the same for every head."""
        most = np.int64(self.max_relative_position)
        return np.asarray(np.clip(distances, -most, most) + most)


def buckets(kind: str, name: str, rule: BucketRule, pairs: QueryKey, dtype: DType) -> Document:
    """Describe the numbers of all pairs of queries and keys, shape (queries, keys).

    Args:
        kind: the kind of table.
        name: what the numbers are.
        rule: the number of a distance.
        pairs: queries and keys.
        dtype: an integer type that holds the largest of them.
    """
    parameters = {**rule.parameters(), **pairs.parameters()}
    table = RelativeTable(rule, pairs, dtype)
    return Document(kind, parameters, {name: table}, axes=("query", "key"), states_axes=True)


def looked_up(rule: BucketRule, pairs: QueryKey) -> RelativeTable:
    """Give the numbers of all pairs as places in an array."""
    return RelativeTable(rule, pairs, INT64)


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


T5_BUCKETS = Resource(
    path="/relative/t5",
    operation="RelativeT5",
    summary="T5's bucket of every query and key",
    parameters=T5Parameters,
    document=_buckets,
    example="query_len=4&key_len=6&num_buckets=8&max_distance=20",
)
T5_BIAS = Composition(
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


def _deberta_document(parameters: DebertaParameters) -> Document:
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


DEBERTA_BUCKETS = Resource(
    path="/relative/deberta",
    operation="RelativeDeberta",
    summary="DeBERTa's bucket of every query and key",
    parameters=DebertaParameters,
    document=_deberta_document,
    example="query_len=3&key_len=9&bucket_size=4&max_position=12",
)


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
        {"embeddings": gather_rows(weight, looked_up(rule, pairs))},
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
