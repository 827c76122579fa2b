"""Candidates: what an array may be instead of the expected table, the most plausible first.

    ω = factor·rule(source), at positions p + shift, times a scale, rounded narrowly or not

Each part has its choices in closed form: bases in the interval that was measured, exponents of
known slips, keys of the rule with their usual values, the factor that slow pairs show, the shift
that phases show. A choice costs bits (``catalogue``), a candidate the sum of them, and candidates
come in the order of their cost. Impossible ones are never proposed: no table is wider than itself.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, islice, takewhile
from math import ceil, floor, inf, log, log2, log10, pi
from typing import Any

import numpy as np

from service.analysis.explanation.arithmetic import NARROW_PARTS, Narrowing, Waves
from service.analysis.explanation.catalogue import Mistake, mistake, too_narrow
from service.analysis.explanation.formulas import ORIGINAL, Series
from service.analysis.explanation.measured import UNIT, fewest_digits, fold
from service.analysis.explanation.rule_choices import RuleChoice, rule_choices
from service.analysis.explanation.sources import (
    BITS_A_DIGIT,
    USUAL_BASES,
    Evidence,
    Source,
)
from service.analysis.explanation.target import Target
from service.analysis.explanation.views import HALF_STEP
from service.analysis.precision import rounded
from service.analysis.round_numbers import is_unround, round_number, significant_digits
from service.numerics.dtypes import BFLOAT16, FLOAT16, DType
from service.numerics.phase import Float64s

MOST_MISTAKES = 3
DEGREES = ((180 / pi, "degrees"), (pi / 180, "radians taken for degrees"))
_MOST_BITS = 24.0
_MOST_UNMEASURED_BITS = 14.0
# Arrays of a few frequencies exclude little: so many pairs of a source and a rule, and so many
# candidates, are tried. Of other arrays, 99 in 100 are explained by the first 240 candidates.
_MOST_PRODUCTS, _MOST_TRIED = 8000, 2000
# Pairs slower than this do not pass a whole turn between rows.
_SLOW = 0.02
# Parts of an interval in which the factor of fewest digits is looked for.
_SHARES = (1, 0.25, 0.05)
# A size within this share of its bound is that of the rule; a larger bound tells no sizes apart.
_MOST_SURE, _COARSE = 0.25, 1e-3
# No factor of a rule is nearer to 1; tables of a size beyond the last, or below its inverse, are of
# other numbers.
_MOST_ODD, _LARGEST_FACTOR = 0.01, 300.0


# Where mistakes keep a number that was measured.
_MEASURED_KEYS = {"wrong-base": "have", "linear-factor": "factor"}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A table that an array may be, with the mistakes that turn the expected one into it.

    Attributes:
        mistakes: what turns the expected table into it; empty for the expected table.
        bits: the cost.
        omega: the frequencies of cosines, and of sines unless ``sine`` is given.
        scale: the factor of cosines and sines.
        series: the frequencies before any rule, where products can be emulated.
        sine: the frequencies of sines that differ.
        shift: what is added to positions.
        narrowing: what is rounded to a narrow type.
        places: the positions of the rows in place of shifted ones, (S, 1) or (S, K).
        boundary: positions below it have the frequencies ``below``.
        below: the frequencies below the boundary.
        own_scale: the factor that the rule gives.
        frequencies: returns the frequencies of a series by the rule, with other values of keys.
    """

    mistakes: tuple[Mistake, ...]
    bits: float
    omega: Float64s
    scale: float
    series: Series | None = None
    sine: Float64s | None = None
    shift: float = 0.0
    narrowing: Narrowing | None = None
    places: Float64s | None = None
    boundary: float = -inf
    below: Float64s | None = None
    own_scale: float = 1.0
    frequencies: Callable[..., Float64s] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.mistakes)

    @property
    def is_odd(self) -> bool:
        """True if a base or a factor that was measured has many digits."""
        return any(
            is_unround(float(each.values[key]))
            for each in self.mistakes
            if (key := _MEASURED_KEYS.get(each.name)) is not None
        )

    def waves(self, places: Float64s) -> Waves:
        """Return the waves of rows at positions, (S, 1) or (S, K)."""
        where = self.places if self.places is not None else places + self.shift
        if self.below is not None:
            ratio = np.divide(
                self.below, self.omega, out=np.ones(len(self.omega)), where=self.omega != 0
            )
            where = np.where(where < self.boundary, where * ratio, where)
        return Waves(
            self.omega, where, self.scale, self.series, self.sine, narrowing=self.narrowing
        )

    def with_setting(self, key: str, value: float) -> "Candidate":
        """Return the candidate with another ``base``, or another value of a key of its rule."""
        if self.series is None or self.frequencies is None:
            return self
        own, keys, series = self.frequencies(self.series), {key: value}, self.series
        if key == "base":
            series, keys = replace(series, base=value), {}
        other = self.frequencies(series, **keys)
        ratio = np.divide(other, own, out=np.ones(len(own)), where=own != 0)
        return replace(self, omega=self.omega * ratio, series=series)

    def with_mistake(self, more: Mistake, bits: float | None = None, **changes: Any) -> "Candidate":
        """Return the candidate with one more mistake."""
        cost = self.bits + (more.bits if bits is None else bits)
        return replace(self, mistakes=(*self.mistakes, more), bits=cost, **changes)

    def without(self, names: Container[str]) -> "Candidate":
        """Return the candidate without the mistakes of some names, and their cost."""
        kept = tuple(each for each in self.mistakes if each.name not in names)
        removed = sum(each.bits for each in self.mistakes if each.name in names)
        return replace(self, mistakes=kept, bits=self.bits - removed)


@dataclass(frozen=True, eq=False)
class Proposer(Evidence):
    """Proposes candidates for a view of a target."""

    def candidates(
        self, most_bits: float = inf, most_products: int = _MOST_PRODUCTS
    ) -> Iterator[Candidate]:
        """Yield candidates in the order of their bits, lazily.

        Args:
            most_bits: the most that a source and a rule cost together.
            most_products: how many pairs of a source and a rule are tried.
        """
        waiting: list[tuple[float, int, Candidate]] = []
        number = count()
        if self.measured is None:
            # Nothing excludes a candidate before its numbers are computed.
            most_bits = min(most_bits, _MOST_UNMEASURED_BITS)
        cheap = takewhile(lambda pair: pair[0] <= most_bits, self._products())
        pairs, tried = islice(cheap, most_products), 0
        following = next(pairs, None)
        while (waiting or following is not None) and tried < _MOST_TRIED:
            while following is not None and (not waiting or following[0] <= waiting[0][0]):
                for each in self._expanded(*following[1:]):
                    heappush(waiting, (each.bits, next(number), each))
                following = next(pairs, None)
            if waiting and (self.measured is not None or waiting[0][0] <= most_bits):
                tried += 1
                yield heappop(waiting)[2]
            elif waiting:
                return

    def _products(self) -> Iterator[tuple[float, Source | None, RuleChoice | None]]:
        """Yield pairs of a source and a rule in the order of their bits; None for fixed ones."""
        sources, rules = list(self.sources()), list(rule_choices(self))
        if self.view.cosine is None:
            # What is wrong with cosines alone does not show in sines.
            sources = [source for source in sources if source.sine is None]
        found: list[tuple[float, int, Source | None, RuleChoice | None]] = []
        number = count()
        for source in sources:
            for rule in rules:
                bits = source.bits + rule.bits
                mistakes = len(source.mistakes) + len(rule.mistakes)
                is_far = not source.is_measured and bool(rule.mistakes) and bool(rule.rule)
                is_far |= not self.target.rule and bool(rule.rule) and bool(source.mistakes)
                is_far |= rule.is_base and bool(source.mistakes)
                if mistakes <= 2 and bits <= _MOST_BITS and not is_far:
                    found.append((bits, next(number), source, rule))
        found.append((4.5, next(number), None, None))
        for bits, _, one, other in sorted(found, key=lambda each: each[:2]):
            yield bits, one, other

    def _expanded(self, source: Source | None, rule: RuleChoice | None) -> Iterator[Candidate]:
        """Yield the candidates of a source and a rule: with a scale, a shift, and narrow types."""
        if source is None or rule is None:
            plain = list(self._scaled_angles())
        else:
            plain = [self._plain(source, rule)]
            is_one = len(rule.mistakes) + len(source.mistakes) <= 1
            # Two factors of one rule are a guess, as are a base and a factor for two ends.
            is_one &= not (rule.mistakes and rule.rule.rope_type == "linear")
            is_one &= not (source.mistakes and self.target.has_two_ends)
            may_be_scaled = source.is_measured or not rule.mistakes
            if is_one and source.sine is None and may_be_scaled:
                plain += self._with_factor(plain[0])
        for candidate in plain:
            for placed in self._placed(candidate):
                if len(placed.mistakes) > MOST_MISTAKES:
                    continue
                yield placed
                if len(placed.mistakes) < MOST_MISTAKES:
                    yield from self._narrowed(placed)

    def _plain(self, source: Source, rule: RuleChoice) -> Candidate:
        omega = rule.frequencies(source.series)
        sine = None if source.sine is None else rule.frequencies(source.sine)
        if source.turning is not None:
            turning = np.zeros(len(omega), dtype=np.bool_)
            turning[source.turning] = True
            omega = np.where(turning, omega, 0.0)
        is_plain = source.is_iterated and rule.formula is None
        bits = source.bits + rule.bits + sum(each.bits for each in self.given)
        mistakes = (*self.given, *rule.mistakes, *source.mistakes)
        scale = rule.rule.scale
        if not rule.mistakes:
            scale = self.target.scale
        series = source.series if is_plain else None
        return Candidate(
            mistakes,
            bits,
            omega,
            scale,
            series,
            sine,
            own_scale=scale,
            frequencies=rule.frequencies,
        )

    def _scaled_angles(self) -> Iterator[Candidate]:
        """Yield angles that are doubled, in degrees, or taken for degrees."""
        omega, scale = self.target.rule.frequencies(self.series), self.target.scale
        plain = Candidate(self.given, 0.0, omega, scale, self.series, own_scale=scale)
        yield plain.with_mistake(mistake("rotated-twice", None, {}), omega=2 * omega)
        for factor, have in DEGREES:
            wrong = mistake("angles-in-degrees", None, {"factor": factor, "have": have})
            yield plain.with_mistake(wrong, omega=omega * factor)

    def _with_factor(self, plain: Candidate) -> Iterator[Candidate]:
        """Yield the frequencies times the one factor that all slow pairs show, if there is one."""
        if self.measured is None:
            return
        omega, error = np.abs(self.measured.omega), self.measured.error
        usable = (omega > 8 * error) & (plain.omega < _SLOW) & (plain.omega > 0)
        if usable.sum() < 2:
            usable = (omega > 8 * error) & (plain.omega < 1.5) & (plain.omega > 0)
        if not usable.any():
            return
        ratio, weight = (
            omega[usable] / plain.omega[usable],
            (plain.omega[usable] / error[usable]) ** 2,
        )
        factor = float((ratio * weight).sum() / weight.sum())
        slack = 3 / float(weight.sum()) ** 0.5 + 1e-7 * factor
        spread = 4 * error[usable] / plain.omega[usable] + 1e-6 * factor
        if not (np.abs(ratio - factor) <= spread).all():
            return
        yield from with_factor(plain, factor, slack)

    def _placed(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with the scale and the shift that the numbers show, if it may be."""
        measured, sizes = self.measured, list(self.scaled(candidate, self.size))
        if candidate.sine is not None and candidate not in sizes:
            # Pairs of two frequencies have no size of their own.
            sizes.insert(0, candidate)
        if measured is None:
            # Positions along several axes may have steps of another length.
            steps = (1.0, -1.0) if self.target.is_along_one_axis else ()
            offsets = (*steps, *((self.first, -self.first) if self.first else ()))
            for scaled in sizes:
                yield scaled
                yield from (self._shifted(scaled, shift) for shift in offsets)
                yield scaled.with_mistake(mistake("sine-sign"), omega=-scaled.omega)
            return
        if candidate.sine is not None or candidate.below is not None:
            for scaled in sizes:
                yield scaled
                yield from (self._shifted(scaled, shift) for shift in (1.0, -1.0))
            return
        sign = -1.0 if measured.is_backward else 1.0
        omega = sign * candidate.omega
        if not measured.agrees(omega):
            return
        alone = measured.phasors is None
        shift = None if alone or not omega.any() else measured.shift(omega)
        first = self.first
        for scaled in sizes:
            for each in dict.fromkeys((0.0, shift or 0.0)):
                if measured.is_backward:
                    yield from self._backward(scaled, omega, each, first)
                else:
                    yield self._shifted(scaled, each)

    def _backward(
        self, candidate: Candidate, omega: Float64s, shift: float, first: float
    ) -> Iterator[Candidate]:
        """Yield angles that fall with the row: a sign, or rows in reverse order."""
        last = -(2 * first + self.rows - 1)
        if shift and abs(shift - last) < 0.5:
            turned = mistake("positions-reversed", None, {})
            # Row s has the position first + last row − s.
            yield candidate.with_mistake(turned, omega=omega, shift=last)
            return
        signed = candidate.with_mistake(mistake("sine-sign", None, {}), omega=omega)
        yield self._shifted(signed, shift)

    def _shifted(self, candidate: Candidate, shift: float) -> Candidate:
        if not shift:
            return candidate
        is_whole = shift == round(shift)
        bits = 4 + log2(abs(shift) + 1) + (0 if is_whole else 8)
        rows = int(shift) if is_whole else shift
        first = self.first
        if is_whole and abs(shift) == abs(first) and self.is_continued:
            how = "twice" if shift == first else "not at all"
            values = {"rows": rows, "offset": int(first), "how": how, "have": int(first + shift)}
            wrong = mistake("cache-offset", None, values, {"start": int(first + shift)})
            return candidate.with_mistake(wrong, shift=shift)
        changes = {"start": int(first + shift)} if is_whole else None
        values = {"rows": rows, "have": first + shift, "want": first}
        wrong = mistake("position-offset", bits, values, changes)
        return candidate.with_mistake(wrong, shift=shift)

    def scaled(self, candidate: Candidate, size: float | None) -> Iterator[Candidate]:
        """Yield the candidate with a size of the numbers, and what is wrong with it.

        Args:
            candidate: the candidate, whose rule has a size of its own.
            size: that of the numbers; None if it is not known.
        """
        own = candidate.own_scale
        close = 8 * HALF_STEP[self.view.dtype] + 8 * UNIT + 4 * self.view.slack
        if size is None or abs(size / own - 1) <= close:
            yield candidate
            if size is None or abs(size / own - 1) <= _MOST_SURE * close:
                return
        # Narrow types do not tell sizes apart that are near each other.
        found = []
        if own != self.target.scale and abs(size - self.target.scale) <= close:
            found.append(replace(candidate, scale=self.target.scale, bits=candidate.bits + 2))
        if own != 1 and abs(size - 1) <= close:
            values = {"factor": own, "ratio": 1 / own}
            wrong = mistake("missing-factor", None, values, {"attention_factor": 1.0})
            found.append(candidate.with_mistake(wrong, scale=1.0))
        if own != 1 and abs(size / own - own) <= 2 * close:
            values = {"factor": own, "ratio": own}
            wrong = mistake("extra-factor", None, values, {"attention_factor": own * own})
            found.append(candidate.with_mistake(wrong, scale=own * own))
        yield from found
        is_plausible = len(candidate.mistakes) < MOST_MISTAKES - 1
        if is_plausible and (not found or close > _COARSE):
            yield from self._other_scales(candidate, size, close)

    def _other_scales(self, candidate: Candidate, size: float, close: float) -> Iterator[Candidate]:
        if not 1 / _LARGEST_FACTOR < size < _LARGEST_FACTOR:
            return
        given = self.target.request.parameters if self.target.request else {}
        factor = float(self.target.rule.keys.get("factor", 1))
        if self.target.rule.rope_type == "yarn" and "mscale" in given and factor > 1:
            one, other = (
                0.1 * float(str(given.get(name, 1))) * log(factor) + 1
                for name in ("mscale", "mscale_all_dim")
            )
            plain = 0.1 * log(factor) + 1
            scales = (other / one, one, other, 1 / other, plain, one * one)
            near = [scale for scale in scales if abs(size / scale - 1) <= close]
            for scale in near:
                values = {"have": scale, "want": self.target.scale}
                wrong = mistake("mscale-exchanged", None, values, {"attention_factor": scale})
                yield candidate.with_mistake(wrong, scale=scale)
            if near:
                return
        number = size / candidate.own_scale
        is_odd = candidate.own_scale != 1 or abs(number - 1) < _MOST_ODD
        name = "wrong-factor" if is_odd else "extra-factor"
        shortest = fewest_digits(number * (1 - close), number * (1 + close))
        # Factors such as √d have no short decimal.
        short = shortest[0] if shortest else number
        for ratio in dict.fromkeys((short, float(f"{number:.4g}"), number)):
            if f"{ratio:.6g}" == "1":
                continue
            scale = ratio * candidate.own_scale
            # No more digits are named than were measured.
            known = round_number(ratio, HALF_STEP[self.view.dtype] / 4)
            values = {"factor": known, "ratio": known}
            wrong = mistake(name, 14.0, values, {"attention_factor": scale})
            yield candidate.with_mistake(wrong, scale=scale)

    def _narrowed(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with positions, frequencies, angles or all in a narrow type.

        Only what the numbers can be: positions that the type does not hold, frequencies that are
        those measured, and all of it where the numbers have the type.
        """
        for each in narrowed(candidate):
            narrow = each.narrowing
            if narrow is not None and self._may_be_narrow(candidate, narrow.dtype, narrow.part):
                yield each

    def _may_be_narrow(self, candidate: Candidate, dtype: DType, part: str) -> bool:
        if part == "throughout":
            return dtype is self.view.dtype
        measured = self.measured
        if measured is None or measured.phasors is None:
            return True
        if part == "positions":
            moved = measured.positions + candidate.shift
            return not np.array_equal(rounded(moved, dtype), moved)
        if part == "frequencies" and candidate.sine is None:
            omega = rounded(candidate.omega, dtype)
            if not np.isfinite(omega).all():
                return False
            distance = np.abs(fold((measured.omega - omega) * measured.step)) / measured.step
            return bool((distance <= 4 * measured.error).all())
        return True


def expected(target: Target) -> Candidate:
    """Return the candidate that an array is the expected table."""
    return Candidate((), 0.0, target.omega, target.scale, target.series, own_scale=target.scale)


def narrowed(candidate: Candidate) -> Iterator[Candidate]:
    """Yield a candidate with positions, frequencies, angles or all in each narrow type."""
    for dtype, more in ((BFLOAT16, 0.0), (FLOAT16, 1.0)):
        for part in NARROW_PARTS:
            narrow = too_narrow(part, dtype)
            bits = narrow.bits + more
            yield candidate.with_mistake(narrow, bits, narrowing=Narrowing(dtype, part))


def with_factor(plain: Candidate, factor: float, slack: float) -> Iterator[Candidate]:
    """Yield a candidate whose frequencies are multiplied by a factor of few digits near a number.

    Args:
        plain: the candidate.
        factor: the number.
        slack: a bound of its error.
    """
    if abs(factor - 1) <= slack:
        return
    for degrees, have in DEGREES:
        if abs(factor - degrees) <= slack:
            if plain.mistakes:
                wrong = mistake("angles-in-degrees", None, {"factor": degrees, "have": have})
                yield plain.with_mistake(wrong, omega=plain.omega * degrees)
            return
    is_greater = factor > 1
    ends = (factor - slack, factor + slack)
    if not is_greater:
        ends = (1 / ends[1], 1 / ends[0] if ends[0] > 0 else 1e9)
    middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
    tried = [fewest_digits(middle - half * share, middle + half * share) for share in _SHARES]
    if ends[0] <= 2 * pi <= ends[1]:
        tried = [(2 * pi, 1)]
    for number, digits in dict.fromkeys(each for each in tried if each is not None):
        if number <= 1:
            continue
        times = number if is_greater else 1 / number
        name = "rotated-twice" if times == 2 else "linear-factor"
        bits = 5.5 + BITS_A_DIGIT * (digits - 1) + (0 if number == int(number) else 3)
        how = "multiplied" if is_greater else "divided"
        values = {"factor": number, "how": how, "ratio": times}
        yield plain.with_mistake(mistake(name, bits, values), omega=plain.omega * times)


# The rows that an interval is measured with first, the halvings of each end, and the width from
# which on the table of its middle is not linked.
INTERVAL_ROWS, _HALVINGS, _WIDE = 64, 10, 1e-5
# A number whose last digit is worth ten times the interval is not in it by chance.
_BY_CHANCE = 0.1
_MEASURED = {"wrong-base", ORIGINAL}
# A usual base is certain if others that differ by this do not explain the numbers.
_VAGUE = 0.01


def with_interval(candidate: Candidate, fits: Callable[[Candidate], bool]) -> Candidate:
    """Return a candidate whose base and original length have the intervals that may be.

    A usual base that is certain has none. Both ends are found by halving.

    Args:
        candidate: the candidate.
        fits: returns whether a candidate with another value explains the numbers.
    """
    found = candidate
    for wrong in candidate.mistakes:
        is_known = candidate.frequencies is not None and candidate.series is not None
        if is_known and wrong.values.get("key", wrong.name) in _MEASURED:
            measured = _measured(candidate, wrong, fits)
            kept = tuple(measured if each is wrong else each for each in found.mistakes)
            found = replace(found, mistakes=kept)
    return found


def _measured(candidate: Candidate, wrong: Mistake, fits: Callable[[Candidate], bool]) -> Mistake:
    """Return a mistake of a candidate with the interval of its value."""
    key, have = str(wrong.values.get("key", "base")), float(wrong.values["have"])

    def may_be(change: float) -> bool:
        value = have * (1 + change)
        return value > 1 and fits(candidate.with_setting(key, value))

    is_usual = key == "base" and have in USUAL_BASES
    if is_usual and not (may_be(-_VAGUE) or may_be(_VAGUE)):
        return wrong
    ends = []
    for sign in (-1.0, 1.0):
        good, bad = 0.0, 1e-7
        while bad < 1 and may_be(sign * bad):
            good, bad = bad, 4 * bad
        for _ in range(_HALVINGS):
            middle = (good + bad) / 2
            good, bad = (middle, bad) if may_be(sign * middle) else (good, middle)
        ends.append(have * (1 + sign * good))
    low, high = _within(*ends)
    if key == ORIGINAL:
        low, high = ceil(ends[0]), floor(ends[1])
    last_digit = 10.0 ** (floor(log10(have)) + 1 - significant_digits(have))
    is_wide = high - low > _WIDE * have
    is_certain = not is_wide if key == ORIGINAL else high - low <= _BY_CHANCE * last_digit
    values = {**wrong.values, "interval": (low, high), "low": low, "high": high}
    # Any original length in the interval gives one table.
    is_linked = key == ORIGINAL or is_usual or not is_wide
    return replace(
        wrong,
        values=values,
        variant=wrong.variant if is_certain else "interval",
        changes=wrong.changes if is_linked else None,
    )


def _within(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an interval with few digits, none of them outside."""
    for digits in range(6, 16):
        unit = 10.0 ** (floor(log10(high)) + 1 - digits)
        ends = ceil(low / unit) * unit, floor(high / unit) * unit
        if ends[1] - ends[0] > 0.9 * (high - low):
            return float(f"{ends[0]:.{digits}g}"), float(f"{ends[1]:.{digits}g}")
    return low, high


def simplest(found: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates without those that name the mistakes of a cheaper one, and maybe more."""
    kept: list[Candidate] = []
    for each in sorted(found, key=lambda each: each.bits):
        if not any(set(other.names) <= set(each.names) for other in kept):
            kept.append(each)
    return kept
