"""ALiBi's slopes: which series they are of, and how far it goes."""

from collections.abc import Iterator
from itertools import islice
from math import log, log2

import numpy as np

from service.analysis.call import Call
from service.analysis.lone_arrays import lone_finite
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters, share_of
from service.tables.angle import Float64s
from service.tables.document import ParameterValue
from service.tables.slopes import MAX_BIAS_MAX, SlopeRule

_BIAS_MAX = 8.0
_CONVENTIONS = ("original", "paper")
_MOST_BIAS_MAXES = 2
# So few slopes are of any series; only a plain one is meant.
_FEW = 3

# Heads among which one with the slope of a head alone is looked for.
_POWERS = (1, 2, 4, 8, 16, 32)
_MOST_HEADS = 26


def slopes(question: Question) -> Iterator[Proposal]:
    """Propose the slopes of heads."""
    sample, values = question.sample, lone_finite(question, (1,))
    if values is None or not (values > 0).all():
        return
    for rule in slope_rules(values, share_of(sample), is_absolute=True):
        call = Call("relative/alibi/slopes", {**rule_parameters(rule), **dtype_parameters(sample)})
        yield Proposal(call, (slope_support(rule),))


def rule_parameters(rule: SlopeRule) -> dict[str, ParameterValue]:
    """Spell a rule by what is no default of it."""
    parameters: dict[str, ParameterValue] = {"num_heads": rule.count}
    if rule.convention != "original":
        parameters["convention"] = rule.convention
    if rule.bias_max != _BIAS_MAX:
        parameters["alibi_bias_max"] = rule.bias_max
    return parameters


def slope_support(rule: SlopeRule) -> str:
    """Say what slopes of a rule are."""
    own = rule.count if rule.convention == "paper" else 1 << (rule.count.bit_length() - 1)
    series = f"slopes fall as 2^(-{rule.bias_max:g}h/{own}), h = 1 … {own}"
    return series if own == rule.count else f"{series}; the others are between them"


def slope_rules(values: Float64s, share: float, *, is_absolute: bool) -> Iterator[SlopeRule]:
    """Give the rules whose slopes are these, or are as these to each other.

    Args:
        values: above 0, one for each head.
        share: by how much of its size each may be off.
        is_absolute: whether they are slopes; otherwise two of them at least that are proportional.
    """
    count = len(values)
    for convention in _CONVENTIONS:
        own = count if convention == "paper" else 1 << (count.bit_length() - 1)
        # From first to last, or to the last from 1, which would come before the first.
        steps = own if is_absolute else own - 1
        fall = -log2(values[own - 1] / (1.0 if is_absolute else values[0]))
        if steps == 0 or not 0 < fall < 2 * MAX_BIAS_MAX:
            continue
        bias_max, error = fall * own / steps, 2 * share / log(2) * own / steps
        for plain in plain_numbers(bias_max, error / bias_max, _MOST_BIAS_MAXES):
            rule = SlopeRule(convention, count, plain)
            unit = 1.0 if is_absolute else values[0] / rule.sizes(range(1))[0]
            if plain <= MAX_BIAS_MAX and _is_meant(rule) and _fits(rule, values / unit, share):
                yield rule
                break


def _is_meant(rule: SlopeRule) -> bool:
    return rule.count >= _FEW or float(f"{rule.bias_max:.1e}") == rule.bias_max


def _fits(rule: SlopeRule, values: Float64s, share: float) -> bool:
    sizes = rule.sizes(range(rule.count))
    return bool((np.abs(values - sizes) <= 2 * share * sizes).all())


def lone_slope(slope: float, share: float) -> Iterator[tuple[SlopeRule, int]]:
    """Give the fewest heads of which one has a slope, and which one that is.

    Of a series up to 2^-8, one of n heads; or of a series of one head, if it is a plain one.
    """
    if not 0 < slope < 1:
        return
    exponent, error = -log2(slope), 2 * share / log(2)
    for count in (*_POWERS, *range(3, _MOST_HEADS)):
        place = exponent * count / _BIAS_MAX
        if abs(place - round(place)) <= error * count / _BIAS_MAX and 1 <= round(place) <= count:
            name = "original" if count in _POWERS else "paper"
            yield SlopeRule(name, count, _BIAS_MAX), round(place) - 1
            return
    of_one = slope_rules(np.array([slope]), share, is_absolute=True)
    # With one head both conventions are the same.
    yield from ((rule, 0) for rule in islice(of_one, 1))
