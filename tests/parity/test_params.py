"""A case with something that its mapping does not know is an error, not a pass."""

from dataclasses import replace
from typing import Any

import pytest

from tests.client import Client
from tests.parity.backend import Service
from tests.parity.golden import Case, golden_folder, read_cases
from tests.parity.mappings import MAPPINGS
from tests.parity.params import NotUnderstoodError, Params
from tests.parity.transformers_rotary import rule_query

FIRST_OF_FAMILIES = list({case.family: case for case in read_cases(golden_folder())}.values())


@pytest.mark.parametrize("case", FIRST_OF_FAMILIES, ids=lambda case: case.family)
def test_unknown_parameter_is_an_error(case: Case, client: Client) -> None:
    unknown = replace(case, params={**case.params, "unheard_of": 1})

    with pytest.raises(NotUnderstoodError, match="unheard_of"):
        MAPPINGS[case.family](unknown, Service(client))


def test_missing_parameter_has_the_default_of_the_library() -> None:
    query = Params({"theta": None, "n_pos": 3, "dtype": "float32"}).query(
        "dtype", rope_theta=("theta", 10000.0), seq_len="num_positions|n_pos", scale=("scale", None)
    )

    assert query == {"rope_theta": 10000.0, "seq_len": 3}


@pytest.mark.parametrize("values", [{}, {"dim": None}])
def test_parameter_without_a_default_is_required(values: dict[str, Any]) -> None:
    with pytest.raises(NotUnderstoodError, match="dim"):
        Params(values).query(d_model="dim")


def test_library_value_that_no_request_can_express_is_an_error() -> None:
    with pytest.raises(NotUnderstoodError, match="freqs_for = 'pixel'"):
        Params({"freqs_for": "pixel"}).only("freqs_for", "lang")


def test_a_factor_of_null_is_that_of_both_lengths() -> None:
    yarn = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 1024}
    query = rule_query({**yarn, "rope_theta": 1e4}, 7, Params({"max_position_embeddings": 4096}))

    assert query["max_position_embeddings"] == 4096
    assert "factor" not in query
