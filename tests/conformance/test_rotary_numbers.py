"""The numbers of rotary cases, evaluated a second time."""

import numpy as np
import pytest

from tests.conformance.rotary_cases import CASES, exact, query_of, right
from tests.parity.exact_rotary import ExactRotary

_NUMBERS = range(len(CASES))
_IDS = [case.id for case in CASES]


@pytest.mark.parametrize("number", _NUMBERS, ids=_IDS)
def test_every_number_is_within_the_bound_of_the_service(number: int) -> None:
    for name, truths in exact(CASES[number].question).items():
        got = right(number).arrays[name]
        assert got.shape == truths.shape
        apart = [
            abs(float(truth.value - float(one))) / (truth.bound or 2.0**-1074)
            for truth, one in zip(truths.flat, got.flat, strict=True)
        ]
        assert max(apart) <= 1


@pytest.mark.parametrize("number", _NUMBERS, ids=_IDS)
def test_frequencies_of_a_case_are_exact(number: int) -> None:
    question, details = CASES[number].question, right(number).details
    if details is None or "attention_factor" not in details:
        return
    found = ExactRotary().tables("/rope/frequencies", query_of(question))
    for name in ("inv_freq", "attention_factor"):
        wants = np.atleast_1d(np.array([float(each) for each in found[name].flat]))
        assert np.allclose(np.atleast_1d(details[name]), wants, rtol=2.0**-52, atol=0)


@pytest.mark.parametrize("number", _NUMBERS, ids=_IDS)
def test_exact_numbers_pass_in_float64(number: int) -> None:
    arrays = {
        name: np.array([float(truth) for truth in truths.flat]).reshape(truths.shape)
        for name, truths in exact(CASES[number].question).items()
    }

    assert right(number).distances(arrays, "float64").max() <= 1
