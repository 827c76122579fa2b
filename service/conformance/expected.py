"""The expectation of any question: its exact numbers, and the tolerance of its resource."""

from collections.abc import Mapping

import numpy as np

from service.conformance.expectations import other_numbers, sinusoids, turned_axes, turned_tables
from service.conformance.questions import Question, arrays_of
from service.conformance.tolerance import UNIT, Errors, Expectation, Expected, rounded_up
from service.errors import Fault, InvalidParameters

_EXPECTED: Mapping[str, Expected] = {
    **turned_tables.EXPECTED,
    **turned_axes.EXPECTED,
    **sinusoids.EXPECTED,
    **other_numbers.EXPECTED,
}
_ERRORS: Mapping[str, Errors] = {**sinusoids.ERRORS, **other_numbers.ERRORS}
# Numbers of an array that is sent, in another order.
_COPIES = (
    "/relative/t5/bias",
    "/relative/swin/bias",
    "/relative/shaw/embeddings",
    "/relative/transformer-xl/shift",
)


def expectation(question: Question) -> Expectation:
    """Return the exact numbers of a question and their tolerance; raises PosrefError.

    A resource without a tolerance of its own has integers, or copies, which are exact.
    """
    resource = question.resource
    if resource in _EXPECTED:
        return _EXPECTED[resource](question)
    arrays = arrays_of(question.request)
    if question.kind == "positions":
        return Expectation({"position_ids": arrays["position_ids"]})
    if resource in _COPIES:
        return Expectation(arrays)
    numbers = next(iter(arrays.values()))
    if resource in _ERRORS:
        size = np.abs(numbers.astype(np.float64))
        errors = _ERRORS[resource](question.parameters, size)
        return Expectation(arrays, rounded_up(errors * UNIT))
    if len(arrays) > 1 or numbers.dtype.kind != "i":
        rule = f"the suite has no tolerance for the numbers of {resource}"
        raise InvalidParameters(Fault(None, None, rule))
    return Expectation({"array": numbers})
