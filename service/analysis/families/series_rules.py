"""Find the rotary rules of measured frequencies that are a geometric series or a list.

A series is that of the default rule, linear, dynamic with alpha, NTK or proportional. A list has a
number for each frequency: factors by NTK's mixed_b, longrope's, ggml's freq_factors, or the
frequencies themselves as ``inv_freq``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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
        error: how far off each may be, (K,).
        scale: the factor of cosines and sines; None where there are none.
        scale_error: how far off the scale may be, as a share of it.
    """

    omega: Float64s
    error: Float64s
    scale: float | None = None
    scale_error: float = 0.0

    @property
    def count(self) -> int:
        return len(self.omega)

    @property
    def is_scaled(self) -> bool:
        return self.scale is not None and abs(self.scale - 1) > self.scale_error

    def agrees(self, rule: RotaryFrequencies) -> bool:
        """Return whether a rule gives these frequencies and this scale, within their errors."""
        if self.scale is not None:
            room = 2 * self.scale_error * abs(self.scale)
            if not abs(rule.scale - self.scale) <= room:
                return False
        return bool((np.abs(frequencies(rule) - self.omega) <= 2 * self.error).all())

    def shares(self, base: float) -> tuple[Float64s, Float64s]:
        """Return the frequencies as shares of those of a base, and the errors of the shares."""
        of_base = unscaled(base, self.count)
        return self.omega / of_base, self.error / of_base


@dataclass(frozen=True)
class RuleMatch:
    """A rule that gives measured frequencies.

    Attributes:
        rule: the rule.
        parameters: those of the request that are not defaults.
        support: sentences on the evidence.
    """

    rule: RotaryFrequencies
    parameters: dict[str, ParameterValue]
    support: tuple[str, ...]

    @property
    def is_given(self) -> bool:
        """Return whether the frequencies themselves are the parameter."""
        return "inv_freq" in self.parameters

    @property
    def is_listed(self) -> bool:
        """Return whether a list of a number for each frequency is a parameter."""
        return not self.parameters.keys().isdisjoint({"inv_freq", "freq_factors", "short_factor"})

    def sized(self, count: int) -> dict[str, ParameterValue]:
        """Return the parameters with head_dim before them, unless the frequencies are given."""
        return self.parameters if self.is_given else {"head_dim": 2 * count, **self.parameters}


def frequencies(rule: RotaryFrequencies) -> Float64s:
    """Return the frequencies of a rule, each the nearest float64."""
    return np.array([float(frequency) for frequency in rule.exact()])


def unscaled(base: float, count: int) -> Float64s:
    """Return base^(−k/count) for k below count."""
    series: Float64s = base ** (-np.arange(count) / count)
    return series


# Rules with one geometric series.

_FEW_DIGITS = 3
# Beyond, a factor cannot be told from the base, and no model is stretched as far.
_MAX_STRETCH = 1e4
_FINEST_PART = 2.0**-12


def series_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the rules whose frequencies are a geometric series, the plainest first."""
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
        stretched = [*_linear(series, width, support), *_ntk(series, width, support)]
        stretched.sort(key=lambda each: odd_digits(each[0]) + (each[0] <= 1))
        yield from (match for _, match in stretched)
        return
    for base in round_bases(series, width):
        yield RuleMatch(Default(width, base), {"rope_theta": base}, (support,))
    yield from _alpha(series, width, support)


def odd_digits(number: float) -> int:
    """Count the digits that a number is written with; powers of two count as one."""
    mantissa, _ = np.frexp(number)
    if mantissa == 0.5:
        return 1
    return len(repr(float(number)).split("e")[0].replace(".", "").strip("0") or "0")


def _alpha(series: GeometricSeries, width: int, support: str) -> Iterator[RuleMatch]:
    """Find a usual base with a plain alpha, where the base itself is no plain number."""
    if width < 4:
        return
    error = width / 2 * series.ratio_error
    measured = base_of_series(series, width)
    if error >= 0.5 or (plain := next(round_numbers(measured, error), None)) is None:
        return
    if odd_digits(plain) <= _FEW_DIGITS:
        return
    for base in USUAL_BASES:
        alpha = (measured / base) ** ((width - 2) / width)
        for part in _plain_alphas(alpha, error * (width - 2) / width):
            product = f"{measured:.8g} is {base:g}·{part:.8g}^({width}/{width - 2})"
            yield RuleMatch(
                DynamicAlpha(width, base, part),
                {"rope_type": "dynamic", "rope_theta": base, "alpha": part},
                (support, product),
            )


def _plain_alphas(alpha: float, error: float) -> Iterator[float]:
    """Yield the number of few digits, or the multiple of a power of two, that an alpha is."""
    if alpha < 1 + error:
        return
    plain = next(round_numbers(alpha, error, 1), None)
    if plain is not None and odd_digits(plain) <= _FEW_DIGITS:
        yield plain
        return
    part = 0.5
    while part >= max(_FINEST_PART, 2 * alpha * error):
        if abs(round(alpha / part) * part - alpha) <= alpha * error:
            yield round(alpha / part) * part
            return
        part /= 2


def _linear(series: GeometricSeries, width: int, support: str) -> Iterator[tuple[float, RuleMatch]]:
    for base in round_bases(series, width)[:1]:
        for factor in round_numbers(1 / series.first, 2 * series.first_error + 2.0**-52, 2):
            yield (
                factor,
                RuleMatch(
                    Linear(width, base, factor),
                    {"rope_type": "linear", "rope_theta": base, "factor": factor},
                    (support, f"the first is 1/{factor:.8g}"),
                ),
            )


def _ntk(series: GeometricSeries, width: int, support: str) -> Iterator[tuple[float, RuleMatch]]:
    """Find f of ω_0 = f^(−2/r), and b of the series' base b·f."""
    if not (0 < series.first < 1) or series.ratio_error == inf:
        return
    with np.errstate(over="ignore"):
        factor = float(np.float64(series.first) ** (-width / 2))
        scaled = float(np.float64(series.ratio) ** (-width / 2))
    if not factor < min(scaled, _MAX_STRETCH):
        return
    for plain in round_numbers(factor, width * series.first_error, 2):
        for base in round_numbers(scaled / plain, width / 2 * series.ratio_error, 1):
            yield (
                plain,
                RuleMatch(
                    Ntk(width, base, plain),
                    {"rope_type": "ntk", "rope_theta": base, "factor": plain},
                    (support, f"the first is {plain:.8g}^(-2/{width})"),
                ),
            )


def _proportional(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find a series that ends before the last frequencies, which are 0."""
    count, width = measured.count, 2 * measured.count
    moving = np.flatnonzero(np.abs(measured.omega) > 2 * measured.error)
    turning = int(moving[-1]) + 1 if len(moving) else 0
    if not 0 < turning < count:
        return
    series = fit_geometric(measured.omega[:turning], measured.error[:turning])
    if series is None:
        return
    share = turning / count
    if int(share * width // 2) != turning:
        share = ceil(share * 2**20) / 2**20
    factor = 1.0
    if abs(series.first - 1) > 2 * series.first_error:
        factor = round_number(1 / series.first, 2 * series.first_error)
    parameters: dict[str, ParameterValue] = {
        "rope_type": "proportional",
        "partial_rotary_factor": share,
        **unless_default("factor", factor, 1.0),
    }
    support = f"{turning} of {count} frequencies turn, and the others are 0"
    for base in round_bases(series, width):
        rule = Proportional(width, base, share, factor)
        yield RuleMatch(rule, {**parameters, "rope_theta": base}, (support,))


# Rules with a number for each frequency.

_LENGTHS = (4096, 8192, 2048, 16384, 32768, 65536, 131072)
_LIST_DIGITS = 4


def listed_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the rules that divide each frequency by its own factor.

    These are NTK with mixed_b, longrope where cosines and sines are scaled, and ggml's
    freq_factors where they are not.
    """
    if not (measured.omega > 2 * measured.error).all() or measured.count < 2:
        return
    if not measured.is_scaled:
        yield from _mixed(measured)
    base = USUAL_BASES[0]
    factors = _plain(
        unscaled(base, measured.count) / measured.omega, measured.error / measured.omega
    )
    if min(factors) < MIN_FACTOR or max(factors) > MAX_FACTOR:
        return
    ends = f"from {min(factors):.6g} to {max(factors):.6g}"
    support = f"frequencies of base {base:g} are divided by numbers {ends} that follow no formula"
    if measured.is_scaled:
        yield from _longrope(measured, base, factors, support)
        return
    rule = Default(2 * measured.count, base, factors)
    yield RuleMatch(rule, {"rope_theta": base, "freq_factors": factors}, (support,))


def given_rule(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the measured frequencies as inv_freq, whatever rule they come from."""
    lost = np.abs(measured.omega) <= measured.error
    shares = measured.error / np.maximum(np.abs(measured.omega), MIN_FREQUENCY)
    rounded = _plain(np.where(lost, 1.0, measured.omega), np.where(lost, 1.0, shares))
    omega = tuple(np.where(lost, 0.0, rounded).tolist())
    if min(omega) < 0 or max(omega) > MAX_FREQUENCY:
        return
    parameters: dict[str, ParameterValue] = {"inv_freq": omega}
    scale = 1.0
    if measured.is_scaled and measured.scale is not None:
        scale = round_number(measured.scale, measured.scale_error)
        parameters["attention_factor"] = scale
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    ends = f"from {max(omega):.6g} to {min(omega):.6g}"
    support = f"{measured.count} frequencies {ends} follow no known rule: they are as measured"
    yield RuleMatch(GivenFrequencies(omega, scale), parameters, (support,))


def _plain(numbers: Float64s, shares: Float64s) -> tuple[float, ...]:
    """Round each number to the fewest digits that its relative error allows."""
    return tuple(map(round_number, numbers.tolist(), shares.tolist()))


def _mixed(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find ln F_k = a·(k + 1)^B with a = ln f/(r/2)^B: a line in logarithms of both."""
    count = measured.count
    for base in USUAL_BASES[:3]:
        divided = np.log(unscaled(base, count) / measured.omega)
        error = measured.error / measured.omega
        known: NDArray[np.bool_] = (divided > 4 * error) & (error < 0.2)
        if int(known.sum()) < max(2, count // 2):
            continue
        places = np.log(np.arange(1, count + 1)[known])
        line = fit_line(places, np.log(divided[known]), error[known] / divided[known])
        end, end_error = line.at(log(count)), line.error_at(log(count))
        if not (0 < line.slope < 16 and end < 20 and end_error < 0.2):
            continue
        support = f"the frequencies of base {base:g} are divided by exp(a·(k + 1)^{line.slope:.4g})"
        for mixed_b in round_numbers(line.slope, 2 * line.slope_error / line.slope, 1):
            for factor in round_numbers(float(np.exp(exp(end))), 2 * exp(end) * end_error, 1):
                yield RuleMatch(
                    Ntk(2 * count, base, factor, mixed_b),
                    {
                        "rope_type": "ntk",
                        "rope_theta": base,
                        "factor": factor,
                        "mixed_b": mixed_b,
                    },
                    (support,),
                )


def _longrope(
    measured: MeasuredFrequencies, base: float, factors: tuple[float, ...], support: str
) -> Iterator[RuleMatch]:
    same = "one list is known for one length: it is given as short_factor and as long_factor"
    for length, attention, named in _longrope_attention(measured):
        rule = LongRope(2 * measured.count, base, length, length, attention, factors, factors)
        parameters: dict[str, ParameterValue] = {
            "rope_type": "longrope",
            "rope_theta": base,
            "short_factor": factors,
            "long_factor": factors,
            "original_max_position_embeddings": length,
        }
        yield RuleMatch(rule, {**parameters, **named}, (support, same))


def _longrope_attention(
    measured: MeasuredFrequencies,
) -> Iterator[tuple[int, float, dict[str, ParameterValue]]]:
    """Yield a length O and a factor f with √(1 + ln f/ln O) as the scale; else the scale itself."""
    scale = measured.scale or 1.0
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    for length in _LENGTHS:
        logarithm = log(length) * (scale**2 - 1)
        if not 0 < logarithm < 20:
            continue
        error = 4 * scale**2 * log(length) * measured.scale_error
        factor = next(round_numbers(exp(logarithm), error, 1), None)
        if factor is not None and (factor == round(factor) or len(f"{factor:g}") <= _LIST_DIGITS):
            yield length, sqrt(1 + log(factor) / log(length)), {"factor": factor}
            return
    for number in round_numbers(scale, 2 * measured.scale_error, 1):
        yield _LENGTHS[0], number, {"attention_factor": number, "factor": 1.0}
