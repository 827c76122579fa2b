"""The numbers of cases that are not rotary, evaluated a second time."""

import pytest

from service.conformance.expected import expectation
from service.conformance.suite import text_of
from tests.conformance.exact_tables import CASES, FILES, exact


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.id for case in CASES])
def test_every_number_is_within_the_bound_of_the_service(number: int) -> None:
    question = CASES[number].question
    want = exact(question)
    (got,) = expectation(question).arrays.values()

    assert got.shape == want.shape
    for truth, one in zip(want.flat, got.flat, strict=True):
        assert abs(truth.value - float(one)) <= truth.bound


def test_a_hundred_cases_take_at_most_350_kilobytes() -> None:
    texts = [text_of(file) for file in FILES]

    assert len(CASES) >= 100
    assert sum(len(text.encode()) for text in texts) <= 350_000
