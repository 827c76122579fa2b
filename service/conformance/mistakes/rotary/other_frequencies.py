"""Mistakes in the formula of frequencies, which no rule of the service has: they are given."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from math import ceil, floor, pi, sqrt
from typing import TypeAlias

import numpy as np

from service.conformance.expectations.turned_tables import frequencies_of
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


@makes("yarn-betas-exchanged", sequences)
def _yarn_betas_exchanged(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.parameters.get("rope_type") != "yarn":
        return
    found, omega = frequencies_of(question), frequencies(unscaled(question))
    # beta_fast belongs to the low end, so the ends change places.
    high, low = (float(each) for each in found["range_raw"])
    if question.parameters.get("truncate", True):
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, 2 * len(omega) - 1)
    exchanged = np.clip((np.arange(len(omega)) - low) / ((high - low) or 0.001), 0, 1)
    for ramp in (exchanged, 1 - found["ramp"]):
        yield from turned_by(question, omega * (1 - ramp) + omega / _factor(question) * ramp, right)


def _factor(question: Question) -> float:
    """Return the factor of a rule, or what it follows from."""
    keys = question.parameters
    lengths = ("max_position_embeddings", "original_max_position_embeddings")
    return float(keys["factor"] if "factor" in keys else keys[lengths[0]] / keys[lengths[1]])


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
