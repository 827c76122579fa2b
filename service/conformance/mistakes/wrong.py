"""Wrong answers, and the functions that make them.

A maker gives the numbers of an implementation that makes one mistake, for one question; none where
the question cannot show it. Its name is that of the mistake in the catalogue of ``/diagnose``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np

from service.conformance.expected import expectation
from service.conformance.questions import Numbers, Question, Request
from service.conformance.tolerance import Expectation
from service.errors import PosrefError
from service.numerics.dtypes import BFLOAT16, FLOAT16

NARROW_TYPES = (BFLOAT16, FLOAT16)
LEAST_TIMES = 8.0
"""How many tolerances a mistake must be away to be seen."""


@dataclass(frozen=True, eq=False)
class Wrong:
    """The answer of an implementation with a mistake.

    Attributes:
        expectation: its numbers, with the tolerance of those numbers: an implementation with the
            mistake computes them in float32 as well.
        request: the request that a posref server answers with them, where there is one.
        decimals: how many decimals every number has; None if they have as many as their type.
        detail: what is wrong, in words, where no request and no name says it.
    """

    expectation: Expectation
    request: Request | None = None
    decimals: int | None = None
    detail: str = ""

    def times(self, right: Expectation) -> float:
        """Return how many tolerances it is at most from the right numbers; inf in another shape."""
        if self.expectation.shape != right.shape:
            return inf
        return float(right.distances(self.expectation.arrays).max(initial=0))

    def is_seen(self, right: Expectation) -> bool:
        """Return whether the right numbers show it by far, so that it is no rounding."""
        return self.times(right) >= LEAST_TIMES


Make: TypeAlias = Callable[[Question, Expectation], Iterator[Wrong]]
"""Yields the wrong answers to a question, whose right ones are given."""
Asked: TypeAlias = Callable[[Question], Question | None]
"""Returns the question whose wrong answers are made; None of a question that shows no mistake."""


@dataclass(frozen=True)
class Maker:
    """The wrong answers that have a name, of the questions that may show them."""

    name: str
    asked: Asked
    make: Make

    def __call__(self, question: Question, right: Expectation) -> Iterator[Wrong]:
        """Yield the wrong answers to a question, whose right ones are given."""
        asked = self.asked(question)
        # The parameters of a mistake may not go with those of the question.
        with suppress(PosrefError):
            yield from () if asked is None else self.make(asked, right)


def makes(name: str, asked: Asked) -> Callable[[Make], Maker]:
    """Return a decorator of a function that makes a mistake of some questions."""
    return lambda make: Maker(name, asked, make)


def everything(question: Question) -> Question:
    """Return any question; of a model that for its table."""
    return question.as_table


def sequences(question: Question) -> Question | None:
    """Return a rotary table or rotation along a sequence; of a model its table."""
    return question.as_table if question.resource in _OF_SEQUENCES else None


def rotary(question: Question) -> Question | None:
    """Return a rotary table or rotation; of a model its table."""
    return question.as_table if question.is_rotary else None


def tables(question: Question) -> Question | None:
    """Return a table of cosines and sines; of a model its table."""
    return rotary(question) if question.kind != "rotate" else None


def rotations(question: Question) -> Question | None:
    """Return the question for a rotation."""
    return question if question.kind == "rotate" else None


def others(question: Question) -> Question | None:
    """Return the question for a table that is not rotary."""
    return None if question.is_rotary else question


def at(*resources: str) -> Asked:
    """Return what returns the questions for some resources."""
    return lambda question: question if question.resource in resources else None


_OF_SEQUENCES = frozenset({"/rope", "/rope/config", "/rope/apply"})


def answers_to(*questions: Question) -> Iterator[Wrong]:
    """Yield the answers to other questions than the one that was asked, where there are any."""
    for question in questions:
        try:
            yield Wrong(expectation(question), question.request)
        except PosrefError:
            # The other parameters do not go with this one.
            continue


def changed(question: Question, **values: Any) -> Iterator[Wrong]:
    """Yield the answers to a question with each of some other values of a parameter."""
    for name, several in values.items():
        yield from answers_to(*(question.changed(**{name: each}) for each in several))


def made_of(right: Expectation, arrays: Mapping[str, Numbers]) -> Wrong:
    """Return the answer with other numbers, and the tolerance of the right ones."""
    return Wrong(replace(right, arrays=arrays))


def reshaped(right: Expectation, change: Callable[[Any], Any]) -> Wrong:
    """Return the right numbers in another shape or order, each with its own tolerance."""
    angle = None if right.angle is None else change(right.angle)
    scale = change(np.broadcast_to(right.scale, right.shape))
    arrays = {name: change(each) for name, each in right.arrays.items()}
    return Wrong(replace(right, arrays=arrays, angle=angle, scale=scale))
