"""The slopes of attention with linear biases: what a head subtracts for each step of distance.

"Train Short, Test Long" (Press et al. 2022), §3: for n heads, a power of two, slope h is
2^(−8(h + 1)/n), h from 0. For other n the paper names the same series; its code
(attention_with_linear_biases 4b92f28, ``get_slopes``) takes the slopes of the next lower power of
two, c, and then every second one of the series of 2c. transformers 5.23.0
``build_mpt_alibi_tensor`` starts from the next higher power and has the same slopes in the same
order; its alibi_bias_max stands for the 8.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Protocol

import numpy as np

from service.tables import scaling
from service.tables.angle import Float64s, exact_context
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements, round_into
from service.tables.table import FREQUENCY_WORK, RowTable
from service.tables.twofold import Twofold, of_floats

MAX_BIAS_MAX = 100.0
"""The exponent of the smallest slope."""

# Slopes that are evaluated at least, which takes some milliseconds.
_FEWEST = 1024


class Slopes(Protocol):
    """A slope for each head."""

    @property
    def count(self) -> int:
        """How many there are."""

    def pairs(self, heads: range) -> Twofold:
        """Evaluate those of heads that follow each other, (heads,)."""

    def sizes(self, heads: range) -> Float64s:
        """Give the size of those of heads, right to 2^-40 of it, without evaluating them."""


@dataclass(frozen=True)
class SlopeRule:
    """The slopes of a number of heads.

    Attributes:
        convention: ``original``, the rule of the code, or ``paper``, one geometric series.
        count: how many heads there are.
        bias_max: the last slope is 2^−bias_max.
    """

    convention: str
    count: int
    bias_max: float

    @property
    def setup_work(self) -> int:
        """A frequency for each slope."""
        return FREQUENCY_WORK * self.count

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {
            "convention": self.convention,
            "num_heads": self.count,
            "alibi_bias_max": self.bias_max,
        }

    def exact(self, heads: int) -> list[Decimal]:
        """Evaluate the slopes of the first so many heads."""
        own = min(heads, self._of_one_series)
        others = self._series(2 * self._of_one_series, 2 * (heads - own))[0::2]
        return self._series(self._of_one_series, own) + others

    def pairs(self, heads: range) -> Twofold:
        """Evaluate the slopes of heads as pairs."""
        # So many that the next heads seldom need others.
        known = min(self.count, max(_FEWEST, 1 << (heads.stop - 1).bit_length()))
        return Twofold(*(part[heads.start : heads.stop] for part in _pairs_of(self, known)))

    def sizes(self, heads: range) -> Float64s:
        """Give the size of the slopes of heads, nearly."""
        head, own = np.arange(heads.start, heads.stop), self._of_one_series
        place = np.where(head < own, head + 1.0, head - own + 0.5)
        return np.asarray(np.exp2(place * (-self.bias_max / own)))

    @property
    def _of_one_series(self) -> int:
        """How many heads have the slopes of as many, before those that have others."""
        if self.convention == "paper":
            return self.count
        return 1 << (self.count.bit_length() - 1)

    def _series(self, heads: int, count: int) -> list[Decimal]:
        """Evaluate the first slopes of a series for a number of heads."""
        base = exact_context().power(Decimal(2), Decimal(self.bias_max))
        return scaling.default(base, 2 * heads, count + 1)[1:]


@lru_cache(maxsize=64)
def _pairs_of(rule: SlopeRule, heads: int) -> Twofold:
    context = exact_context()
    exact = rule.exact(heads)
    high = [float(slope) for slope in exact]
    rest = [context.subtract(slope, Decimal(h)) for slope, h in zip(exact, high, strict=True)]
    return Twofold(np.array(high), np.array([float(part) for part in rest]))


@dataclass(frozen=True, eq=False)
class GivenSlopes:
    """Slopes that somebody sent: float64 (heads,)."""

    values: Float64s

    @property
    def count(self) -> int:
        """As many as were sent."""
        return len(self.values)

    def pairs(self, heads: range) -> Twofold:
        """Give them as they are."""
        return of_floats(self.values[heads.start : heads.stop])

    def sizes(self, heads: range) -> Float64s:
        """Give their size."""
        return np.abs(self.values[heads.start : heads.stop])


@dataclass(frozen=True, eq=False)
class SlopesTable(RowTable):
    """The slopes of a rule, each the nearest number of a real type's to that of float64."""

    rule: SlopeRule
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """One for each head."""
        return (self.rule.count,)

    @property
    def setup_work(self) -> int:
        """That of the rule."""
        return self.rule.setup_work

    @property
    def row_width(self) -> int:
        """A row is one slope."""
        return 1

    def fill(self, first: int, rows: Elements) -> None:
        """Give slopes from the one numbered first on."""
        heads = range(first, first + len(rows))
        round_into(self.rule.pairs(heads).high, rows[:, 0], self.dtype)


def slopes(*, rule: SlopeRule, dtype: DType) -> Document:
    """Describe the slopes of heads, (num_heads,), of a real type."""
    table = SlopesTable(rule, dtype)
    return Document(
        "relative-alibi-slopes",
        rule.parameters(),
        {"slopes": table},
        axes=("head",),
        states_axes=True,
        curves="columns",
    )
