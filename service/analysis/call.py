"""Which table: the resource that serves it and the parameters that name it there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from service.tables.document import Document, ParameterValue


@dataclass(frozen=True)
class Call:
    """Name a table the way that it is asked for.

    Attributes:
        resource: where it is, as in ``rope`` or ``relative/alibi/slopes``.
        parameters: what is asked for there, spelled as it would be in JSON; nothing that is left
            to a default.
    """

    resource: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def having(self, **parameters: ParameterValue) -> "Call":
        """Name the table that other parameters beside these give."""
        return Call(self.resource, {**self.parameters, **parameters})


Tables: TypeAlias = Callable[[Call], Document]
"""Finds what a call names; raises InvalidParameters where there is no such table."""
