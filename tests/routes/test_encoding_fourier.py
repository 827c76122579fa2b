"""``/encoding/fourier`` and ``/encoding/boxes`` through HTTP."""

from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tests.client import Client

FOURIER, BOXES = "/encoding/fourier", "/encoding/boxes"


def test_quarters_of_turns_are_what_they_are(client: Client) -> None:
    sent = {"x": [0.5, -1.0, 0.0], "weight": [0.5, 2.0], "log": False}

    found = client.post(f"{FOURIER}?dtype=float64", json=sent).json()

    assert found["data"] == [[1, 0, 0, 1], [0, 0, -1, 1], [0, 0, 1, 1]]
    assert found["parameters"] == {"log": False, "flip_sin_to_cos": False}
    assert found["axes"] == ["row", "channel"]


def test_logarithms_are_taken_unless_they_are_not_wanted(client: Client) -> None:
    sent = {"x": [1.0, 2.0], "weight": [0.25]}

    found = np.array(client.post(f"{FOURIER}?dtype=float64", json=sent).json()["data"])

    angle = np.pi / 2 * np.log(2)
    assert np.abs(found - [[0, 1], [np.sin(angle), np.cos(angle)]]).max() < 1e-15


def test_arrays_may_be_tensors_of_any_type(client: Client) -> None:
    x, weight = np.array([0.5, 3.0], np.float32), np.array([1.5, -0.25], np.float16)
    body = safetensors.numpy.save({"x": x, "weight": weight})
    headers = {"Content-Type": "application/vnd.safetensors"}

    answer = client.post(f"{FOURIER}.json?flip_sin_to_cos=true", content=body, headers=headers)

    sent = {"x": x.tolist(), "weight": weight.tolist(), "flip_sin_to_cos": True}
    assert answer.json() == client.post(FOURIER, json=sent).json()
    assert answer.json()["dtype"] == "float32"


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"x": [1.0, 0.0], "weight": [1.0]}, "/x"),
        ({"x": [-1.0], "weight": [1.0]}, "/x"),
        ({"x": [1e18], "weight": [1.0], "log": False}, "/x"),
        ({"x": [1e-31], "weight": [1.0], "log": False}, "/x"),
        ({"x": [1.0], "weight": [1e19]}, "/weight"),
        ({"x": [1.0], "weight": [-1e-40]}, "/weight"),
        ({"x": [[1.0]], "weight": [1.0]}, "/x"),
        ({"x": [1.0], "weight": [0.0] * 32769}, "/weight"),
        ({"x": [1.0 + index for index in range(4097)], "weight": [1.0]}, "/x"),
        ({"x": [1.0]}, ""),
    ],
)
def test_numbers_without_exact_products_are_refused(
    client: Client, sent: dict[str, Any], pointer: str
) -> None:
    answer = client.post(FOURIER, json=sent)

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize("name", ["x", "weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("log", ["true", "false"])
def test_what_is_no_number_is_refused(client: Client, name: str, value: float, log: str) -> None:
    arrays = {"x": np.ones(3), "weight": np.ones(3)}
    arrays[name][1] = value
    headers = {"Content-Type": "application/vnd.safetensors"}

    answer = client.post(
        f"{FOURIER}?log={log}", content=safetensors.numpy.save(arrays), headers=headers
    )

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{name}"]


def test_many_rows_of_few_numbers_are_answered(client: Client) -> None:
    sent = {"x": [1.0, 2.0] * 5000, "weight": [0.1]}

    assert client.post(FOURIER, json=sent).json()["shape"] == [10000, 2]


def test_the_first_frequency_of_a_box_is_its_coordinates(client: Client) -> None:
    sent = {"boxes": [[[0.0, 0.25, 0.5, 1.0]]], "embed_dim": 2}

    found = client.post(f"{BOXES}?dtype=float64", json=sent).json()

    assert found["axes"] == ["batch", "box", "channel"]
    (row,) = found["data"][0]
    assert len(row) == 16
    assert np.abs(np.array(row[:4]) - np.sin([0.0, 0.25, 0.5, 1.0])).max() < 1e-15
    assert np.abs(np.array(row[4:8]) - np.cos([0.0, 0.25, 0.5, 1.0])).max() < 1e-15
    assert np.abs(np.array(row[8:12]) - np.sin([0.0, 2.5, 5.0, 10.0])).max() < 1e-15
    assert found["parameters"] == {"embed_dim": 2, "temperature": 100.0}


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        ({"boxes": [[1.0, 2.0, 3.0]], "embed_dim": 2}, "/boxes"),
        ({"boxes": [[1.0, 2.0, 3.0, 1e30]], "embed_dim": 2}, "/boxes"),
        ({"boxes": [[1.0, 2.0, 3.0, 4.0]]}, "embed_dim"),
        ({"boxes": [[1.0, 2.0, 3.0, 4.0]], "embed_dim": 0}, "embed_dim"),
        ({"boxes": [[1.0, 2.0, 3.0, 4.0]], "embed_dim": 2, "temperature": 0.5}, "temperature"),
    ],
)
def test_boxes_that_cannot_be_embedded_are_refused(
    client: Client, sent: dict[str, Any], where: str
) -> None:
    answer = client.post(BOXES, json=sent)

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert where in {error.get("parameter"), error.get("pointer")}
