"""The base classes of families, and the parameter types that several families share.

A family is one class. Its fields are the query parameters and the attributes of the formula; its
docstring has the sections Formula, Source, Bound and Trap. Routes, operationIds, parsing,
canonical parameters, OpenAPI, documentation and contract tests follow from ``Family.registered``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, get_args, get_origin

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from service import grammar
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import Integer, Real
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
from service.numerics.positions import AnyPositions, Positions
from service.numerics.tables import Curves, Document, ParameterValue, StoredTable, Table

_REAL = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_RANGE = r"-?[0-9]+(:-?[0-9]+){0,2}"


def _list_schema(types: list[str], pattern: str, items: Mapping[str, object]) -> WithJsonSchema:
    """Return the schema of a list: text with commas, an array in JSON, or a single item there."""
    schema = {"type": types, "pattern": f"^{pattern}$", "items": items, "minItems": 1}
    return WithJsonSchema(schema)


Reals = Annotated[
    tuple[float, ...],
    BeforeValidator(grammar.reals),
    _list_schema(["string", "array"], f"{_REAL}(,{_REAL})*", {"type": "number"}),
]
Integers = Annotated[
    tuple[int, ...],
    BeforeValidator(grammar.integers),
    _list_schema(["string", "array"], "-?[0-9]+(,-?[0-9]+)*", {"type": "integer"}),
]
PositionList = Annotated[
    Positions,
    BeforeValidator(grammar.positions),
    _list_schema(
        ["string", "integer", "array"],
        f"{_RANGE}(,{_RANGE})*",
        {"type": ["integer", "string"], "pattern": f"^{_RANGE}$"},
    ),
]
RealPositionList = Annotated[
    AnyPositions,
    BeforeValidator(grammar.real_positions),
    _list_schema(
        ["string", "number", "array"],
        f"({_RANGE}(,{_RANGE})*|{_REAL}(,{_REAL})*)",
        {"type": ["number", "string"], "pattern": f"^({_RANGE}|{_REAL})$"},
    ),
]
Factor = Annotated[Real, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
Position = Annotated[Integer, Field(ge=-MAX_POSITION, le=MAX_POSITION)]
RealDTypeName: TypeAlias = Literal["float32", "float64", "float16", "bfloat16"]
AbsoluteLayout: TypeAlias = Literal["interleaved", "concatenated"]

Listed = TypeVar("Listed", Positions, AnyPositions)


def about(description: str, example: Any, **bounds: Any) -> Any:
    """Return the field of a parameter: its description, an example, and its bounds."""
    return Field(description=description, examples=[example], **bounds)


def optional(description: str, example: Any, **bounds: Any) -> Any:
    """Return the field of a parameter that is None unless given."""
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

    model_config = ConfigDict(extra="forbid", frozen=True)

    related: ClassVar[Mapping[str, type["Parameters"]]] = {}
    """Other families whose parameters are often sent here by mistake, by path."""

    def chosen_part(self) -> str | None:
        """Return the name of the one array that is requested (``part``), None for all."""
        part: str | None = getattr(self, "part", None)
        return part

    def removable_axes(self) -> Mapping[str, str]:
        """Return how to request the table without an axis, by the name of the axis."""
        return {}

    @classmethod
    def hint_for_unknown(cls, name: str, values: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Return how to correct an unknown parameter; None where only similar names help.

        Args:
            name: the unknown parameter.
            values: all parameters that were sent, by name.
        """
        return None


def choices(model: type[Parameters], name: str) -> tuple[str, ...]:
    """Return the values that a parameter of a closed list may have, else nothing."""
    field = model.model_fields.get(name)
    if field is None or get_origin(field.annotation) is not Literal:
        return ()
    return get_args(field.annotation)


def impossible(parameter: str, value: object, rule: str) -> InvalidParameters:
    """Return the error of a parameter that does not go with the others."""
    sent = None if value is None else shortened(grammar.to_query(value))
    return InvalidParameters(Fault(parameter, sent, rule))


def exclusion_faults(
    parameters: Parameters, others: Mapping[str, str], rule: str = "does not go with {}"
) -> list[Fault]:
    """Return a fault for every parameter that is given and excluded.

    Args:
        parameters: all parameters.
        others: for the name of an excluded parameter, the parameter that excludes it.
        rule: the end of the sentence, with {} for the parameter that excludes.
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


class FirstParameters(Parameters):
    """The position of the first row."""

    start: Position | None = optional("Position of the first row; 0 unless given.", 0)


class StartParameters(FirstParameters):
    """The positions of the rows of an array: consecutive from start on, or a list."""

    positions: PositionList | None = optional(
        "Position of each row, integers and half-open ranges, in place of seq_len and start.",
        "0,5,9:20:2",
    )

    def positions_of(self, rows: int) -> Positions:
        """Return the positions of the rows of an array."""
        if self.positions is None:
            return contiguous(self.start or 0, rows)
        refuse_excluded(self, {"start": "positions"})
        if self.positions.count != rows:
            raise InvalidBody(
                f"positions names {self.positions.count} rows, and the array has {rows}"
            )
        return self.positions


class LengthParameters(FirstParameters):
    """The number of positions and the first one."""

    seq_len: Integer | None = optional(
        "Number of positions; required unless positions is given.", 50, ge=1, le=2**63 - 1
    )

    def _resolved(self, listed: Listed | None, default_seq_len: int | None) -> Positions | Listed:
        """Return the positions; raises InvalidParameters unless they are given just once."""
        if listed is not None:
            refuse_excluded(self, {"seq_len": "positions", "start": "positions"})
            return listed
        seq_len = self.seq_len or default_seq_len
        if seq_len is None:
            rule = "seq_len is required, unless positions is given"
            raise impossible("seq_len", None, rule)
        return contiguous(self.start or 0, seq_len)


class PositionParameters(LengthParameters, StartParameters):
    """The integer positions of a table: seq_len of them from start on, or a list."""

    def resolved_positions(self, default_seq_len: int | None = None) -> Positions:
        """Return the positions; raises InvalidParameters unless they are given just once."""
        return self._resolved(self.positions, default_seq_len)


class RealPositionParameters(LengthParameters):
    """The positions of a table, which may be fractions."""

    positions: RealPositionList | None = optional(
        "Position of each row, integers and half-open ranges, or numbers of which some are "
        "fractions, in place of seq_len and start.",
        "0,5,9:20:2",
    )

    def resolved_positions(self) -> AnyPositions:
        """Return the positions; raises InvalidParameters unless they are given just once."""
        return self._resolved(self.positions, None)


def contiguous(start: int, count: int, name: str = "start") -> Positions:
    """Return consecutive positions; an error names the parameter that gives their start."""
    if start + count - 1 > MAX_POSITION:
        rule = f"the last position, {start + count - 1}, lies beyond 2^62"
        raise impossible(name, start, rule)
    return Positions.contiguous(start, count)


# Up to here every integer is a float64; a larger float64 may be the rounding of another integer.
_EXACT_LIMIT = 2.0**53


@dataclass(frozen=True)
class InputArray:
    """An array that a request sends.

    Attributes:
        name: the tensor in a safetensors file, the key in a JSON object.
        description: what it is, and its axes.
        ranks: the numbers of axes it may have.
        example: nested lists.
        is_integer: whether its elements are integers; they are read as int64.
        is_required: whether the request is refused without it.
        aliases: names of the array in other libraries; the refusal of one names this array.
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
        # JSON has one type of number.
        values = to_float64(table.elements, table.dtype)
        if not (np.abs(values) < _EXACT_LIMIT).all() or (values != np.trunc(values)).any():
            raise self._invalid("must hold integers, from 2^53 on as int64")
        return StoredTable(values.astype(np.int64), INT64)

    def _invalid(self, rule: str) -> InvalidBody:
        return InvalidBody(f"{self.name} {rule}: it is {self.description}", f"/{self.name}")


@dataclass(frozen=True)
class Choice:
    """A parameter whose value names the array of a body that has no names (``.npy``)."""

    parameter: str
    names: Mapping[str, str]

    def name(self, parameters: Parameters) -> str | None:
        """Return the name of the array, or None where the parameter is not given."""
        value = getattr(parameters, self.parameter)
        return None if value is None else self.names[value]

    def missing(self) -> InvalidParameters:
        """Return the error of a body without names where the parameter is not given."""
        named = self.names.items()
        ways = " or ".join(f"{self.parameter}={value} ({name})" for value, name in named)
        rule = f"an array without a name needs {ways}; safetensors and JSON name it"
        return InvalidParameters(Fault(self.parameter, None, rule))

    def check(self, parameters: Parameters, sent: Iterable[str]) -> None:
        """Refuse a parameter that names an array other than those that were sent."""
        name = self.name(parameters)
        if name not in {None, *sent}:
            value = getattr(parameters, self.parameter)
            rule = f"{self.parameter}={value} goes with {name}, and that is not sent"
            raise InvalidParameters(Fault(self.parameter, value, rule))


_DTYPES = {**REAL_DTYPES, **INDEX_DTYPES}


class Family(Parameters):
    """A kind of table, registered under its path.

    Attributes:
        path: the path of its URL, without an extension.
        operation: the stem of its operationIds (``get`` + operation, ``post`` + operation); the
            words of the path unless given.
        summary: one line for the API's documentation; the first of the docstring unless given.
        example: a query that works.
        revision_of_bytes: moves when, and only when, a byte of a table of this kind changes.
    """

    registered: ClassVar[list[type["Family"]]] = []

    path: ClassVar[str]
    operation: ClassVar[str]
    summary: ClassVar[str]
    example: ClassVar[str]
    revision_of_bytes: ClassVar[int] = 1

    def __init_subclass__(cls, *, path: str | None = None, **options: Any) -> None:
        """Register a class that names its path; one that does not is a base of others."""
        super().__init_subclass__(**options)
        if path is not None:
            cls.path = path
            words = path.replace("-", "/").split("/")
            cls.operation = vars(cls).get("operation", "".join(map(str.capitalize, words)))
            first_line, *_ = (cls.__doc__ or "").split("\n\n")
            cls.summary = vars(cls).get("summary", first_line.rstrip("."))
            Family.registered.append(cls)

    @classmethod
    def kind(cls) -> str:
        """Return the name of this kind of table: the path with hyphens."""
        return cls.path.strip("/").replace("/", "-")

    @property
    def element_type(self) -> DType:
        """The element type that ``dtype`` names."""
        name: str = getattr(self, "dtype")  # noqa: B009
        return _DTYPES[name]

    def canonical(self) -> dict[str, ParameterValue]:
        """Return the parameters that fix the numbers, defaults included, in a fixed order.

        These are the fields that families declare, in the order of declaration, without those
        that are None; fields of mixins (positions, queries and keys, heads) and ``dtype`` are not
        among them. Override it where that is not all.
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
        """Return a family that takes from other parameters the fields it has too, but changes."""
        shared = cls.model_fields.keys() & type(other).model_fields.keys()
        values = {name: getattr(other, name) for name in shared}
        # pydantic's plugin for mypy takes what a subclass constructs for this class.
        family: Any = cls.model_construct(**{**values, **changes})
        return family  # type: ignore[no-any-return]

    @classmethod
    def describe(
        cls, arrays: Mapping[str, Table], parameters: Mapping[str, ParameterValue], **options: Any
    ) -> Document:
        """Return the document of tables of this kind; options are further fields of Document."""
        return Document(cls.kind(), parameters, arrays, revision=cls.revision_of_bytes, **options)


class TableFamily(Family):
    """A kind of table that its parameters describe in full; served by GET.

    Attributes:
        array: the name of the array in the answer.
        states_axes: whether the answer states its axes, because their order is a convention.
        curves: what is one curve in a picture of the table; a heat map unless given.
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
        """The names of the axes; empty for positions by channels, which need none."""
        return ()

    @property
    def places(self) -> Mapping[str, Positions]:
        """The positions along an axis by its name, where the parameters do not contain them."""
        return {}

    def table(self) -> Table:
        """Return the table; raises InvalidParameters for an impossible combination."""
        raise NotImplementedError

    def document(self) -> Document:
        """Return the table with everything that fixes its numbers; nothing is computed yet."""
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


class ComposedFamily(Family):
    """A kind of table that is made of the arrays in a request's body."""

    inputs: ClassVar[tuple[InputArray, ...]]
    choice: ClassVar[Choice | None] = None

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        """Return the tables made of the arrays; raises InvalidParameters or InvalidBody."""
        raise NotImplementedError

    def resolve(self, arrays: Mapping[str, StoredTable]) -> Document:
        """Return the document, or only the array that ``part`` selects."""
        return selected(self.document(arrays), self)


class TransformFamily(Family):
    """A transformation of every array in a body, of shape (..., positions, channels)."""

    def apply(self, x: StoredTable) -> tuple[StoredTable, Mapping[str, ParameterValue]]:
        """Return the transformed array and the canonical parameters of the transformation.

        Raises InvalidParameters or InvalidBody if the array does not fit the parameters.
        """
        raise NotImplementedError

    def resolve(self, arrays: Mapping[str, StoredTable]) -> Document:
        """Return the document of all arrays, transformed."""
        return transformed(self.kind(), self.apply, arrays)


_BASES = frozenset({Family, TableFamily, ComposedFamily, TransformFamily})


def selected(document: Document, parameters: Parameters) -> Document:
    """Return a document, or the one part of it that ``part`` names; raises InvalidParameters."""
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


def transformed(
    kind: str,
    apply: Callable[[StoredTable], tuple[StoredTable, Mapping[str, ParameterValue]]],
    arrays: Mapping[str, StoredTable],
) -> Document:
    """Return the document of transformed arrays, with the parameters that all have in common.

    Raises InvalidBody with the name of an array that cannot be transformed.
    """
    results = {}
    for name, array in arrays.items():
        try:
            results[name] = apply(_vectors(array))
        except InvalidBody as error:
            raise InvalidBody(f"{shortened(name)}: {error.detail}") from error
    first, *others = [parameters for _, parameters in results.values()]
    common = {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }
    return Document(kind, common, {name: table for name, (table, _) in results.items()})


def _vectors(array: StoredTable) -> StoredTable:
    if array.dtype is INT64:
        raise InvalidBody("elements are integers or booleans: send floating-point numbers")
    if array.dtype in COMPLEX_DTYPES:
        raise InvalidBody("elements are complex numbers: send floating-point numbers")
    if len(array.shape) < 2:
        raise InvalidBody("it has 1 axis, and must have two at least, positions and channels last")
    return array
