"""Mistakes of settings: the answer to a question with other parameters."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import permutations
from math import sqrt

import numpy as np

from service.analysis.explanation.formulas import (
    ORIGINAL,
    VARIED_KEYS,
    Rule,
    dynamic_growth,
    other_rules,
    other_values,
)
from service.conformance.expected import expectation
from service.conformance.mistakes.rotary.rotary_questions import (
    RULE_NAMES,
    base_of,
    frequencies,
    multiplied,
    rotary_dim,
    turned_by,
    unscaled,
)
from service.conformance.mistakes.wrong import (
    Wrong,
    answers_to,
    at,
    changed,
    makes,
    rotary,
    rotations,
    sequences,
)
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.encodings.rotary.rules import yarn_mscale

_USUAL_BASES = (10000.0, 500000.0, 1000000.0, 100.0, 100000.0, 10000000.0)
# Settings that have a default: an implementation that does not know them has that.
_WITH_DEFAULTS = (
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "freq_factors",
    "mixed_b",
    "xpos_centre",
    "xpos_scale_base",
    "reference_grid",
    "max_freq",
    "normalize_coords",
)
# Keys whose mistakes have names of their own.
_OTHER_NAMES = {("yarn", "truncate"), ("dynamic", "context_length"), ("dynamic", ORIGINAL)}


@makes("wrong-base", rotary)
def _wrong_base(question: Question, _: Expectation) -> Iterator[Wrong]:
    own = base_of(question)
    # Exponents of half or twice their size are a slip.
    others = {own, sqrt(own), own * own}
    yield from changed(question, rope_theta=[each for each in _USUAL_BASES if each not in others])


@makes("config-key-ignored", rotary)
def _config_key_ignored(question: Question, _: Expectation) -> Iterator[Wrong]:
    if _rule_of(question):
        yield from answers_to(unscaled(question))
    for name in _WITH_DEFAULTS:
        is_missing = name == "attention_factor" and "inv_freq" in question.parameters
        if name in question.parameters and not is_missing:
            yield from answers_to(question.changed(name))


def _rule_of(question: Question) -> Rule:
    """Return the rule of a question; one without a name where there is none."""
    keys = {name: each for name, each in question.parameters.items() if name in RULE_NAMES}
    name = keys.pop("rope_type", "default")
    if name == "dynamic" and "max_position_embeddings" in keys:
        keys.setdefault(ORIGINAL, keys["max_position_embeddings"])
    return Rule(name, {} if name == "default" else keys)


@makes("wrong-parameter", sequences)
def _wrong_parameter(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    for key in VARIED_KEYS.get(rule.rope_type, ()):
        # Half the original length of dynamic scaling is twice the length in use.
        if key in rule.keys and (rule.rope_type, key) not in _OTHER_NAMES:
            squares = {rule.keys[key] ** 2} if rule.rope_type == "linear" else set()
            values = [each for each in other_values(rule, key) if each not in squares]
            yield from changed(question, **{key: values})
    yield from answers_to(*_exchanged(question))


def _exchanged(question: Question) -> Iterator[Question]:
    """Yield the question with values that belong to other keys: of queries, limits or sections."""
    keys = question.parameters
    for each in ("query", "key") if "xpos" in keys else ():
        yield question.changed(xpos=each)
    if keys.get("rope_type") == "llama3":
        # Where each pair is compared with the limits, one by one, the first comparison decides.
        for limit in (keys["low_freq_factor"], keys["high_freq_factor"]):
            yield question.changed(low_freq_factor=limit, high_freq_factor=limit)
    for sizes in sorted({*permutations(keys.get("mrope_section", ()))}):
        yield question.changed(mrope_section=sizes)


@makes("wrong-rule", sequences)
def _wrong_rule(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    factor = float(rule.keys.get("factor", 8))
    for other in other_rules(rule, (factor,)):
        if not rule and other.rope_type == "linear":
            # Where nothing is scaled, that is a factor of all angles.
            continue
        yield from answers_to(unscaled(question, rope_type=other.rope_type, **other.keys))
    # The factor multiplies the base, or is all of the growth, whatever the length.
    if rule.rope_type == "linear":
        yield from answers_to(unscaled(question, rope_theta=factor * base_of(question)))
    elif rule.rope_type == "dynamic" and "alpha" not in rule.keys:
        yield from answers_to(unscaled(question, rope_type="dynamic", alpha=factor))


@makes("rules-by-layer", at("/rope/config"))
def _rules_by_layer(question: Question, _: Expectation) -> Iterator[Wrong]:
    others = [question.changed(layer_type=name).as_table for name in question.layer_types]
    yield from answers_to(*(each for each in others if each != question.as_table))


@makes("dynamic-length", sequences)
def _dynamic_length(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    if rule.rope_type == "dynamic" and "alpha" not in rule.keys:
        original = int(rule.keys[ORIGINAL])
        length = int(rule.keys.get("context_length", original))
        lengths = (original, 2 * length, length // 2, 4 * original)
        yield from changed(question, context_length=lengths)


@makes("yarn-range-rounded", sequences)
def _yarn_range_rounded(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.parameters.get("rope_type") == "yarn":
        yield from changed(question, truncate=(True, False))


@makes("short-for-long-factors", sequences)
def _short_for_long_factors(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.parameters.get("rope_type") == "longrope":
        original = question.parameters[ORIGINAL]
        yield from changed(question, context_length=(original, 2 * original))


@makes("list-by-position", sequences)
def _list_by_position(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Rows beyond the original length have one list of factors, and rows before it the other."""
    if question.parameters.get("rope_type") != "longrope" or question.positions is None:
        return
    original = question.parameters[ORIGINAL]
    short, long = (
        expectation(question.changed(context_length=length)) for length in (original, 2 * original)
    )
    is_far = np.array(question.positions)[:, None] >= original
    assert short.angle is not None
    assert long.angle is not None
    arrays = {
        name: np.where(is_far, long.arrays[name], each) for name, each in short.arrays.items()
    }
    angle = np.where(is_far, long.angle, short.angle)
    yield Wrong(replace(right, arrays=arrays, angle=angle))


@makes("mscale-exchanged", sequences)
def _mscale_exchanged(question: Question, _: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if {"mscale", "mscale_all_dim", "factor"} <= keys.keys():
        factor, *scales = (Decimal(keys[name]) for name in ("factor", "mscale", "mscale_all_dim"))
        one, other = (yarn_mscale(factor, scale) for scale in scales)
        wrong = (one, other, other / one, one * other, yarn_mscale(factor))
        yield from changed(question, attention_factor=map(float, wrong))


@makes("missing-factor", sequences)
def _missing_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.factor != 1:
        yield from answers_to(question.changed(attention_factor=1.0))
    if "xpos" in question.parameters:
        yield from answers_to(question.changed("xpos", "xpos_centre", "xpos_scale_base"))


@makes("extra-factor", sequences)
def _extra_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.factor != 1:
        yield from answers_to(question.changed(attention_factor=right.factor**2))


@makes("partial-width", sequences)
def _partial_width(question: Question, _: Expectation) -> Iterator[Wrong]:
    wide = question.changed("rotary_dim", "partial_rotary_factor")
    if wide != question:
        yield from answers_to(wide)
    elif "inv_freq" not in question.parameters:
        width = rotary_dim(question)
        yield from changed(question, rotary_dim=(width // 2 // 2 * 2, width // 4 // 2 * 2))


@makes("linear-factor", sequences)
def _linear_factor(question: Question, _: Expectation) -> Iterator[Wrong]:
    """A factor that divides positions or frequencies once too often, or multiplies them."""
    rule = _rule_of(question)
    own = float(rule.keys.get("factor", 4.0))
    # Linear scaling times its own factor is none.
    times = own if own.is_integer() and rule.rope_type != "linear" else 3.0
    yield from answers_to(*multiplied(question, times))
    if rule.rope_type in {"default", "linear"}:
        divisor = own if rule.rope_type == "default" else own * own
        yield from answers_to(question.changed(rope_type="linear", factor=divisor))


@makes("rotated-twice", sequences)
def _rotated_twice(question: Question, right: Expectation) -> Iterator[Wrong]:
    """A rotation that runs twice multiplies by the factor twice."""
    for twice in multiplied(question, 2):
        yield from answers_to(twice)
        if question.kind == "rotate" and right.factor != 1:
            yield from answers_to(twice.changed(attention_factor=right.factor**2))
    if "xpos" in question.parameters:
        yield from turned_by(question, 2 * frequencies(question), right)


@makes("factor-inverted", sequences)
def _factor_inverted(question: Question, right: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if keys.get("rope_type") in {"linear", "proportional"} and "factor" in keys:
        yield from answers_to(question.changed(factor=1 / keys["factor"]))
    elif {"freq_factors", "short_factor"} & keys.keys():
        plain = frequencies(unscaled(question))
        yield from turned_by(question, plain**2 / frequencies(question), right)


@makes("missing-exponent", sequences)
def _missing_exponent(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    if rule.rope_type == "dynamic":
        growths = (dynamic_growth(rule.keys), rule.keys.get("factor", 1.0))
        bases = (base_of(question) * each for each in growths)
        yield from changed(unscaled(question), rope_theta=bases)


@makes("missing-division", sequences)
def _missing_division(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    if rule.rope_type == "ntk" and "mixed_b" not in rule.keys:
        base = base_of(question) * rule.keys["factor"]
        yield from answers_to(unscaled(question, rope_theta=base))


@makes("rotary-offset", at("/rope/apply"))
def _rotary_offset(question: Question, _: Expectation) -> Iterator[Wrong]:
    rest = question.parameters["head_dim"] - rotary_dim(question)
    yield from changed(question, rotary_offset=(0, rest, rest // 2))


@makes("layout-swapped", rotations)
def _layout_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    own = question.parameters.get("layout", "interleaved")
    others = (each for each in ("half", "interleaved") if each != own)
    yield from changed(question.changed("output_layout"), layout=others)


@makes("layout-mixed", at("/rope/apply"))
def _layout_mixed(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from changed(question, output_layout=("interleaved", "half"))


@makes("inverse", rotations)
def _inverse(question: Question, _: Expectation) -> Iterator[Wrong]:
    yield from changed(question, inverse=(True, False))
