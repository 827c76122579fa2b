"""Request bodies, through HTTP: each bad one answered by the right problem."""

import io
import pickle
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from service.app import create_app
from service.delivery.bodies import reading_work
from service.settings import Settings
from tests.client import Client, client_of

NPY = "application/x-npy"


def saved(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


GOOD = saved(np.ones((2, 4), dtype=np.float32))


@pytest.mark.parametrize("path", ["/rope/apply", "/encoding/apply"])
@pytest.mark.parametrize(
    ("body", "media_type", "status", "problem"),
    [
        (GOOD[:-3], NPY, 422, "invalid-body"),
        (GOOD + b"more", NPY, 422, "invalid-body"),
        (b"", NPY, 422, "invalid-body"),
        (pickle.dumps(np.ones((2, 4))), NPY, 422, "invalid-body"),
        (saved(np.array([[{}]]), allow_pickle=True), NPY, 422, "invalid-body"),
        (saved(np.ones((2, 4), dtype=">f8")), NPY, 422, "invalid-body"),
        (saved(np.ones((2, 4), dtype=np.int32)), NPY, 422, "invalid-body"),
        (saved(np.ones(4)), NPY, 422, "invalid-body"),
        (saved(np.float64(1.0)), NPY, 422, "invalid-body"),
        (saved(np.ones((1,) * 8 + (4,))), NPY, 422, "invalid-body"),
        (saved(np.ones((0, 4))), NPY, 422, "invalid-body"),
        (saved(np.ones((4, 0))), NPY, 422, "invalid-body"),
        (GOOD, "application/vnd.safetensors", 422, "invalid-body"),
        (GOOD, "application/json", 422, "invalid-body"),
        (b'{"x": [[1, 2]]', "application/json", 422, "invalid-body"),
        (b'{"x": [[1, 2]], "x": [[1, 2]]}', "application/json", 422, "invalid-body"),
        (b'{"x": [[1, 2]], "strat": 1}', "application/json", 422, "invalid-parameters"),
        (b'{"x": [[1, 2]], "start": 5.0}', "application/json", 422, "invalid-parameters"),
        (b'{"x": [[1, 2]], "positions": [1, 2]}', "application/json", 422, "invalid-body"),
        (GOOD, "text/plain", 415, "unsupported-media-type"),
        (GOOD, "application/octet-stream", 415, "unsupported-media-type"),
        (GOOD, None, 415, "unsupported-media-type"),
    ],
    ids=range(22),
)
def test_a_bad_body_is_answered_by_the_right_problem(
    client: Client, path: str, body: bytes, media_type: str | None, status: int, problem: str
) -> None:
    headers = {"Content-Type": media_type} if media_type else {}

    answer = client.post(path, content=body, headers=headers)

    assert answer.status_code == status, answer.text
    assert answer.json()["type"] == f"urn:posref:problem:{problem}"
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_media_type_may_have_parameters_and_any_case(client: Client) -> None:
    answer = client.post(
        "/rope/apply",
        content=b'{"x": [[1, 2]]}',
        headers={"Content-Type": "Application/JSON; charset=utf-8"},
    )

    assert answer.status_code == 200


def test_fortran_order_is_the_same_array(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4))
    headers = {"Content-Type": NPY}

    c_order = client.post("/rope/apply", content=saved(x), headers=headers)
    fortran_order = client.post("/rope/apply", content=saved(np.asfortranarray(x)), headers=headers)

    assert b"'fortran_order': True" in saved(np.asfortranarray(x))
    assert c_order.content == fortran_order.content


@pytest.mark.parametrize(
    ("media_type", "limits", "setting"),
    [
        (NPY, {"max_body_bytes": 100}, "POSREF_MAX_BODY_BYTES"),
        ("application/json", {"max_json_body_bytes": 100}, "POSREF_MAX_JSON_BODY_BYTES"),
    ],
)
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_past_the_limit_is_refused_by_the_name_of_its_setting(
    media_type: str, limits: dict[str, int], setting: str, announced: bool
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 10

    content = b" " * 101 if announced else chunks()
    with client_of(create_app(Settings(**limits))) as limited:  # type: ignore[arg-type]
        answer = limited.post("/rope/apply", content=content, headers={"Content-Type": media_type})

    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:posref:problem:body-too-large"
    assert setting in answer.json()["detail"]


def test_parameters_are_posted_as_json_only(client: Client) -> None:
    answer = client.post("/encoding", content=GOOD, headers={"Content-Type": NPY})

    assert answer.status_code == 415
    assert answer.json()["detail"].endswith("send application/json")


@pytest.mark.parametrize("body", [b'{"\\ud800": 1}', b'{"layout": "\\ud800", "d_model": 2}'])
def test_half_of_a_surrogate_pair_is_a_problem(client: Client, body: bytes) -> None:
    answer = client.post("/encoding", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["title"]) == (422, "Invalid body")


def test_a_coded_body_is_a_problem(client: Client) -> None:
    headers = {"Content-Type": NPY, "Content-Encoding": "gzip"}

    answer = client.post("/rope/apply", content=GOOD, headers=headers)

    assert answer.status_code == 415
    assert "gzip" in answer.json()["detail"]


def test_a_name_of_megabytes_is_answered_briefly(client: Client) -> None:
    answer = client.post("/encoding", json={"x" * 4_000_000: 1})

    assert answer.status_code == 422
    assert len(answer.content) < 2000


def test_a_long_name_given_twice_is_answered_briefly(client: Client) -> None:
    name = "a" * 30_000
    headers = {"Content-Type": "application/json"}

    answers = [
        client.get(f"/encoding?{name}=1&{name}=2"),
        client.post("/encoding", content=f'{{"{name}": 1, "{name}": 2}}', headers=headers),
        client.post(f"/encoding?{name}=1", content=f'{{"{name}": 2}}', headers=headers),
    ]

    for answer in answers:
        assert (answer.status_code, len(answer.content) < 2000) == (422, True)
        assert "given twice" in answer.json()["detail"]


@pytest.mark.parametrize("text", ['{"layout": %s, "d_model": 2}', '{"\\ud83d\\ude00": %s}'])
def test_nesting_is_a_problem_at_whatever_depth(client: Client, text: str) -> None:
    for depth in range(900, 1000):
        body = text % ("[" * depth + "]" * depth)
        answer = client.post(
            "/encoding", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422


def test_a_byte_of_text_is_more_work_than_one_of_an_array() -> None:
    assert reading_work(b"1,2", is_text=True) == 48
    assert reading_work(b"123", is_text=False) == 3
