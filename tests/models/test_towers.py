"""A sample of what ``tests.models.sweep_towers`` compares."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client import Client
from tests.models.sweep_towers import outcome

SAMPLE = Path(__file__).parents[1] / "data" / "library_towers.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in SAMPLE.read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[each["config"]["model_type"] for each in CASES])
def test_tables_of_towers_are_those_of_the_library(client: Client, case: dict[str, Any]) -> None:
    assert outcome(client, case) == ("right", "")


def test_another_base_is_not_right(client: Client) -> None:
    case = next(each for each in CASES if "spatial_merge_size" not in each["asks"])
    changed = {**case, "cos": [[-value for value in row] for row in case["cos"]]}

    assert outcome(client, changed)[0] == "wrong"
