"""Rules that frequencies may follow: the expected one, none, one with another key, and others.

Values of keys are the usual ones, and those that measured frequencies show.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import exp, isclose, log, pi
from typing import Any

import numpy as np

from service.analysis.explanation.catalogue import CATALOGUE, Mistake, mistake
from service.analysis.explanation.formulas import (
    ORIGINAL,
    USUAL_FACTORS,
    USUAL_LENGTHS,
    VARIED_KEYS,
    Keys,
    Rule,
    Series,
    dynamic_growth,
    llama3_by_wavelength,
    other_rules,
    other_values,
    value_of,
)
from service.analysis.explanation.measured import UNIT, fewest_digits
from service.analysis.explanation.sources import BITS_A_DIGIT, MOST_LOG, SHARES, Evidence
from service.analysis.explanation.views import HALF_STEP
from service.analysis.round_numbers import significant_digits
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

# An interval of bases whose ends are further apart tells nothing of a growth.
_TELLING = 8.0
# No model reads more tokens.
_LONGEST = 2.0**27
# Frequencies that a rule keeps or scales by less than this share are whole, or wholly scaled.
_END = 1e-3


@dataclass(frozen=True, eq=False)
class RuleChoice:
    """A rule, and the mistakes that replaced the expected one by it.

    Attributes:
        mistakes: the mistakes.
        bits: their cost.
        rule: the rule.
        formula: what gives the frequencies in place of the formula of the rule; None if that does.
        is_base: whether the mistake is another base, beside which no second one shows.
    """

    mistakes: tuple[Mistake, ...]
    bits: float
    rule: Rule
    formula: Callable[[Series, Keys], Float64s] | None = None
    is_base: bool = False

    def frequencies(self, series: Series, **keys: Any) -> Float64s:
        """Return the frequencies of a series, by other values of some keys."""
        rule = self.rule.changed(**keys) if keys else self.rule
        return self.formula(series, rule.keys) if self.formula else rule.frequencies(series)


def rule_choices(evidence: Evidence) -> Iterator[RuleChoice]:
    """Yield the expected rule, none, the rule with another value of a key, and other rules."""
    rule = evidence.target.rule
    yield RuleChoice((), 0.0, rule)
    if not rule:
        yield from _uncalled_for(evidence)
        return
    keys = sorted(key for key in rule.keys if key != "attention_factor")
    ignored = mistake(
        "config-key-ignored",
        None,
        {"rule": rule.rope_type, "settings": keys},
        {"rope_type": None, **dict.fromkeys(rule.keys), "mscale": None, "mscale_all_dim": None},
    )
    yield RuleChoice((ignored,), ignored.bits, Rule())
    factors = _factors(evidence)
    yield from _of_blend(evidence, rule)
    for key in VARIED_KEYS.get(rule.rope_type, ()):
        for value in other_values(rule, key, factors if key == "factor" else ()):
            yield _with_key(rule, key, value)
    yield from _special(evidence, rule)
    grown = _grown(evidence) if rule.rope_type not in {"dynamic", "ntk"} else ()
    for other in (*grown, *other_rules(rule, factors, USUAL_LENGTHS)):
        values = {
            "have": other.rope_type,
            "want": rule.rope_type,
            "settings": dict(other.keys),
        }
        changes = {
            **dict.fromkeys((*rule.keys, "mscale", "mscale_all_dim")),
            **other.keys,
            "rope_type": other.rope_type,
        }
        factor = other.keys.get("factor", other.keys.get("alpha", 0))
        is_own = isclose(factor, float(rule.keys.get("factor", 0)))
        bits = CATALOGUE["wrong-rule"].bits + (0 if is_own else 2 + _bits_of(factor))
        yield RuleChoice((mistake("wrong-rule", bits, values, changes),), bits, other)


def _uncalled_for(evidence: Evidence) -> Iterator[RuleChoice]:
    """Yield rules where none is expected."""
    for other in other_rules(Rule(), _factors(evidence), USUAL_LENGTHS):
        values = {"have": other.rope_type, "want": "default", "settings": dict(other.keys)}
        changes = {**other.keys, "rope_type": other.rope_type}
        factor = other.keys.get("factor", other.keys.get("alpha", 0))
        bits = CATALOGUE["wrong-rule"].bits + 2 + _bits_of(factor)
        yield RuleChoice((mistake("wrong-rule", bits, values, changes),), bits, other)


def _with_key(rule: Rule, key: str, value: Any) -> RuleChoice:
    values = {"key": key, "have": value, "want": value_of(rule, key)}
    name = {"truncate": "yarn-range-rounded", "context_length": "dynamic-length"}.get(
        key, "wrong-parameter"
    )
    bits = CATALOGUE[name].bits + (_bits_of(value) if key in {"factor", "alpha", ORIGINAL} else 0)
    wrong = mistake(name, bits, values, {key: value})
    return RuleChoice((wrong,), bits, rule.changed(**{key: value}))


def _bits_of(factor: float) -> float:
    """Return the cost of a factor or length that is no usual one: that of its digits."""
    if factor in USUAL_FACTORS or factor in USUAL_LENGTHS:
        return 0.0
    # Lengths are often multiples of powers of 1024.
    digits = (
        power + significant_digits(factor / 1024**power)
        for power in range(3)
        if not power or not factor % 1024**power
    )
    return BITS_A_DIGIT * (min(digits) - 1)


def _special(evidence: Evidence, rule: Rule) -> Iterator[RuleChoice]:
    """Yield the mistakes that one rule has: exchanged betas, another band, another list."""
    if rule.rope_type == "yarn":
        fast, slow = (float(value_of(rule, name)) for name in ("beta_fast", "beta_slow"))
        exchanged = mistake("yarn-betas-exchanged", None, {"have": slow, "want": fast})
        yield RuleChoice((exchanged,), exchanged.bits, rule.changed(beta_fast=slow, beta_slow=fast))
    elif rule.rope_type == "llama3":
        band = mistake("llama3-band", None, {})
        yield RuleChoice((band,), band.bits, rule, formula=llama3_by_wavelength)
    elif rule.rope_type == "longrope":
        original = float(rule.keys[ORIGINAL])
        if evidence.size is not None and "factor" in rule.keys:
            # The attention factor shows the factor that it follows from.
            close = 4 * HALF_STEP[evidence.view.dtype] + 8 * UNIT + evidence.view.slack
            sizes = (evidence.size * (1 - close), evidence.size * (1 + close))
            if sizes[0] > 1 and (sizes[1] ** 2 - 1) * log(original) < MOST_LOG:
                ends = [exp((size * size - 1) * log(original)) for size in sizes]
                yield from _shortest(rule, "factor", ends)
        is_long = float(rule.keys.get("context_length", original)) > original
        names = ("short_factor", "long_factor") if is_long else ("long_factor", "short_factor")
        length = original if is_long else 2 * original
        other = mistake(
            "short-for-long-factors",
            None,
            dict(zip(("have", "want"), names, strict=True)),
            {"context_length": int(length)},
        )
        yield RuleChoice((other,), other.bits, rule.changed(context_length=length))
    elif rule.rope_type == "linear":
        factor = float(rule.keys["factor"])
        inverted = mistake("factor-inverted", None, {"factor": factor}, {"factor": 1 / factor})
        yield RuleChoice((inverted,), inverted.bits, rule.changed(factor=1 / factor))
    elif rule.rope_type == "ntk" and "mixed_b" not in rule.keys:
        yield from _without_division(evidence, rule, float(rule.keys["factor"]))
    elif rule.rope_type == "dynamic":
        yield from _without_exponent(evidence, rule, dynamic_growth(rule.keys))
        yield from _of_growth(evidence, rule)


def _of_product(times: float, series: Series, _keys: Keys) -> Float64s:
    """Return the frequencies of the base times a factor."""
    return replace(series, base=times * series.base).omega


def _without_exponent(evidence: Evidence, rule: Rule, growth: float) -> Iterator[RuleChoice]:
    """Yield a base that is multiplied by the growth, or by the factor, and by no power of it."""
    series, keys = evidence.series, rule.keys
    for times in dict.fromkeys((growth, float(keys.get("factor", growth)))):
        # The exponent d/(d − 2) is none for two channels.
        if times <= 1 or series.width <= 2:
            continue
        values = {"have": times, "want": growth, "width": series.width}
        changes = {"rope_type": None, **dict.fromkeys(keys), "rope_theta": times * series.base}
        wrong = mistake("missing-exponent", None, values, changes)
        yield _of_other_base(rule, times, wrong)


def _without_division(evidence: Evidence, rule: Rule, factor: float) -> Iterator[RuleChoice]:
    """Yield a base that is multiplied by the factor, with frequencies that are not divided."""
    if factor > 1:
        series = evidence.series
        changes = {
            "rope_type": None,
            **dict.fromkeys(rule.keys),
            "rope_theta": factor * series.base,
        }
        values = {"factor": factor, "width": series.width}
        yield _of_other_base(rule, factor, mistake("missing-division", None, values, changes))


def _of_other_base(rule: Rule, times: float, wrong: Mistake) -> RuleChoice:
    formula = partial(_of_product, times)
    return RuleChoice((wrong,), wrong.bits, rule, formula, is_base=True)


def _of_growth(evidence: Evidence, rule: Rule) -> Iterator[RuleChoice]:
    """Yield the keys of dynamic NTK that give the growth α = f·L/O − (f − 1) of the base."""
    width, keys = evidence.series.width, rule.keys
    if width <= 2:
        return
    intervals = dict.fromkeys(interval for _, _, interval in evidence.measured_bases)
    for interval in (each for each in intervals if each[1] < _TELLING * each[0]):
        growths = [(base / evidence.series.base) ** (1 - 2 / width) for base in interval]
        if "alpha" in keys:
            yield from _shortest(rule, "alpha", growths)
            continue
        factor, original = float(keys["factor"]), float(keys[ORIGINAL])
        length = max(float(keys.get("context_length", original)), original)
        if length > original:
            extension = length / original - 1
            yield from _shortest(rule, "factor", [(growth - 1) / extension for growth in growths])
        lengths = [original * (growth + factor - 1) / factor for growth in growths]
        if original < lengths[0] < _LONGEST:
            yield from _shortest(rule, "context_length", lengths, USUAL_LENGTHS)
        longest = [length * factor / (growth + factor - 1) for growth in reversed(growths)]
        if 0 < longest[0] < length:
            yield from _shortest(rule, ORIGINAL, longest, USUAL_LENGTHS)


def _of_blend(evidence: Evidence, rule: Rule) -> Iterator[RuleChoice]:
    """Yield llama3 or YaRN with the original length that partly scaled frequencies show."""
    measured, series = evidence.measured, evidence.series
    if rule.rope_type not in {"llama3", "yarn"} or measured is None or measured.phasors is None:
        return
    lost = 1 - 1 / float(rule.keys["factor"])
    if lost <= 0:
        return
    kept = 1 - (1 - np.abs(measured.omega) / series.omega) / lost
    error = 2 * measured.error / series.omega / lost
    # Errors at both ends of the range look like partly scaled frequencies.
    (inside,) = np.nonzero((kept > error + _END) & (kept < 1 - error - _END))
    if not len(inside):
        return
    if rule.rope_type == "llama3":
        ends = _lengths_of_band(rule, series.omega[inside], kept[inside], error[inside])
    else:
        ends = _lengths_of_ramp(rule, series, inside, kept[inside])
    if ends is not None and 1 < ends[0] < ends[1] < _LONGEST:
        yield from _shortest(rule, ORIGINAL, list(ends), (*USUAL_LENGTHS, 2**19, 2**20))


def _lengths_of_band(
    rule: Rule, omega: Float64s, kept: Float64s, error: Float64s
) -> tuple[float, float] | None:
    """Return the least and the most original length of llama3; None if pairs do not agree."""
    low, high = (float(rule.keys[name]) for name in ("low_freq_factor", "high_freq_factor"))
    wavelength = 2 * pi / omega
    length, room = wavelength * (low + kept * (high - low)), wavelength * error * abs(high - low)
    weight = np.maximum(room, 1e-300) ** -2.0
    middle, half = float((weight * length).sum() / weight.sum()), float(weight.sum()) ** -0.5
    # If they do not agree, the base or the factor is another one.
    return (middle - half, middle + half) if (np.abs(length - middle) <= 2 * room).all() else None


def _lengths_of_ramp(
    rule: Rule, series: Series, inside: Indices, kept: Float64s
) -> tuple[float, float] | None:
    """Return the least and the most original length of YaRN; None if no whole ramp shows it.

    The ramp is a line of the pair: from its first and last pair follow both ends, which are whole.
    """
    if len(inside) < 2 or not value_of(rule, "truncate"):
        return None
    first, last, slope = int(inside[0]), int(inside[-1]), float(kept[0] - kept[-1])
    slope /= last - first
    if slope * series.width < 1:
        # A ramp is not longer than the channels.
        return None
    start, stop = round(first - (1 - float(kept[0])) / slope), round(last + float(kept[-1]) / slope)
    growth = log(series.base) * 2 / series.width
    if not -series.width < start < stop < min(series.width, MOST_LOG / growth):
        return None
    fast, slow = (2 * pi * float(value_of(rule, name)) for name in ("beta_fast", "beta_slow"))
    # The base^(2·pair/width) of pairs around both ends; pair 0 also stands for those before.
    before, after = exp(growth * start), exp(growth * stop)
    return (
        max(fast * before if start else 0.0, slow * after / exp(growth)),
        min(fast * before * exp(growth), slow * after),
    )


def _grown(evidence: Evidence) -> Iterator[Rule]:
    """Yield the rule dynamic with the factor alpha that a measured base shows."""
    width = evidence.series.width
    bases = [
        base
        for base, _, (low, high) in evidence.measured_bases
        if width > 2 and high < _TELLING * low
    ]
    growths = ((base / evidence.series.base) ** (1 - 2 / width) for base in bases)
    for growth in dict.fromkeys(float(f"{each:.4g}") for each in growths):
        if growth > 1:
            yield Rule("dynamic", {"alpha": growth})


def _shortest(
    rule: Rule, key: str, ends: list[float], usual: tuple[int, ...] = ()
) -> Iterator[RuleChoice]:
    """Yield the rule with usual values of a key in an interval, and with those of few digits."""
    values: list[float] = [each for each in usual if ends[0] <= each <= ends[1]]
    middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
    for share in SHARES:
        shortest = fewest_digits(middle - half * share, middle + half * share)
        if shortest is not None:
            values.append(max(float(round(shortest[0])), 1.0) if usual else shortest[0])
    for value in dict.fromkeys(values):
        if value != rule.keys.get(key):
            yield _with_key(rule, key, int(value) if usual else value)


def _factors(evidence: Evidence) -> tuple[float, ...]:
    """Return the factors that the slowest pairs show, and that of the rule."""
    found: list[float] = [float(evidence.target.rule.keys.get("factor", 1))]
    if evidence.measured is not None:
        omega, error = np.abs(evidence.measured.omega), evidence.measured.error
        good = np.flatnonzero(error < 0.05 * omega)
        # Under some rules only the last pair is divided by the whole factor.
        for pairs in (good[-3:], good[-1:]) if len(good) > 3 else ():
            ratio = float(np.median(evidence.series.omega[pairs] / omega[pairs]))
            share = float((error[pairs] / omega[pairs]).min())
            shortest = fewest_digits(ratio * (1 - share), ratio * (1 + share))
            found += [
                float(f"{ratio:.2g}"),
                float(round(ratio)),
                *([shortest[0]] if shortest else []),
            ]
        if not len(good) or good[-1] < len(omega) - 1:
            # The slowest pairs show no factor.
            found += USUAL_FACTORS
    return tuple(dict.fromkeys(each for each in found if each > 1))
