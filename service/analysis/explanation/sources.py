"""Sources of frequencies: the series before any rule, and the rules, that an array may have.

Bases come from the interval that was measured, the usual ones first, else the number of fewest
digits; exponents are those of known slips. Rules are the expected one, none, the expected one with
another value of a key, and others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, isclose, log, log10, pi
from typing import Any

import numpy as np

from service.analysis.explanation.catalogue import CATALOGUE, Mistake, mistake
from service.analysis.explanation.formulas import (
    ORIGINAL,
    USUAL_FACTORS,
    USUAL_LENGTHS,
    VARIED_KEYS,
    Rule,
    Series,
    llama3_by_wavelength,
    other_rules,
    other_values,
    value_of,
)
from service.analysis.explanation.measured import (
    UNIT,
    Line,
    Measured,
    fewest_digits,
    fitted_line,
    refined_base,
)
from service.analysis.explanation.target import Target
from service.analysis.explanation.views import HALF_STEP, View
from service.analysis.round_numbers import significant_digits
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

USUAL_BASES: Mapping[float, float] = {
    1e4: 2, 5e5: 3, 1e6: 3, 1e5: 5, 1e7: 5, 5e6: 6, 8e6: 6, 1e8: 6, 25e4: 6, 15e4: 6, 16e4: 6,
    2e5: 6, 1e3: 7, 100.0: 7, 5e7: 7, 1e9: 7, 1e10: 7, 1.5e6: 7, 3e6: 7, 4e4: 7, 8e4: 7, 1e11: 8,
}  # fmt: skip
"""The bases that models have, with −log2 of how often."""

_UNUSUAL_BITS, BITS_A_DIGIT, _MOST_DIGIT_BITS = 7.0, 3.3, 18.0
# An interval of bases whose ends are further apart tells nothing of a growth.
_TELLING = 8.0
# A base that was not measured but is usual.
_UNMEASURED_BITS = 0.5
# No model reads more tokens.
_LONGEST = 2.0**27
# Frequencies that a rule keeps or scales by less than this share are whole, or wholly scaled.
_END = 1e-3
# No base has a larger logarithm.
_MOST_LOG = 250.0
# Parts of an interval in which the number of fewest digits is looked for.
_SHARES = (1, 0.25, 0.05, 0.01, 0)
# What diffusers subtract from the number of frequencies.
_SHIFTS = {"2k/d": 0.0, "k/(n − 1)": 1.0}
# Logarithms of bases that are tried under rules that bend the line.
_SCANNED = np.linspace(log(100), log(1e11), 120)


@dataclass(frozen=True, eq=False)
class Source:
    """Frequencies before any rule, and the mistakes that give them.

    Attributes:
        mistakes: the mistakes.
        bits: their cost.
        series: the frequencies of cosines, and of sines unless ``sine`` is given.
        sine: those of sines that differ.
        is_measured: whether the numbers of the array led to it.
        is_iterated: whether an engine may compute them by repeated multiplication.
        still: pairs from this one on stand still.
    """

    mistakes: tuple[Mistake, ...]
    bits: float
    series: Series
    sine: Series | None = None
    is_measured: bool = True
    is_iterated: bool = True
    still: int | None = None


def bases_between(low: float, high: float, other_than: float) -> list[tuple[float, float]]:
    """Return the usual bases in an interval, or else the number of fewest digits; with bits."""
    found = [(base, bits) for base, bits in USUAL_BASES.items() if low <= base <= high]
    if not found and (shortest := fewest_digits(low, high)) is not None:
        base, digits = shortest
        found = [(base, min(_UNUSUAL_BITS + BITS_A_DIGIT * digits, _MOST_DIGIT_BITS))]
    return [(base, bits) for base, bits in found if base > 1 and base != other_than]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The knowledge of a view of a target, from which frequencies are proposed.

    Attributes:
        target: the expected table.
        series: its frequencies before any rule, of as many pairs as the view has.
        view: the view, of sampled rows.
        measured: what was measured of it; None of a single row.
        rows: the number of rows of the whole array.
        given: the mistakes that the view has already, such as another width.
        first: the position of the first row.
    """

    target: Target
    series: Series
    view: View
    measured: Measured | None
    rows: int
    given: tuple[Mistake, ...] = ()
    first: float = 0.0

    @property
    def size(self) -> float | None:
        """The size of pairs; None of cosines or sines alone."""
        if not self.view.has_pairs:
            return None
        if self.measured is not None:
            return self.measured.scale
        return float(np.median(np.abs(self.view.phasors)))

    def sources(self) -> Iterator[Source]:
        """Yield frequencies before any rule: the expected ones, bases, slips and widths."""
        yield Source((), 0.0, self.series)
        seen = {self.series.base}
        for base, bits, _ in self.measured_bases:
            if base not in seen:
                seen.add(base)
                yield self._of_base(base, bits)
        for base, bits in USUAL_BASES.items():
            if base not in seen:
                source = self._of_base(base, bits + _UNMEASURED_BITS)
                yield replace(source, is_measured=False)
        yield from self.slips()
        yield from self._still()

    def _of_base(self, base: float, bits: float) -> Source:
        values = {"have": base, "want": self.series.base}
        wrong = mistake("wrong-base", bits, values, {self.target.base_parameter: base})
        return Source((wrong,), bits, replace(self.series, base=base))

    @cached_property
    def measured_bases(self) -> tuple[tuple[float, float, tuple[float, float]], ...]:
        """The bases that the numbers show: each with its bits and its interval."""
        return tuple(self._measured_bases())

    def _measured_bases(self) -> Iterator[tuple[float, float, tuple[float, float]]]:
        if self.measured is None:
            return
        for line in self._lines():
            error = line.slope_error / self._exponent_step + 1e-9
            for middle in dict.fromkeys((self._base_of(line), self._base_of(line) - self._growth)):
                if not 0 < middle < _MOST_LOG:
                    continue
                interval = (exp(middle - error), exp(min(middle + error, _MOST_LOG)))
                for share in _SHARES if error < 1 else ():
                    low, high = exp(middle - error * share), exp(middle + error * share)
                    for base, bits in bases_between(low, high, self.series.base):
                        yield base, bits, interval
                yield from self._refined(middle)
        if (scanned := self._scanned()) is not None:
            yield from self._refined(scanned)

    def _lists(self) -> tuple[Rule, ...]:
        """The rules of both lists of longrope, whose factors the base does not change."""
        rule = self.target.rule
        if rule.rope_type != "longrope":
            return ()
        original = float(rule.keys[ORIGINAL])
        return tuple(rule.changed(context_length=times * original) for times in (1, 2))

    @property
    def _growth(self) -> float:
        """By how much the rule raises ln base, where frequencies stay geometric."""
        exponents, rule = self.series.exponents, self.target.rule
        if rule.rope_type not in {"dynamic", "ntk"} or not exponents[-1]:
            return 0.0
        ratio = rule.frequencies(self.series)[-1] / self.series.omega[-1]
        return -log(ratio) / float(exponents[-1])

    def _refined(self, middle: float) -> Iterator[tuple[float, float, tuple[float, float]]]:
        """Yield bases from all numbers at once, from a first estimate of ln base."""
        assert self.measured is not None
        rules = (self.target.rule, Rule()) if self.target.rule else (self.target.rule,)
        for rule in self._lists() or rules:

            def frequencies(logarithm: float, rule: Rule = rule) -> Float64s:
                return rule.frequencies(replace(self.series, base=exp(logarithm)))

            fitted = refined_base(self.measured, frequencies, middle)
            if fitted is None:
                continue
            base, error = fitted
            interval = (exp(base - error), exp(min(base + error, _MOST_LOG)))
            for share in (6, 2, 1, 0.3, 0.05):
                low, high = exp(base - error * share), exp(min(base + error * share, _MOST_LOG))
                for each, bits in bases_between(low, high, self.series.base):
                    yield each, bits, interval

    @property
    def _exponent_step(self) -> float:
        exponents = self.series.exponents
        return float(exponents[1] - exponents[0]) if len(exponents) > 1 else 1.0

    def _base_of(self, line: Line) -> float:
        return -line.slope / self._exponent_step

    def _lines(self) -> Iterator[Line]:
        """Yield lines of the logarithms: of all pairs, and of those that a rule leaves alone."""
        assert self.measured is not None
        omega, error = np.abs(self.measured.omega), self.measured.error
        if (line := fitted_line(omega, error)) is not None:
            yield line
        pairs = len(omega)
        for rule in self._lists():
            ratio = rule.frequencies(self.series) / self.series.omega
            if (line := fitted_line(omega / ratio, error / ratio)) is not None:
                yield line
        if self.target.rule.rope_type not in {"yarn", "llama3"}:
            return
        for part in (6, 3):
            kept = max(2, pairs // part)
            if (line := fitted_line(omega[:kept], error[:kept])) is not None:
                yield line

    def _scanned(self) -> float | None:
        """Return ln base whose frequencies by the rule come nearest to the measured ones."""
        assert self.measured is not None
        rule = self.target.rule
        if rule.rope_type not in {"yarn", "llama3"}:
            return None
        omega = np.abs(self.measured.omega)
        known = (omega > 3 * self.measured.error) & (omega < pi)
        if not known.any():
            return None
        logarithms = np.log(omega[known])

        def misfit(logarithm: float) -> float:
            found = rule.frequencies(replace(self.series, base=exp(logarithm)))[known]
            return float(np.abs(np.log(found) - logarithms).sum())

        return min((float(each) for each in _SCANNED), key=misfit)

    def slips(self) -> Iterator[Source]:
        """Yield exponents that code has by mistake."""
        k, pairs, width = (
            np.arange(len(self.series.exponents)),
            len(self.series.exponents),
            self.series.width,
        )
        wanted = self.series.exponents
        patterns = {
            "2k/d": 2 * k / width,
            "k/d": k / width,
            "k/(n − 1)": k / max(pairs - 1, 1),
            "2·(2k)/d": 4 * k / width,
            "(2k + 1)/d": (2 * k + 1) / width,
            "(2k + 2)/d": (2 * k + 2) / width,
        }
        spelled = next(
            (name for name, each in patterns.items() if np.allclose(each, wanted)), "as expected"
        )
        for name, exponents in patterns.items():
            if not np.allclose(exponents, wanted):
                slip = mistake("tutorial-slip", None, {"exponent": name, "want": spelled})
                if self.target.base_parameter == "max_period" and {name, spelled} <= _SHIFTS.keys():
                    values = {"have": _SHIFTS[name], "want": _SHIFTS[spelled]}
                    changes = {"downscale_freq_shift": _SHIFTS[name]}
                    slip = mistake("downscale-shift", None, values, changes)
                yield Source((slip,), slip.bits, replace(self.series, exponents=exponents))
        for name, cosine, sine in (
            ("(i + 1)/d", (2 * k + 1) / width, 2 * k / width),
            ("(i + 2)/d", (2 * k + 2) / width, 2 * k / width),
            ("2(i + 1)/d", (4 * k + 2) / width, 4 * k / width),
        ):
            slip = mistake(
                "tutorial-slip", 8.0, {"exponent": name, "want": spelled}, variant="cosines"
            )
            series = replace(self.series, exponents=cosine)
            of_sines = replace(self.series, exponents=sine)
            yield Source((slip,), 8.0, series, of_sines, is_iterated=False)
        base = exp(log10(self.series.base)) if self.series.base > 1 else 0.0
        if base > 1:
            slip = mistake(
                "tutorial-slip", 8.0, {"exponent": "log10 for ln", "want": "ln"}, variant="log10"
            )
            yield Source((slip,), 8.0, replace(self.series, base=base))
        head_dim = self.target.head_dim
        if head_dim > width:
            wrong = mistake("wrong-denominator", None, {"have": head_dim, "want": width})
            exponents = wanted * (width / head_dim)
            yield Source((wrong,), wrong.bits, replace(self.series, exponents=exponents))

    def _still(self) -> Iterator[Source]:
        """Yield tables in which only the first pairs turn, and ones in which none does."""
        k, pairs = np.arange(len(self.series.exponents)), len(self.series.exponents)
        moving = pairs if self.measured is None else self.measured.moving
        if not self.view.has_pairs or self.measured is None:
            return
        if 0 < moving < pairs:
            values = {"have": 2 * moving, "want": 2 * pairs}
            narrow = mistake("partial-width", None, values, {"rotary_dim": 2 * moving})
            omega, error = np.abs(self.measured.omega[:moving]), self.measured.error[:moving]
            line = fitted_line(omega, error)
            for exponents in (k / moving, self.series.exponents):
                series = replace(self.series, exponents=exponents)
                yield Source((narrow,), narrow.bits, series, still=moving)
                if line is None:
                    continue
                step = float(exponents[1] - exponents[0])
                for share in _SHARES:
                    middle, half = -line.slope / step, share * line.slope_error / step + 1e-9
                    if not 0 < middle < _MOST_LOG or half > 1:
                        continue
                    ends = exp(middle - half), exp(middle + half)
                    for base, bits in bases_between(*ends, self.series.base):
                        other = self._of_base(base, bits)
                        both, cost = (narrow, *other.mistakes), narrow.bits + bits
                        yield Source(both, cost, replace(series, base=base), still=moving)
        if moving == 0:
            still = mistake("not-rotated", None, {})
            yield Source((still,), still.bits, self.series, still=0)


@dataclass(frozen=True, eq=False)
class RuleChoice:
    """A rule, and the mistakes that replaced the expected one by it."""

    mistakes: tuple[Mistake, ...]
    bits: float
    rule: Rule
    by_wavelength: bool = False

    def frequencies(self, series: Series, **keys: Any) -> Float64s:
        """Return the frequencies of a series, by other values of some keys."""
        rule = self.rule.changed(**keys) if keys else self.rule
        if self.by_wavelength:
            return llama3_by_wavelength(series, rule.keys)
        return rule.frequencies(series)


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
        yield RuleChoice((band,), band.bits, rule, by_wavelength=True)
    elif rule.rope_type == "longrope":
        original = float(rule.keys[ORIGINAL])
        if evidence.size is not None and "factor" in rule.keys:
            # The attention factor shows the factor that it follows from.
            close = 4 * HALF_STEP[evidence.view.dtype] + 8 * UNIT + evidence.view.slack
            sizes = (evidence.size * (1 - close), evidence.size * (1 + close))
            if sizes[0] > 1 and (sizes[1] ** 2 - 1) * log(original) < _MOST_LOG:
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
    elif rule.rope_type == "dynamic":
        yield from _of_growth(evidence, rule)


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
    find = _lengths_of_band if rule.rope_type == "llama3" else _lengths_of_ramp
    ends = find(rule, series, inside, kept[inside], error[inside]) if len(inside) else None
    if ends is not None and 1 < ends[0] < ends[1] < _LONGEST:
        yield from _shortest(rule, ORIGINAL, list(ends), (*USUAL_LENGTHS, 2**19, 2**20))


def _lengths_of_band(
    rule: Rule, series: Series, inside: Indices, kept: Float64s, error: Float64s
) -> tuple[float, float] | None:
    """Return the least and the most original length of llama3; None if pairs do not agree."""
    low, high = (float(rule.keys[name]) for name in ("low_freq_factor", "high_freq_factor"))
    wavelength = 2 * pi / series.omega[inside]
    length, room = wavelength * (low + kept * (high - low)), wavelength * error * abs(high - low)
    weight = np.maximum(room, 1e-300) ** -2.0
    middle, half = float((weight * length).sum() / weight.sum()), float(weight.sum()) ** -0.5
    # If they do not agree, the base or the factor is another one.
    return (middle - half, middle + half) if (np.abs(length - middle) <= 2 * room).all() else None


def _lengths_of_ramp(
    rule: Rule, series: Series, inside: Indices, kept: Float64s, _error: Float64s
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
    if not -series.width < start < stop < min(series.width, _MOST_LOG / growth):
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
    for share in _SHARES:
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
