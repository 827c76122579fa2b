"""What there is to ask for: resources that name documents, transforms that make them of arrays.

Documents that are made of arrays which are sent, each in a role of its own.

Reports: answers about a JSON object that is sent, as JSON.

Examinations: what is said about arrays that are sent, as JSON.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from service.delivery.negotiation import raw
from service.delivery.parameters import similar
from service.delivery.responses import Answer
from service.encodings.family import (
    Choice,
    ComposedFamily,
    InputArray,
    TableFamily,
    TransformFamily,
    selected,
)
from service.encodings.fields import Parameters
from service.errors import Fault, InvalidBody, shortened
from service.formats.format import Input
from service.formats.json_text import JSON
from service.numerics.document import Document
from service.numerics.dtypes import COMPLEX_DTYPES, INT64
from service.numerics.tables import FREQUENCY_WORK, StoredTable, size


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
    parameters: type[Any]
    document: Callable[[Any], Document]
    example: str

    def resolve(self, parameters: Any) -> Document:
        """Make the document of parameters, or the one part of it that they ask for."""
        return selected(self.document(parameters), parameters)


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


# What is spelled less alike than this may as well be another array.
_NEAR = 0.85


@dataclass(frozen=True)
class Composition:
    """A document for every set of arrays sent with a valid set of parameters.

    Attributes:
        path, operation, summary, parameters: as of a Resource.
        inputs: the arrays there may be.
        document: makes the document; raises InvalidParameters, or InvalidBody for arrays that do
            not fit.
        example: a query that goes with the examples of the inputs that are required.
        choice: what says which array it is that comes without a name, where it could be several.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    inputs: tuple[InputArray, ...]
    document: Callable[[Any, Mapping[str, StoredTable]], Document]
    example: str
    choice: Choice | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Name the arrays, and what others call them: a JSON object has parameters beside them."""
        named = ((known.name, *known.aliases) for known in self.inputs)
        return tuple(chain.from_iterable(named))

    @property
    def alone(self) -> InputArray | None:
        """The array that one without a name is, where it can be no other."""
        certain = [known for known in self.inputs if known.is_required] or self.inputs
        return certain[0] if len(certain) == 1 else None

    def work(self, arrays: Mapping[str, StoredTable]) -> int:
        """Count what looking at the arrays takes; the document itself computes nothing yet."""
        return sum(map(size, arrays.values()))

    def check(self, content: Input) -> None:
        """Refuse arrays that are not those of this document, whatever its parameters."""
        if not content.is_named and self.alone is None and self.choice is None:
            names = ", ".join(known.name for known in self.inputs)
            rule = f"a body in npy is one array without a name, and there are {names}"
            raise InvalidBody(f"{rule}: send safetensors or JSON, which name them")
        if content.is_named and not self._is_only_one(content):
            faults = [*self._unknown(content.arrays), *self._missing(content.arrays)]
            if faults:
                raise InvalidBody.at(*faults)

    def resolve(self, parameters: Parameters, content: Input) -> Document:
        """Make the document of the arrays of a body that was checked."""
        arrays = self._named(parameters, content)
        taken = {
            known.name: known.checked(arrays[known.name])
            for known in self.inputs
            if known.name in arrays
        }
        return selected(self.document(parameters, taken), parameters)

    def _is_only_one(self, content: Input) -> bool:
        """Tell whether there can be but one array, and there is one, whatever its name."""
        return len(self.inputs) == len(content.arrays) == 1

    def _named(self, parameters: Parameters, content: Input) -> Mapping[str, StoredTable]:
        if content.is_named and not self._is_only_one(content):
            if self.choice is not None:
                self.choice.check(parameters, content.arrays)
            return content.arrays
        (array,) = content.arrays.values()
        if self.alone is not None:
            return {self.alone.name: array}
        assert self.choice is not None
        name = self.choice.name(parameters)
        if name is None:
            raise self.choice.missing()
        return {name: array}

    def _unknown(self, arrays: Mapping[str, StoredTable]) -> list[Fault]:
        names = [known.name for known in self.inputs]
        return [
            Fault("", shortened(name), self._renamed(name, names), in_body=True)
            for name in arrays
            if name not in names
        ]

    def _renamed(self, name: str, names: list[str]) -> str:
        """Say what an array should be called, as far as that is certain."""
        meant = self._meant(name)
        hint = f"did you mean {meant}?" if meant else f"rename it to {' or '.join(names)}"
        return f"{shortened(name)} is no array here; {hint}"

    def _meant(self, name: str) -> str | None:
        for known in self.inputs:
            if name in known.aliases:
                return known.name
        names = [known.name for known in self.inputs]
        return next(iter(similar(name, names, _NEAR)), None)

    def _missing(self, arrays: Mapping[str, StoredTable]) -> list[Fault]:
        required = [known for known in self.inputs if known.is_required]
        missing = [
            f"{known.name} is missing: {known.description}"
            for known in required
            if known.name not in arrays
        ]
        names = {known.name for known in self.inputs}
        if not required and not any(name in names or self._meant(name) for name in arrays):
            ways = "; or ".join(f"{known.name}: {known.description}" for known in self.inputs)
            missing = [f"an array is missing: send {ways}"]
        return [Fault("", None, detail, in_body=True) for detail in missing]


@dataclass(frozen=True)
class Report:
    """Something that is said about an object.

    Attributes:
        path: where it is asked for, by POST.
        operation: its name in the API's documentation.
        summary: what it says.
        parameters: the model of its query.
        report: makes it of those parameters and the object; raises InvalidBody.
        says: what the answer is, in a few words.
        schema: the JSON schema of it.
        example: an object.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    report: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
    says: str
    schema: Mapping[str, Any]
    example: Mapping[str, Any]


def report_answer(content: Mapping[str, Any]) -> Answer:
    """Answer with a report; never cached."""
    headers = {"Content-Type": JSON.media_type, "Cache-Control": "no-store"}
    return Answer(200, raw(headers), orjson.dumps(content))


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


def resource_of(family: type[TableFamily]) -> Resource:
    """Return the resource of a family."""
    return Resource(
        family.path, family.operation, family.summary, family, family.document, family.example
    )


def composition_of(family: type[ComposedFamily]) -> Composition:
    """Return the composition of a family."""
    return Composition(
        family.path,
        family.operation,
        family.summary,
        family,
        family.inputs,
        family.document,
        family.example,
        family.choice,
    )


def transform_of(family: type[TransformFamily]) -> Transform:
    """Return the transform of a family."""
    return Transform(
        family.path,
        family.operation,
        family.summary,
        family,
        family.kind(),
        family.apply,
        family.example,
    )
