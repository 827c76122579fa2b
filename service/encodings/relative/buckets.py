"""Integers for distances: T5's and DeBERTa's logarithmic buckets, Shaw's clipped distances.

Libraries compute the logarithms in float32, where rounding may put a distance at the edge of a
bucket into the wrong one. Here integers are compared to find each edge, so every bucket is exact.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count, islice, takewhile
from math import gcd, log, log1p
from typing import Annotated, ClassVar

import numpy as np

from service.encodings.family import (
    ComposedFamily,
    IndexDType,
    InputArray,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import Meaning
from service.encodings.relative.distance import (
    DistanceTableFamily,
    GatheredBias,
    QueryKeyParameters,
    check_fits,
    checked_size,
    distance_lengths,
    wrong_rows,
)
from service.grammar import Boolean, Integer
from service.numerics.limits import MAX_CHANNELS, MAX_LENGTH
from service.numerics.phase import Int64s, exact_context
from service.numerics.tables import Document, ParameterValue, StoredTable, Table, gather_rows

# A power this close to an integer is compared with it exactly. The error of the power, after at
# most 2^18 multiplications in 80 digits of numbers below 10^19, is below 10^-50.
_NEAR = Decimal("1e-40")

# This many arrays of edges are cached, each of at most 1 MiB.
_CACHED_SETS = 16

MAX_EDGES = 2**17
"""The most bucket edges that a table may need; to compute them takes a third of a second, once."""

_MaxDistance = Annotated[
    Integer,
    about("The distance from which all distances share the last bucket.", 20, ge=2, le=MAX_LENGTH),
]
_Bidirectional = Annotated[
    Boolean,
    about(
        "Whether keys after the query have the second half of the buckets; with false (decoders) "
        "they are all in bucket 0.",
        True,
    ),
]


@lru_cache(maxsize=_CACHED_SETS)
def ceilings(low: int, high: int, steps: int) -> Int64s:
    """Return the least integer ≥ low·(high/low)^(j/steps) for each j = 1 … steps − 1."""
    powers = islice(_powers(low, high, steps), 1, steps)
    return np.array([whole + (not is_whole) for whole, is_whole in powers], dtype=np.int64)


@lru_cache(maxsize=_CACHED_SETS)
def floors(low: int, high: int, steps: int, limit: int) -> Int64s:
    """Return the greatest integer ≤ low·(high/low)^(j/steps), j = 0, 1, …, while below limit."""
    powers = _powers(low, high, steps) if steps else ()
    return np.array(list(takewhile(limit.__gt__, (whole for whole, _ in powers))), dtype=np.int64)


def _powers(low: int, high: int, steps: int) -> Iterator[tuple[int, bool]]:
    """Yield ⌊x⌋ and whether x is an integer: x = low·(high/low)^(j/steps) for j = 0, 1, 2, etc."""
    context = exact_context()
    logarithm = context.ln(context.divide(Decimal(high), Decimal(low)))
    growth = context.exp(context.divide(logarithm, Decimal(steps)))
    power = Decimal(low)
    for step in count():
        near = int(context.to_integral_value(power))
        if context.subtract(power, Decimal(near)).copy_abs() > _NEAR:
            yield int(power), False
        else:
            order = _compare(Fraction(near, low), Fraction(high, low), step, steps)
            yield near - (order > 0), order == 0
        power = context.multiply(power, growth)


def _compare(ratio: Fraction, growth: Fraction, step: int, steps: int) -> int:
    """Compare ratio with growth^(step/steps) exactly; return -1, 0 or 1."""
    shared = gcd(step, steps)
    left, right = ratio ** (steps // shared), growth ** (step // shared)
    return (left > right) - (left < right)


class T5(DistanceTableFamily, path="/relative/t5"):
    """T5's bucket for every query and key.

    mT5, UL2, LongT5, MPNet, WavLM and the bias of x-transformers look up a learned bias by the same
    buckets. max_distance must exceed h, the number of distances with a bucket of their own.

    Formula: for n buckets per direction, h = ⌊n/2⌋ and D = max_distance > h, distance m is in
        bucket m if m < h, and otherwise in bucket
        min(h + ⌊ln(m/h) / ln(D/h) · (n − h)⌋, n − 1),
        that is h + j for the largest j < n − h with (m/h)^(n−h) ≥ (D/h)^j. With
        bidirectional=true, m is |key − query|, n is num_buckets/2, and keys after the query are in
        bucket n plus that of m; with false m is query − key, or 0 for keys after the query.
    Source: "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"
        (Raffel et al. 2020); mesh_tensorflow, transformers 5.23.0
        ``T5Attention._relative_position_bucket``, x-transformers 2.31.10 ``RelativePositionBias``.
    Bound: exact integers, at any distance up to 2^62: bucket edges are found by comparing integers,
        and no logarithm is rounded.
    Trap: num_buckets counts both directions together; if it is odd, one bucket is unused. Where
        h·(D/h)^(j/(n−h)) is an integer (distances 16, 32 and 64 with the defaults), a logarithm
        that is slightly too small gives the bucket before: libraries disagree there. Encoders have
        buckets for both directions, decoders for one.
    """

    example: ClassVar[str] = "query_len=4&key_len=6&num_buckets=8&max_distance=20"
    array: ClassVar[str] = "bucket"
    models: ClassVar[str] = "flan-t5 mt5 umt5 longt5 switch_transformers wavlm mpnet"

    num_buckets: Integer = about(
        "Number of buckets, for both directions together; at least 4 if bidirectional.",
        8,
        default=32,
        ge=2,
        le=MAX_CHANNELS,
    )
    max_distance: _MaxDistance = 128
    bidirectional: _Bidirectional = True
    dtype: IndexDType = "int32"

    @property
    def of_direction(self) -> int:
        """The number of buckets of one direction."""
        return self.num_buckets // 2 if self.bidirectional else self.num_buckets

    @property
    def single(self) -> int:
        """The number of distances that have their own bucket."""
        return self.of_direction // 2

    def table(self) -> Table:
        if self.single < 1:
            rule = "num_buckets must be at least 4 if bidirectional"
            raise impossible("num_buckets", self.num_buckets, rule)
        if self.max_distance <= self.single:
            rule = f"max_distance must exceed {self.single}, where shared buckets begin"
            raise impossible("max_distance", self.max_distance, rule)
        return super().table()

    def meaning(self) -> Meaning:
        return Meaning(value_range=(0, self.num_buckets - 1))

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Return the bucket of each distance key − query."""
        far = distance_lengths(distances, is_causal=not self.bidirectional)
        shared = self.of_direction - self.single
        edges = ceilings(self.single, self.max_distance, shared)
        buckets = np.minimum(far, self.single) + np.searchsorted(edges, far, side="right")
        if self.bidirectional:
            buckets += self.of_direction * (distances > 0)
        return np.asarray(buckets)


class T5Bias(GatheredBias, QueryKeyParameters, path="/relative/t5/bias"):
    """T5's bias for every head, query and key, from its learned table.

    Formula: weight[bucket(key − query), head], with the buckets of ``/relative/t5``.
    Source: see ``/relative/t5``; transformers 5.23.0 ``T5Attention.compute_bias``, which has a
        leading axis of length 1.
    Bound: exact; elements are copied.
    Trap: T5 adds the bias to scores that are not divided by √head_dim; x-transformers, which
        divides its scores, multiplies the bias by √dim_head. With n cached keys the one query is at
        n (query_start=n, query_len=1, key_len=n+1): a table made for a query at 0 is right in the
        first step only. A transposed weight has heads in place of buckets: num_buckets=32 makes
        the service refuse it.
    """

    example: ClassVar[str] = "query_len=2&key_len=3&max_distance=20&head=0"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "weight",
            "the learned table, (num_buckets, heads)",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0], [-0.75, 4.0]],
        ),
    )

    max_distance: _MaxDistance = 128
    bidirectional: _Bidirectional = True
    num_buckets: Integer | None = optional(
        "Number of buckets; the number of rows of weight unless given.", 8, ge=2, le=MAX_CHANNELS
    )

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        weight = arrays["weight"]
        rows = checked_size("num_buckets", self.num_buckets, weight.shape[0])
        fewest = 4 if self.bidirectional else 2
        if not fewest <= rows <= MAX_CHANNELS:
            raise wrong_rows(rows, f"{fewest} to {MAX_CHANNELS}, one for each bucket")
        return self.gathered(weight, T5.like(self, num_buckets=rows, dtype="int64"))


_NO_BUCKETS = -1


class Deberta(DistanceTableFamily, path="/relative/deberta"):
    """DeBERTa-v2's bucket for every query and key.

    DeBERTa-v3 looks up embeddings of relative positions by the same buckets, DeBERTa (v1) by the
    distance r itself, which bucket_size=-1 or max_position=-1 gives. Parameters that need more than
    2^17 bucket edges within the distances of the table are refused.

    Formula: for r = query − key, mid = ⌊bucket_size/2⌋ and P = max_position − 1 > mid, the bucket
        is r if |r| ≤ mid, and otherwise
        sign(r) · (⌈ln(|r|/mid) / ln(P/mid) · (mid − 1)⌉ + mid),
        where the ceiling is the smallest j with (|r|/mid)^(mid−1) ≤ (P/mid)^j. If bucket_size or
        max_position is −1, the bucket is r.
    Source: "DeBERTa: Decoding-enhanced BERT with Disentangled Attention" (He et al. 2021);
        transformers 5.23.0 ``make_log_bucket_position`` and ``build_relative_position``.
    Bound: exact integers, at any distance up to 2^62.
    Trap: buckets are positive if the query is after the key, the opposite of T5's. Buckets are not
        clipped: with an even bucket_size of at least 4, those for |r| ≥ max_position exceed
        bucket_size − 1; the model adds its span to them and then clips the sum.
    """

    example: ClassVar[str] = "query_len=3&key_len=9&bucket_size=4&max_position=12"
    array: ClassVar[str] = "bucket"

    bucket_size: Integer = about(
        "position_buckets of a config: the bucket of a distance up to half of it is the distance. "
        "At least 2, or -1 for the distances themselves.",
        4,
        default=256,
        ge=_NO_BUCKETS,
        le=MAX_CHANNELS,
    )
    max_position: Integer = about(
        "max_relative_positions of a config, or its max_position_embeddings if that is -1; "
        "-1 for the distances themselves.",
        12,
        default=512,
        ge=_NO_BUCKETS,
        le=MAX_LENGTH,
    )
    dtype: IndexDType = "int32"

    @property
    def has_buckets(self) -> bool:
        return _NO_BUCKETS not in {self.bucket_size, self.max_position}

    @property
    def mid(self) -> int:
        """The largest distance that is its own bucket."""
        return self.bucket_size // 2

    @cached_property
    def limit(self) -> int:
        """A power of 2 above all distances; tables of similar lengths share it and cached edges."""
        return 1 << self.pairs.farthest.bit_length()

    def edge_count(self) -> float:
        """Return an estimate of the number of bucket edges up to the limit."""
        growth = log1p((self.max_position - 1 - self.mid) / self.mid)
        return (self.mid - 1) * max(0.0, log(self.limit / self.mid)) / growth

    def table(self) -> Table:
        farthest = self.pairs.farthest
        if self.has_buckets:
            self._check_sizes()
        else:
            self._refuse_sizes()
            check_fits(self.element_type, farthest)
        return super().table()

    def _check_sizes(self) -> None:
        if self.mid < 1:
            rule = "bucket_size must be at least 2, or -1 for the distances themselves"
            raise impossible("bucket_size", self.bucket_size, rule)
        if self.max_position - 1 <= self.mid:
            rule = f"max_position must be at least {self.mid + 2}: bucket_size // 2 + 2"
            raise impossible("max_position", self.max_position, rule)
        if self.edge_count() > MAX_EDGES:
            rule = f"the table needs more than {MAX_EDGES} buckets: max_position must be larger"
            raise impossible("max_position", self.max_position, rule)

    def _refuse_sizes(self) -> None:
        for name, other in (("bucket_size", "max_position"), ("max_position", "bucket_size")):
            value = getattr(self, name)
            # Generated clients send defaults.
            if value not in {_NO_BUCKETS, type(self).model_fields[name].default}:
                rule = f"{name} does not go with {other}=-1, which makes a table without buckets"
                raise impossible(name, value, rule)

    def canonical(self) -> dict[str, ParameterValue]:
        parameters = super().canonical()
        if not self.has_buckets:
            parameters["bucket_size"] = _NO_BUCKETS
            del parameters["max_position"]
        return parameters

    def meaning(self) -> Meaning:
        queries, keys = self.pairs.queries, self.pairs.keys
        ends = np.array([keys.most - queries.least, keys.least - queries.most])
        low, high = self.values(ends, range(1)).tolist()
        return Meaning(value_range=(low, high))

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Return the bucket of each distance key − query."""
        if not self.has_buckets:
            return -distances
        far = np.abs(distances)
        edges = floors(self.mid, self.max_position - 1, self.mid - 1, self.limit)
        buckets = np.minimum(far, self.mid) + np.searchsorted(edges, far, side="left")
        return np.asarray(-np.sign(distances) * buckets)


# The largest K: row indices, up to 2K, must fit int64.
_MAX_CLIPPED = 2**61


class Shaw(DistanceTableFamily, path="/relative/shaw"):
    """Shaw's clipped distance for every query and key: a row index of 2K + 1 embeddings.

    Formula: min(max(key − query, −K), A) + K for K = max_relative_position and A = max_after, which
        is K unless given; with descending=true min(max(query − key, −A), K) + A.
    Source: "Self-Attention with Relative Position Representations" (Shaw et al. 2018);
        tensor2tensor 1.15.7 ``_generate_relative_positions_matrix``; also Music Transformer and
        NeMo. Of transformers 5.23.0, Wav2Vec2-BERT, SeamlessM4T v2 and Phi-4-multimodal have
        another A, ESM, Granite Speech and SpeechT5 descending rows.
    Bound: exact integers.
    Trap: row 0 is for keys that are K or more positions before the query, row K for the query's own
        position; with descending=true row 0 is for keys after the query. In tensor2tensor the last
        query and the last key have the same position: for q queries and k keys, send query_start =
        k − q.
    """

    example: ClassVar[str] = "query_len=4&key_len=6&max_relative_position=2"
    array: ClassVar[str] = "index"

    max_relative_position: Integer = about(
        "K: larger distances are clipped to K, smaller ones to -K.", 2, ge=0, le=_MAX_CLIPPED
    )
    max_after: Integer | None = optional(
        "A: distances after the query are clipped to A; max_relative_position unless given.",
        1,
        ge=0,
        le=_MAX_CLIPPED,
    )
    descending: Boolean = about(
        "Whether row 0 is for keys far after the query, not far before it.",
        True,
        default=False,
    )
    dtype: IndexDType = "int32"

    @property
    def limits(self) -> tuple[int, int]:
        """K and A."""
        before = self.max_relative_position
        return before, before if self.max_after is None else self.max_after

    def table(self) -> Table:
        first, last = self.limits[::-1] if self.descending else self.limits
        check_fits(self.element_type, first + min(last, self.pairs.farthest))
        return super().table()

    def meaning(self) -> Meaning:
        return Meaning(value_range=(0, sum(self.limits)))

    def values(self, distances: Int64s, heads: range) -> Int64s:  # noqa: ARG002
        """Return the row of each distance key − query."""
        before, after = map(np.int64, self.limits)
        clipped = np.clip(distances, -before, after)
        return np.asarray(after - clipped if self.descending else clipped + before)

    def canonical(self) -> dict[str, ParameterValue]:
        parameters = super().canonical()
        if self.max_after == self.max_relative_position:
            del parameters["max_after"]
        if not self.descending:
            del parameters["descending"]
        return parameters


class ShawEmbeddings(ComposedFamily, QueryKeyParameters, path="/relative/shaw/embeddings"):
    """Shaw's embedding for every query and key, from a learned table: (query, key, channel).

    Formula: weight[min(max(key − query, −K), K) + K].
    Source: see ``/relative/shaw``; tensor2tensor 1.15.7
        ``_generate_relative_positions_embeddings``.
    Bound: exact; elements are copied.
    Trap: a model has one table for keys and another for values, a^K and a^V in the paper. The
        answer has queries·keys·channels numbers: request only some queries, or look up rows
        yourself by the indices of ``/relative/shaw``.
    """

    example: ClassVar[str] = "query_len=2&key_len=3"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "weight",
            "the learned table, (2·max_relative_position + 1, channels)",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]],
        ),
    )

    max_relative_position: Integer | None = optional(
        "The largest distance K; (rows of weight - 1)/2 unless given.", 1, ge=0, le=_MAX_CLIPPED
    )

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        weight = arrays["weight"]
        rows = weight.shape[0]
        if rows % 2 == 0:
            raise wrong_rows(rows, "an odd number, 2·max_relative_position + 1")
        clipped = checked_size("max_relative_position", self.max_relative_position, rows // 2)
        index = Shaw.like(self, max_relative_position=clipped, dtype="int64")
        return self.describe(
            {"embeddings": gather_rows(weight, index.table())},
            index.canonical(),
            axes=("query", "key", "channel"),
            states_axes=True,
        )
