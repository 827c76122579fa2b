"""``/relative/shaw`` through HTTP."""

import pytest

from tests.client import Client

URL = "/relative/shaw"


def test_distances_are_clipped_and_counted_from_zero(client: Client) -> None:
    answer = client.get(f"{URL}?query_len=3&key_len=4&max_relative_position=1")

    assert answer.json()["data"] == [[1, 2, 2, 2], [0, 1, 2, 2], [0, 0, 1, 2]]


def test_one_decoding_step_has_one_row(client: Client) -> None:
    answer = client.get(f"{URL}?query_start=4&query_len=1&key_len=5&max_relative_position=2")

    assert answer.json()["data"] == [[0, 0, 0, 1, 2]]


def test_embeddings_are_the_rows_that_distances_name(client: Client) -> None:
    weight = [[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]]

    answer = client.post(f"{URL}/embeddings?query_len=2&key_len=3", json={"weight": weight}).json()

    assert answer["axes"] == ["query", "key", "channel"]
    assert answer["parameters"]["max_relative_position"] == 1
    assert answer["data"] == [
        [weight[1], weight[2], weight[2]],
        [weight[0], weight[1], weight[2]],
    ]


def test_a_table_of_one_row_has_one_embedding(client: Client) -> None:
    answer = client.post(f"{URL}/embeddings?query_len=1&key_len=2", json={"weight": [[7.0]]})

    assert answer.json()["data"] == [[[7.0], [7.0]]]


@pytest.mark.parametrize(
    ("query", "where"),
    [("query_len=2", "/weight"), ("query_len=2&max_relative_position=1", "/weight")],
)
def test_a_table_of_an_even_number_of_rows_is_refused(
    client: Client, query: str, where: str
) -> None:
    answer = client.post(f"{URL}/embeddings?{query}", json={"weight": [[1.0]] * 4})

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [where]


def test_a_table_of_other_distances_than_are_said_is_refused(client: Client) -> None:
    url = f"{URL}/embeddings?query_len=2&max_relative_position=2"

    answer = client.post(url, json={"weight": [[1.0]] * 3})

    assert [error["parameter"] for error in answer.json()["errors"]] == ["max_relative_position"]


def test_numbers_beyond_32_bits_need_64(client: Client) -> None:
    most = 2**31 - 1
    near = f"{URL}?query_len=1&key_len=2&max_relative_position={most - 1}"
    far = f"{URL}?query_len=1&key_len=2&max_relative_position={most}"

    assert client.get(near).json()["data"] == [[most - 1, most]]
    assert [error["parameter"] for error in client.get(far).json()["errors"]] == ["dtype"]
    assert client.get(f"{far}&dtype=int64").json()["data"] == [[most, most + 1]]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("query_len=2", "max_relative_position", None),
        ("max_relative_position=2", "query_len", None),
        ("query_len=2&max_relative_position=-1", "max_relative_position", "-1"),
        (
            f"query_len=2&max_relative_position={2**61 + 1}&dtype=int64",
            "max_relative_position",
            str(2**61 + 1),
        ),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]
