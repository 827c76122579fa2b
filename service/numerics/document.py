"""What a request names: tables under their names, and the parameters that fix their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from service.numerics.positions import Positions
from service.numerics.tables import Table, setup_work, work

ParameterValue: TypeAlias = str | int | float | bool | tuple[float, ...]


Curves: TypeAlias = Literal["rows", "columns"]


@dataclass(frozen=True)
class Document:
    """Tables that are served together, described before any number of them is computed.

    Attributes:
        kind: the kind of table: the path of its family, with hyphens.
        parameters: every parameter that matters for these numbers, in canonical form and order.
            Two documents of a kind with equal parameters are equal to the last bit.
        arrays: the tables by name; most documents have one.
        has_parts: whether one of several may be asked for alone.
        error_bound: how far the numbers may be from the formula named, where they are not meant to
            be the nearest to it.
        axes: what the axes of the one table count, in order.
        states_axes: whether their order is part of a convention, so that the answer says it.
        curves: what is one curve in a picture of the table; a heat map unless given.
        places: what the places along an axis are numbered by, where the parameters do not say.
        removable: how to ask for the table without an axis, by its name.
        revision: the revision of the bytes of this kind of table.
    """

    kind: str
    parameters: Mapping[str, ParameterValue]
    arrays: Mapping[str, Table]
    has_parts: bool = False
    error_bound: float | None = None
    axes: tuple[str, ...] = ()
    states_axes: bool = False
    curves: Curves | None = None
    places: Mapping[str, Positions] = field(default_factory=dict)
    removable: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the tables, or None where they differ."""
        shapes = {table.shape for table in self.arrays.values()}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def dtype(self) -> str | None:
        """The name of the tables' element type, or None where they differ."""
        names = {table.dtype.name for table in self.arrays.values()}
        return names.pop() if len(names) == 1 else None

    @property
    def work(self) -> int:
        """What computing all of it takes, in sines."""
        return sum(work(table) for table in self.arrays.values())

    @property
    def setup_work(self) -> int:
        """What comes before the first number of it."""
        return sum(setup_work(table) for table in self.arrays.values())

    def part(self, name: str) -> "Document":
        """Pick one table of several; its name becomes a parameter."""
        parameters = {**self.parameters, "part": name}
        return replace(
            self, parameters=parameters, arrays={name: self.arrays[name]}, has_parts=False
        )
