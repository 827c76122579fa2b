"""Mistakes of settings: the answer to a question with other parameters."""

from collections.abc import Iterator, Mapping
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
    of_sequences,
    rotary_dim,
    turned_by,
    unscaled,
)
from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
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
    "normalize_coords",
)
# Keys whose mistakes have names of their own.
_OTHER_NAMES = {("yarn", "truncate"), ("dynamic", "context_length"), ("dynamic", ORIGINAL)}


def _wrong_base(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.is_rotary:
        question = question.as_table
        own = base_of(question)
        # Exponents of half or twice their size are a slip.
        others = {own, sqrt(own), own * own}
        bases = (base for base in _USUAL_BASES if base not in others)
        yield from answers_to(*(question.changed(rope_theta=base) for base in bases))


def _config_key_ignored(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.is_rotary:
        question = question.as_table
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


@of_sequences
def _wrong_parameter(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    for key in VARIED_KEYS.get(rule.rope_type, ()):
        # Half the original length of dynamic scaling is twice the length in use.
        if key in rule.keys and (rule.rope_type, key) not in _OTHER_NAMES:
            squares = {rule.keys[key] ** 2} if rule.rope_type == "linear" else set()
            values = (each for each in other_values(rule, key) if each not in squares)
            yield from answers_to(*(question.changed(**{key: value}) for value in values))
    yield from answers_to(*_exchanged(question))


def _exchanged(question: Question) -> Iterator[Question]:
    """Yield the question with values that belong to other keys: of queries, limits or sections."""
    keys = question.parameters
    if "xpos" in keys:
        yield question.changed(xpos="query" if keys["xpos"] == "key" else "key")
    if keys.get("rope_type") == "llama3":
        # Where each pair is compared with the limits, one by one, the first comparison decides.
        for limit in (keys["low_freq_factor"], keys["high_freq_factor"]):
            yield question.changed(low_freq_factor=limit, high_freq_factor=limit)
    for sizes in {*permutations(keys.get("mrope_section", ()))}:
        yield question.changed(mrope_section=sizes)


@of_sequences
def _wrong_rule(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    factor = float(rule.keys.get("factor", 8))
    for other in other_rules(rule, (factor,)):
        if not rule and other.rope_type == "linear":
            # Where nothing is scaled, that is a factor of all angles.
            continue
        yield from answers_to(unscaled(question, rope_type=other.rope_type, **other.keys))


def _rules_by_layer(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.kind == "model":
        own = question.as_table
        for name in question.layer_types:
            other = question.changed(layer_type=name).as_table
            if other != own:
                yield from answers_to(other)


@of_sequences
def _dynamic_length(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    if rule.rope_type == "dynamic" and "alpha" not in rule.keys:
        original = int(rule.keys[ORIGINAL])
        length = int(rule.keys.get("context_length", original))
        others = (original, 2 * length, length // 2, 4 * original)
        yield from answers_to(*(question.changed(context_length=each) for each in others))


@of_sequences
def _yarn_range_rounded(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.parameters.get("rope_type") == "yarn":
        is_rounded = question.parameters.get("truncate", True)
        yield from answers_to(question.changed(truncate=not is_rounded))


@of_sequences
def _short_for_long_factors(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.parameters.get("rope_type") == "longrope":
        original = question.parameters[ORIGINAL]
        is_long = question.parameters.get("context_length", original) > original
        length = original if is_long else 2 * original
        yield from answers_to(question.changed(context_length=length))


@of_sequences
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


@of_sequences
def _mscale_exchanged(question: Question, _: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if {"mscale", "mscale_all_dim", "factor"} <= keys.keys():
        factor, *scales = (Decimal(keys[name]) for name in ("factor", "mscale", "mscale_all_dim"))
        one, other = (yarn_mscale(factor, scale) for scale in scales)
        wrong = (one, other, other / one, one * other, yarn_mscale(factor))
        yield from answers_to(*(question.changed(attention_factor=float(each)) for each in wrong))


@of_sequences
def _missing_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.factor != 1:
        yield from answers_to(question.changed(attention_factor=1.0))
    if "xpos" in question.parameters:
        yield from answers_to(question.changed("xpos", "xpos_centre", "xpos_scale_base"))


@of_sequences
def _extra_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.factor != 1:
        yield from answers_to(question.changed(attention_factor=right.factor**2))


@of_sequences
def _partial_width(question: Question, _: Expectation) -> Iterator[Wrong]:
    wide = question.changed("rotary_dim", "partial_rotary_factor")
    if wide != question:
        yield from answers_to(wide)
    elif "inv_freq" not in question.parameters:
        width = rotary_dim(question)
        halves = (width // 2 // 2 * 2, width // 4 // 2 * 2)
        yield from answers_to(*(question.changed(rotary_dim=each) for each in halves))


@of_sequences
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


@of_sequences
def _rotated_twice(question: Question, right: Expectation) -> Iterator[Wrong]:
    """A rotation that runs twice multiplies by the factor twice."""
    for twice in multiplied(question, 2):
        yield from answers_to(twice)
        if question.kind == "rotate" and right.factor != 1:
            yield from answers_to(twice.changed(attention_factor=right.factor**2))
    if "xpos" in question.parameters:
        yield from turned_by(question, 2 * frequencies(question), right)


@of_sequences
def _factor_inverted(question: Question, right: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if keys.get("rope_type") in {"linear", "proportional"} and "factor" in keys:
        yield from answers_to(question.changed(factor=1 / keys["factor"]))
    elif {"freq_factors", "short_factor"} & keys.keys():
        yield from turned_by(
            question, frequencies(unscaled(question)) ** 2 / frequencies(question), right
        )


@of_sequences
def _missing_exponent(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    if rule.rope_type == "dynamic":
        growths = (dynamic_growth(rule.keys), rule.keys.get("factor", 1.0))
        bases = (base_of(question) * each for each in growths)
        yield from answers_to(*(unscaled(question, rope_theta=base) for base in bases))


@of_sequences
def _missing_division(question: Question, _: Expectation) -> Iterator[Wrong]:
    rule = _rule_of(question)
    if rule.rope_type == "ntk" and "mixed_b" not in rule.keys:
        base = base_of(question) * rule.keys["factor"]
        yield from answers_to(unscaled(question, rope_theta=base))


@of_sequences
def _rotary_offset(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.kind == "rotate":
        rest = question.parameters["head_dim"] - rotary_dim(question)
        own = question.parameters.get("rotary_offset", 0)
        others = (each for each in (0, rest, rest // 2) if each != own)
        yield from answers_to(*(question.changed(rotary_offset=each) for each in others))


def _layout_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.kind == "rotate":
        own = question.parameters.get("layout", "interleaved")
        others = (each for each in ("half", "interleaved") if each != own)
        plain = question.changed("output_layout")
        yield from answers_to(*(plain.changed(layout=each) for each in others))


def _layout_mixed(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource == "/rope/apply":
        own = question.parameters.get("layout", "interleaved")
        written = question.parameters.get("output_layout", own)
        other = "half" if written == "interleaved" else "interleaved"
        yield from answers_to(question.changed(output_layout=other))


def _inverse(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.kind == "rotate":
        is_inverse = question.parameters.get("inverse", False)
        yield from answers_to(question.changed(inverse=not is_inverse))


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "wrong-base": (_wrong_base,),
    "config-key-ignored": (_config_key_ignored,),
    "wrong-parameter": (_wrong_parameter,),
    "wrong-rule": (_wrong_rule,),
    "rules-by-layer": (_rules_by_layer,),
    "dynamic-length": (_dynamic_length,),
    "yarn-range-rounded": (_yarn_range_rounded,),
    "short-for-long-factors": (_short_for_long_factors,),
    "list-by-position": (_list_by_position,),
    "mscale-exchanged": (_mscale_exchanged,),
    "missing-factor": (_missing_factor,),
    "extra-factor": (_extra_factor,),
    "partial-width": (_partial_width,),
    "rotary-offset": (_rotary_offset,),
    "layout-swapped": (_layout_swapped,),
    "layout-mixed": (_layout_mixed,),
    "linear-factor": (_linear_factor,),
    "rotated-twice": (_rotated_twice,),
    "factor-inverted": (_factor_inverted,),
    "missing-exponent": (_missing_exponent,),
    "missing-division": (_missing_division,),
    "inverse": (_inverse,),
}
