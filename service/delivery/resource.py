"""What there is to ask for: resources that name documents, transforms that make them of arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.received import Input
from service.grammar import Integer
from service.tables.document import Document
from service.tables.dtypes import COMPLEX_DTYPES, INT64
from service.tables.table import FREQUENCY_WORK, StoredTable, size


class ArrayParameters(Parameters):
    """Parameters of every resource whose answer is arrays."""

    revision: Integer | None = Field(
        default=None,
        ge=1,
        description="The revision of this kind of table that is expected; makes the URL immutable.",
        examples=[1],
    )


@dataclass(frozen=True)
class Resource:
    """A document for every valid set of parameters.

    Attributes:
        path: where it is, without an extension.
        operation: what operationIds are made of: ``get`` + operation, ``post`` + operation.
        summary: one line for the documentation.
        parameters: the model its parameters are held to.
        document: makes the document; raises InvalidParameters for impossible combinations.
        example: a query that shows it at work.
    """

    path: str
    operation: str
    summary: str
    parameters: type[ArrayParameters]
    document: Callable[[Any], Document]
    example: str

    def resolve(self, parameters: ArrayParameters) -> Document:
        """Make the document of parameters, or the one part of it that they ask for."""
        return chosen(self.document(parameters), parameters)


def chosen(document: Document, parameters: Parameters) -> Document:
    """Give a document, or the one part of it that parameters ask for, with the ways around it."""
    document = replace(document, removable=parameters.removable_axes())
    part = parameters.chosen_part()
    if part is None:
        return document
    if not document.has_parts:
        rule = "part picks one array of several, and here there is only one"
        raise InvalidParameters(Fault("part", part, rule))
    if part not in document.arrays:
        rule = f"there is no {part} here: part is one of {', '.join(document.arrays)}"
        raise InvalidParameters(Fault("part", part, rule))
    return document.part(part)


@dataclass(frozen=True)
class Transform:
    """A document for every array sent with a valid set of parameters.

    Attributes:
        path, operation, summary, parameters: as of a Resource.
        kind: the kind of the documents.
        apply: makes a new array, and the canonical parameters of what was done to it; raises
            InvalidParameters, or InvalidBody for an array that does not fit.
        example: a query and a body of two small vectors.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    kind: str
    apply: Callable[[Any, StoredTable], tuple[StoredTable, Mapping[str, Any]]]
    example: str

    @property
    def names(self) -> tuple[str, ...]:
        """Name the array of a JSON object, and one that comes without a name."""
        return ("x",)

    def check(self, content: Input) -> None:
        """Refuse a body without an array."""
        if not content.arrays:
            raise InvalidBody('an array is missing: send {"x": […]}', "/x")

    def work(self, arrays: Mapping[str, StoredTable]) -> int:
        """Count what transforming arrays takes, in sines, with the frequencies of their pairs."""
        return sum(size(x) + FREQUENCY_WORK * (x.shape[-1] // 2) for x in arrays.values())

    def resolve(self, parameters: Parameters, content: Input) -> Document:
        """Transform every array; the parameters that all have in common describe the answer."""
        arrays = content.arrays
        if not content.is_named:
            arrays = dict(zip(self.names, arrays.values(), strict=True))
        results = {name: self._applied(parameters, name, arrays) for name in arrays}
        first, *others = [described for _, described in results.values()]
        common = {
            name: value
            for name, value in first.items()
            if all(name in other and other[name] == value for other in others)
        }
        return Document(self.kind, common, {name: table for name, (table, _) in results.items()})

    def _applied(
        self, parameters: Parameters, name: str, arrays: Mapping[str, StoredTable]
    ) -> tuple[StoredTable, Mapping[str, Any]]:
        try:
            return self.apply(parameters, _vectors(arrays[name]))
        except InvalidBody as error:
            raise InvalidBody(f"{shortened(name)}: {error.detail}") from error


def _vectors(array: StoredTable) -> StoredTable:
    if array.dtype is INT64:
        raise InvalidBody("elements are integers or booleans: send floating-point numbers")
    if array.dtype in COMPLEX_DTYPES:
        raise InvalidBody("elements are complex numbers: send floating-point numbers")
    if len(array.shape) < 2:
        raise InvalidBody("it has 1 axis, and must have two at least, positions and channels last")
    return array
