"""Endpoints of kinds of tables that are not yet declared as a family."""

from collections.abc import Callable, Mapping
from typing import Any

from service.delivery.endpoints import Endpoint, EveryArray, NamedArrays, NoInput, endpoint_of
from service.encodings.family import Choice, InputArray, selected, transformed
from service.encodings.fields import Parameters
from service.numerics.document import Document
from service.numerics.tables import StoredTable

resource_of = composition_of = transform_of = endpoint_of


def Resource(  # noqa: N802, PLR0917
    path: str,
    operation: str,
    summary: str,
    parameters: type[Any],
    document: Callable[[Any], Document],
    example: str,
) -> Endpoint:
    """Return the endpoint of tables that parameters describe."""

    def answer(values: Any) -> Document:
        return selected(document(values), values)

    return Endpoint(path, operation, summary, parameters, NoInput(), answer, example)


def Transform(  # noqa: N802, PLR0917
    path: str,
    operation: str,
    summary: str,
    parameters: type[Parameters],
    kind: str,
    apply: Callable[[Any, StoredTable], tuple[StoredTable, Mapping[str, Any]]],
    example: str,
) -> Endpoint:
    """Return the endpoint of a transformation of arrays."""

    def answer(values: Any, arrays: Mapping[str, StoredTable]) -> Document:
        return transformed(kind, lambda x: apply(values, x), arrays)

    return Endpoint(path, operation, summary, parameters, EveryArray(), answer, example)


def Composition(  # noqa: N802, PLR0917
    path: str,
    operation: str,
    summary: str,
    parameters: type[Parameters],
    inputs: tuple[InputArray, ...],
    document: Callable[[Any, Mapping[str, StoredTable]], Document],
    example: str,
    choice: Choice | None = None,
) -> Endpoint:
    """Return the endpoint of tables that are made of arrays."""

    def answer(values: Any, arrays: Mapping[str, StoredTable]) -> Document:
        return selected(document(values, arrays), values)

    named = NamedArrays(inputs, choice)
    return Endpoint(path, operation, summary, parameters, named, answer, example)
