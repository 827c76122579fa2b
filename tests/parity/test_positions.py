"""The service returns the positions, rotations with them and resized tables of libraries."""

import re

import numpy as np
import pytest

from tests.client import Client
from tests.parity.backend import Service
from tests.parity.golden import Array, Case, positions_folder, read_cases
from tests.parity.positions import MAPPINGS
from tests.parity.resizes import operator_of

CASES = read_cases(positions_folder())

# A measured error has three digits, and is not the largest that the library can have.
_MARGIN = 1.5
_FLOAT32 = 2.0**-22
# The tolerance in words: within 1e-12; within 2^-23 relative; 1e-4 relative to the largest value.
_STATED = re.compile(r"(1e-|2\^-)(\d+)( relative(?: to the largest value)?)?")


def test_every_family_has_a_mapping() -> None:
    assert {_key(case) for case in CASES} <= set(MAPPINGS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_form_of_a_request_gives_what_the_library_gives(case: Case, client: Client) -> None:
    first, *others = MAPPINGS[_key(case)](case, Service(client))

    is_operator = _key(case) == "resize.gather_operator"
    expected = dict(operator_of(case) if is_operator else case.outputs)
    if case.has_defect:
        expected = dict.fromkeys(expected.keys() - {"exact"}, expected["exact"])
    assert set(first) == set(expected)
    for name, right in expected.items():
        found = first[name]
        assert found.shape == right.shape, name
        if case.tolerance.get("note") == "Integers: exact.":
            assert (found == right).all(), name
        else:
            error = np.abs(found - right) - _limit(case, np.abs(right))
            assert not right.size or error.max() <= 0, f"{name}: {error.max():.3g} too far"
    for other in others:
        assert set(other) == set(first)
        for name, array in first.items():
            assert other[name].dtype == array.dtype, name
            assert other[name].shape == array.shape, name
            assert other[name].tobytes() == array.tobytes(), name


def _key(case: Case) -> str:
    return f"{case.group}.{case.family}"


def _limit(case: Case, size: Array) -> Array:
    """Return the tolerated error of the elements of an output, given their absolute values."""
    if np.issubdtype(size.dtype, np.integer):
        return np.zeros(size.shape)
    atol = case.tolerance.get("suggested_atol_against_exact")
    if atol is not None:
        return np.full(size.shape, float(atol))
    stated = _STATED.findall(case.tolerance.get("note", ""))
    if not stated:
        measured = _MARGIN * case.tolerance.get("error_vs_exact_of_dense_operator", 0.0)
        return np.asarray(np.maximum(_FLOAT32 * size, measured))
    base, exponent, of = stated[-1]
    bound = (10.0 if base == "1e-" else 2.0) ** -int(exponent)
    largest = size.max(initial=0.0)
    return np.asarray(bound * {"": np.ones(size.shape), " relative": size}.get(of, largest))
