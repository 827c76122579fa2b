"""DETR's sinusoids of images with padding: the formula, masks by any name, refusals."""

from typing import Any

import httpx
import mpmath
import numpy as np
import pytest
import safetensors.numpy
from mpmath import mpf
from numpy.typing import NDArray

from service.encodings.grid.mask import MAX_MASKS, MaskedGridEncoding, MaskedGridTable, Masks
from service.formats.format import BinaryBody
from service.numerics.tables import size
from tests.client import Client, npy_bytes
from tests.exact import UNIT, frequency

PADDED = np.zeros((2, 4, 5), dtype=np.int64)
PADDED[0, :3, :2] = 1
PADDED[1] = [[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]

PLAIN = MaskedGridEncoding(d_model=12, dtype="float64")
NORMALIZED = MaskedGridEncoding(d_model=12, dtype="float64", base=20.0, normalize=True)
SCALED = MaskedGridEncoding(d_model=12, dtype="float64", base=20.0, normalize=True, scale=1.5)
EVERY_RULE = pytest.mark.parametrize("rule", [PLAIN, NORMALIZED, SCALED])


def read(table: MaskedGridTable) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def exact(rule: MaskedGridEncoding, line: list[int], at: int, channel: int) -> Any:
    place = mpf(sum(line[: at + 1]))
    if rule.normalize:
        scale = 2 * mpmath.pi if rule.scale is None else mpf(rule.scale)
        place = place / (sum(line) + mpf("1e-6")) * scale
    angle = place * frequency(rule.base, 6, channel // 2)
    return mpmath.cos(angle) if channel % 2 else mpmath.sin(angle)


@EVERY_RULE
def test_positions_count_the_valid_pixels_of_columns_and_rows(rule: MaskedGridEncoding) -> None:
    found = read(rule.table(Masks(PADDED, 1)))

    for image, channel, y, x in np.ndindex(*found.shape):
        down, across = PADDED[image, :, x].tolist(), PADDED[image, y].tolist()
        truth = (
            exact(rule, down, y, channel) if channel < 6 else exact(rule, across, x, channel - 6)
        )
        assert abs(found[image, channel, y, x] - truth) <= UNIT


@EVERY_RULE
def test_positions_in_rows_and_columns_of_padding_are_0(rule: MaskedGridEncoding) -> None:
    nothing = read(rule.table(Masks(np.zeros((1, 2, 3), dtype=np.int64), 1)))

    assert (nothing[:, 0::2] == 0).all()
    assert (nothing[:, 1::2] == 1).all()


def test_a_mask_of_noise_is_evaluated_pixel_by_pixel() -> None:
    noise = np.random.default_rng(7).integers(0, 2, (1, 30, 40))
    rule = MaskedGridEncoding(d_model=4, dtype="float64", normalize=True)

    found = read(rule.table(Masks(noise, 1)))

    for y, x in [(0, 0), (29, 39), (17, 4)]:
        place = mpf(int(noise[0, : y + 1, x].sum())) / (int(noise[0, :, x].sum()) + mpf("1e-6"))
        assert abs(found[0, 0, y, x] - mpmath.sin(2 * mpmath.pi * place)) <= UNIT


@pytest.mark.parametrize("normalize", [False, True])
def test_pixels_of_a_large_image_are_counted_in_steps(*, normalize: bool) -> None:
    rule = MaskedGridEncoding(d_model=4, dtype="float64", normalize=normalize)
    elements = np.zeros((1, 900, 500), dtype=np.int64)
    elements[:, 700:], elements[:, :, 300:] = 1, 1
    of_image, again = (rule.table(Masks(elements, 0)) for _ in range(2))

    blocks = list(BinaryBody((of_image,)).blocks())

    assert blocks.count(b"") > 4
    assert not list(BinaryBody((of_image,)).blocks()).count(b"")
    assert b"".join(blocks) == again.read(0, size(again)).tobytes()


def test_quotients_are_counted_per_final_count_of_rows_and_columns() -> None:
    # Columns end with 3 or 0, rows with 2 or 0; then columns with 2 or 3, rows with 3, 0 or 5.
    assert NORMALIZED.quotients(Masks(PADDED, 1)) == 3 * (2 + 2 + 2 + 3)
    assert PLAIN.quotients(Masks(PADDED, 1)) == 3


URL = "/encoding/mask"
PADDING = [[0, 0, 1], [0, 0, 1]]
NPY = {"Content-Type": "application/x-npy"}
TENSORS = {"Content-Type": "application/vnd.safetensors"}


def posted(client: Client, query: str = "d_model=4", /, **body: Any) -> httpx.Response:
    return client.post(f"{URL}?{query}", json=body)


def test_padding_and_valid_masks_are_complements(client: Client) -> None:
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


@pytest.mark.parametrize(("value", "name"), [("padding", "padding_mask"), ("valid", "valid_mask")])
def test_the_parameter_names_a_mask_without_a_name(client: Client, value: str, name: str) -> None:
    body = npy_bytes(np.array(PADDING))

    answer = client.post(f"{URL}.json?d_model=4&mask={value}", content=body, headers=NPY)

    assert answer.content == posted(client, **{name: PADDING}).content
    assert answer.json()["parameters"]["mask"] == value


def test_a_mask_without_a_name_is_never_guessed(client: Client) -> None:
    body = npy_bytes(np.array(PADDING))

    answer = client.post(f"{URL}?d_model=4", content=body, headers=NPY)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "mask"
    assert "mask=padding (padding_mask) or mask=valid (valid_mask)" in answer.json()["detail"]


def test_a_mask_parameter_against_a_named_mask_is_refused(client: Client) -> None:
    answer = posted(client, "d_model=4&mask=padding", valid_mask=PADDING)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "mask"


@pytest.mark.parametrize("form", ["json", "safetensors"])
@pytest.mark.parametrize("name", ["mask", "attention_mask", "pad_mask", "zzz"])
def test_a_mask_by_another_name_is_never_guessed(client: Client, form: str, name: str) -> None:
    if form == "json":
        answer = posted(client, **{name: PADDING})
    else:
        tensors = safetensors.numpy.save({name: np.array(PADDING)})
        answer = client.post(f"{URL}?d_model=4", content=tensors, headers=TENSORS)

    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert "padding_mask: the mask, where 1 is padding" in detail
    assert "valid_mask: the mask, where 1 is a valid pixel" in detail


def test_the_pixel_mask_of_transformers_is_a_valid_mask(client: Client) -> None:
    assert posted(client, pixel_mask=PADDING).content == posted(client, valid_mask=PADDING).content


@pytest.mark.parametrize("query", ["", "&normalize=true", "&normalize=true&scale=3&base=20"])
def test_an_image_without_padding_is_the_grid(client: Client, query: str) -> None:
    query = f"d_model=8&dtype=float64{query}"
    grid = client.get(f"/encoding/grid?convention=detr&height=3&width=5&{query}").json()

    masked = posted(client, query, valid_mask=np.ones((3, 5), dtype=int).tolist()).json()

    assert np.abs(np.array(masked["data"][0]) - np.array(grid["data"])).max() <= 5 * UNIT


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({}, "missing"),
        ({"padding_mask": PADDING, "valid_mask": PADDING}, "either"),
        ({"padding_mask": [[0, 2]]}, "0 and 1"),
        ({"padding_mask": [[0, 0.5]]}, "integers"),
        ({"padding_mask": [0, 1]}, "axes"),
        ({"padding_mask": [[[0]]] * (MAX_MASKS + 1)}, "images"),
    ],
)
def test_invalid_masks_are_refused(client: Client, body: dict[str, Any], rule: str) -> None:
    answer = posted(client, **body)

    assert answer.status_code == 422
    assert rule in answer.json()["detail"]


def test_too_many_different_counts_are_refused(client: Client) -> None:
    stairs = np.tril(np.ones((200, 200), dtype=np.uint8))

    def answer(d_model: int) -> httpx.Response:
        url = f"{URL}.npy?normalize=true&mask=padding&d_model={d_model}"
        return client.post(url, content=npy_bytes(1 - stairs), headers=NPY)

    assert answer(4).status_code == 200
    assert "too many distinct" in answer(4096).json()["detail"]
