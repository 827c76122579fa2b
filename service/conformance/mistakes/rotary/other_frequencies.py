"""Mistakes in the formula of frequencies, which no rule of the service has: they are given."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil, floor, log, pi, sqrt
from typing import TypeAlias

import numpy as np

from service.conformance.expectations.turned_tables import factor_of, frequencies_of
from service.conformance.mistakes.rotary.rotary_questions import (
    base_of,
    frequencies,
    rotary_dim,
    turned_by,
    unscaled,
)
from service.conformance.mistakes.wrong import (
    Maker,
    Wrong,
    answers_to,
    changed,
    makes,
    sequences,
)
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.numerics.phase import Float64s

_DEGREES = (pi / 180, 180 / pi)


@dataclass(frozen=True)
class _Range:
    """The pairs at which the ramp of YaRN begins and ends, before they are rounded.

    Attributes:
        low, high: the ends.
        count: the number of pairs.
        base: that of the frequencies.
        is_rounded: whether the ends are rounded.
        right: the right ramp, (count,).
    """

    low: float
    high: float
    count: int
    base: float
    is_rounded: bool
    right: Float64s

    def rounded(self, low: float, high: float) -> tuple[float, float]:
        """Return ends as YaRN rounds them, if it does."""
        return (floor(low), ceil(high)) if self.is_rounded else (low, high)

    def ramp(
        self, low: float, high: float, *, most: float | None = None, step: int = 1
    ) -> Float64s:
        """Return a ramp between ends, of which the last is at most the last channel."""
        low, high = max(low, 0), min(high, 2 * self.count - 1 if most is None else most)
        found: Float64s = np.clip(
            (step * np.arange(self.count) - low) / ((high - low) or 0.001), 0, 1
        )
        return found


_Ramp: TypeAlias = Callable[[_Range], Iterator[Float64s]]


def _yarn(name: str, detail: str = "") -> Callable[[_Ramp], Maker]:
    """Return a decorator of other ramps of YaRN, which divide other frequencies."""

    def maker(ramps: _Ramp) -> Maker:
        def made(question: Question, right: Expectation) -> Iterator[Wrong]:
            if question.parameters.get("rope_type") != "yarn":
                return
            found, omega = frequencies_of(question), frequencies(unscaled(question))
            low, high = (float(each) for each in found["range_raw"])
            is_rounded, ramp_of_rule = question.parameters.get("truncate", True), found["ramp"]
            base, right_ramp = base_of(question), ramp_of_rule.astype(np.float64)
            known = _Range(low, high, len(omega), base, is_rounded, right_ramp)
            for ramp in ramps(known):
                wrong = omega * (1 - ramp) + omega / factor_of(question.parameters) * ramp
                yield from (
                    replace(each, detail=detail) for each in turned_by(question, wrong, right)
                )

        return Maker(name, sequences, made)

    return maker


@_yarn("yarn-betas-exchanged")
def _ends_of_the_ramp_exchanged(known: _Range) -> Iterator[Float64s]:
    """beta_fast belongs to the low end; or the ramp falls."""
    yield known.ramp(*known.rounded(known.high, known.low))
    yield 1 - known.right


@_yarn("wrong-rule", "the ramp of YaRN ends at the last pair at most, not at the last channel")
def _ramp_of_pairs(known: _Range) -> Iterator[Float64s]:
    yield known.ramp(*known.rounded(known.low, known.high), most=known.count - 1)


@_yarn("wrong-rule", "the ends of YaRN's ramp are rounded another way")
def _ramp_rounded(known: _Range) -> Iterator[Float64s]:
    if known.is_rounded:
        for of_low, of_high in ((ceil, floor), (floor, floor), (ceil, ceil), (round, round)):
            yield known.ramp(of_low(known.low), of_high(known.high))


@_yarn("wrong-rule", "the ramp of YaRN counts twice as many channels or pairs, or half as many")
def _ramp_of_channels(known: _Range) -> Iterator[Float64s]:
    yield known.ramp(*known.rounded(known.low, known.high), step=2)
    yield known.ramp(*known.rounded(2 * known.low, 2 * known.high))


@_yarn("wrong-rule", "the ends of YaRN's ramp lack 2\N{GREEK SMALL LETTER PI}")
def _ramp_of_radians(known: _Range) -> Iterator[Float64s]:
    moved = known.count * log(2 * pi) / log(known.base)
    yield known.ramp(*known.rounded(known.low + moved, known.high + moved))


_Share: TypeAlias = Callable[[Float64s, float, float], Float64s]


def _llama3(name: str) -> Callable[[_Share], Maker]:
    """Return a decorator of another share of each frequency that is kept.

    It is found from the turns within the original length, (r/2,), and from the two limits.
    """

    def maker(share: _Share) -> Maker:
        def made(question: Question, right: Expectation) -> Iterator[Wrong]:
            keys = question.parameters
            if keys.get("rope_type") == "llama3":
                omega = frequencies(unscaled(question))
                turns = keys["original_max_position_embeddings"] * omega / (2 * pi)
                low, high = keys["low_freq_factor"], keys["high_freq_factor"]
                kept = np.clip(share(turns, low, high), 0, 1)
                wrong = kept * omega + (1 - kept) * omega / keys["factor"]
                yield from turned_by(question, wrong, right)

        return Maker(name, sequences, made)

    return maker


@_llama3("llama3-band")
def _by_wavelength(turns: Float64s, low: float, high: float) -> Float64s:
    return (1 / low - 1 / turns) / (1 / low - 1 / high)


@_llama3("wrong-parameter")
def _limits_exchanged(turns: Float64s, low: float, high: float) -> Float64s:
    return (high - turns) / (high - low)


@_llama3("wrong-rule")
def _ends_exchanged(turns: Float64s, low: float, high: float) -> Float64s:
    is_inside = (turns > low) & (turns < high)
    return np.where(is_inside, (high - turns) / (high - low), turns >= high)


@_llama3("wrong-rule")
def _coarse(turns: Float64s, low: float, high: float) -> Float64s:
    """Wavelengths have 6.28 for 2π."""
    return (turns * 2 * pi / 6.28 - low) / (high - low)


@makes("tutorial-slip", sequences)
def _tutorial_slip(question: Question, right: Expectation) -> Iterator[Wrong]:
    if "inv_freq" in question.parameters:
        return
    base, count = base_of(question), rotary_dim(question) // 2
    exact = Decimal(base)
    bases = (
        # k/d and 2·(2k)/d for 2k/d; the logarithm to base 10; k/(n − 1) for k/n.
        sqrt(base),
        base * base,
        float(exact.log10().exp()),
        float(exact ** (Decimal(count) / max(count - 1, 1))),
    )
    yield from changed(question, rope_theta=bases)
    omega = frequencies(question)
    ratio = float(exact ** (Decimal(-1) / count))
    for slipped in (omega * ratio, omega * sqrt(ratio), omega[::-1]):
        yield from turned_by(question, slipped, right)


@makes("angles-in-degrees", sequences)
def _angles_in_degrees(question: Question, right: Expectation) -> Iterator[Wrong]:
    for degrees in _DEGREES:
        if question.parameters.get("rope_type", "default") == "default":
            yield from answers_to(question.changed(rope_type="linear", factor=1 / degrees))
        yield from turned_by(question, degrees * frequencies(question), right)


@makes("wrong-denominator", sequences)
def _wrong_denominator(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The exponents have the channels of the whole head."""
    keys = question.parameters
    width, head_dim = rotary_dim(question), keys.get("head_dim", 0)
    if head_dim <= width or "inv_freq" in keys:
        return
    if keys.get("rope_type", "default") in {"default", "linear"}:
        base = Decimal(base_of(question)) ** (Decimal(width) / head_dim)
        yield from answers_to(question.changed(rope_theta=float(base)))
    else:
        wide = question.changed("partial_rotary_factor", rotary_dim=head_dim)
        omega = frequencies(replace(wide, x=None))
        yield from turned_by(question, omega[: width // 2], right)
