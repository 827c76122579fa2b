"""Examinations: what is said about arrays that are sent, as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.delivery.parameters import Parameters
from service.errors import InvalidBody
from service.formats.received import Input
from service.tables.table import StoredTable, size

_COPY_BYTES = 8


@dataclass(frozen=True)
class Examination:
    """Something that is said about arrays.

    Attributes:
        path: where it is asked for, by POST.
        operation: its name in the API's documentation.
        summary: what it says.
        parameters: the model of its parameters, of which a JSON object may have any, too.
        names: the arrays that a JSON object may hold beside its parameters.
        examine: makes the report of parameters and of what was sent; raises InvalidParameters or
            InvalidBody.
        says: what the answer is, in a few words.
        schema: the JSON schema of it.
        example: a JSON object that is sent.
        copies: how many copies as float64 are made of what is sent while it is examined.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    names: tuple[str, ...]
    examine: Callable[[Any, Input], Mapping[str, Any]]
    says: str
    schema: Mapping[str, Any]
    example: Mapping[str, Any]
    copies: int = 4

    def check(self, content: Input) -> None:
        """Refuse a body without an array."""
        if not content.arrays:
            raise InvalidBody(f"an array is missing: send {' or '.join(self.names)}")

    def copied_bytes(self, arrays: Mapping[str, StoredTable]) -> int:
        """Count the memory that it takes to examine arrays, beside their own."""
        return self.copies * _COPY_BYTES * sum(map(size, arrays.values()))
