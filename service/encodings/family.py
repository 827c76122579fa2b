"""The base classes of families, and the parameter types that several families share.

A family is one kind of table or transformation, and one class. Its fields are the query parameters;
its docstring has the sections Formula, Source, Bound and Trap. Routes, operationIds, parsing,
canonical parameters, OpenAPI, documentation and contract tests are generated from the families in
``registry``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, WithJsonSchema

from service import grammar
from service.encodings.meaning import Meaning, NamedVariant, Selection
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import Integer, Real
from service.numerics.axes import columns_of
from service.numerics.dtypes import (
    COMPLEX_DTYPES,
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    DType,
    to_float64,
)
from service.numerics.limits import MAX_BASE, MAX_CHANNELS, MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions, RealPositions
from service.numerics.tables import (
    Curves,
    Document,
    ParameterValue,
    StoredTable,
    Table,
    row_steps,
    size,
)

_SIZE = r"(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_REAL = f"-?{_SIZE}"
_RANGE = r"-?[0-9]+(:-?[0-9]+){0,2}"


def _list_schema(pattern: str) -> WithJsonSchema:
    """Return the JSON schema of a list in a query: comma-separated text."""
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


Reals = Annotated[
    tuple[float, ...],
    BeforeValidator(grammar.reals),
    _list_schema(f"{_REAL}(,{_REAL})*"),
]
Sizes = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...],
    BeforeValidator(grammar.reals),
    _list_schema(f"{_SIZE}(,{_SIZE})*"),
]
Integers = Annotated[
    tuple[int, ...],
    BeforeValidator(grammar.integers),
    _list_schema("[0-9]+(,[0-9]+)*"),
]
PositionList = Annotated[
    InstanceOf[Positions],
    BeforeValidator(grammar.positions),
    _list_schema(f"{_RANGE}(,{_RANGE})*"),
]
REAL_LIST = _list_schema(f"({_RANGE}(,{_RANGE})*|{_REAL}(,{_REAL})*)")
RealPositionList = Annotated[
    InstanceOf[Positions] | InstanceOf[RealPositions],
    BeforeValidator(grammar.real_positions),
    REAL_LIST,
]
Factor = Annotated[Real, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
Position = Annotated[Integer, Field(ge=-MAX_POSITION, le=MAX_POSITION)]
RealDTypeName: TypeAlias = Literal["float32", "float64", "float16", "bfloat16"]
AbsoluteLayout: TypeAlias = Literal["interleaved", "concatenated"]


def about(description: str, example: Any, **bounds: Any) -> Any:
    """Return the pydantic field of a parameter with a description, an example and bounds."""
    return Field(description=description, examples=[example], **bounds)


def optional_key(kind: Any) -> tuple[Any, None]:
    """Return the type and default of an optional parameter, from an annotated type."""
    *others, field = kind.__metadata__
    annotated: Any = Annotated
    key_type = annotated[(kind.__origin__, *others)] if others else kind.__origin__
    return annotated[key_type | None, field], None


def optional(description: str, example: Any, **bounds: Any) -> Any:
    """Return the pydantic field of an optional parameter; its default is None."""
    return about(description, example, default=None, **bounds)


ChannelCount = Annotated[Integer, about("Number of channels.", 512, ge=1, le=MAX_CHANNELS)]
EvenChannelCount = Annotated[
    Integer, about("Number of channels, even.", 512, ge=2, le=MAX_CHANNELS, multiple_of=2)
]
SeriesBase = Annotated[
    Real, about("Base n of the frequencies n^(-2i/d_model).", 10000, ge=1, le=MAX_BASE)
]
RealDType = Annotated[
    RealDTypeName,
    about("Type of the elements; each is the exact value rounded once.", "float32"),
]
IndexDType = Annotated[Literal["int32", "int64"], about("Type of the elements.", "int64")]


class Parameters(BaseModel):
    """Base of all parameters: unknown names are refused, values are frozen."""

    # Most classes are bases, which validate nothing.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    related: ClassVar[Mapping[str, type["Parameters"]]] = {}
    """Families, by path, whose parameters are often sent here by mistake; hints name them."""

    value_hints: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """The value that is meant by another one, by parameter."""

    hints: ClassVar[Mapping[str, str]] = {}
    """How to correct parameters that are unknown here, by name, where a similar name would not."""

    body_only: ClassVar[frozenset[str]] = frozenset()
    """Parameters that go with no sent array: OpenAPI has them in the JSON body alone."""

    not_in_queries: ClassVar[frozenset[str]] = frozenset()
    """Parameters whose values a query cannot hold: the catalogue leaves them out."""

    @property
    def planning_seconds(self) -> float:
        """The processor seconds of planning that the length of a body does not tell."""
        return 0.0

    @property
    def planning_bytes(self) -> int:
        """The memory of planning, where a child does it."""
        return 0

    def chosen_part(self) -> str | None:
        """Return the name of the requested array (``part``); None if all arrays are requested."""
        part: str | None = getattr(self, "part", None)
        return part

    def removable_axes(self) -> Mapping[str, str]:
        """Return how to request the table without an axis, by the axis name; {} if impossible."""
        return {}

    def selections(self) -> Mapping[str, Selection]:
        """Return how a request chooses places along axes, by the axis name; {} if it does not."""
        return {}

    @classmethod
    def hint_for_unknown(cls, name: str, values: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Return a hint on how to correct an unknown parameter; None for the general hint.

        Args:
            name: the unknown parameter.
            values: all parameters that were sent, by name.
        """
        return cls.hints.get(name)


def choices(model: type[Parameters], name: str) -> tuple[str, ...]:
    """Return the accepted values of a Literal parameter; () for any other parameter."""
    field = model.model_fields.get(name)
    if field is None or get_origin(field.annotation) is not Literal:
        return ()
    return get_args(field.annotation)


def impossible(parameter: str, value: object, rule: str) -> InvalidParameters:
    """Return the error for a parameter that cannot be combined with the other parameters.

    Args:
        parameter: the name of the parameter.
        value: its value; None if the parameter is missing.
        rule: the detail of the error.
    """
    sent = None if value is None else shortened(grammar.to_query(value))
    return InvalidParameters(Fault(parameter, sent, rule))


def exclusion_faults(
    parameters: Parameters, others: Mapping[str, str], rule: str = "does not go with {}"
) -> list[Fault]:
    """Return a fault for every given parameter that another one excludes.

    Args:
        parameters: the parameters of the request.
        others: maps the name of each excluded parameter to the parameter that excludes it.
        rule: the end of the error sentence; {} stands for the parameter that excludes.
    """
    return [
        Fault(name, grammar.to_query(value), f"{name} {rule.format(other)}")
        for name, other in others.items()
        if (value := getattr(parameters, name, None)) is not None
    ]


def refuse_excluded(
    parameters: Parameters, others: Mapping[str, str], rule: str = "does not go with {}"
) -> None:
    """Raise InvalidParameters with ``exclusion_faults``, if there are any."""
    refuse(exclusion_faults(parameters, others, rule))


def refuse(faults: Sequence[Fault]) -> None:
    """Raise InvalidParameters if there are faults."""
    if faults:
        raise InvalidParameters(*faults)


# Up to here every integer is a float64; a larger float64 may be the rounding of another integer.
_EXACT_LIMIT = 2.0**53


@dataclass(frozen=True)
class InputArray:
    """The description of an array that a request body may contain.

    Attributes:
        name: the tensor name in a safetensors file and the key in a JSON object.
        description: the meaning of the array and its axes.
        ranks: the accepted numbers of axes.
        example: an example array as nested lists.
        is_integer: whether its elements are integers; they are read as int64.
        is_required: whether a request without this array is refused.
        aliases: names of the array in other libraries, under which it may be sent.
    """

    name: str
    description: str
    ranks: tuple[int, ...]
    example: Any
    is_integer: bool = False
    is_required: bool = True
    aliases: tuple[str, ...] = ()

    def checked(self, table: StoredTable) -> StoredTable:
        """Return the array with its expected rank and element type; raises InvalidBody."""
        if len(table.shape) not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise self._invalid(f"has {len(table.shape)} axes, and must have {ranks}")
        if table.dtype in COMPLEX_DTYPES:
            raise self._invalid("holds complex numbers, and must hold real ones")
        has_integers = table.dtype is INT64
        if has_integers and not self.is_integer:
            raise self._invalid("holds integers or booleans, and must hold floating-point numbers")
        if has_integers or not self.is_integer:
            return table
        # JSON has a single number type, so integers arrive as float64.
        numbers = np.empty(size(table), dtype=np.int64)
        for step in row_steps(len(numbers), 1):
            values = to_float64(table.read(step.start, step.stop), table.dtype)
            if not (np.abs(values) < _EXACT_LIMIT).all() or (values != np.trunc(values)).any():
                raise self._invalid("must hold integers, from 2^53 on as int64")
            numbers[step] = values
        return StoredTable(numbers.reshape(table.shape), INT64)

    def _invalid(self, rule: str) -> InvalidBody:
        return InvalidBody(f"{self.name} {rule}: it is {self.description}", f"/{self.name}")


@dataclass(frozen=True)
class Choice:
    """A parameter whose value selects the name of an unnamed array (``.npy``).

    Attributes:
        parameter: the name of the parameter.
        names: maps each value of the parameter to an array name.
    """

    parameter: str
    names: Mapping[str, str]

    def name(self, parameters: Parameters) -> str | None:
        """Return the array name that the parameter selects; None if it is not given."""
        value = getattr(parameters, self.parameter)
        return None if value is None else self.names[value]

    def missing(self) -> InvalidParameters:
        """Return the error for an unnamed array when the parameter is missing."""
        named = self.names.items()
        ways = " or ".join(f"{self.parameter}={value} ({name})" for value, name in named)
        rule = f"an array without a name needs {ways}; safetensors and JSON name it"
        return InvalidParameters(Fault(self.parameter, None, rule))

    def check(self, parameters: Parameters, sent: Iterable[str]) -> None:
        """Raise InvalidParameters if the parameter selects an array that was not sent."""
        name = self.name(parameters)
        if name not in {None, *sent}:
            value = getattr(parameters, self.parameter)
            rule = f"{self.parameter}={value} goes with {name}, and that is not sent"
            raise InvalidParameters(Fault(self.parameter, value, rule))


_DTYPES = {**REAL_DTYPES, **INDEX_DTYPES}


class Family(Parameters):
    """A kind of table; ``registry`` lists its path.

    Attributes:
        path: the URL path, without an extension.
        operation: the stem of its operationIds (``get`` + operation, ``post`` + operation); by
            default the words of the path.
        summary: one line for the API documentation; by default the first paragraph of the
            docstring.
        example: a valid query.
        models: names of models with such a table, if there are no conventions.
        revision_of_bytes: the revision number of the tables; it is increased if, and only if, a
            byte of any table of this kind changes.
    """

    path: ClassVar[str]
    operation: ClassVar[str]
    summary: ClassVar[str]
    example: ClassVar[str]
    models: ClassVar[str] = ""
    revision_of_bytes: ClassVar[int] = 1

    def __init_subclass__(cls, *, path: str | None = None, **options: Any) -> None:
        """Derive names from the path of a class; a class without one is a base class."""
        super().__init_subclass__(**options)
        if path is not None:
            cls.path = path
            words = path.replace("-", "/").split("/")
            cls.operation = vars(cls).get("operation", "".join(map(str.capitalize, words)))
            first_line, *_ = (cls.__doc__ or "").split("\n\n")
            cls.summary = vars(cls).get("summary", first_line.rstrip("."))

    @classmethod
    def variants(cls) -> Iterable[NamedVariant]:
        """Return the rules or conventions that the catalogue lists, or one without a name."""
        return (NamedVariant("", cls.example, models=cls.models),)

    @classmethod
    def entry_id(cls, variant: str) -> str:
        """Return the id in the catalogue: the path with colons, and the name of a variant."""
        return ":".join(filter(None, (*cls.path.strip("/").split("/"), variant)))

    @property
    def entry(self) -> str:
        """The id in the catalogue of the rule or the convention of the request."""
        name: str = getattr(self, "convention_name", getattr(self, "convention", ""))
        return self.entry_id(name if name in {each.name for each in self.variants()} else "")

    @classmethod
    def kind(cls) -> str:
        """Return the name of this kind of table: the path with hyphens in place of slashes."""
        return cls.path.strip("/").replace("/", "-")

    @property
    def element_type(self) -> DType:
        """The element type of the table, from the parameter ``dtype``."""
        name: str = getattr(self, "dtype")  # noqa: B009
        return _DTYPES[name]

    def canonical(self) -> dict[str, ParameterValue]:
        """Return the parameters that determine the exact numbers, defaults included.

        These are the fields that Family subclasses declare, in the order of declaration, if they
        are not None. Fields of mixins (positions, queries and keys, heads) and ``dtype`` are left
        out; a family that needs some of them overrides this method.
        """
        names = [
            name
            for base in reversed(type(self).__mro__)
            if issubclass(base, Family) and base not in _BASES
            for name in get_annotations(base)
            if name in type(self).model_fields and name != "dtype"
        ]
        values = {name: getattr(self, name) for name in names}
        return {
            name: str(value) if isinstance(value, Positions) else value
            for name, value in values.items()
            if value is not None
        }

    @classmethod
    def like(cls, other: Parameters, **changes: Any) -> Self:
        """Return an instance with the fields shared with ``other``, updated with ``changes``.

        The values are not validated.
        """
        shared = cls.model_fields.keys() & type(other).model_fields.keys()
        values = {name: getattr(other, name) for name in shared}
        # pydantic's plugin for mypy takes what a subclass constructs for this class.
        family: Any = cls.model_construct(**{**values, **changes})
        return family  # type: ignore[no-any-return]

    @classmethod
    def describe(
        cls, arrays: Mapping[str, Table], parameters: Mapping[str, ParameterValue], **options: Any
    ) -> Document:
        """Return a Document of this kind and revision; options are further Document fields."""
        options = {"layout": channel_order(parameters), **options}
        return Document(cls.kind(), parameters, arrays, revision=cls.revision_of_bytes, **options)


class TableFamily(Family):
    """A kind of table that parameters alone determine; served by GET.

    Attributes:
        array: the name of the array in the response.
        states_axes: whether the response states the names of the axes, because their order is a
            convention.
        curves: how a picture draws the table as curves; None draws a heat map.
    """

    array: ClassVar[str]
    states_axes: ClassVar[bool] = True
    curves: ClassVar[Curves | None] = None

    revision: Integer | None = Field(
        default=None,
        ge=1,
        description="The expected revision of the table; answers to a URL with it never change.",
        examples=[1],
    )

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes; empty for the shape (positions, channels)."""
        return ()

    @property
    def places(self) -> Mapping[str, Positions]:
        """The positions along axes, by axis name, if ``canonical`` does not contain them."""
        return {}

    @property
    def row_axes(self) -> int:
        """The number of axes whose places are the rows of a matrix; the others are columns."""
        return 1

    def as_matrix(self) -> Mapping[str, ParameterValue]:
        """Return the parameters by which the same numbers are rows by channels; {} if they are."""
        return {}

    def meaning(self) -> Meaning:
        """Return what the numbers are; raises InvalidParameters."""
        return Meaning()

    def table(self) -> Table:
        """Return the table; raises InvalidParameters for an impossible combination."""
        raise NotImplementedError

    def document(self) -> Document:
        """Return the table with its canonical parameters and axes; no element is computed yet."""
        return self.describe(
            {self.array: self.table()},
            self.canonical(),
            axes=self.axes,
            states_axes=self.states_axes and bool(self.axes),
            curves=self.curves,
            places=self.places,
        )

    def resolve(self) -> Document:
        """Return the document, or only the array that ``part`` selects."""
        return selected(self.document(), self)


class ChannelTable(TableFamily):
    """A kind of table that has an axis of channels, at least with some parameters."""

    no_channels: ClassVar[str] = "this table has no axis of channels"
    """Why there is none with other parameters."""

    channels: PositionList | None = optional(
        "Return only these channels: integers and half-open ranges, from 0, in any order.",
        "0:4:2",
    )

    def selections(self) -> Mapping[str, Selection]:
        chosen = Selection("channels", self.channels)
        return {"channel": chosen, "pair": chosen, **super().selections()}

    def resolve(self) -> Document:
        document, channels = super().resolve(), self.channels
        if channels is None:
            return document
        axis, shape = document.channel_axis, document.shape
        if axis is None or shape is None:
            raise impossible("channels", channels, self.no_channels)
        if channels.count > MAX_CHANNELS:
            rule = f"there are {channels.count} channels, but at most {MAX_CHANNELS} are possible"
            raise impossible("channels", channels, rule)
        none = channels.least if channels.least < 0 else channels.most
        if not 0 <= none < shape[axis]:
            rule = f"channels must be 0 to {shape[axis] - 1}, those of the table: {none} is none"
            raise impossible("channels", channels, rule)
        # What a name says beside it is true of all channels.
        name = document.axes[axis].partition("(")[0]
        return replace(
            document,
            parameters={**document.parameters, "channels": str(channels)},
            arrays={key: columns_of(each, axis, channels) for key, each in document.arrays.items()},
            axes=(*document.axes[:axis], name, *document.axes[axis + 1 :]),
            places={**document.places, name: channels},
        )


class ComposedFamily(Family):
    """A kind of table that is computed from the arrays in a request body.

    Attributes:
        inputs: the descriptions of the accepted arrays.
        choice: the parameter that names an unnamed array, if it could be any of several.
        needs_arrays: whether a request without any is refused before its parameters are known.
    """

    inputs: ClassVar[tuple[InputArray, ...]]
    choice: ClassVar[Choice | None] = None
    needs_arrays: ClassVar[bool] = True

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        """Return the tables computed from arrays; raises InvalidParameters or InvalidBody."""
        raise NotImplementedError

    def resolve(self, arrays: Mapping[str, StoredTable]) -> Document:
        """Return the document, or only the array that ``part`` selects."""
        return selected(self.document(arrays), self)


_BASES = frozenset({Family, TableFamily, ChannelTable, ComposedFamily})


def selected(document: Document, parameters: Parameters) -> Document:
    """Return a document, reduced to the array ``part`` if given; raises InvalidParameters."""
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


def channel_order(parameters: Mapping[str, ParameterValue]) -> str | None:
    """Return the order of the channels in the rows of an answer; None if parameters have none."""
    order = parameters.get("output_layout", parameters.get("layout"))
    return None if order is None else str(order)
