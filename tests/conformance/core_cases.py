"""The cases that every suite has, with their identifiers."""

from collections.abc import Iterable
from typing import NamedTuple

from service.conformance.files.vector_file import VectorFile
from service.conformance.questions import Question


class CoreCase(NamedTuple):
    """A case of the core."""

    id: str
    question: Question


def core_of(files: Iterable[VectorFile]) -> tuple[CoreCase, ...]:
    """Return the core of vector files."""
    return tuple(
        CoreCase(f"{file.name}/{number}", question)
        for file in files
        for number, (_, question) in enumerate(file.core(), 1)
    )
