"""A table that is computed from arrays in the body, such as position ids, beside another one."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from service.analysis.array import Sample, TableRequest
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.numeric_tables import Alternative, Numbers, explain_numbers
from service.delivery.endpoints import COMPOSITIONS, Endpoint, NamedArrays
from service.delivery.parameters import read_parameters
from service.errors import InvalidBody, PosrefError
from service.formats.format import Input
from service.numerics.dtypes import FLOAT64, INDEX_DTYPES, INT64, REAL_DTYPES
from service.numerics.tables import Document, StoredTable
from service.routes.expected_tables import elements_of
from service.routes.table_urls import pointing_at_to, table_request

_HAVE = "have"
_PLACES = {endpoint.path.strip("/"): endpoint for endpoint in COMPOSITIONS}
INPUT_NAMES = frozenset(
    name
    for endpoint in COMPOSITIONS
    if isinstance(endpoint.inputs, NamedArrays)
    for name in endpoint.inputs.names
    if name != "x"
)
"""The names of the arrays that such tables are computed from."""

# Libraries interpolate in float32: see the warning of /resize/apply.
_ROUNDINGS = 28 * 2.0**-23
# These choose what is answered, or by whose rules everything else is read.
_NOT_SWITCHED = frozenset({"convention", "part", "dtype", "layout"})
# The two sides of a grid.
_SIDES = ("size", "old_size")


def is_composed(url: str) -> bool:
    """Return whether a URL names a table that arrays in a body determine."""
    with pointing_at_to(url):
        return table_request(url).resource in _PLACES


def explain_composed(url: str, content: Input) -> Explanation:
    """Return what the array ``have`` is instead of the table of a URL and the other arrays.

    Args:
        url: the path and the query of a composition.
        content: ``have``, and the inputs of the composition by their own names.

    Raises:
        InvalidParameters: the URL has no table of these arrays.
        InvalidBody: ``have`` is missing, or not of the table's shape.
    """
    have = content.arrays.get(_HAVE)
    request = table_request(url)
    if have is None:
        raise InvalidBody(
            f"have is missing: send the array as have, beside the arrays of /{request.resource}"
        )
    own = _PLACES[request.resource].inputs
    aliases = {}
    if isinstance(own, NamedArrays):
        aliases = {alias: each.name for each in own.inputs for alias in each.aliases}
    rest = {aliases.get(name, name): each for name, each in content.arrays.items() if name != _HAVE}
    inputs = replace(content, arrays=rest)
    with pointing_at_to(url):
        document = _composed(request, inputs)
    name, want = _expected(document, have)
    others = _others(request, inputs, document, name)
    found = explain_numbers({name: Sample.of(have)}, want, lambda: others)
    if found is None:
        shape = want.shape
        raise InvalidBody(f"have has the shape {have.shape}, and {name} of to has {shape}", "/have")
    return found


def _composed(request: TableRequest, inputs: Input) -> Document:
    endpoint: Endpoint = _PLACES[request.resource]
    parameters = read_parameters(endpoint.parameters, request.parameters)
    answer = endpoint.answer(parameters, *endpoint.inputs.arguments(parameters, inputs))
    assert isinstance(answer, Document)
    return answer


def _expected(document: Document, have: StoredTable, name: str = "") -> tuple[str, Numbers]:
    """Return the array of a document that is compared, the first of its kind, and its name."""
    is_integer = have.dtype.name in INDEX_DTYPES
    names = [
        each
        for each, table in document.arrays.items()
        if name in {"", each} and len(table.shape) == len(have.shape)
    ]
    chosen = name or next(iter(names), next(iter(document.arrays)))
    table = document.arrays[chosen]
    numbers, dtype = elements_of(table), table.dtype
    if dtype.name in INDEX_DTYPES:
        numbers, dtype = numbers.astype(np.int64), INT64
    sample = Sample.of(StoredTable(numbers, dtype))
    rounding = 0.0 if is_integer else _ROUNDINGS * float(np.abs(sample.reals()).max(initial=0))
    real = REAL_DTYPES.get(dtype.name, FLOAT64)
    are_ids = chosen.endswith("position_ids")
    return chosen, Numbers({chosen: sample}, real, slack=rounding, are_ids=are_ids)


def _others(
    request: TableRequest, inputs: Input, document: Document, name: str
) -> Iterator[Alternative]:
    """Yield the tables of requests with one mistaken setting, of those that have one."""
    have = document.arrays[name]
    model = _PLACES[request.resource].parameters
    for wrong, other in switched(request, model.model_fields, document.parameters):
        try:
            changed = _composed(other, inputs)
        except PosrefError:
            continue
        if name in changed.arrays:
            stored = StoredTable(elements_of(changed.arrays[name]), have.dtype)
            yield wrong, other, _expected(changed, stored, name)[1]


def switched(
    request: TableRequest, fields: Mapping[str, Any], resolved: Mapping[str, Any]
) -> Iterator[tuple[Mistake, TableRequest]]:
    """Yield requests with another choice in one parameter, or with the sides of a grid exchanged.

    Args:
        request: the expected request.
        fields: the fields of its parameters, by name.
        resolved: the values that its document has for them.
    """
    for key, each in fields.items():
        choices = () if key in _NOT_SWITCHED else _choices(each.annotation)
        want = resolved.get(key, request.parameters.get(key))
        for choice in choices:
            if want is not None and str(choice).lower() != str(want).lower():
                values = {"key": key, "have": choice, "want": want}
                spelled = str(choice).lower() if isinstance(choice, bool) else choice
                changed = request.with_parameters(**{key: spelled})
                yield mistake("wrong-parameter", None, values, {key: choice}), changed
    for key in _SIDES:
        sides = str(request.parameters.get(key, "")).split(",")
        if len(sides) == 2 and sides[0] != sides[1]:
            swapped = mistake("axes-swapped", None, {"first": "height", "second": "width"})
            yield swapped, request.with_parameters(**{key: ",".join(sides[::-1])})


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the values that a parameter of a few choices may have; none for other parameters."""
    origin = get_origin(annotation)
    if annotation is bool:
        return (True, False)
    if origin is Literal:
        return get_args(annotation)
    if origin is Annotated:
        return _choices(get_args(annotation)[0])
    if origin in {Union, UnionType}:
        return tuple(choice for each in get_args(annotation) for choice in _choices(each))
    return ()
