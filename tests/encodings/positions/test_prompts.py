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


@pytest.mark.parametrize("past", [0, 1, 7, 70_000, 140_001])
def test_the_warning_counts_the_tokens_of_the_answer_that_differ(past: int) -> None:
    rows = [[{"text": 1}, {"video": [140_000, 2, 4], "seconds_per_grid": 0.01}, {"text": 1}]]
    body = {"convention": "qwen2_5_vl", "rows": rows, "past_length": past}
    documents = [
        PositionIds.model_validate({**body, "rules": rules}).document({})
        for rules in ("transformers-5", "transformers-4", "vllm")
    ]
    tables = [each.arrays["position_ids"] for each in documents]
    ids, four, vllm = (each.read(0, prod(each.shape)).reshape(3, -1) for each in tables)

    (warning,) = documents[0].warnings
    assert f"transformers-4: {(ids != four).any(axis=0).sum()} tokens" in warning.detail
    assert f"vllm: {(ids != vllm).any(axis=0).sum()} tokens" in warning.detail


def test_the_warning_says_that_later_frames_are_not_compared(client: Client) -> None:
    for seconds, text in ((0.01, "vllm: at least"), (1, "vllm: unknown behind 1048576 frames")):
        row = [{"video": [2**21, 2, 2], "seconds_per_grid": seconds}]
        answer = posted(client, convention="qwen2_5_vl", rows=[row], part="rope_deltas")

        assert text in answer["warnings"][0]["detail"]


def test_media_of_too_many_parts_are_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.encodings.positions.multimodal._MAX_PIECES", 25)
    medium = {"video": [9, 2, 2], "audio": 90, "seconds_per_grid": 0.1}
    rows = [[medium], [medium, medium]]
    body = {"convention": "qwen3_omni", "padding_side": "left", "rows": rows}

    response = client.post("/positions", json=body)

    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/rows/1/1"


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
        ({"convention": "qwen2_vl", "rows": [[{"text": 1}]], "tokens": "image:9"}, "tokens"),
        ({"convention": "qwen2_vl", "token_types": [[0]], "tokens": "pad:9"}, "tokens"),
        ({"convention": "qwen2_vl", "rows": []}, "rows"),
        *(
            ({"convention": name, "input_ids": [[1, 2]], **sent, "tokens": tokens}, "tokens")
            for name, sent, tokens in (
                ("qwen2_vl", {}, "audio:9"),
                ("qwen2_vl", {}, "vision_start:9"),
                ("qwen2_vl", {"token_types": [[0, 0]]}, "image:9"),
                ("qwen2_vl", {"attention_mask": [[1, 0]]}, "pad:2"),
                ("glm_image", {}, "image:9"),
                ("minicpmv4_7", {"token_types": [[0, 0]]}, "audio_start:9"),
                ("v2pe", {"delta": 1}, "video:9"),
            )
        ),
        *(
            (
                {
                    "convention": "qwen3_vl",
                    "input_ids": [ids],
                    "tokens": {"video": 9},
                    "video_grids": grids,
                },
                where,
            )
            for ids, grids, where in (
                ([1, 9, 9, 9, 9, 2], [[1, 4, 4], [2, 4, 4]], "/video_grids/1"),
                ([1, 9, 9, 9, 9, 2, 9, 9, 9, 9], [[2, 4, 4]] * 2, "/video_grids/1"),
                ([1, 9, 9, 9, 9, 2], [[2, 4, 4]] * 2, "/video_grids/0"),
                ([1, 9, 9, 9, 9, 2], [[3, 2, 2]], "/input_ids/0/1"),
            )
        ),
        ({"convention": "glm_image", "rows": [[{"generate": [2, 2]}, {"text": 2}]]}, "/rows/0/0"),
        (
            {
                "convention": "glm_image",
                "rows": [[{"text": 1}], [{"generate": [2, 2]}, {"pad": 1}, {"image": [1, 1, 1]}]],
            },
            "/rows/1/0",
        ),
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


@pytest.mark.parametrize(("model", "convention"), [("glm4v", "qwen3_vl"), ("minicpmv", "buckets")])
def test_a_model_type_is_refused_with_its_convention(
    client: Client, model: str, convention: str
) -> None:
    response = client.post("/positions", json={"convention": model, "rows": [[{"text": 1}]]})

    assert response.status_code == 422
    assert f"did you mean convention={convention}?" in response.json()["detail"]


def test_the_key_of_a_config_is_refused_with_the_parameter(client: Client) -> None:
    body = {"convention": "qwen2_vl", "rows": [[{"text": 1}]], "image_token_id": 151655}

    response = client.post("/positions", json=body)

    assert response.status_code == 422
    assert "tokens=image:151655" in response.json()["detail"]


def test_the_seconds_of_an_omni_processor_have_its_name(client: Client) -> None:
    body = {
        "convention": "qwen2_5_omni",
        "token_types": [[0, 2, 2, 0]],
        "video_grid_thw": [[2, 2, 2]],
        "part": "position_ids",
    }
    answers = [
        client.post("/positions", json={**body, name: [0.5]}).json()
        for name in ("video_second_per_grid", "seconds_per_grid")
    ]

    assert answers[0]["data"] == answers[1]["data"]


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


_IMAGE, _MARKED = {"image": [1, 2, 2]}, {"vision_start": 1, "vision_end": 2, "slice_start": 3}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"convention": "minicpmv4_7", "rows": [[{"image": [1, 7, 8]}]]}, "/rows/0/0"),
        ({"convention": "minicpmv4_7", "rows": [[{"image": [2, 8, 8]}]]}, "/rows/0/0"),
        ({"convention": "minicpmv4_7", "input_ids": [[5]]}, "/token_types"),
        (
            {
                "convention": "minicpmv4_7",
                "input_ids": [[5, 5]],
                "token_types": [[0, 1]],
                "image_sizes": [[4, 4]],
                "tokens": {**_MARKED, "slice_end": 4, "newline": 6},
            },
            "/input_ids/0/1",
        ),
        ({"convention": "minicpmv4_7", "input_ids": [[5]], "token_types": [[1]]}, "tokens"),
        ({"convention": "qwen2_vl", "token_types": [[1]], "image_grids": [[2, 2]]}, "/image_grids"),
        (
            {"convention": "qwen2_vl", "token_types": [[1]], "image_grids": [[1, 2, 2]] * 16385},
            "/image_grids",
        ),
        ({"convention": "qwen2_vl", "token_types": [[0, 1] * 8193]}, "/input_ids"),
        (
            {"convention": "qwen3_vl", "token_types": [[2]], "video_grids": [[16385, 2, 2]]},
            "/video_grids",
        ),
        (
            {"convention": "qwen2_vl", "attention_mask": [[1]], "image_grids": [[1, 2, 2]]},
            "/input_ids",
        ),
        ({"convention": "qwen2_vl", "input_ids": [[1]], "image_grids": [[1, 2, 2]]}, "tokens"),
        ({"convention": "keye", "rows": [[_IMAGE]], "rules": "transformers-5"}, "rules"),
        (
            {
                "convention": "qwen2_5_vl",
                "rows": [[{"video": [2**31, 2, 2], "seconds_per_grid": 1e6}]],
            },
            "/rows/0/0",
        ),
        ({"convention": "qwen3_vl", "rows": [[{"video": [2, 2, 2]}]]}, "/rows/0/0"),
        ({"convention": "ernie4_5_vl", "rows": [[{"video": [3, 2, 2]}]]}, "/rows/0/0"),
        ({"convention": "qwen2_5_omni", "rows": [[{"audio": 1}]]}, "/rows/0/0"),
        (
            {"convention": "qwen2_5_omni", "rows": [[_IMAGE]], "use_audio_in_video": True},
            "use_audio_in_video",
        ),
        (
            {
                "convention": "qwen2_5_omni",
                "rows": [
                    [
                        {"video": [1, 2, 2], "seconds_per_grid": 1, **audio}
                        for audio in ({}, {"audio": 90})
                    ]
                ],
            },
            "/rows",
        ),
        (
            {
                "convention": "qwen2_5_omni",
                "tokens_per_second": 10**6,
                "rows": [[{"video": [2**31, 2, 2], "seconds_per_grid": 1e6}]],
            },
            "/rows/0/0",
        ),
        ({"convention": "hunyuan_vl", "rows": [[{"image": [2, 2, 2]}]]}, "/rows/0/0"),
        (
            {"convention": "glm_image", "input_ids": [[1], [1]], "image_grids": [[1, 1, 1]] * 2},
            "/images_per_sample",
        ),
        ({"convention": "qwen2_vl", "rows": [[{"image": [1, 2]}]]}, "/rows/0/0/image"),
        (
            {
                "convention": "minicpmv4_7",
                "rows": [[{"image": [1, 8, 8], "slices": [[[8, 8]], [[8, 8], [8, 8]]]}]],
            },
            "/rows/0/0",
        ),
        ({"convention": "qwen2_vl", "rows": [{"text": 1}]}, "rows"),
        ({"convention": "qwen2_vl", "rows": [[{"text": 1}] * 2**14]}, "rows"),
        ({"convention": "qwen2_vl", "input_ids": [[1]], "tokens": "image:1,image:2"}, "tokens"),
        ({"convention": "mask", "rows": [[{"text": 1}]], "input_ids": [[1]]}, "/input_ids"),
        ({"convention": "mask", "attention_mask": [[1]], "padding_side": "left"}, "padding_side"),
        (
            {"convention": "mask", "input_ids": [[1]], "attention_mask": [[1, 1]]},
            "/input_ids",
        ),
        ({"convention": "mask"}, "/rows"),
        ({"convention": "mask", "rows": [[{"text": 1}]], "length": 2}, "length"),
        (
            {"convention": "mask", "rows": [[{"text": 3}]], "length": 2, "padding_side": "left"},
            "/rows/0",
        ),
        ({"convention": "mask", "rows": [[]]}, "/rows"),
        ({"convention": "mask", "rows": [[{"text": 2**62}, {"text": 1}]]}, "/rows"),
        ({"convention": "mask", "rows": [[{"text": 2}]], "past_length": 2}, "past_length"),
    ],
)
def test_what_no_prompt_has_is_refused_at_its_place(
    client: Client, body: dict[str, Any], where: str
) -> None:
    response = client.post("/positions", json=body)

    assert response.status_code == 422, response.text
    fault = response.json()["errors"][0]
    assert fault.get("pointer", fault.get("parameter")) == where
