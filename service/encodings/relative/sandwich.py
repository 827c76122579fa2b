"""The similarity of sinusoidal encodings as a bias of attention.

"Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis" (Chi et al.
2023), §5, as NeMo 1.23.0 ``SandwichRelativePositionEmbedding`` has it: for n = head_dim/2
frequencies and H heads, h = 1 … H,

    (Σ cos(d·ω_k) − n) / (8h/H),    ω_k = base^(−2k/head_dim),    k = 1 … n

The frequency 1 (k = 0) is not among them. Near distance 0 the sum is almost n; as
cos x − 1 = −2·sin²(x/2), the bias is −(H/4h)·Σ sin²(d·ω_k/2), in which nothing cancels.

Error, in units of 2^-53: a sine is within 4, its square within 9, the sum of n of them, none above
1, within n·(9 + 2·⌈log2 n⌉); times H and divided by 4h it is rounded twice more. So a bias is
within n·(11 + 2·⌈log2 n⌉)·H/4h. Where d·ω is below 2 for all frequencies, a sine is within 6 of its
own size, and a bias within 15 + 2·⌈log2 n⌉ of its own.

``/relative/sandwich``: the similarity of sinusoidal encodings as a bias.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from pydantic import Field

from service.delivery.resources import ArrayParameters, Resource
from service.encodings.family import RealDType, dtype_field, num_heads_field
from service.encodings.relative.distance import (
    HeadParameters,
    QueryKey,
    QueryKeyParameters,
    bias_document,
    causal_field,
    head_biases,
)
from service.grammar import Boolean, Integer, Real
from service.numerics import frequencies as scaling
from service.numerics.double_double import sum_of_halves
from service.numerics.dtypes import MAX_CHANNELS, REAL_DTYPES, DType
from service.numerics.frequencies import Decimals
from service.numerics.phase import Float64s, Int64s, exact_context
from service.numerics.phasors import component
from service.numerics.tables import FREQUENCY_WORK, Document, steps

MAX_BASE = 1e100
"""The base of the frequencies: the squares of their sines keep all their digits."""


@dataclass(frozen=True)
class HalfFrequencies:
    """Half of base^(−2k/head_dim) for k = 1 … head_dim/2."""

    base: float
    head_dim: int

    @property
    def count(self) -> int:
        """How many there are."""
        return self.head_dim // 2

    def exact(self) -> Decimals:
        """Evaluate them, in radians per position."""
        context = exact_context()
        whole = scaling.default(Decimal(self.base), self.head_dim, self.count + 1)[1:]
        return [context.divide(frequency, Decimal(2)) for frequency in whole]


@dataclass(frozen=True, eq=False)
class Sandwich:
    """−(H/4h)·Σ sin²(d·ω_k/2).

    Attributes:
        rule: the halves of the frequencies.
        num_heads: H.
        is_causal: whether keys after the query have the bias of distance 0, which is 0.
    """

    rule: HalfFrequencies
    num_heads: int
    is_causal: bool

    @property
    def work_per_element(self) -> int:
        """As many sines as there are frequencies."""
        return self.rule.count

    @property
    def setup_work(self) -> int:
        """Its frequencies."""
        return FREQUENCY_WORK * self.rule.count

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Evaluate distances (n,) for heads, counted from 0."""
        lengths = np.maximum(-distances, 0) if self.is_causal else np.abs(distances)
        sums = np.empty(len(lengths))
        for part in steps(len(lengths), self.rule.count):
            sines = component(self.rule, "sin", lengths[part])
            sums[part] = sum_of_halves(sines * sines)
        share = 4.0 * np.arange(heads.start + 1, heads.stop + 1)[:, np.newaxis]
        return np.asarray(0.0 - sums * self.num_heads / share)

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of biases: no sine is above 1, and none above half of the distance."""
        farthest = pairs.farthest_behind if self.is_causal else pairs.farthest
        sines = min(1.0, farthest * farthest / 4)
        return self.rule.count * sines * self.num_heads / (4.0 * (heads.start + 1))


def bias(*, sandwich: Sandwich, pairs: QueryKey, head: int | None, dtype: DType) -> Document:
    """Describe the biases of heads, (head, query, key), or of one, (query, key).

    Args:
        sandwich: the values.
        pairs: queries and keys.
        head: the one wanted, counted from 0, or None for all.
        dtype: a real type.
    """
    parameters = {
        "num_heads": sandwich.num_heads,
        "head_dim": sandwich.rule.head_dim,
        "base": sandwich.rule.base,
        "causal": sandwich.is_causal,
        **pairs.parameters(),
    }
    table = head_biases(sandwich, pairs, dtype, sandwich.num_heads, head)
    return bias_document("relative-sandwich", parameters, table, head)


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
        le=MAX_BASE,
        description="Base n of the frequencies n^(-2k/head_dim), k from 1.",
        examples=[10000],
    )
    causal: Boolean = causal_field()
    dtype: RealDType = dtype_field()


def _sandwich(parameters: SandwichParameters) -> Document:
    heads = parameters.num_heads
    rule = HalfFrequencies(parameters.base, parameters.head_dim)
    return bias(
        sandwich=Sandwich(rule, heads, parameters.causal),
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
