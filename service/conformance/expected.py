"""The expectation of any question: its exact numbers, and the tolerance of its resource."""

from collections.abc import Mapping

from service.conformance.expectations import (
    biases,
    made_of_arrays,
    sinusoids,
    turned_axes,
    turned_tables,
)
from service.conformance.questions import Question, arrays_of
from service.conformance.tolerance import Expectation, Expected
from service.errors import Fault, InvalidParameters

_BY_RESOURCE: Mapping[str, Expected] = {
    **turned_tables.EXPECTED,
    **turned_axes.EXPECTED,
    **sinusoids.EXPECTED,
    **made_of_arrays.EXPECTED,
    **biases.EXPECTED,
}


def expectation(question: Question) -> Expectation:
    """Return the exact numbers of a question and their tolerance; raises PosrefError.

    A resource without an entry of its own has integers, which are exact.
    """
    find = _BY_RESOURCE.get(question.resource)
    return _integers(question) if find is None else find(question)


def _integers(question: Question) -> Expectation:
    arrays = arrays_of(question.request)
    if len(arrays) > 1 or any(each.dtype.kind != "i" for each in arrays.values()):
        rule = f"the suite has no tolerance for the numbers of {question.resource}"
        raise InvalidParameters(Fault(None, None, rule))
    return Expectation({"array": next(iter(arrays.values()))})
