"""Explain an array that should be a table determined by other arrays, such as position ids."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np

from service.analysis.array import Sample, TableRequest
from service.analysis.explanation.catalogue import mistake
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.numeric_tables import Alternative, Numbers, explain_numbers
from service.delivery.endpoints import COMPOSITIONS, NamedArrays
from service.delivery.parameters import read_parameters
from service.errors import InvalidBody, PosrefError
from service.formats.format import Input
from service.numerics.dtypes import FLOAT64, INDEX_DTYPES, INT64, REAL_DTYPES
from service.numerics.tables import Document, StoredTable
from service.routes.another_table import switched
from service.routes.expected_tables import check_size, elements_of, finite_sample, one_copy
from service.routes.table_urls import pointing_at_to, table_request

_HAVE = "have"

# Libraries interpolate in float32, and lose at most 28 steps of the largest number: see /resize.
_LIBRARY_ERROR = 28 * 2.0**-23
# Position ids have one axis, or those of time, height, width and more.
_MOST_AXES = 4


@cache
def input_names() -> frozenset[str]:
    """Return the names of the arrays that such tables are computed from."""
    inputs = (endpoint.inputs for endpoint in COMPOSITIONS.values())
    arrays = (each for each in inputs if isinstance(each, NamedArrays))
    return frozenset(name for each in arrays for name in each.names if name != "x")


def is_composed(url: str) -> bool:
    """Return whether a URL names a table that arrays in a body determine."""
    with pointing_at_to(url):
        return f"/{table_request(url).resource}" in COMPOSITIONS


def explain_composed(url: str, content: Input) -> Explanation:
    """Return what the array ``have`` is instead of the table of a URL and the other arrays.

    Args:
        url: the path and the query of a composition.
        content: ``have``, and the inputs of the composition by their own names.

    Raises:
        InvalidParameters: the URL has no table of these arrays, or one that is far larger.
        InvalidBody: ``have`` is missing, not finite, or not of the table's shape; or an input is
            missing or not known.
    """
    request, arrays = table_request(url), dict(content.arrays)
    if _HAVE not in arrays:
        raise InvalidBody(
            f"have is missing: send the array as have, beside the arrays of /{request.resource}"
        )
    table = arrays.pop(_HAVE)
    inputs = replace(content, arrays=arrays)
    endpoint = COMPOSITIONS[f"/{request.resource}"]
    if isinstance(endpoint.inputs, NamedArrays):
        inputs = endpoint.inputs.canonical(inputs)
        endpoint.inputs.check(inputs)
    with pointing_at_to(url):
        document = _composed(request, inputs)
        copies, notes = one_copy({_HAVE: table}, document)
        have = finite_sample(_HAVE, *copies.values())
        check_size(document, have.values.size)
    ranks = {name: len(table.shape) for name, table in document.arrays.items()}
    name = next((each for each in ranks if ranks[each] == len(have.shape)), next(iter(ranks)))
    want = _numbers(name, document, is_integer=have.is_integer)
    found = explain_numbers(
        {name: have}, want, lambda: _others(request, inputs, document, name, have)
    )
    if found is None:
        shape = document.arrays[name].shape
        raise InvalidBody(f"have has the shape {have.shape}, and {name} of to has {shape}", "/have")
    return replace(found, notes=notes)


def _composed(request: TableRequest, inputs: Input) -> Document:
    endpoint = COMPOSITIONS[f"/{request.resource}"]
    parameters = read_parameters(endpoint.parameters, request.parameters)
    answer = endpoint.answer(parameters, *endpoint.inputs.arguments(parameters, inputs))
    assert isinstance(answer, Document)
    return answer


def _numbers(name: str, document: Document, *, is_integer: bool) -> Numbers:
    """Return the expected numbers of an array of a document; integers are exact."""
    table = document.arrays[name]
    numbers, dtype = elements_of(table), table.dtype
    if dtype.name in INDEX_DTYPES:
        numbers, dtype = numbers.astype(np.int64), INT64
    sample = Sample.of(StoredTable(numbers, dtype))
    slack = 0.0 if is_integer else _LIBRARY_ERROR * float(np.abs(sample.reals()).max(initial=0))
    real, are_ids = REAL_DTYPES.get(dtype.name, FLOAT64), name.endswith("position_ids")
    return Numbers({name: sample}, real, slack=slack, are_ids=are_ids, is_whole=True)


def _others(
    request: TableRequest, inputs: Input, document: Document, name: str, have: Sample
) -> Iterator[Alternative]:
    """Yield the tables of requests with one mistaken setting, of those that have one."""
    fields = COMPOSITIONS[f"/{request.resource}"].parameters.model_fields
    for wrong, other in switched(request, fields, document.parameters):
        with suppress(PosrefError):
            changed = _composed(other, inputs)
            check_size(changed, have.values.size)
            if name in changed.arrays:
                yield wrong, other, _numbers(name, changed, is_integer=have.is_integer)
    want = _numbers(name, document, is_integer=have.is_integer)
    values = want.arrays[name].values
    if want.are_ids and values.ndim > 1 and values.shape[0] <= _MOST_AXES:
        for order in list(permutations(range(values.shape[0])))[1:]:
            moved = {"have": list(order), "want": sorted(order)}
            sample = replace(want.arrays[name], values=values[list(order)])
            wrong = mistake("sections-exchanged", None, moved, variant="ids")
            yield wrong, request, replace(want, arrays={name: sample})
