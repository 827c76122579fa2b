"""The description of a vector file: its name, its cases, and how more are drawn at random."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from service.conformance.questions import Question

Asked: TypeAlias = tuple[str, Question]
"""A comment, and what is asked."""


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
