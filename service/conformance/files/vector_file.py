"""The description of a vector file: its name, its cases, and how more are drawn at random."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from service.conformance.questions import Kind, Question

Asked: TypeAlias = tuple[str, Question]
"""A comment, and what is asked."""

_KINDS: Mapping[str, Kind] = {
    "/rope": "table",
    "/rope/axial": "table",
    "/rope/apply": "rotate",
    "/rope/axial/apply": "rotate",
    "/rope/config": "model",
    "/positions": "positions",
    "/resize/apply": "resize",
}


def ask(
    resource: str,
    parameters: Mapping[str, Any],
    positions: tuple[int, ...] | None = None,
    x: Any = None,
) -> Question:
    """Return the question for the numbers of a resource, whose kind follows from it."""
    return Question(_KINDS.get(resource, "array"), resource, parameters, positions, x)


@dataclass(frozen=True)
class VectorFile:
    """A file of cases.

    Attributes:
        name: as in ``rope/llama3``.
        core: yields the cases that every suite has.
        drawn: draws one more case; None where the core has all that there is.
    """

    name: str
    core: Callable[[], Iterator[Asked]]
    drawn: Callable[[Random], Asked] | None = None

    @property
    def stem(self) -> str:
        """The name of the file without its extension."""
        return self.name.replace("/", "_")
