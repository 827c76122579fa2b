"""``POST /encoding/mask`` through HTTP."""

from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from service.tables.masked_grid import MAX_MASKS
from tests.client import Client
from tests.exact import UNIT
from tests.parity.asking import npy_bytes

URL = "/encoding/mask"
PADDING = [[0, 0, 1], [0, 0, 1]]
NPY = {"Content-Type": "application/x-npy"}
TENSORS = {"Content-Type": "application/vnd.safetensors"}


def posted(client: Client, query: str = "d_model=4", /, **body: Any) -> httpx.Response:
    return client.post(f"{URL}?{query}", json=body)


def test_padding_is_what_is_not_valid(client: Client) -> None:
    valid = (1 - np.array(PADDING)).tolist()

    one, other = posted(client, padding_mask=PADDING), posted(client, valid_mask=valid)

    assert one.status_code == 200, one.text
    assert one.json()["data"] == other.json()["data"]
    assert one.json()["parameters"].pop("mask") == "padding"
    assert other.json()["parameters"].pop("mask") == "valid"
    assert one.json()["shape"] == [1, 4, 2, 3]
    assert one.headers["Array-Axes"] == (
        "batch, channel(sin|cos height + sin|cos width), height, width"
    )
    assert one.json()["parameters"] == {
        "mask": "padding",
        "d_model": 4,
        "base": 10000,
        "normalize": False,
    }


@pytest.mark.parametrize(("said", "name"), [("padding", "padding_mask"), ("valid", "valid_mask")])
def test_a_mask_without_a_name_is_what_the_parameter_says(
    client: Client, said: str, name: str
) -> None:
    body = npy_bytes(np.array(PADDING))

    answer = client.post(f"{URL}.json?d_model=4&mask={said}", content=body, headers=NPY)

    assert answer.content == posted(client, **{name: PADDING}).content
    assert answer.json()["parameters"]["mask"] == said


def test_a_mask_without_a_name_is_never_guessed(client: Client) -> None:
    body = npy_bytes(np.array(PADDING))

    answer = client.post(f"{URL}?d_model=4", content=body, headers=NPY)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "mask"
    assert "mask=padding (padding_mask) or mask=valid (valid_mask)" in answer.json()["detail"]


def test_what_a_mask_is_is_not_said_in_two_ways(client: Client) -> None:
    answer = posted(client, "d_model=4&mask=padding", valid_mask=PADDING)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "mask"


@pytest.mark.parametrize("form", ["json", "safetensors"])
@pytest.mark.parametrize("name", ["pixel_mask", "mask", "attention_mask", "pad_mask", "zzz"])
def test_a_mask_by_another_name_is_never_guessed(client: Client, form: str, name: str) -> None:
    if form == "json":
        answer = posted(client, **{name: PADDING})
    else:
        tensors = safetensors.numpy.save({name: np.array(PADDING)})
        answer = client.post(f"{URL}?d_model=4", content=tensors, headers=TENSORS)

    assert answer.status_code == 422
    detail = answer.json()["detail"]
    if name == "pixel_mask":
        assert detail == "pixel_mask is no array here; did you mean valid_mask?"
    else:
        assert "padding_mask: the mask, 1 is padding" in detail
        assert "valid_mask: the mask, 1 is a pixel" in detail


def test_true_and_false_are_ones_and_zeros(client: Client) -> None:
    booleans = [[bool(element) for element in row] for row in PADDING]

    assert (
        posted(client, padding_mask=booleans).content
        == posted(client, padding_mask=PADDING).content
    )


def test_a_mask_comes_as_any_kind_of_number_in_any_form(client: Client) -> None:
    plain = posted(client, padding_mask=PADDING).json()["data"]

    for dtype in ("bool", "uint8", "int64", "float32"):
        array = np.array([PADDING]).astype(dtype)
        answer = client.post(
            f"{URL}.json?d_model=4&mask=padding", content=npy_bytes(array), headers=NPY
        )
        assert answer.json()["data"] == plain
    tensors = safetensors.numpy.save({"valid_mask": 1 - np.array(PADDING, dtype=np.uint8)})
    answer = client.post(
        f"{URL}.json?d_model=4",
        content=tensors,
        headers=TENSORS,
    )
    assert answer.json()["data"] == plain


@pytest.mark.parametrize("query", ["", "&normalize=true", "&normalize=true&scale=3&base=20"])
def test_an_image_without_padding_is_the_grid(client: Client, query: str) -> None:
    query = f"d_model=8&dtype=float64{query}"
    grid = client.get(f"/encoding/grid?convention=detr&height=3&width=5&{query}").json()

    masked = posted(client, query, valid_mask=np.ones((3, 5), dtype=int).tolist()).json()

    assert np.abs(np.array(masked["data"][0]) - np.array(grid["data"])).max() <= 5 * UNIT


def test_each_image_of_a_batch_is_by_itself(client: Client) -> None:
    query = "d_model=4&normalize=true"
    both = posted(client, query, padding_mask=[PADDING, [[0, 0, 0], [1, 1, 1]]]).json()["data"]

    assert both[0] == posted(client, query, padding_mask=PADDING).json()["data"][0]
    assert both[1] != both[0]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("d_model=6", "d_model"),
        ("d_model=4&scale=2", "scale"),
        ("d_model=4&temperature=20", "temperature"),
        ("", "d_model"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = posted(client, query, padding_mask=PADDING)

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "missing"),
        ({"padding_mask": PADDING, "valid_mask": PADDING}, "not both"),
        ({"padding_mask": [[0, 2]]}, "0 and 1"),
        ({"padding_mask": [[0, 0.5]]}, "integers"),
        ({"padding_mask": [0, 1]}, "axes"),
        ({"padding_mask": [[[0]]] * (MAX_MASKS + 1)}, "images"),
    ],
)
def test_a_mask_that_is_none_is_refused(client: Client, body: dict[str, Any], said: str) -> None:
    answer = posted(client, **body)

    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_counts_too_many_for_numbers_of_80_digits_are_refused_before_work(client: Client) -> None:
    stairs = np.tril(np.ones((200, 200), dtype=np.uint8))

    def answer(d_model: int) -> httpx.Response:
        url = f"{URL}.npy?normalize=true&mask=padding&d_model={d_model}"
        return client.post(url, content=npy_bytes(1 - stairs), headers=NPY)

    assert answer(4).status_code == 200
    assert "too many different counts" in answer(4096).json()["detail"]
