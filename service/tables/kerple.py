"""Kernels of distances as biases of attention: a logarithm or a power for each head.

"KERPLE" (Chi et al. 2022), §4: the logarithmic variant −p·ln(1 + a·|d|) and the power variant
−a·|d|^p, 0 < p ≤ 2. NeMo 1.23.0 ``KERPLERelativePositionEmbedding`` joins the two:
−b·ln(1 + a·|d|^p), where unless trained a = p = 1 and b is ALiBi's slope.

A bias is within 1.1·2^-53 of its own size: a power is within 2^-58 of its size, and 1 + a·|d|^p
has a logarithm that is as little away for that, and by 2^-58 more of its own; factors are exact or
within 2^-106, products within 2^-102, and what comes out is rounded once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType
from service.tables.exponential import power
from service.tables.heads import bias_document, biases
from service.tables.logarithm import ln_1p
from service.tables.query_key import QueryKey
from service.tables.slopes import GivenSlopes, SlopeRule, Slopes
from service.tables.table import setup_work
from service.tables.twofold import Twofold, in_blocks, of_floats, of_integers, times

LEAST, MOST = 1e-100, 1e9
"""The size of what distances and kernels are multiplied by, where it is not 0."""

CLAMP = 0.01
"""What the code of KERPLE (commit 25be3d7, ``megatron/mpu/layers.py``) raises parameters to."""

MAX_POWER = 2.0
"""The exponent of a power kernel: above it, it is no kernel."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """−outer·ln(1 + inner·|d|^exponent), or −outer·|d|^exponent.

    Attributes:
        outer: a factor for each head.
        inner: a factor for each head inside the logarithm; no logarithm where there are none.
        exponent: one for each head; all 1 where there are none.
        is_causal: whether keys after the query have the bias of distance 0, which is 0.
    """

    outer: Slopes
    inner: Float64s | None
    exponent: Float64s | None
    is_causal: bool

    @property
    def work_per_element(self) -> int:
        """As much as three sines: a logarithm, an exponential and a logarithm."""
        return 3

    @property
    def setup_work(self) -> int:
        """That of the slopes, where those are a rule's."""
        return setup_work(self.outer)

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Evaluate distances (n,) for heads."""
        lengths = np.maximum(-distances, 0) if self.is_causal else np.abs(distances)
        outer = self.outer.pairs(heads)

        def scaled(some: slice, part: slice) -> Float64s:
            return times(self._grown(lengths[part], heads[some]), outer.column(some)).high

        # A difference, so that the bias of distance 0 is no negative zero.
        return 0.0 - in_blocks(scaled, len(heads), len(lengths))

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of biases, as right as the functions of this machine are."""
        own = slice(heads.start, heads.stop)
        farthest = float(pairs.farthest_behind if self.is_causal else pairs.farthest)
        exponent = 1.0 if self.exponent is None else self.exponent[own]
        sizes = np.power(farthest, exponent)
        if self.inner is not None:
            sizes = np.log1p(self.inner[own] * sizes)
        return float((self.outer.sizes(heads) * sizes).max())

    def _grown(self, lengths: Int64s, heads: range) -> Twofold:
        grown = self._raised(lengths, heads)
        if self.inner is None:
            return grown
        inner = of_floats(self.inner[heads.start : heads.stop])
        return ln_1p(times(grown, inner.column(slice(None))))

    def _raised(self, lengths: Int64s, heads: range) -> Twofold:
        """Raise lengths (n,) to the power of heads: (heads, n), or (n,) where all are 1."""
        own = of_integers(lengths)
        if self.exponent is None:
            return own
        exponents = self.exponent[heads.start : heads.stop, np.newaxis]
        is_one = exponents == 1.0
        if is_one.all():
            return own
        raised = power(lengths, exponents)
        high, low = (np.where(is_one, *both) for both in zip(own, raised, strict=True))
        return Twofold(high, low)


def kernel(convention: str, numbers: Mapping[str, Float64s], *, is_causal: bool) -> Kernel:
    """Make the kernel of a convention, ``log``, ``power`` or ``nemo``.

    Args:
        convention: which of them.
        numbers: a, p and, with ``nemo`` unless ALiBi's slopes are to be b, b: each (heads,).
        is_causal: as of the kernel.
    """
    a, p = numbers["a"], numbers["p"]
    if convention == "log":
        return Kernel(GivenSlopes(p), a, None, is_causal)
    if convention == "power":
        return Kernel(GivenSlopes(a), None, p, is_causal)
    b = GivenSlopes(numbers["b"]) if "b" in numbers else SlopeRule("original", len(a), 8.0)
    return Kernel(b, a, p, is_causal)


def bias(
    *,
    kind: str,
    parameters: dict[str, ParameterValue],
    kernel: Kernel,
    pairs: QueryKey,
    head: int | None,
    dtype: DType,
) -> Document:
    """Describe the biases of heads, (head, query, key), or of one, (query, key).

    Args:
        kind: that of the document.
        parameters: what fixes the kernel, causality and the pairs apart.
        kernel: the values.
        pairs: queries and keys.
        head: the one wanted, or None for all.
        dtype: a real type.
    """
    parameters = {**parameters, "causal": kernel.is_causal, **pairs.parameters()}
    table = biases(kernel, pairs, dtype, kernel.outer.count, head)
    return bias_document(kind, parameters, table, head)
