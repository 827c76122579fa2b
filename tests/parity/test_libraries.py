"""What libraries compute is what the service answers, and what it answers is exact."""

import numpy as np
import pytest

from tests.client import Client
from tests.parity import rotary_hf
from tests.parity.asking import Service
from tests.parity.exact import Exact
from tests.parity.golden import Array, Case, golden_folder, read_cases
from tests.parity.mappings import MAPPINGS, NETWORK_OUTPUTS, NOT_YET

CASES = read_cases(golden_folder())
ANSWERED = [case for case in CASES if case.family in MAPPINGS]
ENGINES = [case for case in CASES if "inv_freq" in case.outputs and case.family.startswith("hf_")]

# A measured error has three digits, and is not the largest that the library can make.
_MARGIN = 1.5
_FLOAT32 = 2.0**-22


def test_every_family_is_answered_or_listed_with_its_reason() -> None:
    families = {case.family for case in CASES}

    assert families <= {*MAPPINGS, *NOT_YET}
    assert not {*MAPPINGS} & {*NOT_YET}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_library_is_answered_within_its_own_error(case: Case, client: Client) -> None:
    if case.family in NOT_YET:
        pytest.skip(f"{case.family}: {NOT_YET[case.family]}")

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


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.id)
def test_an_answer_is_what_an_independent_evaluation_gives(case: Case, client: Client) -> None:
    mapping = MAPPINGS[case.family]

    found, exact = mapping(case, Service(client)), mapping(case, Exact())

    for name, expected in exact.items():
        assert found[name].shape == expected.shape, name
        pairs = zip(found[name].reshape(-1).tolist(), expected.flat, strict=True)
        far = [(got, truth) for got, truth in pairs if abs(got - truth.value) > truth.bound]
        assert not far, f"{name}: {far[:3]}"


@pytest.mark.parametrize("case", ENGINES, ids=lambda case: case.id)
def test_an_engine_is_met_to_the_last_digit(case: Case, client: Client) -> None:
    found = rotary_hf.of_its_own_frequencies(case, Service(client))

    for name in ("cos", "sin"):
        units = np.abs(found[name] - case.outputs[name]) / np.spacing(np.abs(found[name]))
        assert units.max() <= 2, f"{name}: {units.max()} units"


def _assert_near(case: Case, name: str, found: Array, expected: Array) -> None:
    away, size = np.abs(found - expected), np.abs(expected)
    atol = case.atol.get(name)
    limit = np.full(away.shape, np.inf) if atol is None else np.full(away.shape, atol)
    if name in case.relative_error:
        limit = np.minimum(limit, _MARGIN * case.relative_error[name] * size)
    elif atol is None:
        limit = _FLOAT32 * size
    worst = (away - limit).max()
    assert worst <= 0, f"{name}: {away.max():.3g} away, tolerance {atol}"
