"""Frequencies that only grids have."""

from dataclasses import dataclass
from decimal import Decimal

from service.tables import scaling
from service.tables.angle import TWO_PI, exact_context
from service.tables.frequencies import FrequencyRule
from service.tables.scaling import Decimals


@dataclass(frozen=True)
class Timescales:
    """The frequencies min·(max/min)^(−k/(count − 1)) for k = 0 … count − 1, count being above 1.

    tensor2tensor 1.15.7 ``add_timing_signal_nd``, which multiplies by min_timescale: a larger one
    makes every sinusoid faster.
    """

    min_timescale: float
    max_timescale: float
    count: int

    def exact(self) -> Decimals:
        """Evaluate them, in radians per coordinate."""
        context = exact_context()
        shortest = Decimal(self.min_timescale)
        ratio = context.divide(Decimal(self.max_timescale), shortest)
        series = scaling.default(ratio, 2 * max(self.count - 1, 1), self.count)
        return [context.multiply(shortest, frequency) for frequency in series]


@dataclass(frozen=True)
class InTurns:
    """The frequencies of a rule times 2π.

    Attributes:
        rule: frequencies in turns per coordinate.
    """

    rule: FrequencyRule

    @property
    def count(self) -> int:
        """How many there are."""
        return self.rule.count

    def exact(self) -> Decimals:
        """Evaluate them, in radians per coordinate."""
        context = exact_context()
        return [context.multiply(TWO_PI, frequency) for frequency in self.rule.exact()]
