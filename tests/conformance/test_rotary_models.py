"""Cases of configs ask for the table that /rope/config links to."""

from typing import Any

import numpy as np
import pytest

from service.conformance.questions import Question
from tests.client import Client
from tests.conformance.rotary_cases import CASES, right

_MODELS = [number for number, case in enumerate(CASES) if case.question.kind == "model"]


def entry_of(client: Client, question: Question) -> Any:
    """Return the settings that the service finds for the layers of a question."""
    length = question.parameters.get("context_length")
    params = {} if length is None else {"context_length": length}
    report = client.post("/rope/config", json=question.parameters["config"], params=params).json()
    label = question.parameters.get("layer_type", next(iter(report["rope"])))
    return report["rope"][label]


@pytest.mark.parametrize("number", _MODELS, ids=[CASES[each].id for each in _MODELS])
def test_a_config_has_the_frequencies_of_the_linked_table(client: Client, number: int) -> None:
    entry, details = entry_of(client, CASES[number].question), right(number).details
    found = client.get(entry["frequencies"]).json()["data"]

    assert details is not None
    assert np.array_equal(found["inv_freq"], details["inv_freq"])
    assert found["attention_factor"] == [details["attention_factor"]]


@pytest.mark.parametrize("number", _MODELS, ids=[CASES[each].id for each in _MODELS])
def test_the_request_of_a_config_is_a_get_of_its_numbers(client: Client, number: int) -> None:
    request = CASES[number].question.request
    found = client.get(request.url).json()["data"]

    assert request.method == "GET"
    for name, numbers in right(number).arrays.items():
        assert np.array_equal(found[name], numbers)


def test_each_layer_type_of_a_config_has_a_table_of_its_own() -> None:
    gemma = next(CASES[each].question for each in _MODELS if CASES[each].question.layer_types[1:])
    tables = {name: gemma.changed(layer_type=name).as_table for name in gemma.layer_types}

    assert tables["sliding_attention"] != tables["full_attention"]


def test_the_last_position_of_a_case_is_that_of_its_length() -> None:
    """Some take the length from the positions, others from the config: both are right."""
    for case in CASES:
        length = case.question.parameters.get("context_length")
        if length is not None:
            assert case.question.positions is not None
            assert max(case.question.positions) == length - 1, case.id
