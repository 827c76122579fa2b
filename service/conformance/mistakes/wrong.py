"""Wrong answers, and the functions that make them.

A maker gives the numbers of an implementation that makes one mistake, for one question; none where
the question cannot show it. Its name is that of the mistake in the catalogue of ``/diagnose``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from service.conformance.expected import expectation
from service.conformance.questions import Question, Request
from service.conformance.tolerance import Expectation
from service.errors import PosrefError


@dataclass(frozen=True, eq=False)
class Wrong:
    """The answer of an implementation with a mistake.

    Attributes:
        expectation: its numbers, with the tolerance of those numbers: an implementation with the
            mistake computes them in float32 as well.
        request: the request that a posref server answers with them, where there is one.
        decimals: how many decimals every number has; None if they have as many as their type.
    """

    expectation: Expectation
    request: Request | None = None
    decimals: int | None = None


Maker: TypeAlias = Callable[[Question, Expectation], Iterator[Wrong]]
"""Yields the wrong answers to a question, whose right ones are given."""


def answers_to(*questions: Question) -> Iterator[Wrong]:
    """Yield the answers to other questions than the one that was asked, where there are any."""
    for question in questions:
        try:
            yield Wrong(expectation(question), question.request)
        except PosrefError:
            # The other parameters do not go with this one.
            continue
