"""``/encoding/curves`` through HTTP: the numbers of the encoding, and pictures of them."""

import io

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from service.errors import shortened
from service.tables.conventions import CONVENTIONS
from tests.client import Client

URL = "/encoding/curves"


def npy(answer: httpx.Response) -> NDArray[np.float64]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


@pytest.mark.parametrize(
    "query",
    ["seq_len=50&d_model=12", "start=-7&seq_len=9&d_model=12&dtype=float16&layout=concatenated"],
)
def test_dimensions_are_columns_of_the_encoding(client: Client, query: str) -> None:
    whole = npy(client.get(f"/encoding.npy?{query}"))

    chosen = npy(client.get(f"{URL}.npy?{query}&dimensions=4:7,0,11"))

    assert chosen.tobytes() == np.ascontiguousarray(whole[:, [4, 5, 6, 0, 11]]).tobytes()


def test_positions_are_rows_of_the_encoding(client: Client) -> None:
    query = "positions=0,10,0.5&d_model=32&dtype=float64"

    assert (
        npy(client.get(f"{URL}.npy?{query}")).tobytes()
        == npy(client.get(f"/encoding.npy?{query}")).tobytes()
    )


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_has_curves(client: Client, convention: str) -> None:
    resolution = "&max_resolution=20" if convention == "perceiver" else ""
    d_model = 13 if convention == "perceiver" else 12
    query = f"convention={convention}&d_model={d_model}&seq_len=9{resolution}"
    whole = npy(client.get(f"/encoding.npy?{query}"))

    chosen = npy(client.get(f"{URL}.npy?{query}&dimensions=5,2"))

    assert chosen.tobytes() == np.ascontiguousarray(whole[:, [5, 2]]).tobytes()


def test_parameters_say_everything_that_matters(client: Client) -> None:
    answer = client.get(f"{URL}?seq_len=3&d_model=8&dimensions=4,5,6,7")

    assert answer.json()["kind"] == "encoding-curves"
    assert answer.json()["parameters"] == {
        "convention": "vaswani",
        "d_model": 8,
        "base": 10000.0,
        "layout": "interleaved",
        "start": 0,
        "seq_len": 3,
        "dimensions": "4:8",
    }
    assert answer.headers["Array-Axes"] == "position, dimension"


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("seq_len=65&d_model=8", "seq_len", "65"),
        ("positions=0:65&d_model=8", "positions", "0:65"),
        (f"positions=0.5{',1' * 64}&d_model=8", "positions", f"0.5{',1' * 64}"),
        ("seq_len=4&d_model=8&dimensions=8", "dimensions", "8"),
        ("seq_len=4&d_model=8&dimensions=3:-2:-1", "dimensions", "3:-2:-1"),
        ("seq_len=4&d_model=80&dimensions=0:65", "dimensions", "0:65"),
        ("seq_len=4&d_model=8&dimensions=", "dimensions", ""),
        ("d_model=8&dimensions=1", "seq_len", None),
        ("seq_len=4&d_model=8&batch=true", "batch", "true"),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value and shortened(value))]


@pytest.mark.parametrize(
    "query",
    [
        "seq_len=100&d_model=20&dimensions=4,5,6,7",
        "positions=0,1,10,50&d_model=128",
        f"start={2**62 - 63}&seq_len=64&d_model=16&dtype=bfloat16",
        "positions=0.5,3,-7.25&d_model=16&dimensions=0:16",
        "seq_len=1&d_model=1",
    ],
)
def test_curves_are_drawn(client: Client, query: str) -> None:
    answer = client.get(f"{URL}.png?{query}")

    assert answer.headers["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(answer.content)).size == (1000, 600)


def test_curves_are_more_than_their_heat_map(client: Client) -> None:
    chosen = client.get(f"{URL}.png?positions=3&d_model=16").content

    assert chosen != client.get("/encoding.png?positions=3&d_model=16").content


def test_a_long_table_of_curves_streams_though_no_picture_shows_it(client: Client) -> None:
    query = f"seq_len={2**40}&d_model=8&dimensions=7"

    part = client.get(f"{URL}.bin?{query}", range=f"bytes={2**42 - 4}-")
    picture = client.get(f"{URL}.png?{query}")

    assert len(part.content) == 4
    assert picture.status_code == 422
    assert "it shows up to 262144 elements" in picture.json()["detail"]


def test_a_long_list_of_dimensions_is_refused_before_it_is_read(client: Client) -> None:
    listed = list(range(65))

    answers = [
        client.get(f"{URL}?seq_len=4&d_model=80&dimensions={','.join(map(str, listed))}"),
        client.post(URL, json={"seq_len": 4, "d_model": 80, "dimensions": listed}),
        client.get(f"{URL}?seq_len=4&d_model=80&dimensions={','.join('x' * 65)}"),
    ]

    for answer in answers:
        (fault,) = answer.json()["errors"]
        rule = "dimensions names 65 curves or more, and at most 64 are shown"
        assert (answer.status_code, fault["parameter"], fault["detail"]) == (
            *(422, "dimensions"),
            rule,
        )
