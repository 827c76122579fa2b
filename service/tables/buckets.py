"""Numbers of buckets of distances: T5's and DeBERTa's by logarithms, Shaw's by clipping.

Libraries take the logarithms in float32, where the last bit decides at the edge of a bucket. Here
each edge is an integer, found by comparing integers, and so is every number.
"""

from dataclasses import dataclass
from math import log, log1p
from typing import Protocol

import numpy as np

from service.tables.angle import Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import INT64, DType
from service.tables.edges import ceilings, floors
from service.tables.query_key import OfDistance, QueryKey, RelativeTable

MAX_EDGES = 2**17
"""Edges of buckets, as far as a table reaches: they take a third of a second to find, once."""


class BucketRule(OfDistance, Protocol):
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
