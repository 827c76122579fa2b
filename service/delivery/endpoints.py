"""Endpoints: the parameters, the inputs and the answer function of each path.

The inputs describe what a request body contains in addition to parameters. The function ``answer``
takes parameters and inputs and returns a document or a report. A document is sent in any format
that can hold it, a report as JSON. Routes and OpenAPI are generated from the endpoint.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from service.delivery.parameters import similar
from service.delivery.position_arrays import (
    POSITION_SECONDS,
    held_bytes_of_positions,
    refuse_others,
    takes_positions,
    with_positions,
)
from service.encodings import registry
from service.encodings.family import (
    Choice,
    ComposedFamily,
    InputArray,
    Integers,
    Parameters,
    RealDTypeName,
    TableFamily,
    about,
    optional,
)
from service.errors import Fault, InvalidBody, ModelNotKnown, PosrefError, shortened
from service.formats.format import MAX_RANK, Block, Input, ReadableFormat
from service.formats.json_text import JSON, read_object
from service.formats.npy import NPY
from service.formats.raw import RAW
from service.formats.safetensors_file import SAFETENSORS
from service.grammar import to_query
from service.lazily import MadeOnDemand
from service.numerics.tables import ELEMENT_SECONDS, Document, StoredTable

if TYPE_CHECKING:
    from service.settings import Settings

ABSENT: Any = None
"""The default of an optional report field; the JSON contains the field only if it is set."""


class Report(BaseModel):
    """Base of reports and of their parts; the JSON contains only the fields that were set."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True, defer_build=True)

    def json_bytes(self) -> bytes:
        """Return the JSON of the report."""
        return orjson.dumps(self.content())

    def text(self) -> str:
        """Return the report as short text, of which the first line is the answer."""
        return "".join(f"{' '.join(line.split())}\n" for line in self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text, ``name: value``; here those of text, numbers and lists."""
        for name, value in self:
            numbers = value if isinstance(value, list) else [value]
            are_numbers = numbers and all(isinstance(each, int | float) for each in numbers)
            if isinstance(value, str) or are_numbers:
                yield f"{name}: {to_query(value)}"

    def content(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return self.model_dump(exclude_unset=True)


Count = Annotated[int, Field(ge=0)]
# Integers stay integers in the JSON.
Number = Annotated[int | float, WithJsonSchema({"type": "number"})]


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


FiniteOrNull = Annotated[
    float | None,
    BeforeValidator(_finite),
    Field(description="Null where it is infinite or undefined."),
]


READABLE_FORMATS: Mapping[str, ReadableFormat] = MappingProxyType(
    {form.media_type: form for form in (NPY, SAFETENSORS, JSON, RAW)}
)
"""The formats of request bodies that contain arrays, by media type."""

_IntegerName: TypeAlias = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
]
ElementTypeName: TypeAlias = Literal[RealDTypeName, "complex64", "complex128", _IntegerName]


class RawArray(Parameters):
    """The shape and element type of an array that is sent without a header, as query parameters."""

    shape: Integers = about(
        "Lengths of the axes of the array in a body of application/octet-stream: its elements, "
        "little-endian, in C order (an npy file is sent as application/x-npy, without this).",
        "50,512",
        max_length=MAX_RANK,
    )
    dtype: ElementTypeName | None = optional(
        "Type of the elements in a body of application/octet-stream.", "float32"
    )
    x_dtype: ElementTypeName | None = optional(
        "Type of the elements in a body of application/octet-stream; dtype is that of the answer.",
        "float32",
    )


# The processor seconds of a report about a JSON object.
_OBJECT_SECONDS = 3e-3

# The least similarity (0 to 1) at which a misspelled array name is corrected.
_NAME_SIMILARITY = 0.85
# The bytes of a float64 or int64.
_NUMBER_BYTES = 8
_VECTORS = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]


class Inputs(ABC):
    """Base of the inputs of an endpoint: the content of a request in addition to its parameters.

    Attributes:
        formats: the formats of the body, by media type.
        has_parameters: whether the body may hold parameters.
        shorter: what can be sent if the body is too long.
        errors: those that ``answer`` raises beside the errors of any body.
    """

    formats: Mapping[str, ReadableFormat] = MappingProxyType({JSON.media_type: JSON})
    has_parameters = True
    errors: tuple[type[PosrefError], ...] = ()
    shorter = "a shorter one"

    @abstractmethod
    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:
        """Return the parameters and the other content of a body; raises InvalidBody."""

    def arguments(self, parameters: Parameters, content: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the positional arguments of ``answer`` that follow the parameters.

        Raises PosrefError.
        """
        return (content,)

    def count_elements(self, form: ReadableFormat, body: Block) -> int:
        """Return how many elements a body has, as its format counts them."""
        return form.count_elements(body)

    def seconds_of(self, elements: int) -> float:  # noqa: ARG002
        """Return the processor seconds of calling ``answer`` with arrays of so many elements.

        The cost of computing a document's response body is not included.
        """
        return 0.0

    def held_bytes_of(self, elements: int) -> int:  # noqa: ARG002
        """Return how much memory ``answer`` needs for arrays of so many elements."""
        return 0


class NoInput(Inputs):
    """A request with parameters only: in the query of a GET, or in the body of a POST."""

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:  # noqa: ARG002
        return read_object(body), None

    def arguments(self, parameters: Parameters, content: Any) -> tuple[Any, ...]:  # noqa: ARG002
        return ()


class PositionInput(NoInput):
    """Parameters among which the body of a POST may have positions as an array."""

    formats = READABLE_FORMATS
    shorter = "fewer positions"

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:
        content = (
            Input({}, read_object(body), is_text=True) if form is JSON else form.read(body, ())
        )
        content = with_positions(content, is_only=True)
        refuse_others(content.arrays)
        return content.parameters, None

    def seconds_of(self, elements: int) -> float:
        return POSITION_SECONDS * elements

    def held_bytes_of(self, elements: int) -> int:
        return held_bytes_of_positions(elements)


@dataclass(frozen=True)
class JsonObject(Inputs):
    """A JSON object that is itself the subject of a report; parameters are in the query."""

    example: Mapping[str, Any]
    has_parameters = False
    errors = (ModelNotKnown,)

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:  # noqa: ARG002
        return {}, read_object(body)

    def seconds_of(self, elements: int) -> float:  # noqa: ARG002
        return _OBJECT_SECONDS


class ArrayInputs(Inputs):
    """Base of inputs that are arrays, in any of ``READABLE_FORMATS``.

    Attributes:
        names: the keys of a JSON body that contain arrays; all other keys are parameters.
    """

    names: tuple[str, ...]
    formats = READABLE_FORMATS
    shorter = "the first rows"

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:
        content = self.read_arrays(form, body)
        self.check(content)
        return content.parameters, content

    def read_arrays(self, form: ReadableFormat, body: Block) -> Input:
        """Return the arrays and the parameters of a body; raises InvalidBody."""
        return form.read(body, self.names)

    def check(self, content: Input) -> None:
        """Raise InvalidBody if the arrays are invalid whatever the parameters are."""


class EveryArray(ArrayInputs):
    """All arrays in a body, each with the shape (…, positions, channels)."""

    names = ("x",)
    described = InputArray(
        "x", "vectors, positions and channels last", tuple(range(2, MAX_RANK + 1)), _VECTORS
    )

    def read_arrays(self, form: ReadableFormat, body: Block) -> Input:
        return with_positions(super().read_arrays(form, body), is_only=False)

    def check(self, content: Input) -> None:
        if not content.arrays:
            rule = 'an array is missing: send {"x": […]}, or arrays of any names in safetensors'
            raise InvalidBody(rule, "/x")

    def arguments(self, parameters: Parameters, content: Input) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the arrays by name; an unnamed array gets the name x."""
        if content.is_named:
            return (content.arrays,)
        return (dict(zip(self.names, content.arrays.values(), strict=True)),)

    def seconds_of(self, elements: int) -> float:
        # For JSON and CSV, which have no infinity, all results are computed once to look for one.
        return 4 * ELEMENT_SECONDS * elements


@dataclass(frozen=True)
class ReportedArrays(ArrayInputs):
    """Arrays that a report analyses; they may have names.

    Attributes:
        names: the accepted array names in a JSON body.
        example: an example JSON body, with arrays by name.
        copies: how many float64 copies of the arrays the analysis keeps in memory.
        base_seconds, root_seconds: the processor seconds of the analysis of an array, whatever its
            size, and times the root of its size: of large arrays a sample is taken.
    """

    names: tuple[str, ...]
    example: Mapping[str, Any]
    copies: int
    base_seconds: float
    root_seconds: float

    def arguments(self, parameters: Parameters, content: Input) -> tuple[Any, ...]:  # noqa: ARG002
        if not content.arrays:
            raise InvalidBody(f"an array is missing: send {' or '.join(self.names)}")
        # The order of a sum must not depend on that of the elements in memory.
        arrays = {name: table.in_order() for name, table in content.arrays.items()}
        return (replace(content, arrays=arrays),)

    def beside(self) -> Mapping[str, Any]:
        """Return the schema of what a JSON body may have beside the arrays by their names."""
        return {}

    def seconds_of(self, elements: int) -> float:
        return self.base_seconds + self.root_seconds * sqrt(elements)

    def held_bytes_of(self, elements: int) -> int:
        return self.copies * _NUMBER_BYTES * elements


@dataclass(frozen=True)
class NamedArrays(ArrayInputs):
    """Arrays with fixed names, each with its own meaning.

    Attributes:
        inputs: the descriptions of the accepted arrays.
        choice: the parameter that names an unnamed array, if it could be any of several.
        needs_any: whether a body without an array is refused.
    """

    inputs: Sequence[InputArray]
    choice: Choice | None = None
    needs_any: bool = True

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The accepted names of the arrays, aliases and that of any single array included."""
        own = [name for each in self.inputs for name in (each.name, *each.aliases)]
        return tuple(dict.fromkeys((*own, "x")))

    @property
    def unnamed(self) -> InputArray | None:
        """The input that an unnamed array stands for; None if that is ambiguous."""
        certain = [each for each in self.inputs if each.is_required] or self.inputs
        return certain[0] if len(certain) == 1 else None

    def read_arrays(self, form: ReadableFormat, body: Block) -> Input:
        return self.canonical(super().read_arrays(form, body))

    def canonical(self, content: Input) -> Input:
        """Return the arrays by their own names; raises InvalidBody if one is there twice."""
        own = {alias: each.name for each in self.inputs for alias in each.aliases}
        arrays: dict[str, StoredTable] = {}
        for name, array in content.arrays.items():
            if arrays.setdefault(own.get(name, name), array) is not array:
                rule = f"{name} is another name of {own.get(name, name)}: send one of them"
                raise InvalidBody(rule, f"/{name}")
        return replace(content, arrays=arrays)

    def check(self, content: Input) -> None:
        is_named = self._is_named(content)
        if not is_named and self.unnamed is None and self.choice is None:
            names = " or ".join(each.name for each in self.inputs)
            sent = ", ".join(content.arrays)
            raise InvalidBody(
                f"{sent} may be {names}: send it under its name, in safetensors or JSON"
            )
        if is_named:
            faults = [*self._unknown(content.arrays), *self._missing(content.arrays)]
            if faults:
                raise InvalidBody.at(*faults)

    def arguments(self, parameters: Parameters, content: Input) -> tuple[Any, ...]:
        """Return the arrays by name, each with its expected rank and element type."""
        arrays = self._by_name(parameters, content)
        checked = {
            each.name: each.checked(arrays[each.name])
            for each in self.inputs
            if each.name in arrays
        }
        return (checked,)

    def seconds_of(self, elements: int) -> float:
        return ELEMENT_SECONDS * elements

    def held_bytes_of(self, elements: int) -> int:
        """Return the memory of integers that were sent as floating-point numbers."""
        has_integers = any(each.is_integer for each in self.inputs)
        return _NUMBER_BYTES * elements if has_integers else 0

    def _is_named(self, content: Input) -> bool:
        """Return whether the names of the arrays count.

        A single array may be x, and have any name where no other array is possible.
        """
        if not content.is_named or len(self.inputs) == len(content.arrays) == 1:
            return False
        return set(content.arrays) != {"x"} or any(each.name == "x" for each in self.inputs)

    def _by_name(self, parameters: Parameters, content: Input) -> Mapping[str, StoredTable]:
        if self._is_named(content):
            if self.choice is not None:
                self.choice.check(parameters, content.arrays)
            return content.arrays
        (array,) = content.arrays.values()
        if self.unnamed is not None:
            return {self.unnamed.name: array}
        assert self.choice is not None
        name = self.choice.name(parameters)
        if name is None:
            raise self.choice.missing()
        return {name: array}

    def _unknown(self, arrays: Mapping[str, StoredTable]) -> list[Fault]:
        names = [each.name for each in self.inputs]
        faults = []
        for name in arrays:
            if name not in names:
                match, shown = self._nearest(name), shortened(name)
                hint = f"did you mean {match}?" if match else f"rename it to {' or '.join(names)}"
                detail = f"{shown} is no array here; {hint}"
                fault = Fault(f"/{shown}", shown, detail, in_body=True, suggestion=match)
                faults.append(fault)
        return faults

    def _nearest(self, name: str) -> str | None:
        """Return the array name of which ``name`` is a likely misspelling, or None."""
        names = [each.name for each in self.inputs]
        return next(iter(similar(name, names, _NAME_SIMILARITY)), None)

    def _missing(self, arrays: Mapping[str, StoredTable]) -> list[Fault]:
        required = [each for each in self.inputs if each.is_required]
        missing = [
            f"{each.name} is missing: {each.description}"
            for each in required
            if each.name not in arrays
        ]
        names = {each.name for each in self.inputs}
        if (
            self.needs_any
            and not required
            and not any(name in names or self._nearest(name) for name in arrays)
        ):
            ways = "; or ".join(f"{each.name}: {each.description}" for each in self.inputs)
            missing = [f"an array is missing: send {ways}"]
        return [Fault("", None, detail, in_body=True) for detail in missing]


@dataclass(frozen=True)
class Endpoint:
    """A path with its parameters, its inputs and the function that computes the answer.

    Attributes:
        path: the URL path, without an extension.
        operation: the stem of the operationIds: ``get`` + operation, ``post`` + operation.
        summary: one line for the API documentation.
        parameters: the model of the parameters.
        inputs: the accepted body content in addition to parameters.
        answer: takes the parameters and the arguments of ``inputs``, and for a report the settings,
            within whose limits its links are; returns a document or a report, or raises
            PosrefError.
        example: a valid query; together with the example of ``inputs`` it is a valid request.
        report: the model of the report; None if the answer is a document.
        by_get: the report on this path that answers GET, which a child makes; None if none does.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    inputs: Inputs
    answer: Callable[..., Document | Report]
    example: str = ""
    report: type[Report] | None = None
    by_get: "Endpoint | None" = None

    @property
    def has_get(self) -> bool:
        """True if parameters alone determine the answer, so that GET is possible."""
        return isinstance(self.inputs, NoInput)

    @property
    def raw_array(self) -> Mapping[str, str]:
        """The fields of RawArray in the query of a body without a header, and examples of them."""
        if not isinstance(self.inputs, ArrayInputs | PositionInput):
            return {}
        has_own = self.report is None and "dtype" in self.parameters.model_fields
        return {"shape": "50,512", "x_dtype" if has_own else "dtype": "float32"}

    def answer_to(
        self, parameters: Parameters, arguments: Iterable[Any], settings: "Settings"
    ) -> Document | Report:
        """Return the answer to a request; raises PosrefError."""
        limits = () if self.report is None else (settings,)
        return self.answer(parameters, *arguments, *limits)


def table_document(endpoint: Endpoint, parameters: Parameters) -> Document:
    """Return the document of an endpoint without inputs; raises InvalidParameters."""
    document = endpoint.answer(parameters)
    assert isinstance(document, Document)
    return document


def revision_of(parameters: Parameters) -> int | None:
    """Return the value of the parameter ``revision``; None if absent or not a parameter."""
    revision: int | None = getattr(parameters, "revision", None)
    return revision


def _endpoint_at(path: str) -> Endpoint:
    """Return the endpoint of the family at a path."""
    family = registry.FAMILIES[path]
    inputs: Inputs
    if issubclass(family, TableFamily):
        inputs = PositionInput() if takes_positions(family) else NoInput()
    elif issubclass(family, ComposedFamily):
        inputs = NamedArrays(family.inputs, family.choice, family.needs_arrays)
    else:
        inputs = EveryArray()
    answer = family.resolve  # type: ignore[attr-defined]
    return Endpoint(
        family.path, family.operation, family.summary, family, inputs, answer, family.example
    )


RESOURCES = MadeOnDemand(registry.TABLES, _endpoint_at)
"""The endpoints of tables, which answer GET, by path."""

TRANSFORMS: Mapping[str, Endpoint] = MadeOnDemand(registry.TRANSFORMS, _endpoint_at)
"""The endpoints that transform the arrays in a request body, by path."""

COMPOSITIONS: Mapping[str, Endpoint] = MadeOnDemand(registry.COMPOSITIONS, _endpoint_at)
"""The endpoints of tables that are computed from the arrays in a request body, by path."""
