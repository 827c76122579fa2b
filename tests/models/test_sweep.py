"""A sample of the sweep: configs with the frequencies that transformers computes for them."""

import json
from typing import Any

import pytest

from tests.models.sweep import SAMPLE, outcome

CASES = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
REFUSED = {"glm4_moe", "glm4v_moe_text", "qwen3_omni_moe_text", "jetmoe"}
"""Types whose default heads have an odd number of channels, or a width that no key says."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['class']} {case['change']}")
def test_settings_give_the_frequencies_of_the_library(case: dict[str, Any]) -> None:
    found, details = outcome(case)

    refused = case["config"]["model_type"] in REFUSED
    assert found in {"right", "right with warning", *(["refused"] if refused else [])}, details


def test_the_sample_has_every_rule_and_many_types() -> None:
    rules = {name for case in CASES for name in case["change"].replace(",", "").split()}

    assert {"linear", "dynamic", "yarn", "llama3", "longrope", "proportional", "base"} <= rules
    assert len({case["config"]["model_type"] for case in CASES}) > 150
