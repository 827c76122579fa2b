"""FIRE: logarithms of distances, divided by a logarithm of the query position."""

from math import floor
from typing import ClassVar

import numpy as np

from service.encodings.family import RealDType, about, impossible
from service.encodings.relative.distance import DistanceTableFamily, RelativeTable
from service.grammar import Real
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_integers,
    from_floats,
    from_integers,
    ln_1p,
    multiply,
)
from service.numerics.dtypes import FLOAT64, may_overflow
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ELEMENT_SECONDS, FormulaTable, Table


class Fire(DistanceTableFamily, path="/relative/fire"):
    """FIRE's normalized distance of every query and key, the input of a network that learns biases.

    Formula: ln(1 + c·|i − j|) / (ln(1 + c·max(L, i)) + ε) for query position i, key position j and
        threshold L.
    Source: "Functional Interpolation for Relative Positions Improves Long Context Transformers" (Li
        et al. 2024), §3.2 and the listing in its appendix, where ε is 1e-6; c and L are learned
        with the network and start at 0.1 and 512. For a checkpoint, send |c| as c and
        |L_multiplier·init_L| as threshold.
    Bound: 4·2^-53 relative: the numerator is rounded once, the denominator twice, and the quotient
        once; the logarithms themselves add less than 2^-57.
    Trap: it is the maximum of L and i; some implementations take the minimum, and some subtract
        the logarithms instead of dividing them. The value depends on the query position, not on the
        distance alone: a cached row is right for one query position only.
    """

    example: ClassVar[str] = "query_len=4"
    array: ClassVar[str] = "fire"

    c: Real = about(
        "Factor of distances; a model learns it, starting at 0.1.",
        0.1,
        default=0.1,
        ge=1e-9,
        le=1e9,
    )
    threshold: Real = about(
        "The threshold L, which replaces smaller query positions in the denominator; a model "
        "learns it, starting at 512 in the paper's listing.",
        512,
        default=512.0,
        ge=0,
        le=2.0**62,
    )
    eps: Real = about("The ε added to the denominator.", 1e-6, default=1e-6, ge=0, le=1)
    dtype: RealDType = "float32"

    def table(self) -> Table:
        if 0 < self.threshold < 1e-9:
            rule = "threshold must be 0, or at least 1e-9"
            raise impossible("threshold", self.threshold, rule)
        if self.eps < 1e-30 and self.threshold == 0:
            raise impossible("eps", self.eps, "eps must be at least 1e-30 if threshold is 0")
        pairs, numerators = self.pairs, RelativeTable(self, self.pairs, FLOAT64)

        def evaluate(rows: range, columns: range) -> Float64s:
            numbers = numerators.block(rows, columns, range(1))
            normalizers = self.normalizers(pairs.queries.at(rows.start, rows.stop))
            return numbers / normalizers[:, np.newaxis]

        return FormulaTable(
            pairs.shape,
            self.element_type,
            pairs.keys.count,
            evaluate,
            element_seconds=4 * ELEMENT_SECONDS if pairs.is_contiguous else 50 * ELEMENT_SECONDS,
            overflows=may_overflow(self._largest(), self.element_type),
        )

    def _largest(self) -> float:
        """Return an upper bound of the table's elements."""
        numerator = self.values(np.array([self.pairs.farthest]), range(1))[0]
        least = self.normalizers(np.array([self.pairs.queries.least]))[0]
        with np.errstate(over="ignore"):
            return float(numerator / least)

    def values(self, distances: Int64s, heads: range) -> Float64s:  # noqa: ARG002
        """Return the numerators for distances (n,)."""
        return evaluate_integers(lambda part: self._log(from_integers(part)), np.abs(distances))

    def normalizers(self, queries: Int64s) -> Float64s:
        """Return the denominators for query positions (n,)."""
        return evaluate_integers(self._normalizers, queries)

    def _normalizers(self, queries: Int64s) -> Float64s:
        # An integer exceeds L if and only if it exceeds ⌊L⌋.
        is_above = queries > floor(self.threshold)
        own = from_integers(np.where(is_above, queries, 0))
        high = np.where(is_above, own.high, self.threshold)
        return self._log(DoubleDouble(high, own.low)) + self.eps

    def _log(self, lengths: DoubleDouble) -> Float64s:
        return ln_1p(multiply(lengths, from_floats(np.array([self.c])))).high
