"""``/relative/swin`` through HTTP."""

import numpy as np
import pytest

from tests.client import Client

URL = "/relative/swin"


def test_rows_are_queries_and_numbers_lead_from_the_key_to_the_query(client: Client) -> None:
    answer = client.get(f"{URL}?window_size=1,3").json()

    assert answer["axes"] == ["query", "key"]
    assert answer["parameters"] == {"window_size": [1, 3], "class_token": False}
    assert answer["data"] == [[2, 1, 0], [3, 2, 1], [4, 3, 2]]


def test_the_first_number_of_a_window_is_that_of_rows(client: Client) -> None:
    tall = client.get(f"{URL}?window_size=3,2").json()["data"]
    wide = client.get(f"{URL}?window_size=2,3").json()["data"]

    assert (len(tall), len(wide)) == (6, 6)
    assert (tall[5][0], wide[5][0]) == (14, 14)
    assert tall != wide


def test_a_class_token_comes_first(client: Client) -> None:
    answer = client.get(f"{URL}?window_size=1,2&class_token=true")

    assert answer.json()["data"] == [[5, 3, 3], [4, 1, 0], [4, 2, 1]]


def test_a_huge_window_is_read_by_ranges(client: Client) -> None:
    url = f"{URL}.bin?window_size=8192,16384"
    size = 4 * 2**54

    answer = client.get(url, range=f"bytes={size - 8}-{size - 1}")

    centre = ((2 * 8192 - 1) * (2 * 16384 - 1) - 1) // 2
    assert np.frombuffer(answer.content, "<i4").tolist() == [centre + 1, centre]


def test_numbers_beyond_32_bits_need_64(client: Client) -> None:
    near, far = f"{URL}.npy?window_size=16384,32768", f"{URL}.npy?window_size=20000,32768"

    assert client.head(near).headers["Array-Shape"] == f"{2**29}, {2**29}"
    assert client.head(far).status_code == 422
    assert client.head(f"{far}&dtype=int64").headers["Array-Dtype"] == "int64"


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("", "window_size", None),
        ("window_size=7", "window_size", "7"),
        ("window_size=7,7,7", "window_size", "7,7,7"),
        ("window_size=0,7", "window_size", "0,7"),
        ("window_size=7,-1", "window_size", "7,-1"),
        ("window_size=65536,65536", "window_size", "65536,65536"),
        ("window_size=7,7&class_token=1", "class_token", "1"),
        ("window_size=7,7&head=0", "head", "0"),
        ("window_size=32768,32768", "dtype", "int32"),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


def test_the_rows_of_a_table_tell_a_class_token(client: Client) -> None:
    found = {}
    for rows in (9, 12):
        weight = [[float(row)] for row in range(rows)]
        answer = client.post(f"{URL}/bias?window_size=2,2", json={"weight": weight}).json()
        found[rows] = (answer["parameters"]["class_token"], answer["data"][0][0][0])

    assert found == {9: (False, 4.0), 12: (True, 11.0)}


def test_rows_that_go_with_no_window_are_named(client: Client) -> None:
    answer = client.post(f"{URL}/bias?window_size=2,2", json={"weight": [[1.0]] * 10})

    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "weight has 10 rows, and must have 9 without a class token or 12 with a class token "
        "for window_size=2,2"
    )
