"""Sandwich: the similarity of sinusoidal encodings as an attention bias."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import ClassVar

import numpy as np

from service.encodings.family import RealDType, about
from service.encodings.relative.distance import (
    BiasParameters,
    Causal,
    DistanceTableFamily,
    Heads,
    QueryKey,
    distance_lengths,
)
from service.grammar import Integer, Real
from service.numerics import phase as scaling
from service.numerics.double_double import pairwise_sum
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s, Int64s, exact_series
from service.numerics.phasors import component, phasor_setup_seconds, prepare_component
from service.numerics.tables import (
    ELEMENT_SECONDS,
    ParameterValue,
    Table,
    row_steps,
)


class Sandwich(DistanceTableFamily, BiasParameters, path="/relative/sandwich"):
    """Sandwich's bias for every head, query and key.

    Formula: (Σ cos(d·ω_k) − n)/(8h/H) for head h = 1 … H and distance d = query − key, or 0 for
        keys after the query; d = |query − key| with causal=false;
        ω_k = base^(−2k/head_dim), k = 1 … n = head_dim/2. It is computed as
        −(H/4h)·Σ sin²(d·ω_k/2), because near distance 0 the sum of cosines is almost n and the
        difference loses digits.
    Source: Chi et al. 2023, §5; NVIDIA NeMo 1.23.0 ``SandwichRelativePositionEmbedding``.
    Bound: n·(11 + 2⌈log2 n⌉)·H/4h·u, u = 2^-53: a sine is within 4u, its square within 9u, the
        sum of n squares within n·(9 + 2⌈log2 n⌉)u; the product with H and the quotient by 4h are
        rounded once each. Where d·ω_k < 2 for all k, (15 + 2⌈log2 n⌉)·u relative.
    Trap: k starts at 1, so there is no frequency 1, and h starts at 1. At large distances the bias
        hardly changes with the distance.
    """

    example: ClassVar[str] = "num_heads=4&head_dim=16&head=0&query_len=4"
    array: ClassVar[str] = "bias"

    num_heads: Heads
    head_dim: Integer = about(
        "Number of channels of a head, even; there are head_dim/2 frequencies. NeMo's hidden_size "
        "is head_dim·num_attention_heads.",
        64,
        ge=2,
        le=MAX_CHANNELS,
        multiple_of=2,
    )
    # For larger bases the squares of sines could underflow and lose digits.
    base: Real = about(
        "Base n of the frequencies n^(-2k/head_dim), k from 1.",
        10000,
        default=10000.0,
        ge=1,
        le=1e100,
    )
    causal: Causal = True
    dtype: RealDType = "float32"

    @cached_property
    def half_frequencies(self) -> "HalfFrequencies":
        """The frequencies ω_k/2."""
        return HalfFrequencies(self.base, self.head_dim)

    @property
    def axes(self) -> tuple[str, ...]:
        return self.bias_axes

    @property
    def element_seconds(self) -> float:
        """A value takes a sine for each frequency."""
        return 16 * ELEMENT_SECONDS * (self.head_dim // 2)

    @property
    def setup_seconds(self) -> float:
        rule = self.half_frequencies
        return phasor_setup_seconds(rule, rule.count)

    def prepare(self, heads: range) -> Iterator[None]:  # noqa: ARG002
        return prepare_component(self.half_frequencies, "sin")

    def table(self) -> Table:
        return self.bias_table(self, self.element_type, self.num_heads)

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), **self.head_parameters}

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Return the biases, (heads, n), of distances (n,) for a range of heads."""
        lengths = distance_lengths(distances, is_causal=self.causal)
        sums = np.empty(len(lengths))
        for part in row_steps(len(lengths), self.head_dim // 2):
            sines = component(self.half_frequencies, "sin", lengths[part])
            sums[part] = pairwise_sum(sines * sines)
        share = 4.0 * np.arange(heads.start + 1, heads.stop + 1)[:, np.newaxis]
        return np.asarray(0.0 - sums * self.num_heads / share)

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Return a bound of |bias|: |sin(d·ω/2)| is at most 1 and at most d/2."""
        farthest = pairs.longest(is_causal=self.causal)
        sines = min(1.0, farthest * farthest / 4)
        return self.head_dim / 2 * sines * self.num_heads / (4.0 * (heads.start + 1))


@dataclass(frozen=True)
class HalfFrequencies:
    """The frequencies base^(−2k/head_dim)/2, k = 1 … head_dim/2, in radians per position."""

    base: float
    head_dim: int

    @property
    def count(self) -> int:
        """The number of frequencies."""
        return self.head_dim // 2

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        """Return the frequencies as decimals."""
        series = scaling.geometric_series(Decimal(self.base), self.head_dim, self.count + 1)
        yield from (frequency / 2 for frequency in islice(series, 1, None))
