"""The base class of conventions of ``/positions``, and the parameters that they share.

A convention is one class: its fields are its parameters, with bounds and defaults, ``answer`` is
its formula. From ``Convention.registered`` follow the parameters of the endpoint, the arrays that
it takes, the refusal of what belongs to other conventions, and the documentation.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

from service.encodings.family import InputArray, Parameters, about, impossible
from service.errors import InvalidBody
from service.grammar import Integer, to_query
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import Caution, ParameterValue, StoredTable, Table

PastLength = Annotated[
    Integer,
    about("Tokens in the cache: as many first columns are left out.", 4, ge=0, le=MAX_LENGTH),
]
Steps = Annotated[Integer, about("Decoded tokens whose position ids are added.", 2, ge=1, le=2**20)]
Masked = Annotated[Integer, about("The position of masked tokens.", 1, ge=0, le=2**31 - 1)]
SpatialMergeSize = Annotated[Integer, about("Patches of a side of a merged one.", 2, ge=1, le=1024)]
PatchSize = Annotated[Integer, about("The size of a side of a patch.", 14, ge=1, le=2**31)]


@dataclass(frozen=True)
class NamedTables:
    """The answer of a convention.

    Attributes:
        tables: the arrays by name.
        parameters: those that are not fields of the convention.
        warnings: what a client should know of these very ids.
    """

    tables: Mapping[str, Table]
    parameters: Mapping[str, ParameterValue]
    warnings: tuple[Caution, ...] = ()


class Convention(Parameters):
    """Base of the conventions of position ids; the docstring of each is its documentation.

    Attributes:
        registered: all conventions, in the order of their definition.
        name: the value of ``convention``.
        models: the model types whose ids it gives.
        inputs: the arrays that it takes, all optional.
        arrays: the names of the arrays of its answers.
        unlisted: fields that an answer does not repeat.
        example: a body.
    """

    registered: ClassVar[list[type["Convention"]]] = []

    name: ClassVar[str]
    models: ClassVar[tuple[str, ...]] = ()
    inputs: ClassVar[tuple[InputArray, ...]] = ()
    arrays: ClassVar[tuple[str, ...]] = ("position_ids",)
    unlisted: ClassVar[frozenset[str]] = frozenset({"rows"})
    example: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        """Register a class that has a name; a class without one is a base class."""
        super().__init_subclass__(**options)
        if name is not None:
            cls.name = name
            Convention.registered.append(cls)

    @classmethod
    @cache
    def parameter_types(cls) -> Mapping[str, Any]:
        """Return the annotated type of each parameter, by name."""
        hints = get_type_hints(cls, include_extras=True)
        kinds = {name: hints[name] for name in cls.model_fields}
        # The type of a parameter that may be None is the first of the union.
        return {
            name: get_args(kind)[0] if get_origin(kind) is Union else kind
            for name, kind in kinds.items()
        }

    @classmethod
    def of(cls, given: Mapping[str, Any], arrays: Mapping[str, StoredTable]) -> "Convention":
        """Return the convention with parameters, of which each is valid alone.

        Raises InvalidParameters or InvalidBody for one that is missing or belongs to others.
        """
        for name, value in given.items():
            if name not in cls.model_fields:
                raise impossible(name, value, cls._foreign(name, "model_fields"))
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in given:
                raise impossible(name, None, f"{name} is required with convention={cls.name}")
        known = {array.name for array in cls.inputs}
        for name in arrays:
            if name not in known:
                raise InvalidBody(cls._foreign(name, "inputs"), f"/{name}")
        return cls.model_construct(**given)

    @classmethod
    def _foreign(cls, name: str, place: str) -> str:
        """Return the problem of something that only other conventions take."""
        owners = [
            each.name
            for each in Convention.registered
            if name in {getattr(known, "name", known) for known in getattr(each, place, ())}
        ]
        return f"{name} does not go with convention={cls.name}, but with {'|'.join(owners)}"

    def canonical(self) -> dict[str, ParameterValue]:
        """Return the parameters with the defaults that were used."""
        given: dict[str, ParameterValue] = {"convention": self.name}
        for name, value in self:
            if name not in self.unlisted and value is not None:
                simple = isinstance(value, str | bool | int | float)
                given[name] = value if simple else to_query(value)
        return given

    @abstractmethod
    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:
        """Return the arrays; raises InvalidParameters or InvalidBody."""
