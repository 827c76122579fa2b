"""Endpoints: every spelling of a request, and the strictness of all of them."""

import io
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from service.formats import FORMATS
from service.routes import COMPOSITIONS, RESOURCES, TRANSFORMS
from tests.client import Client

PATHS = [
    *(resource.path for resource in RESOURCES),
    *(transform.path for transform in TRANSFORMS),
    *(composition.path for composition in COMPOSITIONS),
]


def test_a_long_list_is_posted(client: Client) -> None:
    positions = list(range(0, 6000, 3))

    posted = client.post("/encoding", json={"positions": positions, "d_model": 2})
    asked = client.get("/encoding?positions=0:6000:3&d_model=2")

    assert posted.json() == asked.json()


def test_a_posted_parameter_may_be_in_the_query_but_not_in_both(client: Client) -> None:
    apart = client.post("/encoding?d_model=2", json={"seq_len": 1})
    twice = client.post("/encoding?d_model=2", json={"seq_len": 1, "d_model": 2})

    assert apart.status_code == 200
    assert twice.json()["errors"][0]["detail"] == (
        "d_model is given twice, in the query and in the body"
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_format_that_does_not_exist_is_not_found(client: Client, path: str) -> None:
    answer = client.post(f"{path}.pickle", json={})

    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "There is no format pickle; there are json, npy, safetensors, bin, csv, png, "
        "and .sha256 after each"
    )


@pytest.mark.parametrize("path", [resource.path for resource in RESOURCES])
@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("zzz=1", "1"),
        ("dtype=float32&dtype=float64", "float64"),
        ("base=NaN", "NaN"),
        ("base=1e400", "1e400"),
        ("d_model=1_000", "1_000"),
        ("d_model=%205", " 5"),
        ("d_model=5.0", "5.0"),
        ("seq_len=%ff", "%ff"),
    ],
)
def test_a_malformed_query_is_a_problem_on_every_resource(
    client: Client, path: str, query: str, value: str
) -> None:
    answer = client.get(f"{path}?{query}")

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert value in [error["value"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("path", [transform.path for transform in TRANSFORMS])
@pytest.mark.parametrize("query", ["zzz=1", "start=1&start=1", "start=5.0", "start=%ff"])
def test_a_malformed_query_is_a_problem_on_every_transform(
    client: Client, path: str, query: str
) -> None:
    answer = client.post(f"{path}?{query}", json={"x": [[1.0, 2.0]]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("path", [transform.path for transform in TRANSFORMS])
@pytest.mark.parametrize(
    ("array", "rule"),
    [
        (np.ones((2, 4), "<i8"), "x: elements are integers: send floating-point numbers"),
        (np.ones((2, 4), "|b1"), "x: elements are integers: send floating-point numbers"),
        (np.ones(4), "x: it has 1 axis, and must have two at least, positions and channels last"),
    ],
)
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_transforms_take_real_vectors_only(
    client: Client, path: str, array: NDArray[Any], rule: str, form: str
) -> None:
    body, stream = safetensors.numpy.save({"x": array}), io.BytesIO()
    if form == "npy":
        np.save(stream, array)
        body = stream.getvalue()

    answer = client.post(path, content=body, headers={"Content-Type": FORMATS[form].media_type})

    assert (answer.status_code, answer.json()["type"]) == (422, "urn:posref:problem:invalid-body")
    assert answer.json()["detail"] == rule


@pytest.mark.parametrize("path", [transform.path for transform in TRANSFORMS])
def test_one_axis_of_json_is_no_vector_either(client: Client, path: str) -> None:
    answer = client.post(path, json={"x": [1, 2, 3, 4]})

    assert answer.status_code == 422
    assert "x: it has 1 axis" in answer.json()["detail"]


def test_what_no_format_satisfies_is_not_acceptable(client: Client) -> None:
    answer = client.get("/encoding?seq_len=1&d_model=2", accept="image/webp")

    assert answer.status_code == 406
    assert "application/x-npy" in answer.json()["detail"]


def test_bfloat16_as_npy_is_a_problem_that_names_the_formats_that_can(client: Client) -> None:
    answer = client.get("/encoding.npy?seq_len=1&d_model=2&dtype=bfloat16")

    assert answer.status_code == 422
    assert "json, safetensors, bin" in answer.json()["detail"]
