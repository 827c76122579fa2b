"""Find the rotary rules of measured frequencies that are a geometric series or a list.

A series is that of the default rule, linear, dynamic with alpha, NTK or proportional. A list has a
number for each frequency: factors by NTK's mixed_b, longrope's, ggml's freq_factors, or the
frequencies themselves as ``inv_freq``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import ceil, exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from service.analysis.families.requests import unless_default
from service.analysis.measure import (
    GeometricSeries,
    base_of_series,
    fit_geometric,
    fit_line,
    round_bases,
)
from service.analysis.round_numbers import round_number, round_numbers
from service.encodings.rotary.rules import (
    Default,
    DynamicAlpha,
    GivenFrequencies,
    Linear,
    LongRope,
    Ntk,
    Proportional,
    RotaryFrequencies,
    RotaryRule,
)
from service.numerics.limits import MAX_ATTENTION_FACTOR, MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_FREQUENCY, MIN_FREQUENCY, Float64s
from service.numerics.tables import ParameterValue

# Bases of published models, for frequencies that do not determine theirs.
USUAL_BASES = (10000.0, 500000.0, 1000000.0, 100000.0, 5000000.0, 150000.0)


@dataclass(frozen=True, eq=False)
class MeasuredFrequencies:
    """Measured frequencies with their errors.

    Attributes:
        omega: radians per position, (K,).
        error: of each, absolute, (K,).
        scale: the factor of cosines and sines; None where there are none.
        scale_error: of the scale, relative.
    """

    omega: Float64s
    error: Float64s
    scale: float | None = None
    scale_error: float = 0.0

    @property
    def count(self) -> int:
        return len(self.omega)

    @property
    def known_scale(self) -> float:
        """The scale, 1 where there is none."""
        return 1.0 if self.scale is None else self.scale

    @property
    def is_scaled(self) -> bool:
        return abs(self.known_scale - 1) > self.scale_error

    def agrees(self, rule: RotaryFrequencies) -> bool:
        """Return whether a rule gives these frequencies and this scale, within their errors."""
        if self.scale is not None:
            tolerance = 2 * self.scale_error * abs(self.scale)
            if not abs(rule.scale - self.scale) <= tolerance:
                return False
        return bool((np.abs(frequencies(rule) - self.omega) <= 2 * self.error).all())

    def ratios(self, base: float) -> tuple[Float64s, Float64s]:
        """Return the frequencies relative to the unscaled ones of a base, and the errors."""
        of_base = unscaled(base, self.count)
        return self.omega / of_base, self.error / of_base


# Fields of rules that are no parameters: the width, and a factor that follows from other ones.
_NO_PARAMETERS = ("rotary_dim", "attention_factor")


@dataclass(frozen=True)
class RuleMatch:
    """A rule that gives measured frequencies, its request parameters, and the evidence in words."""

    rule: RotaryFrequencies
    parameters: dict[str, ParameterValue]
    support: tuple[str, ...]

    @classmethod
    def of(cls, rule: RotaryRule, *support: str, **others: ParameterValue) -> "RuleMatch":
        """Return the match of a rule, whose parameters are its fields beside some others."""
        parameters: dict[str, ParameterValue] = (
            {} if isinstance(rule, Default) else {"rope_type": rule.rope_type}
        )
        for field in fields(rule):
            value = getattr(rule, field.name)
            if field.name not in _NO_PARAMETERS and value != field.default:
                parameters[field.name] = value
        return cls(rule, parameters | others, support)

    @property
    def is_given(self) -> bool:
        """Return whether the frequencies themselves are the parameter."""
        return "inv_freq" in self.parameters

    @property
    def is_listed(self) -> bool:
        """Return whether a parameter has a number for each frequency."""
        return not self.parameters.keys().isdisjoint({"inv_freq", "freq_factors", "short_factor"})

    def sized(self, count: int) -> dict[str, ParameterValue]:
        """Return the parameters with head_dim before them, unless the frequencies are given."""
        return self.parameters if self.is_given else {"head_dim": 2 * count, **self.parameters}


def frequencies(rule: RotaryFrequencies) -> Float64s:
    """Return the frequencies of a rule, each the nearest float64."""
    return np.array([float(frequency) for frequency in rule.exact()])


def unscaled(base: float, count: int) -> Float64s:
    """Return base^(−k/count) for k below count."""
    return np.asarray(base ** (-np.arange(count) / count))


# Rules with one geometric series.

_FEW_DIGITS = 3
# A larger factor cannot be distinguished from a larger base, and no model has one.
_MAX_FACTOR = 1e4
_FINEST_ALPHA = 2.0**-12


def series_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the rules whose frequencies are a geometric series, the simplest first."""
    series = fit_geometric(measured.omega, measured.error)
    if series is None:
        yield from _proportional(measured)
        return
    width = 2 * measured.count
    base = base_of_series(series, width)
    support = (
        f"{measured.count} frequencies fall from {series.first:.6g} as {base:.6g}^(-2k/{width})"
    )
    if abs(series.first - 1) > 2 * series.first_error:
        rules: list[Linear | Ntk] = [*_linear(series, width), *_ntk(series, width)]
        for rule in sorted(rules, key=lambda each: odd_digits(each.factor) + (each.factor <= 1)):
            factor = f"{rule.factor:.8g}"
            first = f"1/{factor}" if isinstance(rule, Linear) else f"{factor}^(-2/{width})"
            yield RuleMatch.of(rule, support, f"the first is {first}")
        return
    for base in round_bases(series, width):
        yield RuleMatch.of(Default(width, base), support)
    yield from _alpha(series, width, support)


def odd_digits(number: float) -> int:
    """Count the digits that a number is written with; powers of two count as one."""
    mantissa, _ = np.frexp(number)
    if mantissa == 0.5:
        return 1
    return len(repr(float(number)).split("e")[0].replace(".", "").strip("0") or "0")


def _alpha(series: GeometricSeries, width: int, support: str) -> Iterator[RuleMatch]:
    """Yield usual bases with a round alpha, where the measured base itself is not round."""
    if width < 4:
        return
    error = width / 2 * series.ratio_error
    measured = base_of_series(series, width)
    if error >= 0.5 or (base := next(round_numbers(measured, error), None)) is None:
        return
    if odd_digits(base) <= _FEW_DIGITS:
        return
    for base in USUAL_BASES:
        exact = (measured / base) ** ((width - 2) / width)
        for alpha in _round_alphas(exact, error * (width - 2) / width):
            product = f"{measured:.8g} is {base:g}·{alpha:.8g}^({width}/{width - 2})"
            yield RuleMatch.of(DynamicAlpha(width, base, alpha), support, product)


def _round_alphas(alpha: float, error: float) -> Iterator[float]:
    """Yield the number of few digits, or else the multiple of a power of 2, near an alpha."""
    if alpha < 1 + error:
        return
    nearest = next(round_numbers(alpha, error, 1), None)
    if nearest is not None and odd_digits(nearest) <= _FEW_DIGITS:
        yield nearest
        return
    unit = 0.5
    while unit >= max(_FINEST_ALPHA, 2 * alpha * error):
        if abs(round(alpha / unit) * unit - alpha) <= alpha * error:
            yield round(alpha / unit) * unit
            return
        unit /= 2


def _linear(series: GeometricSeries, width: int) -> Iterator[Linear]:
    for base in round_bases(series, width)[:1]:
        for factor in round_numbers(1 / series.first, 2 * series.first_error + 2.0**-52, 2):
            yield Linear(width, base, factor)


def _ntk(series: GeometricSeries, width: int) -> Iterator[Ntk]:
    """Find f of ω_0 = f^(−2/r), and b of the series' base b·f."""
    if not (0 < series.first < 1) or series.ratio_error == inf:
        return
    with np.errstate(over="ignore"):
        measured = float(np.float64(series.first) ** (-width / 2))
        product = float(np.float64(series.ratio) ** (-width / 2))
    if not measured < min(product, _MAX_FACTOR):
        return
    for factor in round_numbers(measured, width * series.first_error, 2):
        for base in round_numbers(product / factor, width / 2 * series.ratio_error, 1):
            yield Ntk(width, base, factor)


def _proportional(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find a series that ends before the last frequencies, which are 0."""
    count, width = measured.count, 2 * measured.count
    nonzero = np.flatnonzero(np.abs(measured.omega) > 2 * measured.error)
    rotating = int(nonzero[-1]) + 1 if len(nonzero) else 0
    if not 0 < rotating < count:
        return
    series = fit_geometric(measured.omega[:rotating], measured.error[:rotating])
    if series is None:
        return
    part = rotating / count
    if int(part * width // 2) != rotating:
        part = ceil(part * 2**20) / 2**20
    factor = 1.0
    if abs(series.first - 1) > 2 * series.first_error:
        factor = round_number(1 / series.first, 2 * series.first_error)
    support = f"the last {count - rotating} of {count} frequencies are 0"
    parameters: dict[str, ParameterValue] = {
        "rope_type": Proportional.rope_type,
        "partial_rotary_factor": part,
        **unless_default("factor", factor, 1.0),
    }
    for base in round_bases(series, width):
        rule = Proportional(width, base, part, factor)
        yield RuleMatch(rule, {**parameters, "rope_theta": base}, (support,))


# Rules with a number for each frequency.

_LENGTHS = (4096, 8192, 2048, 16384, 32768, 65536, 131072)
_MAX_CHARACTERS = 4


def listed_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the rules that divide each frequency by its own factor.

    These are NTK with mixed_b, longrope where cosines and sines are scaled, and ggml's
    freq_factors where they are not.
    """
    omega, error, count = measured.omega, measured.error, measured.count
    if not (omega > 2 * error).all() or count < 2:
        return
    if not measured.is_scaled:
        yield from _mixed(measured)
    base = USUAL_BASES[0]
    exact = unscaled(base, count) / omega
    factors = tuple(map(round_number, exact.tolist(), (error / omega).tolist()))
    if min(factors) < MIN_FACTOR or max(factors) > MAX_FACTOR:
        return
    ends = f"from {min(factors):.6g} to {max(factors):.6g}"
    support = f"frequencies of base {base:g} are divided by numbers {ends} that follow no formula"
    if not measured.is_scaled:
        yield RuleMatch.of(Default(2 * count, base, factors), support)
        return
    lists = "one length shows one list, which is given as short_factor and as long_factor"
    for length, attention, named in _longrope_attention(measured):
        rule = LongRope(2 * count, base, length, length, attention, factors, factors)
        parameters: dict[str, ParameterValue] = {
            "rope_type": rule.rope_type,
            "rope_theta": base,
            "short_factor": factors,
            "long_factor": factors,
            "original_max_position_embeddings": length,
        }
        yield RuleMatch(rule, parameters | named, (support, lists))


def given_rule(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the measured frequencies as inv_freq, whatever rule they come from."""
    omega = tuple(
        0.0 if abs(value) <= error else round_number(value, error / max(abs(value), MIN_FREQUENCY))
        for value, error in zip(measured.omega.tolist(), measured.error.tolist(), strict=True)
    )
    if min(omega) < 0 or max(omega) > MAX_FREQUENCY:
        return
    parameters: dict[str, ParameterValue] = {"inv_freq": omega}
    scale = 1.0
    if measured.is_scaled:
        scale = round_number(measured.known_scale, measured.scale_error)
        parameters["attention_factor"] = scale
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    ends = f"from {max(omega):.6g} to {min(omega):.6g}"
    support = f"{measured.count} frequencies {ends} follow no known rule: they are as measured"
    yield RuleMatch(GivenFrequencies(omega, scale), parameters, (support,))


def _mixed(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find ln F_k = a·(k + 1)^B with a = ln f/(r/2)^B: a line in logarithms of both."""
    count = measured.count
    for base in USUAL_BASES[:3]:
        divided = np.log(unscaled(base, count) / measured.omega)
        error = measured.error / measured.omega
        known: NDArray[np.bool_] = (divided > 4 * error) & (error < 0.2)
        if int(known.sum()) < max(2, count // 2):
            continue
        ranks = np.arange(1, count + 1)[known]
        line = fit_line(np.log(ranks), np.log(divided[known]), error[known] / divided[known])
        end, end_error = line.at(log(count)), line.error_at(log(count))
        if not (0 < line.slope < 16 and end < 20 and end_error < 0.2):
            continue
        support = f"the frequencies of base {base:g} are divided by exp(a·(k + 1)^{line.slope:.4g})"
        for mixed_b in round_numbers(line.slope, 2 * line.slope_error / line.slope, 1):
            for factor in round_numbers(float(np.exp(exp(end))), 2 * exp(end) * end_error, 1):
                yield RuleMatch.of(Ntk(2 * count, base, factor, mixed_b), support)


def _longrope_attention(
    measured: MeasuredFrequencies,
) -> Iterator[tuple[int, float, dict[str, ParameterValue]]]:
    """Yield a length O and a factor f with √(1 + ln f/ln O) as the scale; else the scale itself."""
    scale = measured.known_scale
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    for length in _LENGTHS:
        logarithm = log(length) * (scale**2 - 1)
        if not 0 < logarithm < 20:
            continue
        error = 4 * scale**2 * log(length) * measured.scale_error
        factor = next(round_numbers(exp(logarithm), error, 1), None)
        if factor and (factor == round(factor) or len(f"{factor:g}") <= _MAX_CHARACTERS):
            yield length, sqrt(1 + log(factor) / log(length)), {"factor": factor}
            return
    for number in round_numbers(scale, 2 * measured.scale_error, 1):
        yield _LENGTHS[0], number, {"attention_factor": number, "factor": 1.0}
