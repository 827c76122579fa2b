"""The numbers of cases that are not rotary, evaluated a second time."""

import pytest

from service.conformance.expected import expectation
from tests.conformance.exact_tables import CASES, exact


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.id for case in CASES])
def test_every_number_is_within_the_bound_of_the_service(number: int) -> None:
    question = CASES[number].question
    want = exact(question)
    (got,) = expectation(question).arrays.values()

    assert got.shape == want.shape
    for truth, one in zip(want.flat, got.flat, strict=True):
        assert abs(truth.value - float(one)) <= truth.bound
