"""Documents that are made of arrays which are sent, each in a role of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.delivery.parameters import Parameters, nearest
from service.delivery.resource import chosen
from service.errors import Fault, InvalidBody, shortened
from service.tables.document import Document
from service.tables.dtypes import INT64, widened
from service.tables.table import StoredTable

# Below it every integer is a float64; what has become one from there on may be another's nearest.
_EXACT_LIMIT = 2.0**53


@dataclass(frozen=True)
class InputArray:
    """An array that is sent.

    Attributes:
        name: the tensor in a safetensors file, the field of a JSON object; a body in a format for
            one array holds the first of several.
        description: what it is, and its axes.
        ranks: how many axes it may have.
        example: nested lists.
        is_integer: whether it holds integers, which arrive as int64.
        is_required: whether there is nothing without it.
    """

    name: str
    description: str
    ranks: tuple[int, ...]
    example: Any
    is_integer: bool = False
    is_required: bool = True

    def taken(self, table: StoredTable) -> StoredTable:
        """Give the array as what it is to be; raises InvalidBody."""
        if len(table.shape) not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            raise self._invalid(f"has {len(table.shape)} axes, and must have {ranks}")
        if not self.is_integer:
            if table.dtype is INT64:
                raise self._invalid("holds integers, and must hold floating-point numbers")
            return table
        return table if table.dtype is INT64 else self._whole(table)

    def _whole(self, table: StoredTable) -> StoredTable:
        """Read real numbers that are integers: JSON has but one type of number."""
        values = widened(table.elements, table.dtype)
        if not (np.abs(values) < _EXACT_LIMIT).all() or (values != np.trunc(values)).any():
            raise self._invalid("must hold integers, from 2^53 on as int64")
        return StoredTable(values.astype(np.int64), INT64)

    def _invalid(self, rule: str) -> InvalidBody:
        return InvalidBody(f"{self.name} {rule}: it is {self.description}", f"/{self.name}")


@dataclass(frozen=True)
class Composition:
    """A document for every set of arrays sent with a valid set of parameters.

    Attributes:
        path, operation, summary, parameters: as of a Resource.
        inputs: the arrays there may be.
        document: makes the document; raises InvalidParameters, or InvalidBody for arrays that do
            not fit.
        example: a query that goes with the examples of the inputs that are required.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    inputs: tuple[InputArray, ...]
    document: Callable[[Any, Mapping[str, StoredTable]], Document]
    example: str

    @property
    def names(self) -> tuple[str, ...]:
        """Name the arrays, the one first that a body for one array holds."""
        return tuple(known.name for known in self.inputs)

    def resolve(self, parameters: Parameters, arrays: Mapping[str, StoredTable]) -> Document:
        """Make the document of arrays by name."""
        faults = [*self._unknown(arrays), *self._missing(arrays)]
        if faults:
            raise InvalidBody.at(*faults)
        taken = {
            known.name: known.taken(arrays[known.name])
            for known in self.inputs
            if known.name in arrays
        }
        return chosen(self.document(parameters, taken), parameters)

    def _unknown(self, arrays: Mapping[str, StoredTable]) -> list[Fault]:
        faults = []
        for name in arrays:
            if name not in self.names:
                near = nearest(name, self.names)
                hint = f"did you mean {near}?" if near else f"there are {', '.join(self.names)}"
                detail = f"{shortened(name)} is no array here; {hint}"
                faults.append(Fault("", shortened(name), detail, in_body=True))
        return faults

    def _missing(self, arrays: Mapping[str, StoredTable]) -> list[Fault]:
        return [
            Fault("", None, f"{known.name} is missing: {known.description}", in_body=True)
            for known in self.inputs
            if known.is_required and known.name not in arrays
        ]
