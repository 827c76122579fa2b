"""Makers of rotary tables, rotations and models, and the questions that their mistakes ask."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from service.conformance.expectations.turned_tables import frequencies_of
from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.encodings.rotary.rules import RULE_KEYS
from service.numerics.phase import Float64s

RULE_NAMES = ("rope_type", "max_position_embeddings", *RULE_KEYS)
"""The parameters of a scaling rule."""

_WIDTHS = ("rotary_dim", "partial_rotary_factor")


def of_sequences(maker: Maker) -> Maker:
    """Return a maker for rotary tables and rotations along sequences; models are tables."""

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        if question.resource in {"/rope", "/rope/config", "/rope/apply"}:
            yield from maker(question.as_table, right)

    return made


def frequencies(question: Question) -> Float64s:
    """Return the frequencies of a rotary table or rotation, (r/2,); raises PosrefError."""
    found: Float64s = frequencies_of(_with_width(question))["inv_freq"].astype(np.float64)
    return found


def _with_width(question: Question) -> Question:
    """Return the question with the head_dim that x has."""
    if question.x is None:
        return question
    return replace(question.changed(head_dim=np.shape(question.x)[-1]), kind="table")


def rotary_dim(question: Question) -> int:
    """Return the number of channels that turn; raises PosrefError."""
    return 2 * len(frequencies(question))


def unscaled(question: Question, **parameters: Any) -> Question:
    """Return the question without its scaling rule, and with other parameters."""
    return question.changed(*RULE_NAMES, **parameters)


def multiplied(question: Question, factor: float) -> Iterator[Question]:
    """Yield the question with all positions times a whole factor, if it has any."""
    listed = {
        name: [int(factor * each) for each in question.parameters[name]]
        for name in question.parameters
        if name.startswith("positions_")
    }
    rows = rows_of(question)
    if "xpos" in question.parameters:
        # Its scale depends on the positions, too.
        return
    if rows is not None:
        moved = tuple(int(factor * each) for each in rows)
        yield replace(question.changed("start"), positions=moved)
    elif listed:
        yield question.changed(**listed)


def rows_of(question: Question) -> tuple[int, ...] | None:
    """Return the positions of the rows of a rotary table or rotation, if all have one list."""
    if question.resource in {"/rope", "/rope/apply"} and "start" in question.parameters:
        start = question.parameters["start"]
        return tuple(range(start, start + np.shape(question.x)[-2]))
    return question.positions if question.resource in {"/rope", "/rope/apply"} else None


def base_of(question: Question) -> float:
    """Return the base of the frequencies."""
    return float(question.parameters.get("rope_theta", 10000.0))


def turned_by(
    question: Question, omega: Float64s, right: Expectation, factor: float | None = None
) -> Iterator[Wrong]:
    """Yield the answer with given frequencies, which an implementation computes.

    Args:
        question: the question, whose rule they replace.
        omega: the frequencies, (r/2,).
        right: the expectation of the question.
        factor: that of cosines and sines; the right one unless given.
    """
    factor = right.factor if factor is None else factor
    given: dict[str, Any] = {"inv_freq": [float(each) for each in omega]}
    if factor != 1:
        given["attention_factor"] = factor
    names = ("rope_theta", *_WIDTHS, *RULE_NAMES)
    # Given frequencies have two roundings; computed ones at most as many as a power of the base.
    times = (3 * np.log(base_of(question)) + 10) / 2
    for wrong in answers_to(question.changed(*names, **given)):
        angle = wrong.expectation.angle
        assert angle is not None
        yield replace(wrong, expectation=replace(wrong.expectation, angle=times * angle))
