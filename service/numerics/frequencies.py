"""Frequencies: how fast each pair of channels turns, in radians per position.

All are evaluated with decimals of PRECISION_DIGITS digits, from the exact values of binary64
parameters. First the lists of frequencies that tables are made of (``FrequencyRule``), then the
scaling rules of rotary embeddings, each a pure function of exact decimals.

Notation of the formulas: r is rotary_dim, b is rope_theta, k = 0 … r/2 − 1 numbers the pairs of
channels, f is factor, O is original_max_position_embeddings. Sources name a paper, or a library
with its version and function: "transformers" is 5.23.0 and its ``modeling_rope_utils``, "vLLM" is
0.33.0 and its ``layers/rotary_embedding``.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Protocol, TypeAlias

from service.numerics.phase import TWO_PI, exact_arithmetic

Decimals: TypeAlias = list[Decimal]

_ZERO, _ONE = Decimal(0), Decimal(1)
_YARN_SLOPE = Decimal("0.1")


@exact_arithmetic
def default(base: Decimal, dim: int, count: int) -> Decimals:
    """Return b^(−2k/dim) for k below count.

    "RoFormer" (Su et al. 2021), §3.2.2, with dim = r and count = r/2.
    """
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
        """How many there are."""

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

    @exact_arithmetic
    def exact(self) -> Decimals:
        fastest = Decimal(self.first) * (TWO_PI if self.full_turns else _ONE)
        series = default(Decimal(self.greatest) / Decimal(self.least), self.dim, self.count)
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
        series = default(Decimal(self.last) / first, 2 * max(self.span, 1), self.count)
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
            bands = default(_ONE / highest, 2 * steps, self.count)
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


@exact_arithmetic
def divided(frequencies: Decimals, factors: Sequence[Decimal]) -> Decimals:
    """Return ω_k / F_k.

    ``freq_factors`` of ggml (``rope_custom``); the rescaling of "LongRoPE" (Ding et al. 2024),
    §3, in transformers ``_compute_longrope_parameters``.
    """
    return [frequency / factor for frequency, factor in zip(frequencies, factors, strict=True)]


def linear(frequencies: Decimals, factor: Decimal) -> Decimals:
    """Return ω_k / f.

    "Extending Context Window of Large Language Models via Positional Interpolation" (Chen et al.
    2023), §3.2; transformers ``_compute_linear_scaling_rope_parameters``.
    """
    return divided(frequencies, [factor] * len(frequencies))


@exact_arithmetic
def rescaled_base(base: Decimal, alpha: Decimal, dim: int) -> Decimal:
    """Return b·α^(r/(r − 2)), for r above 2: the base for which the last frequency is ω/α.

    NTK-aware scaling, (bloc97 2023) as in "YaRN" (Peng et al. 2023), §3.1; transformers
    ``_compute_dynamic_ntk_parameters`` and ``compute_ntk_alpha_rope_parameters`` (HunYuan).
    """
    return base * alpha ** (Decimal(dim) / (dim - 2))


@exact_arithmetic
def dynamic_alpha(factor: Decimal, length: int, original_length: int) -> Decimal:
    """Return f·L/M − (f − 1), the α of a model that runs at length L, trained at M; 1 up to M.

    Dynamic NTK scaling, "YaRN" (Peng et al. 2023), §3.3; transformers
    ``_compute_dynamic_ntk_parameters``.
    """
    return factor * max(length, original_length) / original_length - (factor - 1)


@exact_arithmetic
def ntk(base: Decimal, dim: int, factor: Decimal) -> Decimals:
    """Return (b·f)^(−2k/r) / f^(2/r).

    NTK scaling with a fixed factor (Su 2023, kexue.fm 9706); vLLM ``NTKScalingRotaryEmbedding``.
    """
    return linear(default(base * factor, dim, dim // 2), factor ** (Decimal(2) / dim))


@exact_arithmetic
def ntk_mixed(base: Decimal, dim: int, factor: Decimal, mixed_b: Decimal) -> Decimals:
    """Return b^(−2k/r) / exp(a·(k + 1)^B) with a = ln f / (r/2)^B.

    "NTK-RoPE-mixed" (Su 2023, kexue.fm 9706); vLLM ``NTKScalingRotaryEmbedding`` with mixed_b.
    """
    pairs = dim // 2
    a = factor.ln() / Decimal(pairs) ** mixed_b
    factors = [(a * Decimal(k) ** mixed_b).exp() for k in range(1, pairs + 1)]
    return divided(default(base, dim, pairs), factors)


@dataclass(frozen=True)
class YarnRange:
    """The pairs at which YaRN begins and ends to divide frequencies.

    Attributes:
        raw: the pairs that turn β_fast and β_slow times over the original length.
        used: the same within the table, and rounded outwards if truncate.
    """

    raw: tuple[Decimal, Decimal]
    used: tuple[Decimal, Decimal]


@exact_arithmetic
def yarn_range(
    base: Decimal, dim: int, length: int, betas: tuple[Decimal, Decimal], *, truncate: bool
) -> YarnRange:
    """Return the pairs r·ln(O/(2πβ)) / (2·ln b) for β_fast and β_slow; b is above 1.

    "YaRN" (Peng et al. 2023), §3.2; transformers ``_compute_yarn_parameters``: rounded down and
    up if truncate, then limited to 0 and r − 1.
    """
    fast, slow = (dim * (length / (beta * TWO_PI)).ln() / (2 * base.ln()) for beta in betas)
    low, high = fast, slow
    if truncate:
        low = fast.to_integral_value(ROUND_FLOOR)
        high = slow.to_integral_value(ROUND_CEILING)
    return YarnRange((fast, slow), (max(low, _ZERO), min(high, Decimal(dim - 1))))


@exact_arithmetic
def yarn_ramp(used: tuple[Decimal, Decimal], count: int) -> Decimals:
    """Return γ_k = (k − low)/(high − low), limited to 0 … 1.

    Where low and high are equal, high counts as 0.001 more. Transformers
    ``_compute_yarn_parameters``, ``linear_ramp_factor``.
    """
    low, high = used
    width = high - low or Decimal("0.001")
    return [min(max((k - low) / width, _ZERO), _ONE) for k in range(count)]


def yarn(frequencies: Decimals, ramp: Decimals, factor: Decimal) -> Decimals:
    """Return (1 − γ_k)·ω_k + γ_k·ω_k/f.

    "YaRN" (Peng et al. 2023), §3.2; transformers ``_compute_yarn_parameters``.
    """
    return _blend(linear(frequencies, factor), frequencies, ramp)


@exact_arithmetic
def _blend(slow: Decimals, fast: Decimals, shares: Decimals) -> Decimals:
    """Return share·slow + (1 − share)·fast."""
    return [share * a + (1 - share) * b for a, b, share in zip(slow, fast, shares, strict=True)]


@exact_arithmetic
def yarn_mscale(factor: Decimal, mscale: Decimal = _ONE, slope: Decimal = _YARN_SLOPE) -> Decimal:
    """Return g(f, m) = slope·m·ln f + 1, and 1 for f up to 1.

    "YaRN" (Peng et al. 2023), §3.4, with a slope of 0.1 and m = 1; transformers ``get_mscale``.
    """
    return _ONE if factor <= 1 else slope * mscale * factor.ln() + 1


@exact_arithmetic
def yarn_attention_factor(factor: Decimal, mscale: Decimal, mscale_all_dim: Decimal) -> Decimal:
    """Return g(f, mscale)/g(f, mscale_all_dim) if neither is 0, else g(f, 1).

    Transformers ``_compute_yarn_parameters``.
    """
    if not (mscale and mscale_all_dim):
        return yarn_mscale(factor)
    return yarn_mscale(factor, mscale) / yarn_mscale(factor, mscale_all_dim)


@exact_arithmetic
def longrope_attention_factor(factor: Decimal, length: int) -> Decimal:
    """Return √(1 + ln f / ln O), and 1 for f up to 1; O is above 1.

    "LongRoPE" as Phi-3 has it; transformers ``_compute_longrope_parameters``.
    """
    return _ONE if factor <= 1 else (1 + factor.ln() / Decimal(length).ln()).sqrt()


@exact_arithmetic
def llama3_smooth(
    frequencies: Decimals, length: int, low_freq_factor: Decimal, high_freq_factor: Decimal
) -> Decimals:
    """Return t_k = (O/λ_k − low)/(high − low) of wavelengths λ_k = 2π/ω_k, limited to 0 … 1.

    "The Llama 3 Herd of Models" (2024); transformers ``_compute_llama3_parameters``. Where low and
    high are equal there is nothing between: 0 for λ_k from O/low on, else 1, as in vLLM
    ``Llama3RotaryEmbedding``.
    """
    width = high_freq_factor - low_freq_factor
    smooth: Decimals = []
    for frequency in frequencies:
        above = length * frequency / TWO_PI - low_freq_factor
        share = above / width if width else Decimal(above > 0)
        smooth.append(min(max(share, _ZERO), _ONE))
    return smooth


def llama3(frequencies: Decimals, smooth: Decimals, factor: Decimal) -> Decimals:
    """Return (1 − t_k)·ω_k/f + t_k·ω_k.

    Transformers ``_compute_llama3_parameters``: short wavelengths are kept, long ones divided.
    """
    return _blend(frequencies, linear(frequencies, factor), smooth)


def proportional(base: Decimal, dim: int, turning: int, factor: Decimal) -> Decimals:
    """Return b^(−2k/dim)/f for k below turning, then 0 up to dim/2 frequencies.

    Gemma 4; transformers ``_compute_proportional_rope_parameters``, dim = head_dim and turning =
    ⌊partial_rotary_factor·dim/2⌋.
    """
    moving = linear(default(base, dim, turning), factor)
    return moving + [_ZERO] * (dim // 2 - turning)
