"""Sandwich: the similarity of sinusoidal encodings as an attention bias."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from math import prod
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
from service.numerics.phasors import MAX_FINE_WIDTH, component, component_phasors
from service.numerics.setups import TURN_SECONDS, KeptSetup, Setup, Steps
from service.numerics.tables import ELEMENT_SECONDS, ParameterValue, Table, row_steps


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

    @cached_property
    def kept_sums(self) -> "SquaredSines | None":
        """The sums of all distances that may occur, unless the pairs have few of them."""
        # A power of two, so that tables of similar lengths share the sums.
        count = 1 << self.pairs.longest(is_causal=self.causal).bit_length()
        is_worth = count <= min(_MOST_SUMS, prod(self.pairs.shape))
        return SquaredSines(self.half_frequencies, count) if is_worth else None

    @property
    def element_seconds(self) -> float:
        return 2 * ELEMENT_SECONDS if self.kept_sums else _sum_seconds(self.half_frequencies)

    @property
    def setup(self) -> Setup:
        return self.kept_sums or component_phasors(self.half_frequencies, "sin")

    def table(self) -> Table:
        return self.bias_table(self, self.element_type, self.num_heads)

    def canonical(self) -> dict[str, ParameterValue]:
        return {**super().canonical(), **self.head_parameters}

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Return the biases, (heads, n), of distances (n,) for a range of heads."""
        lengths, kept = distance_lengths(distances, is_causal=self.causal), self.kept_sums
        sums = kept.get()[lengths] if kept else _sums_at(self.half_frequencies, lengths)
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


# The most distances whose sums are kept: 1 MiB.
_MOST_SUMS = 2**17


@dataclass(frozen=True)
class SquaredSines(KeptSetup[Float64s], capacity_bytes=8 * 2**20):
    """Σ sin²(d·ω_k/2) of the distances d = 0 … count − 1."""

    rule: HalfFrequencies
    count: int

    @property
    def new_seconds(self) -> float:
        return component_phasors(self.rule, "sin").seconds + self.count * _sum_seconds(self.rule)

    def compute(self) -> Steps[Float64s]:
        yield from component_phasors(self.rule, "sin").steps()
        sums, step = np.empty(self.count), max(1, int(TURN_SECONDS / _sum_seconds(self.rule)))
        for first in range(0, self.count, step):
            lengths = np.arange(first, min(first + step, self.count))
            sums[first : first + step] = _sums_at(self.rule, lengths)
            yield
        return sums


def _sum_seconds(rule: HalfFrequencies) -> float:
    """Return the processor seconds of the sum of a distance: a sine for each frequency."""
    # Rows so wide that their phasors are not kept take four times as long.
    frequency_seconds = (8 if rule.count <= MAX_FINE_WIDTH else 32) * ELEMENT_SECONDS
    return 1e-6 + frequency_seconds * rule.count


def _sums_at(rule: HalfFrequencies, lengths: Int64s) -> Float64s:
    """Return Σ sin²(d·ω_k/2) of distances d (n,)."""
    sums = np.empty(len(lengths))
    for part in row_steps(len(lengths), rule.count):
        sines = component(rule, "sin", lengths[part])
        sums[part] = pairwise_sum(sines * sines)
    return sums
