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
from service.tables.table import RowTable
from service.tables.twofold import Twofold, of_floats

MAX_BIAS_MAX = 100.0
"""The exponent of the smallest slope."""


class Slopes(Protocol):
    """A slope for each head."""

    @property
    def count(self) -> int:
        """How many there are."""

    def pairs(self) -> Twofold:
        """Evaluate them, each (count,)."""


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

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {
            "convention": self.convention,
            "num_heads": self.count,
            "alibi_bias_max": self.bias_max,
        }

    def exact(self) -> list[Decimal]:
        """Evaluate the slopes."""
        power = 1 << (self.count.bit_length() - 1)
        if self.convention == "paper" or power == self.count:
            return self._series(self.count)
        others = self._series(2 * power)[0::2]
        return self._series(power) + others[: self.count - power]

    def pairs(self) -> Twofold:
        """Evaluate the slopes as pairs."""
        return _pairs_of(self)

    def _series(self, heads: int) -> list[Decimal]:
        base = exact_context().power(Decimal(2), Decimal(self.bias_max))
        return scaling.default(base, 2 * heads, heads + 1)[1:]


@lru_cache(maxsize=64)
def _pairs_of(rule: SlopeRule) -> Twofold:
    context = exact_context()
    exact = rule.exact()
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

    def pairs(self) -> Twofold:
        """Give them as they are."""
        return of_floats(self.values)


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
    def row_width(self) -> int:
        """A row is one slope."""
        return 1

    def fill(self, first: int, rows: Elements) -> None:
        """Give slopes from the one numbered first on."""
        round_into(self.rule.pairs().high[first : first + len(rows)], rows[:, 0], self.dtype)


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
