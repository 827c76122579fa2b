"""Frequency rules of rotary embeddings, each a pure function of exact decimals.

Notation of the formulas: r is rotary_dim, b is rope_theta, k = 0 … r/2 − 1 numbers the pairs of
channels, f is factor, O is original_max_position_embeddings. Sources name a paper, or a library
with its version and function: "transformers" is 5.23.0 and its ``modeling_rope_utils``, "vLLM" is
0.33.0 and its ``layers/rotary_embedding``.

Frequencies: how fast each pair of channels turns.

Every one is evaluated in decimal arithmetic of PRECISION_DIGITS digits, from the exact values
of binary64 parameters.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Protocol, TypeAlias

from service.numerics.phase import (
    TWO_PI,
    exact_context,
)

Decimals: TypeAlias = list[Decimal]

_ONE = Decimal(1)
_YARN_SLOPE = Decimal("0.1")


def default(base: Decimal, dim: int, count: int) -> Decimals:
    """Give b^(−2k/dim) for k below count.

    "RoFormer" (Su et al. 2021), §3.2.2, with dim = r and count = r/2.
    """
    context = exact_context()
    exponent = context.divide(Decimal(-2), Decimal(dim))
    return powers(context.exp(context.multiply(context.ln(base), exponent)), count)


def powers(ratio: Decimal, count: int) -> Decimals:
    """Give ratio^k for k below count."""
    context = exact_context()
    series = [_ONE] * min(count, 1)
    while len(series) < count:
        series.append(context.multiply(series[-1], ratio))
    return series


def divided(frequencies: Decimals, factors: Sequence[Decimal]) -> Decimals:
    """Give ω_k / F_k.

    ``freq_factors`` of ggml (``rope_custom``); the rescaling of "LongRoPE" (Ding et al. 2024),
    §3, in transformers ``_compute_longrope_parameters``.
    """
    context = exact_context()
    return [
        context.divide(frequency, factor)
        for frequency, factor in zip(frequencies, factors, strict=True)
    ]


def linear(frequencies: Decimals, factor: Decimal) -> Decimals:
    """Give ω_k / f.

    "Extending Context Window of Large Language Models via Positional Interpolation" (Chen et al.
    2023), §3.2; transformers ``_compute_linear_scaling_rope_parameters``.
    """
    return divided(frequencies, [factor] * len(frequencies))


def rescaled_base(base: Decimal, alpha: Decimal, dim: int) -> Decimal:
    """Give b·α^(r/(r − 2)), for r above 2: the base for which the last frequency is ω/α.

    NTK-aware scaling, (bloc97 2023) as in "YaRN" (Peng et al. 2023), §3.1; transformers
    ``_compute_dynamic_ntk_parameters`` and ``compute_ntk_alpha_rope_parameters`` (HunYuan).
    """
    context = exact_context()
    exponent = context.divide(Decimal(dim), Decimal(dim - 2))
    return context.multiply(base, context.power(alpha, exponent))


def dynamic_alpha(factor: Decimal, length: int, original_length: int) -> Decimal:
    """Give f·L/M − (f − 1), the α of a model that runs at length L, trained at M; 1 up to M.

    Dynamic NTK scaling, "YaRN" (Peng et al. 2023), §3.3; transformers
    ``_compute_dynamic_ntk_parameters``.
    """
    context = exact_context()
    longest = Decimal(max(length, original_length))
    ratio = context.divide(context.multiply(factor, longest), Decimal(original_length))
    return context.subtract(ratio, context.subtract(factor, _ONE))


def ntk(base: Decimal, dim: int, factor: Decimal) -> Decimals:
    """Give (b·f)^(−2k/r) / f^(2/r).

    NTK scaling with a fixed factor (Su 2023, kexue.fm 9706); vLLM ``NTKScalingRotaryEmbedding``.
    """
    context = exact_context()
    frequencies = default(context.multiply(base, factor), dim, dim // 2)
    return linear(frequencies, context.power(factor, context.divide(Decimal(2), Decimal(dim))))


def ntk_mixed(base: Decimal, dim: int, factor: Decimal, mixed_b: Decimal) -> Decimals:
    """Give b^(−2k/r) / exp(a·(k + 1)^B) with a = ln f / (r/2)^B.

    "NTK-RoPE-mixed" (Su 2023, kexue.fm 9706); vLLM ``NTKScalingRotaryEmbedding`` with mixed_b.
    """
    context, pairs = exact_context(), dim // 2
    a = context.divide(context.ln(factor), context.power(Decimal(pairs), mixed_b))
    factors = [
        context.exp(context.multiply(a, context.power(Decimal(k), mixed_b)))
        for k in range(1, pairs + 1)
    ]
    return divided(default(base, dim, pairs), factors)


@dataclass(frozen=True)
class YarnRange:
    """Where the frequencies of YaRN begin and end to be divided, as numbers of pairs.

    Attributes:
        raw: the pairs that turn β_fast and β_slow times over the original length.
        used: the same within the table, and rounded outwards where truncate says so.
    """

    raw: tuple[Decimal, Decimal]
    used: tuple[Decimal, Decimal]


def yarn_range(
    base: Decimal, dim: int, length: int, betas: tuple[Decimal, Decimal], *, truncate: bool
) -> YarnRange:
    """Give the pairs r·ln(O/(2πβ)) / (2·ln b) for β_fast and β_slow; b is above 1.

    "YaRN" (Peng et al. 2023), §3.2; transformers ``_compute_yarn_parameters``: rounded down and
    up if truncate, then held within 0 and r − 1.
    """
    context = exact_context()
    fast, slow = (_pair_of(context, base, dim, length, beta) for beta in betas)
    low, high = fast, slow
    if truncate:
        low = fast.to_integral_value(ROUND_FLOOR)
        high = slow.to_integral_value(ROUND_CEILING)
    return YarnRange((fast, slow), (max(low, Decimal(0)), min(high, Decimal(dim - 1))))


def _pair_of(context: Context, base: Decimal, dim: int, length: int, beta: Decimal) -> Decimal:
    turns = context.divide(Decimal(length), context.multiply(beta, TWO_PI))
    above = context.multiply(Decimal(dim), context.ln(turns))
    return context.divide(above, context.multiply(Decimal(2), context.ln(base)))


def yarn_ramp(used: tuple[Decimal, Decimal], count: int) -> Decimals:
    """Give γ_k = (k − low)/(high − low), held within 0 and 1; high is 0.001 more if they are equal.

    Transformers ``_compute_yarn_parameters``, ``linear_ramp_factor``.
    """
    context = exact_context()
    low, high = used
    width = context.subtract(high, low) or Decimal("0.001")
    steps = (context.divide(context.subtract(Decimal(k), low), width) for k in range(count))
    return [min(max(step, Decimal(0)), _ONE) for step in steps]


def yarn(frequencies: Decimals, ramp: Decimals, factor: Decimal) -> Decimals:
    """Give (1 − γ_k)·ω_k + γ_k·ω_k/f.

    "YaRN" (Peng et al. 2023), §3.2; transformers ``_compute_yarn_parameters``.
    """
    return _blended(linear(frequencies, factor), frequencies, ramp)


def _blended(slow: Decimals, fast: Decimals, shares: Decimals) -> Decimals:
    """Mix share·slow + (1 − share)·fast."""
    context = exact_context()
    return [
        context.add(context.multiply(share, a), context.multiply(context.subtract(_ONE, share), b))
        for a, b, share in zip(slow, fast, shares, strict=True)
    ]


def yarn_mscale(factor: Decimal, mscale: Decimal = _ONE, slope: Decimal = _YARN_SLOPE) -> Decimal:
    """Give g(f, m) = slope·m·ln f + 1, and 1 for f up to 1.

    "YaRN" (Peng et al. 2023), §3.4, with a slope of 0.1 and m = 1; transformers ``get_mscale``.
    """
    if factor <= 1:
        return _ONE
    context = exact_context()
    steepness = context.multiply(slope, mscale)
    return context.add(context.multiply(steepness, context.ln(factor)), _ONE)


def yarn_attention_factor(factor: Decimal, mscale: Decimal, mscale_all_dim: Decimal) -> Decimal:
    """Give g(f, mscale)/g(f, mscale_all_dim) if neither is 0, else g(f, 1).

    Transformers ``_compute_yarn_parameters``.
    """
    if not (mscale and mscale_all_dim):
        return yarn_mscale(factor)
    above, below = yarn_mscale(factor, mscale), yarn_mscale(factor, mscale_all_dim)
    return exact_context().divide(above, below)


def longrope_attention_factor(factor: Decimal, length: int) -> Decimal:
    """Give √(1 + ln f / ln O), and 1 for f up to 1; O is above 1.

    "LongRoPE" as Phi-3 has it; transformers ``_compute_longrope_parameters``.
    """
    if factor <= 1:
        return _ONE
    context = exact_context()
    share = context.divide(context.ln(factor), context.ln(Decimal(length)))
    return context.sqrt(context.add(_ONE, share))


def llama3_smooth(
    frequencies: Decimals, length: int, low_freq_factor: Decimal, high_freq_factor: Decimal
) -> Decimals:
    """Give t_k = (O/λ_k − low)/(high − low) of wavelengths λ_k = 2π/ω_k, held within 0 and 1.

    "The Llama 3 Herd of Models" (2024); transformers ``_compute_llama3_parameters``. Where low and
    high are equal there is nothing between: 0 for λ_k from O/low on, else 1, as in vLLM
    ``Llama3RotaryEmbedding``.
    """
    context = exact_context()
    width = context.subtract(high_freq_factor, low_freq_factor)
    smooth: Decimals = []
    for frequency in frequencies:
        turns = context.divide(context.multiply(Decimal(length), frequency), TWO_PI)
        above = context.subtract(turns, low_freq_factor)
        share = context.divide(above, width) if width else Decimal(above > 0)
        smooth.append(min(max(share, Decimal(0)), _ONE))
    return smooth


def llama3(frequencies: Decimals, smooth: Decimals, factor: Decimal) -> Decimals:
    """Give (1 − t_k)·ω_k/f + t_k·ω_k.

    Transformers ``_compute_llama3_parameters``: short wavelengths are kept, long ones divided.
    """
    return _blended(frequencies, linear(frequencies, factor), smooth)


def proportional(base: Decimal, dim: int, turning: int, factor: Decimal) -> Decimals:
    """Give b^(−2k/dim)/f for k below turning, then 0 up to dim/2 frequencies.

    Gemma 4; transformers ``_compute_proportional_rope_parameters``, dim = head_dim and turning =
    ⌊partial_rotary_factor·dim/2⌋.
    """
    moving = linear(default(base, dim, turning), factor)
    return moving + [Decimal(0)] * (dim // 2 - turning)


class FrequencyRule(Hashable, Protocol):
    """A hashable description of a list of frequencies."""

    @property
    def count(self) -> int:
        """How many there are."""

    def exact(self) -> list[Decimal]:
        """Evaluate them, in radians per position."""


@dataclass(frozen=True)
class Geometric:
    """The frequencies base^(−2k/dim) for k = 0 … count − 1.

    "Attention Is All You Need" (Vaswani et al. 2017), §3.5, with dim = d_model; "RoFormer" (Su et
    al. 2021), §3.2.2, with dim = rotary_dim, where the base is called rope_theta in configs.
    """

    base: float
    dim: int
    count: int

    def exact(self) -> list[Decimal]:
        """Evaluate them, in radians per position."""
        return default(Decimal(self.base), self.dim, self.count)


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

    def exact(self) -> list[Decimal]:
        """Evaluate them, in radians per position."""
        context = exact_context()
        base = context.divide(Decimal(self.greatest), Decimal(self.least))
        fastest = Decimal(self.first)
        if self.full_turns:
            fastest = context.multiply(fastest, TWO_PI)
        series = default(base, self.dim, self.count)
        return [context.multiply(fastest, frequency) for frequency in series]


def wavelengths(frequencies: list[Decimal]) -> list[Decimal]:
    """Give 2π/ω of each frequency ω: the positions after which its channels repeat.

    The wavelength of a frequency of 0 is infinite.
    """
    context = exact_context()
    return [
        context.divide(TWO_PI, frequency) if frequency else Decimal("Infinity")
        for frequency in frequencies
    ]


@dataclass(frozen=True)
class ScaledFrequencies:
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
class TimesTwoPi:
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
class PeriodFrequencies:
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
        series = default(ratio, 2 * max(self.span, 1), self.count)
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
            bands = default(below, 2 * steps, self.count)
        return [context.multiply(half_turn, band) for band in bands]


@dataclass(frozen=True)
class ConstantFrequencies:
    """As many frequencies of one radian: rotary-embedding-torch 0.9.1, freqs_for="constant"."""

    count: int

    def exact(self) -> Decimals:
        """Give them."""
        return [Decimal(1)] * self.count
