"""Small bodies that ask for more than the limit are refused before anything is allocated."""

import json
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from service.app import create_app
from service.encodings.positions.position_ids import PositionIds
from service.numerics.dtypes import INT64
from service.numerics.tables import StoredTable
from service.settings import default_settings
from tests.client import Client, client_of

_FAR, _SIDE = 2**40, 2**20
_SQUARE = [1, _SIDE, _SIDE]
_VIDEO = {"video": [_SIDE, 1024, 1024]}

# What a request of a few tokens allocates, its answer included, is below a quarter of it.
_MOST_BYTES = 2**19

BODIES: Mapping[str, Mapping[str, Any]] = {
    "text": {"convention": "mask", "rows": [[{"text": _FAR}]]},
    "padding": {"convention": "mask", "rows": [[{"text": 1}]], "padding_side": "left"}
    | {"length": _FAR},
    "decoded tokens": {"convention": "arange", "rows": [[{"text": 1}]] * 40, "steps": _SIDE},
    "an image": {"convention": "qwen2_vl", "rows": [[{"image": _SQUARE}]]},
    "a video": {"convention": "qwen2_vl", "rows": [[_VIDEO]]},
    "a video with times": {
        "convention": "qwen2_5_vl",
        "rows": [[{**_VIDEO, "seconds_per_grid": 0.03}]],
    },
    "audio": {"convention": "qwen3_omni", "rows": [[{"audio": _FAR}]]},
    "newlines": {"convention": "hunyuan_vl", "rows": [[{"image": _SQUARE}]]},
    "a thumbnail": {"convention": "minicpmv4_7", "rows": [[{"image": _SQUARE}]]},
    "fractions": {"convention": "v2pe", "delta": 0.5, "rows": [[{"text": 1}, {"image": _SQUARE}]]},
    "generated": {
        "convention": "glm_image",
        "rows": [[{"text": 1}, {"generate": _SQUARE[1:]}]],
    },
    "patches": {"convention": "gemma4", "sizes": [_SQUARE[1:]]},
    "a canvas": {
        "convention": "buckets",
        "num_patches_per_side": 7,
        "sizes": [[2, 2]],
        "canvas": _SQUARE[1:],
    },
    "latents": {"convention": "wan", "grids": [_SQUARE]},
    "references": {"convention": "flux", "text": _FAR, "sizes": [_SQUARE[1:]] * 9},
}


@contextmanager
def allocated() -> Iterator[list[int]]:
    """Append the most bytes that were allocated at once."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield peaks
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


# Of files the limit is higher.
@pytest.mark.parametrize(
    ("name", "extension"),
    [*((name, "json") for name in BODIES), ("text", "safetensors"), ("an image", "safetensors")],
)
def test_more_ids_than_the_limit_are_refused_before_anything_is_allocated(
    client: Client, name: str, extension: str
) -> None:
    content = json.dumps(BODIES[name]).encode()
    headers = {"Content-Type": "application/json"}
    assert len(content) < 1000

    with allocated() as peaks:
        answer = client.post(f"/positions.{extension}", content=content, headers=headers)

    assert answer.status_code == 413, answer.text
    assert answer.json()["type"].endswith(":answer-too-large")
    assert peaks[0] < _MOST_BYTES


@pytest.mark.parametrize(
    ("convention", "video"),
    [
        ("qwen3_omni", {"video": [2**14 + 1, 2, 2], "seconds_per_grid": 1, "audio": 100}),
        ("qwen3_omni", {"video": [1, 2, 2], "seconds_per_grid": 1, "audio": 2**30}),
        ("qwen2_5_omni", {"video": [1, 2, 2], "seconds_per_grid": 1, "audio": 4_000_000}),
    ],
)
def test_videos_woven_of_too_many_parts_are_refused(
    client: Client, convention: str, video: dict[str, Any]
) -> None:
    body: dict[str, Any] = {"convention": convention, "rows": [[video]]}
    if convention == "qwen2_5_omni":
        body["seconds_per_chunk"] = 1

    assert client.post("/positions", json=body).status_code == 422


def test_frames_of_woven_videos_are_counted_in_the_whole_request(client: Client) -> None:
    video = {"video": [8192, 2, 2], "seconds_per_grid": 0.1, "audio": 20000}
    body = {"convention": "qwen3_omni", "rows": [[video]] * 2, "part": "rope_deltas"}

    assert client.post("/positions", json=body).status_code == 200
    body["rows"] = [[video, {"text": 1}, video, video]]
    answer = client.post("/positions", json=body)

    assert answer.status_code == 422
    assert "these are 24576" in answer.json()["detail"]


def test_decoded_tokens_of_many_rows_need_no_object_each() -> None:
    rows = StoredTable(np.ones((100_000, 1), dtype=np.int64), INT64)

    with allocated() as peaks:
        body = {"convention": "mask", "steps": 3}
        found = PositionIds.model_validate(body).resolve({"attention_mask": rows})

    assert found.arrays["decode_position_ids"].read(9, 12).tolist() == [1, 2, 3]
    assert peaks[0] < 2**23


@pytest.mark.parametrize(
    "query",
    [
        "mode=bicubic&size=4096&old_size=2,1",
        "mode=bilinear&antialias=true&size=4096&old_size=2,1",
        "convention=sam_rel_pos&size=2048,2048",
    ],
)
def test_a_resize_past_the_limit_is_refused_before_anything_is_allocated(
    client: Client, query: str
) -> None:
    rows = [[0.5] * 100, [0.25] * 100]
    x = rows if "sam" in query else [[rows[0]], [rows[1]]]
    content = json.dumps({"x": x}).encode().replace(b" ", b"")
    assert len(content) < 1200

    with allocated() as peaks:
        answer = client.post(
            f"/resize/apply.json?{query}",
            content=content,
            headers={"Content-Type": "application/json"},
        )

    assert answer.status_code == 413, answer.text
    assert peaks[0] < _MOST_BYTES


def test_a_woven_video_costs_more_than_its_body_tells() -> None:
    settings = default_settings().model_copy(update={"max_request_seconds": 1})
    video = {"video": [3000, 2, 2], "seconds_per_grid": 0.0769, "audio": 24000}

    with client_of(create_app(settings)) as client:
        answers = [
            client.post("/positions", json={"convention": "qwen3_omni", "rows": [[each] * 5]})
            for each in (video | {"audio": None}, video)
        ]

    assert [answer.status_code for answer in answers] == [200, 413]
    assert "seconds of a processor" in answers[1].json()["detail"]
