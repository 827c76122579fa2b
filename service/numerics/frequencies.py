"""Frequencies: how fast each pair of channels turns, in radians per position.

All are evaluated with decimals of PRECISION_DIGITS digits, from the exact values of binary64
parameters. The scaling rules of rotary embeddings are in ``encodings/rotary/rules.py``.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, TypeAlias

from service.numerics.phase import TWO_PI, exact_arithmetic

Decimals: TypeAlias = list[Decimal]

_ZERO, _ONE = Decimal(0), Decimal(1)
_YARN_SLOPE = Decimal("0.1")


@exact_arithmetic
def geometric_series(base: Decimal, dim: int, count: int) -> Decimals:
    """Return b^(−2k/dim) for k below count."""
    return powers((base.ln() * (Decimal(-2) / dim)).exp(), count)


@exact_arithmetic
def powers(ratio: Decimal, count: int) -> Decimals:
    """Return ratio^k for k below count."""
    series = [_ONE] * min(count, 1)
    while len(series) < count:
        series.append(series[-1] * ratio)
    return series


@exact_arithmetic
def wavelengths(frequencies: Decimals) -> Decimals:
    """Return 2π/ω of each frequency ω: the positions after which its channels repeat.

    The wavelength of a frequency of 0 is infinite.
    """
    return [TWO_PI / frequency if frequency else Decimal("Infinity") for frequency in frequencies]


class FrequencyRule(Hashable, Protocol):
    """A hashable description of a list of frequencies."""

    @property
    def count(self) -> int:
        """The number of frequencies."""

    def exact(self) -> Decimals:
        """Return the frequencies, in radians per position or per unit of a coordinate."""


@dataclass(frozen=True)
class Geometric:
    """The frequencies base^(−2k/dim) for k = 0 … count − 1.

    "Attention Is All You Need" (Vaswani et al. 2017), §3.5, with dim = d_model; "RoFormer" (Su et
    al. 2021), §3.2.2, with dim = rotary_dim, where the base is called rope_theta in configs.
    """

    base: float
    dim: int
    count: int

    def exact(self) -> Decimals:
        return geometric_series(Decimal(self.base), self.dim, self.count)


def geometric(d_model: int, base: float) -> Geometric:
    """Return the frequencies of the encoding; an odd d_model ends with a sine of its own."""
    return Geometric(base, d_model, -(-d_model // 2))


@dataclass(frozen=True)
class ScaledGeometric:
    """The frequencies first·(least/greatest)^(2k/dim) for k = 0 … count − 1.

    tensor2tensor 1.15.7 ``get_timing_signal_1d`` and ``add_timing_signal_nd``: first and least are
    min_timescale, greatest is max_timescale, so that a larger min_timescale makes every sinusoid
    faster. mlx 0.32.4 ``SinusoidalPositionalEncoding``: first and greatest are max_freq,
    least is min_freq, and each frequency is multiplied by 2π if it counts full turns.
    """

    first: float
    least: float
    greatest: float
    dim: int
    count: int
    full_turns: bool = False

    @exact_arithmetic
    def exact(self) -> Decimals:
        fastest = Decimal(self.first) * (TWO_PI if self.full_turns else _ONE)
        series = geometric_series(
            Decimal(self.greatest) / Decimal(self.least), self.dim, self.count
        )
        return [fastest * frequency for frequency in series]


@dataclass(frozen=True)
class PeriodFrequencies:
    """The frequencies 2π/(first·(last/first)^(k/span)) for k = 0 … count − 1.

    DINOv3 ``RopePositionEmbedding``: first = 1, last = base and span = head_dim/4, or first =
    min_period, last = max_period and span = count − 1.
    """

    first: float
    last: float
    span: int
    count: int

    @exact_arithmetic
    def exact(self) -> Decimals:
        first = Decimal(self.first)
        fastest = TWO_PI / first
        # A series ratio^(−2k/dim) with dim = 2·span, which is 0 only for a single frequency.
        series = geometric_series(Decimal(self.last) / first, 2 * max(self.span, 1), self.count)
        return [fastest * frequency for frequency in series]


@dataclass(frozen=True)
class PixelBands:
    """The frequencies π·b_k of count bands from 1 to max_freq/2, evenly or in equal ratios.

    Evenly: rotary-embedding-torch 0.9.1, freqs_for="pixel"; timm 1.0.31, linear_bands. In equal
    ratios: timm 1.0.31 ``pixel_freq_bands``, 2^linspace(0, log2(max_res) − 1).
    """

    max_freq: float
    count: int
    is_linear: bool

    @exact_arithmetic
    def exact(self) -> Decimals:
        highest = Decimal(self.max_freq) / 2
        steps = max(self.count - 1, 1)
        if self.is_linear:
            step = (highest - 1) / steps
            bands = [step.fma(k, _ONE) for k in range(self.count)]
        else:
            bands = geometric_series(_ONE / highest, 2 * steps, self.count)
        return [TWO_PI / 2 * band for band in bands]


@dataclass(frozen=True)
class ConstantFrequencies:
    """Frequencies of one radian each: rotary-embedding-torch 0.9.1, freqs_for="constant"."""

    count: int

    def exact(self) -> Decimals:
        return [_ONE] * self.count


@dataclass(frozen=True)
class ScaledFrequencies:
    """The frequencies of a rule per position, where a position is a fraction of a coordinate.

    Attributes:
        rule: frequencies per whole coordinate.
        unit: the coordinate of position 1.
    """

    rule: FrequencyRule
    unit: Fraction

    @property
    def count(self) -> int:
        return self.rule.count

    @exact_arithmetic
    def exact(self) -> Decimals:
        above, below = self.unit.numerator, self.unit.denominator
        return [frequency * above / below for frequency in self.rule.exact()]


@dataclass(frozen=True)
class TimesTwoPi:
    """The frequencies of a rule that counts in turns, times 2π."""

    rule: FrequencyRule

    @property
    def count(self) -> int:
        return self.rule.count

    @exact_arithmetic
    def exact(self) -> Decimals:
        return [TWO_PI * frequency for frequency in self.rule.exact()]
