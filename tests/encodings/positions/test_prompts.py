"""Promises of prompts with media that no library can show: refusals, rules, sizes and forms."""

from math import prod
from typing import Any

import numpy as np
import pytest

from service.encodings.positions.position_ids import CONVENTIONS, PositionIds
from service.numerics.dtypes import FLOAT64, INT64
from service.numerics.tables import StoredTable
from tests.client import Client

VIDEO = [[{"text": 1}, {"video": [3, 4, 4], "seconds_per_grid": 1.5}, {"text": 2}]]


def posted(client: Client, **body: Any) -> dict[str, Any]:
    response = client.post("/positions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize(
    ("rules", "times", "delta"),
    [
        ("transformers-5", [0, 1, 1, 1, 1, 4, 4, 4, 4, 7, 7, 7, 7, 3, 4], -7),
        ("transformers-4", [0, 1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 6, 7], -7),
        ("vllm", [0, 1, 1, 1, 1, 4, 4, 4, 4, 7, 7, 7, 7, 8, 9], -5),
    ],
)
def test_rules_choose_the_library_and_a_warning_counts_the_tokens_that_differ(
    client: Client, rules: str, times: list[int], delta: int
) -> None:
    answer = posted(client, convention="qwen2_5_vl", rules=rules, rows=VIDEO)

    assert answer["data"]["position_ids"][0] == [times]
    assert answer["data"]["rope_deltas"] == [[delta]]
    (warning,) = answer["warnings"]
    assert warning["code"] == "libraries-differ"
    if rules == "transformers-5":
        assert "transformers-4: 10 tokens; vllm: 2 tokens" in warning["detail"]


def test_ids_of_qwen3_omni_stay_fractions_behind_a_video(client: Client) -> None:
    rows = [[{"text": 2}, {"video": [2, 4, 4], "seconds_per_grid": 0.75}, {"text": 2}]]

    answer = posted(client, convention="qwen3_omni", rows=rows, steps=2)

    assert answer["dtypes"]["position_ids"] == "float32"
    expected = [0, 1, 2, 2, 2, 2, 11.75, 11.75, 11.75, 11.75, 12.75, 13.75]
    assert answer["data"]["position_ids"][0] == [expected]
    assert answer["data"]["rope_deltas"] == [[2.75]]
    assert answer["data"]["decode_position_ids"][0] == [[14.75, 15.75]]


def test_padding_and_chunks_leave_the_ids_of_tokens_as_they_are(client: Client) -> None:
    rows = [[{"text": 2}, {"image": [1, 4, 6]}, {"text": 2}], [{"text": 6}]]
    whole = posted(client, convention="qwen2_vl", rows=rows, padding_side="left", length=12)

    later = posted(
        client, convention="qwen2_vl", rows=rows, padding_side="left", length=12, past_length=5
    )

    ids = np.array(whole["data"]["position_ids"])
    assert ids.shape == (3, 2, 12)
    assert (ids[:, :, 5:] == later["data"]["position_ids"]).all()
    assert whole["data"]["attention_mask"][1] == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"convention": "qwen2_vl", "rows": [[{"text": 1}, {"image": [1, 3, 4]}]]}, "/rows/0/1"),
        (
            {"convention": "qwen2_vl", "rows": [[{"video": [2, 4, 4], "timestamps": [1, 1]}]]},
            "/rows/0/0/timestamps",
        ),
        (
            {"convention": "qwen3_vl", "rows": [[{"video": [2, 4, 4], "timestamps": [1]}]]},
            "/rows/0/0",
        ),
        ({"convention": "qwen2_vl", "rows": [[{"text": 1}], [{"text": 2}]]}, "/rows/1"),
        ({"convention": "qwen2_vl", "rows": [[{"audio": 5}]]}, "/rows/0/0"),
        ({"convention": "qwen2_vl", "rows": [[{"text": 1, "pad": 1}]]}, "/rows/0/0"),
        ({"convention": "qwen2_vl", "rows": [[{"image": [1, -4, 4]}]]}, "/rows/0/0/image"),
        ({"convention": "qwen2_vl", "rows": [[{"text": 1}, {"pad": 1}]], "rules": "vllm"}, "rules"),
        ({"convention": "minicpmv4_7", "rows": [[{"text": 1, "markers": 1}]]}, "/rows/0/0"),
        ({"convention": "qwen2_vl", "rows": [[{"text": 1}]], "tokens": 5}, "tokens"),
        ({"convention": "glm_image", "rows": [[{"text": 1}]], "steps": 1}, "steps"),
        (
            {
                "convention": "qwen2_vl",
                "input_ids": [[5, 9, 9, 7]],
                "attention_mask": [[1, 1, 0, 1]],
                "image_grids": [[1, 2, 4]],
                "tokens": {"image": 9},
            },
            "/input_ids/0/1",
        ),
        (
            {
                "convention": "qwen2_vl",
                "input_ids": [[5, 9, 9, 7]],
                "image_grids": [[1, 2, 4], [1, 2, 2]],
                "tokens": {"image": 9},
            },
            "/image_grids/1",
        ),
        (
            {
                "convention": "qwen2_vl",
                "input_ids": [[5, 9]],
                "tokens": {"image": 9, "video": 9},
            },
            "tokens",
        ),
        (
            {
                "convention": "qwen2_5_vl",
                "input_ids": [[9]],
                "video_grids": [[1, 2, 2]],
                "seconds_per_grid": [-1.5],
                "tokens": {"video": 9},
            },
            "/seconds_per_grid/0",
        ),
        (
            {"convention": "qwen2_5_omni", "rows": [[{"video": [2, 4, 4]}]]},
            "/rows/0/0",
        ),
    ],
)
def test_a_problem_names_the_segment_or_the_token(
    client: Client, body: dict[str, Any], where: str
) -> None:
    response = client.post("/positions", json=body)

    assert response.status_code == 422, response.text
    (fault,) = response.json()["errors"]
    assert fault.get("pointer", fault.get("parameter")) == where


@pytest.mark.parametrize(
    "rows", [[[{"text": 10**12}]], [[{"video": [2**20, 2**12, 2**12]}]]], ids=["text", "video"]
)
def test_more_ids_than_the_limit_are_refused_before_any_is_computed(
    client: Client, rows: list[list[Any]]
) -> None:
    for extension in ("", ".safetensors"):
        body = {"convention": "qwen2_vl", "rows": rows, "part": "position_ids"}

        assert client.post(f"/positions{extension}", json=body).status_code == 413


def test_a_model_type_is_refused_with_its_convention(client: Client) -> None:
    response = client.post("/positions", json={"convention": "glm4v", "rows": [[{"text": 1}]]})

    assert response.status_code == 422
    assert "did you mean convention=qwen3_vl?" in response.json()["detail"]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_any_range_of_ids_has_the_numbers_of_the_whole(name: str) -> None:
    convention = CONVENTIONS[name]
    known = {array.name: array for array in convention.inputs}
    arrays = {
        key: StoredTable(np.array(value, "<i8" if known[key].is_integer else "<f8"), dtype)
        for key, value in convention.example.items()
        if key in known
        for dtype in [INT64 if known[key].is_integer else FLOAT64]
    }
    parameters = {key: value for key, value in convention.example.items() if key not in known}
    family = PositionIds.model_validate({"convention": name, **parameters})

    for table in family.document(arrays).arrays.values():
        whole, count = table.read(0, prod(table.shape)), prod(table.shape)
        for start in range(count):
            part = table.read(start, min(start + 3, count))
            assert (part == whole[start : start + 3]).all()
