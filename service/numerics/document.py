"""Documents: tables by name, and the parameters that determine their numbers."""

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
        parameters: every parameter that affects these numbers, in canonical form and order. Two
            documents of a kind with equal parameters are equal to the last bit.
        arrays: the tables by name; most documents have one.
        has_parts: whether a client may request one of several arrays alone.
        error_bound: a bound of the distance from the formula, where the numbers are not its
            nearest values.
        axes: what the axes of the single table count, in order.
        states_axes: whether the order of the axes is part of a convention, so that the response
            names them.
        curves: what is one curve in a picture of the table; None for a heat map.
        places: the positions along an axis, where the parameters do not have them.
        removable: the parameter that removes an axis from the table, by the name of the axis.
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
        """The cost of computing all of it, in evaluations of a sine."""
        return sum(work(table) for table in self.arrays.values())

    @property
    def setup_work(self) -> int:
        """The cost of what is computed before the first number."""
        return sum(setup_work(table) for table in self.arrays.values())

    def part(self, name: str) -> "Document":
        """Return the document of one of several tables; its name becomes a parameter."""
        parameters = {**self.parameters, "part": name}
        return replace(
            self, parameters=parameters, arrays={name: self.arrays[name]}, has_parts=False
        )
