"""Frequencies that were measured, and the rotary rules that are found to give them.

Rotary rules whose frequencies are one series, from the first number to the last.

Rotary rules that divide each frequency by its own number, and frequencies given outright.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log, log2, sqrt
from typing import TypeAlias

import numpy as np

from service.analysis.measure import GeometricSeries, base_of_series, fit_geometric, round_bases
from service.analysis.round_numbers import round_numbers
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
from service.numerics.document import ParameterValue
from service.numerics.limits import MAX_ATTENTION_FACTOR, MAX_BASE, MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_FREQUENCY, MIN_FREQUENCY, Float64s

# Bases of published models, for frequencies that say too little of theirs.
USUAL_BASES = (10000.0, 500000.0, 1000000.0, 100000.0, 5000000.0, 150000.0)

_MOST_BASES = 2


Parameters: TypeAlias = Mapping[str, ParameterValue]


@dataclass(frozen=True, eq=False)
class MeasuredFrequencies:
    """Frequencies that were measured.

    Attributes:
        omega: radians per position, (K,).
        error: how far each may be from what is meant, (K,).
        scale: what cosines and sines are multiplied by; None where there are none.
        scale_error: how far it may be from what is meant, as a share of it.
    """

    omega: Float64s
    error: Float64s
    scale: float | None = None
    scale_error: float = 0.0

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.omega)

    @property
    def is_scaled(self) -> bool:
        """Tell whether cosines and sines are multiplied by anything but 1."""
        return self.scale is not None and abs(self.scale - 1) > self.scale_error

    def agrees(self, rule: RotaryFrequencies) -> bool:
        """Tell whether a rule gives these frequencies and this scale, within their errors."""
        exact = frequencies(rule)
        if self.scale is not None:
            room = 2 * self.scale_error * abs(self.scale)
            if not abs(rule.scale - self.scale) <= room:
                return False
        return bool((np.abs(exact - self.omega) <= 2 * self.error).all())

    def unscaled(self, base: float) -> Float64s:
        """Give the frequencies that a base has without any scaling."""
        return unscaled(base, self.count)


@dataclass(frozen=True)
class RuleMatch:
    """A rule that gives frequencies.

    Attributes:
        rule: the rule.
        parameters: those that name it, all that is not left to a default.
        says: what in the frequencies speaks for it.
    """

    rule: RotaryFrequencies
    parameters: Parameters
    says: tuple[str, ...]


def frequencies(rule: RotaryFrequencies) -> Float64s:
    """Give the frequencies of a rule, each the float64 nearest to it."""
    return np.array([float(frequency) for frequency in rule.exact()])


def unscaled(base: float, count: int) -> Float64s:
    """Give base^(−k/count) for k below count."""
    series: Float64s = base ** (-np.arange(count) / count)
    return series


def kept_bases(measured: MeasuredFrequencies) -> tuple[float, ...]:
    """Give bases that the first frequencies, which a rule may have kept, speak for.

    The most of them that are a series from 1 on are taken; where there are too few of them, the
    last ones, which a rule has all divided alike.
    """
    count, omega, error = measured.count, measured.omega, measured.error
    for kept in sorted({count * eighths // 8 for eighths in range(1, 8)}, reverse=True):
        if kept < 2:
            break
        series = fit_geometric(omega[:kept], error[:kept])
        if series and abs(series.first - 1) <= 2 * series.first_error:
            return round_bases(series, 2 * count)[:_MOST_BASES]
    tail = fit_geometric(omega[-max(2, count // 2) :], error[-max(2, count // 2) :])
    said = round_bases(tail, 2 * count)[:1] if tail and tail.ratio < 1 else ()
    return (*said, *(base for base in USUAL_BASES[:3] if base not in said))


def last_share(share: Float64s, error: Float64s) -> tuple[float, float] | None:
    """Give what the last frequencies are of unscaled ones, and its error; None if they are lost."""
    known = error < 0.25 * np.abs(share)
    if not known.any():
        return None
    # No share is known any better than to the step of the number that holds it.
    share, error = share[known], np.maximum(error[known], np.spacing(np.abs(share[known])))
    is_alike = np.abs(share - share[-1]) <= error + error[-1]
    alike = len(share) - (int(np.argmin(is_alike[::-1])) if not is_alike.all() else len(share))
    if is_alike.all():
        alike = 0
    weights = (error[alike:].min() / error[alike:]) ** 2
    mean = float(weights @ share[alike:] / weights.sum())
    return mean, float(weights @ error[alike:] / weights.sum())


def factors_of(share: Float64s, error: Float64s) -> Iterator[float]:
    """Give plain factors above 1 that the last frequencies may be divided by."""
    last = last_share(share, error)
    if last is None or last[0] <= 0:
        return
    mean, off = last
    for factor in round_numbers(1 / mean, 1.5 * off / mean, 2):
        if factor > 1:
            yield factor


def between(low: float, high: float, most: int = 2) -> tuple[float, ...]:
    """Give plain numbers between two: powers of two and of ten first."""
    if not high <= MAX_BASE:
        return ()
    if not low > 0:
        return tuple(round_numbers(high / 2, 0.5, most)) if high > 0 else ()
    middle = sqrt(low) * sqrt(high)
    power = 2.0 ** ceil(log2(low))
    given = [power] if low <= power <= high else []
    for number in round_numbers(middle, min(1 - low / middle, high / middle - 1), 3):
        if number not in given:
            given.append(number)
    return tuple(given[:most])


_FEW_DIGITS = 3
# No model is stretched further; beyond, a factor cannot be told from the base.
_MOST_STRETCH = 1e4
_FINEST_PART = 2.0**-12


def even_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find the rules whose frequencies are a series, the plainest first."""
    series = fit_geometric(measured.omega, measured.error)
    if series is None:
        yield from _proportional(measured)
        return
    width = 2 * measured.count
    base = base_of_series(series, width)
    says = (
        f"{measured.count} frequencies fall from {series.first:.6g} as {base:.6g}^(-2k/{width})",
    )
    if abs(series.first - 1) <= 2 * series.first_error:
        for base in round_bases(series, width):
            yield RuleMatch(Default(width, base), {"rope_theta": base}, says)
        yield from _rescaled(series, width, says)
        return
    yield from sorted(
        [*_linear(series, width, says), *_ntk(series, width, says)], key=_digits_of_factor
    )


def _digits_of_factor(found: RuleMatch) -> int:
    factor = found.parameters["factor"]
    assert isinstance(factor, float)
    return digits(factor) + (0 if factor > 1 else 1)


def digits(number: float) -> int:
    """Count the digits that a number is written with; powers of two have one."""
    mantissa, _ = np.frexp(number)
    if mantissa == 0.5:
        return 1
    return len(repr(float(number)).split("e")[0].replace(".", "").strip("0") or "0")


def _rescaled(series: GeometricSeries, width: int, says: tuple[str, ...]) -> Iterator[RuleMatch]:
    """Find a usual base with a plain alpha, where the base itself is no plain number."""
    if width < 4:
        return
    error = width / 2 * series.ratio_error
    measured = base_of_series(series, width)
    if error >= 0.5 or (plain := next(round_numbers(measured, error), None)) is None:
        return
    if digits(plain) <= _FEW_DIGITS:
        return
    for base in USUAL_BASES:
        alpha = (measured / base) ** ((width - 2) / width)
        for part in _parts(alpha, error * (width - 2) / width):
            told = f"{measured:.8g} is {base:g}·{part:.8g}^({width}/{width - 2})"
            parameters: Parameters = {"rope_type": "dynamic", "rope_theta": base, "alpha": part}
            yield RuleMatch(DynamicAlpha(width, base, part), parameters, (*says, told))


def _parts(alpha: float, error: float) -> Iterator[float]:
    """Give the number of few digits, or the part of a power of two, that an alpha is."""
    if alpha < 1 + error:
        return
    plain = next(round_numbers(alpha, error, 1), None)
    if plain is not None and digits(plain) <= _FEW_DIGITS:
        yield plain
        return
    part = 0.5
    while part >= max(_FINEST_PART, 2 * alpha * error):
        if abs(round(alpha / part) * part - alpha) <= alpha * error:
            yield round(alpha / part) * part
            return
        part /= 2


def _linear(series: GeometricSeries, width: int, says: tuple[str, ...]) -> Iterator[RuleMatch]:
    base = round_bases(series, width)[0] if round_bases(series, width) else None
    if base is None:
        return
    for factor in round_numbers(1 / series.first, 2 * series.first_error + 2.0**-52, 2):
        told = f"the first is 1/{factor:.8g}"
        parameters: Parameters = {"rope_type": "linear", "rope_theta": base, "factor": factor}
        yield RuleMatch(Linear(width, base, factor), parameters, (*says, told))


def _ntk(series: GeometricSeries, width: int, says: tuple[str, ...]) -> Iterator[RuleMatch]:
    """Find f of ω_0 = f^(−2/r), and b of the series' base b·f."""
    if not (0 < series.first < 1) or series.ratio_error == float("inf"):
        return
    with np.errstate(over="ignore"):
        factor = float(np.float64(series.first) ** (-width / 2))
        scaled = float(np.float64(series.ratio) ** (-width / 2))
    if not factor < min(scaled, _MOST_STRETCH):
        return
    for plain in round_numbers(factor, width * series.first_error, 2):
        error = width / 2 * series.ratio_error
        for base in round_numbers(scaled / plain, error, 1):
            told = f"the first is {plain:.8g}^(-2/{width})"
            parameters: Parameters = {"rope_type": "ntk", "rope_theta": base, "factor": plain}
            yield RuleMatch(Ntk(width, base, plain), parameters, (*says, told))


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
    told = f"{turning} of {count} frequencies turn, and the others are 0"
    parameters: dict[str, ParameterValue] = {
        "rope_type": "proportional",
        "partial_rotary_factor": share,
    }
    factor = 1.0
    if abs(series.first - 1) > 2 * series.first_error:
        factor = next(round_numbers(1 / series.first, 2 * series.first_error), 1 / series.first)
        parameters["factor"] = factor
    for base in round_bases(series, width):
        rule = Proportional(width, base, share, factor)
        yield RuleMatch(rule, {**parameters, "rope_theta": base}, (told,))


_LENGTHS = (4096, 8192, 2048, 16384, 32768, 65536, 131072)
_LIST_DIGITS = 4


def listed_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find the rules with a list of factors: NTK mixed by a formula, longrope, ggml's."""
    if not (measured.omega > 2 * measured.error).all() or measured.count < 2:
        return
    if not measured.is_scaled:
        yield from _mixed(measured)
    base = USUAL_BASES[0]
    unscaled = measured.unscaled(base)
    factors = _plain(unscaled / measured.omega, measured.error / measured.omega)
    if min(factors) < MIN_FACTOR or max(factors) > MAX_FACTOR:
        return
    ends = f"from {min(factors):.6g} to {max(factors):.6g}"
    told = (f"frequencies of base {base:g} are divided by numbers {ends} that follow no formula",)
    if not measured.is_scaled:
        named: dict[str, ParameterValue] = {"rope_theta": base, "freq_factors": factors}
        yield RuleMatch(Default(2 * measured.count, base, factors), named, told)
        return
    yield from _longrope(measured, base, factors, told)


def given_rule(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Give the measured frequencies outright, whatever rule they come from."""
    shares = measured.error / np.maximum(np.abs(measured.omega), MIN_FREQUENCY)
    lost = np.abs(measured.omega) <= measured.error
    rounded = _plain(np.where(lost, 1.0, measured.omega), np.where(lost, 1.0, shares))
    omega = tuple(0.0 if no else number for no, number in zip(lost, rounded, strict=True))
    if min(omega) < 0 or max(omega) > MAX_FREQUENCY:
        return
    parameters: dict[str, ParameterValue] = {"inv_freq": omega}
    scale = 1.0
    if measured.is_scaled and measured.scale is not None:
        scale = next(round_numbers(measured.scale, measured.scale_error), measured.scale)
        parameters["attention_factor"] = scale
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    ends = f"from {max(omega):.6g} to {min(omega):.6g}"
    told = (f"{measured.count} frequencies {ends} follow no known rule: they are as measured",)
    yield RuleMatch(GivenFrequencies(omega, scale), parameters, told)


def _plain(numbers: Float64s, shares: Float64s) -> tuple[float, ...]:
    """Round each number to the fewest digits that its error allows."""
    return tuple(
        next(round_numbers(float(number), float(share), 1), float(number))
        for number, share in zip(numbers, shares, strict=True)
    )


def _mixed(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find ln F_k = a·(k + 1)^B with a = ln f/(r/2)^B: a line in logarithms of both."""
    count = measured.count
    for base in USUAL_BASES[:3]:
        divided = np.log(measured.unscaled(base) / measured.omega)
        off = measured.error / measured.omega
        known = (divided > 4 * off) & (off < 0.2)
        if int(known.sum()) < max(2, count // 2):
            continue
        places, heights = np.log(np.arange(1, count + 1)[known]), np.log(divided[known])
        shares = off[known] / divided[known]
        weights = (shares.min() / shares) ** 2
        middle = weights @ places / weights.sum()
        leverage = weights * (places - middle)
        spread = leverage @ (places - middle)
        slope = leverage @ heights / spread
        error = np.abs(leverage) @ shares / spread
        end = weights @ heights / weights.sum() + slope * (log(count) - middle)
        reach = weights @ shares / weights.sum() + abs(log(count) - middle) * error
        if not (0 < slope < 16 and end < 20 and reach < 0.2):
            continue
        told = (f"the frequencies of base {base:g} are divided by exp(a·(k + 1)^{slope:.4g})",)
        for mixed in round_numbers(float(slope), float(2 * error / slope), 1):
            logarithm = float(np.exp(end))
            for factor in round_numbers(float(np.exp(logarithm)), float(2 * logarithm * reach), 1):
                named: Parameters = {"rope_type": "ntk", "rope_theta": base, "factor": factor}
                rule = Ntk(2 * count, base, factor, mixed)
                yield RuleMatch(rule, {**named, "mixed_b": mixed}, told)


def _longrope(
    measured: MeasuredFrequencies, base: float, factors: tuple[float, ...], told: tuple[str, ...]
) -> Iterator[RuleMatch]:
    says = (
        *told,
        "one list of them holds for one length: it stands as short_factor and as long_factor",
    )
    parameters: dict[str, ParameterValue] = {
        "rope_type": "longrope",
        "rope_theta": base,
        "short_factor": factors,
        "long_factor": factors,
    }
    width = 2 * measured.count
    for length, attention, said in _attention(measured):
        rule = LongRope(width, base, length, length, attention, factors, factors)
        named = {**parameters, "original_max_position_embeddings": length, **said}
        yield RuleMatch(rule, named, says)


def _attention(
    measured: MeasuredFrequencies,
) -> Iterator[tuple[int, float, dict[str, ParameterValue]]]:
    """Give lengths O and factors f with √(1 + ln f/ln O) as the scale; else the scale itself."""
    scale = measured.scale or 1.0
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    for length in _LENGTHS:
        logarithm = log(length) * (scale**2 - 1)
        if not 0 < logarithm < 20:
            continue
        error = 4 * scale**2 * log(length) * measured.scale_error
        factor = next(round_numbers(float(np.exp(logarithm)), error, 1), None)
        if factor is not None and (factor == round(factor) or len(f"{factor:g}") <= _LIST_DIGITS):
            exact = sqrt(1 + log(factor) / log(length))
            yield length, exact, {"factor": factor}
            return
    for number in round_numbers(scale, 2 * measured.scale_error, 1):
        yield _LENGTHS[0], number, {"attention_factor": number, "factor": 1.0}
