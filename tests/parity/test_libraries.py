"""The service returns the numbers of libraries, and returns them exactly."""

import numpy as np
import pytest

from tests.client import Client
from tests.parity import transformers_rotary
from tests.parity.backend import Service
from tests.parity.exact import Exact
from tests.parity.golden import Array, Case, golden_folder, read_cases
from tests.parity.mappings import MAPPINGS, NETWORK_OUTPUTS

CASES = read_cases(golden_folder())
OWN_FREQUENCIES = [
    case for case in CASES if "inv_freq" in case.outputs and case.family.startswith("hf_")
]

# A measured error has three digits, and is not the largest that the library can have.
_MARGIN = 1.5
_FLOAT32 = 2.0**-22

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def test_every_family_has_a_mapping() -> None:
    assert {case.family for case in CASES} <= set(MAPPINGS)


@every_case
def test_library_output_is_reproduced_within_its_own_error(case: Case, client: Client) -> None:
    found = MAPPINGS[case.family](case, Service(client))

    outputs = set(case.outputs) - NETWORK_OUTPUTS.get(case.family, frozenset())
    assert set(found) == outputs
    for name in sorted(outputs):
        expected = case.outputs[name]
        assert found[name].shape == expected.shape, name
        if np.issubdtype(expected.dtype, np.integer):
            assert (found[name] == expected).all(), name
        else:
            _assert_near(case, name, found[name], expected)


@every_case
def test_answer_equals_an_independent_evaluation_of_the_request(case: Case, client: Client) -> None:
    mapping = MAPPINGS[case.family]

    found, exact = mapping(case, Service(client)), mapping(case, Exact())

    for name, expected in exact.items():
        assert found[name].shape == expected.shape, name
        pairs = zip(found[name].reshape(-1).tolist(), expected.flat, strict=True)
        far = [(got, truth) for got, truth in pairs if abs(got - truth.value) > truth.bound]
        assert not far, f"{name}: {far[:3]}"


@pytest.mark.parametrize("case", OWN_FREQUENCIES, ids=lambda case: case.id)
def test_own_float32_frequencies_of_a_library_give_its_table_within_two_units(
    case: Case, client: Client
) -> None:
    found = transformers_rotary.from_own_frequencies(case, Service(client))

    for name in ("cos", "sin"):
        units = np.abs(found[name] - case.outputs[name]) / np.spacing(np.abs(found[name]))
        assert units.max() <= 2, f"{name}: {units.max()} units"


def _assert_near(case: Case, name: str, found: Array, expected: Array) -> None:
    error, size = np.abs(found - expected), np.abs(expected)
    atol = case.atol.get(name)
    limit = np.full(error.shape, np.inf if atol is None else atol)
    if name in case.relative_error:
        limit = np.minimum(limit, _MARGIN * case.relative_error[name] * size)
    elif atol is None:
        limit = _FLOAT32 * size
    assert (error - limit).max() <= 0, f"{name}: {error.max():.3g} away, tolerance {atol}"
