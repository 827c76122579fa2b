"""A sample of the sweep: configs with the positions that transformers computes for them."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of
from tests.models.other_sweep import SAMPLE, outcomes

EXPECTED = np.load(SAMPLE)
CASES = json.loads(str(EXPECTED["cases"]))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with client_of(create_app(default_settings())) as client:
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_tables_and_shapes_are_those_of_the_library(client: Client, case: dict[str, Any]) -> None:
    found = list(outcomes(client, case, EXPECTED))

    assert [details for _, result, details in found if result == "wrong"] == []
    if "at" in case:
        assert {result for _, result, _ in found} == {"right"}


def test_the_sample_has_numbers_and_shapes_of_many_types() -> None:
    assert len({case["config"]["model_type"] for case in CASES}) > 80
    assert {"at" in case for case in CASES} == {True, False}
