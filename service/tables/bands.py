"""Frequencies of image axes that are no plain geometric series, and changes of unit."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from service.tables import scaling
from service.tables.angle import TWO_PI, exact_context
from service.tables.frequencies import FrequencyRule
from service.tables.scaling import Decimals


@dataclass(frozen=True)
class Measured:
    """The frequencies of a rule per position, where a position counts for a fraction of one.

    Attributes:
        rule: frequencies per whole coordinate.
        unit: the coordinate of position 1.
    """

    rule: FrequencyRule
    unit: Fraction

    @property
    def count(self) -> int:
        """How many there are."""
        return self.rule.count

    def exact(self) -> Decimals:
        """Evaluate them, in radians per position."""
        context = exact_context()
        above, below = Decimal(self.unit.numerator), Decimal(self.unit.denominator)
        return [
            context.divide(context.multiply(frequency, above), below)
            for frequency in self.rule.exact()
        ]


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


@dataclass(frozen=True)
class Periods:
    """The frequencies 2π/(first·(last/first)^(k/span)) for k = 0 … count − 1.

    DINOv3 ``RopePositionEmbedding``: first = 1, last = base and span = head_dim/4, or first =
    min_period, last = max_period and span = count − 1.
    """

    first: float
    last: float
    span: int
    count: int

    def exact(self) -> Decimals:
        """Evaluate them, in radians per coordinate."""
        context = exact_context()
        ratio = context.divide(Decimal(self.last), Decimal(self.first))
        fastest = context.divide(TWO_PI, Decimal(self.first))
        # A series ratio^(−2k/dim) with dim = 2·span, which is 0 only for a single frequency.
        series = scaling.default(ratio, 2 * max(self.span, 1), self.count)
        return [context.multiply(fastest, frequency) for frequency in series]


@dataclass(frozen=True)
class PixelBands:
    """The frequencies π·b_k of count bands from 1 to max_freq/2, evenly or in equal ratios.

    Evenly: rotary-embedding-torch 0.9.1, freqs_for="pixel"; timm 1.0.31, linear_bands. In equal
    ratios: timm 1.0.31 ``pixel_freq_bands``, 2^linspace(0, log2(max_res) − 1).
    """

    max_freq: float
    count: int
    is_linear: bool

    def exact(self) -> Decimals:
        """Evaluate them, in radians per coordinate."""
        context = exact_context()
        half_turn = context.divide(TWO_PI, Decimal(2))
        highest = context.divide(Decimal(self.max_freq), Decimal(2))
        steps = max(self.count - 1, 1)
        if self.is_linear:
            step = context.divide(context.subtract(highest, Decimal(1)), Decimal(steps))
            bands = [context.fma(step, Decimal(k), Decimal(1)) for k in range(self.count)]
        else:
            below = context.divide(Decimal(1), highest)
            bands = scaling.default(below, 2 * steps, self.count)
        return [context.multiply(half_turn, band) for band in bands]


@dataclass(frozen=True)
class Ones:
    """As many frequencies of one radian: rotary-embedding-torch 0.9.1, freqs_for="constant"."""

    count: int

    def exact(self) -> Decimals:
        """Give them."""
        return [Decimal(1)] * self.count
