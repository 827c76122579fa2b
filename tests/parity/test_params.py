"""A case that a mapping does not understand is no case that passes."""

from dataclasses import replace
from typing import Any

import pytest

from tests.client import Client
from tests.parity.asking import Service
from tests.parity.golden import Case, golden_folder, read_cases
from tests.parity.mappings import MAPPINGS
from tests.parity.params import NotUnderstoodError, Params

FIRST_OF_FAMILIES = list(
    {case.family: case for case in read_cases(golden_folder()) if case.family in MAPPINGS}.values()
)


@pytest.mark.parametrize("case", FIRST_OF_FAMILIES, ids=lambda case: case.family)
def test_a_parameter_that_no_mapping_knows_is_named(case: Case, client: Client) -> None:
    stranger = replace(case, params={**case.params, "unheard_of": 1})

    with pytest.raises(NotUnderstoodError, match="unheard_of"):
        MAPPINGS[case.family](stranger, Service(client))


def test_a_parameter_that_is_missing_takes_the_default_of_the_library() -> None:
    params = Params({"theta": None})

    assert params.take("theta", 10000.0) == 10000.0
    assert params.take("linear_factor", 1.0) == 1.0
    params.finish()


@pytest.mark.parametrize("values", [{}, {"dim": None}])
def test_a_parameter_without_a_default_is_required(values: dict[str, Any]) -> None:
    with pytest.raises(NotUnderstoodError, match="dim"):
        Params(values).require("dim")


def test_a_value_that_has_no_request_is_named() -> None:
    with pytest.raises(NotUnderstoodError, match="freqs_for = 'pixel'"):
        Params({"freqs_for": "pixel"}).only("freqs_for", "lang")
