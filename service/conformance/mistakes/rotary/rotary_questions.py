"""Makers of rotary tables, rotations and models, and the questions that their mistakes ask."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from service.conformance.expectations.turned_tables import frequencies_of
from service.conformance.mistakes.wrong import Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.encodings.rotary.rules import RULE_KEYS
from service.numerics.phase import Float64s

RULE_NAMES = ("rope_type", "max_position_embeddings", *RULE_KEYS)
"""The parameters of a scaling rule."""

_WIDTHS = ("rotary_dim", "partial_rotary_factor")


def frequencies(question: Question) -> Float64s:
    """Return the frequencies of a rotary table or rotation, (r/2,); raises PosrefError."""
    width = {} if question.x is None else {"head_dim": np.shape(question.x)[-1]}
    found: Float64s = frequencies_of(question.changed(**width))["inv_freq"].astype(np.float64)
    return found


def rotary_dim(question: Question) -> int:
    """Return the number of channels that turn; raises PosrefError."""
    return 2 * len(frequencies(question))


def unscaled(question: Question, **parameters: Any) -> Question:
    """Return the question without its scaling rule, and with other parameters."""
    return question.changed(*RULE_NAMES, **parameters)


def multiplied(question: Question, factor: float) -> Iterator[Question]:
    """Yield the question with all positions times a whole factor, if it has any."""
    rows = rows_of(question)
    if "xpos" in question.parameters:
        # Its scale depends on the positions, too.
        return
    if rows is not None:
        moved = tuple(int(factor * each) for each in rows)
        yield replace(question.changed("start"), positions=moved)
    elif listed := positions_of_axes(question):
        scaled = {name: [int(factor * each) for each in listed[name]] for name in listed}
        yield question.changed(**scaled)


def positions_of_axes(question: Question) -> Mapping[str, Sequence[int]]:
    """Return the positions along axes that a question has, by the name of the parameter."""
    given = question.parameters
    return {name: given[name] for name in given if name.startswith("positions_")}


def rows_of(question: Question) -> tuple[int, ...] | None:
    """Return the positions of the rows of a table or rotation, if they have one list."""
    if question.kind == "rotate" and "start" in question.parameters:
        start = question.parameters["start"]
        return tuple(range(start, start + np.shape(question.x)[-2]))
    return question.positions


def base_of(question: Question) -> float:
    """Return the base of the frequencies."""
    return float(question.parameters.get("rope_theta", 10000.0))


def turned_by(question: Question, omega: Float64s, right: Expectation) -> Iterator[Wrong]:
    """Yield the answer with given frequencies, which an implementation computes.

    Args:
        question: the question, whose rule they replace.
        omega: the frequencies, (r/2,).
        right: the expectation of the question, whose factor they have.
    """
    given: dict[str, Any] = {"inv_freq": [float(each) for each in omega]}
    if right.factor != 1:
        given["attention_factor"] = right.factor
    names = ("rope_theta", *_WIDTHS, *RULE_NAMES)
    # Given frequencies have two roundings; computed ones at most as many as a power of the base.
    times = (3 * np.log(base_of(question)) + 10) / 2
    for wrong in answers_to(question.changed(*names, **given)):
        angle = wrong.expectation.angle
        assert angle is not None
        yield replace(wrong, expectation=replace(wrong.expectation, angle=times * angle))
