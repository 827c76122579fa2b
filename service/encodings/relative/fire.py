"""FIRE's input coordinates: the logarithm of a distance, as a share of the largest there can be.

"Functional Interpolation for Relative Positions Improves Long Context Transformers" (Li et al.
2024), §3.2 and the listing in its appendix: for query position i and key position j

    ln(1 + c·|i − j|) / (ln(1 + c·max(L, i)) + ε)

A learned network makes the biases of heads of it; c and the threshold L are learned with it, from
0.1 and 512 on in the listing, where ε is 1e-6. The maximum makes short sequences keep their
distances apart; some implementations take the minimum in its place.

A coordinate is within 4·2^-53 of its own size: the numerator is rounded once, the denominator
twice, and the quotient once; the logarithms themselves put in less than 2^-57.

``/relative/fire``: the coordinates that FIRE's network makes biases of.
"""

from dataclasses import dataclass
from math import floor

import numpy as np
from pydantic import Field

from service.delivery.resources import Resource
from service.encodings.fields import ArrayParameters, RealDType, dtype_field, impossible
from service.encodings.relative.distance import QueryKey, QueryKeyParameters, RelativeTable
from service.grammar import Real
from service.numerics.document import Document
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_integers,
    from_floats,
    from_integers,
    ln_1p,
    multiply,
)
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType, Elements, may_overflow, round_into
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import row_steps


@dataclass(frozen=True)
class Interpolation:
    """How distances become coordinates.

    Attributes:
        c: what distances are multiplied by.
        threshold: the least position that distances are measured by, L.
        eps: what is added to the denominator.
    """

    c: float
    threshold: float
    eps: float

    @property
    def work_per_element(self) -> int:
        """As much as a sine, for the logarithm."""
        return 1

    def values(self, distances: Int64s, heads: range) -> Float64s:  # noqa: ARG002
        """Evaluate the numerators of distances (n,)."""
        return evaluate_integers(lambda part: self._log(from_integers(part)), np.abs(distances))

    def normalizers(self, queries: Int64s) -> Float64s:
        """Evaluate the denominators of query positions (n,)."""
        return evaluate_integers(self._normalizers, queries)

    def _normalizers(self, queries: Int64s) -> Float64s:
        # An integer is above L where it is above the whole part of L.
        is_above = queries > floor(self.threshold)
        own = from_integers(np.where(is_above, queries, 0))
        high = np.where(is_above, own.high, self.threshold)
        return self._log(DoubleDouble(high, own.low)) + self.eps

    def _log(self, lengths: DoubleDouble) -> Float64s:
        return ln_1p(multiply(lengths, from_floats(np.array([self.c])))).high


@dataclass(frozen=True, eq=False)
class FireTable:
    """The coordinates of queries and keys.

    Attributes:
        interpolation: how they are made.
        pairs: queries and keys.
        dtype: a real type.
    """

    interpolation: Interpolation
    pairs: QueryKey
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Queries by keys."""
        return self.pairs.shape

    @property
    def work_per_element(self) -> int:
        """As much as a sine."""
        return self.interpolation.work_per_element

    @property
    def overflows(self) -> bool:
        """Tell whether a coordinate may be too large for the type."""
        least = np.array([self.pairs.queries.least], dtype=np.int64)
        farthest = np.array([self.pairs.farthest], dtype=np.int64)
        numerator = self.interpolation.values(farthest, range(1))[0]
        with np.errstate(over="ignore"):
            largest = numerator / self.interpolation.normalizers(least)[0]
        return may_overflow(float(largest), self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        with np.errstate(over="ignore"):
            for part in row_steps(stop - start, 1):
                values = self._values(start + part.start, start + part.stop)
                round_into(values, elements[part], self.dtype)
        return elements

    def _values(self, start: int, stop: int) -> Float64s:
        numerators = RelativeTable(self.interpolation, self.pairs, FLOAT64).read(start, stop)
        rows = np.arange(start, stop, dtype=np.int64) // self.pairs.keys.count
        queries = self.pairs.queries.at(int(rows[0]), int(rows[-1]) + 1)
        normalizers = self.interpolation.normalizers(queries)
        return np.asarray(numerators / normalizers[rows - rows[0]], dtype=np.float64)


def coordinates(*, interpolation: Interpolation, pairs: QueryKey, dtype: DType) -> Document:
    """Describe the coordinates of queries and keys, (query, key), of a real type."""
    parameters = {
        "c": interpolation.c,
        "threshold": interpolation.threshold,
        "eps": interpolation.eps,
        **pairs.parameters(),
    }
    table = FireTable(interpolation, pairs, dtype)
    return Document(
        "relative-fire", parameters, {"fire": table}, axes=("query", "key"), states_axes=True
    )


class FireParameters(ArrayParameters, QueryKeyParameters):
    """Parameters of FIRE."""

    c: Real = Field(
        default=0.1,
        ge=1e-9,
        le=1e9,
        description="What distances are multiplied by; learned, from 0.1 on.",
        examples=[0.1],
    )
    threshold: Real = Field(
        default=512.0,
        ge=0,
        le=2.0**62,
        description="The threshold L; distances of queries before it are measured by it. Learned, "
        "from 512 on in the paper's listing.",
        examples=[512],
    )
    eps: Real = Field(
        default=1e-6,
        ge=0,
        le=1,
        description="What is added to the denominator.",
        examples=[1e-6],
    )
    dtype: RealDType = dtype_field()


def _fire(parameters: FireParameters) -> Document:
    c, threshold, eps = parameters.c, parameters.threshold, parameters.eps
    if 0 < threshold < 1e-9:
        raise impossible("threshold", threshold, "threshold must be 0, or at least 1e-9")
    if eps < 1e-30 and threshold == 0:
        raise impossible("eps", eps, "eps must be at least 1e-30 where threshold is 0")
    return coordinates(
        interpolation=Interpolation(c, threshold, eps),
        pairs=parameters.pairs(),
        dtype=REAL_DTYPES[parameters.dtype],
    )


FIRE = Resource(
    path="/relative/fire",
    operation="RelativeFire",
    summary="FIRE's input coordinate of every query and key",
    parameters=FireParameters,
    document=_fire,
    example="query_len=4",
)
