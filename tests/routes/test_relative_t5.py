"""``/relative/t5`` through HTTP."""

import numpy as np
import pytest

from tests.client import Client

URL = "/relative/t5"


def numbers(client: Client, query: str) -> list[list[int]]:
    answer = client.get(f"{URL}?{query}")
    assert answer.status_code == 200, answer.text
    rows: list[list[int]] = answer.json()["data"]
    return rows


def test_rows_are_queries_and_later_keys_have_the_second_half(client: Client) -> None:
    assert numbers(client, "query_len=3&key_len=4&num_buckets=8&max_distance=20") == [
        [0, 5, 6, 6],
        [1, 0, 5, 6],
        [2, 1, 0, 5],
    ]


def test_a_decoder_has_no_buckets_for_later_keys(client: Client) -> None:
    query = "query_len=3&key_len=4&num_buckets=8&max_distance=20&bidirectional=false"

    assert numbers(client, query) == [[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0]]


def test_one_decoding_step_is_the_last_row_of_all_steps(client: Client) -> None:
    rest = "key_len=300&bidirectional=false"

    assert (
        numbers(client, f"query_start=299&query_len=1&{rest}")
        == numbers(client, f"query_len=300&{rest}")[-1:]
    )


def test_buckets_are_exact_at_any_distance(client: Client) -> None:
    """8·16^(j/8) is an integer at even j; and the farthest pair of positions has a bucket."""
    keys = [-(2**62), -128, -127, -64, -63, -32, -31, 31, 32, 2**62]

    found = numbers(client, f"query_positions=0&key_positions={','.join(map(str, keys))}")

    assert found == [[15, 15, 15, 14, 13, 12, 11, 27, 28, 31]]


def test_a_huge_table_is_read_by_ranges(client: Client) -> None:
    url = f"{URL}.bin?query_len={2**29}&key_len={2**29}"
    last = 2**60 - 4

    answer = client.get(url, range=f"bytes={last - 4}-{last + 3}")

    assert answer.headers["Array-Shape"] == f"{2**29}, {2**29}"
    assert np.frombuffer(answer.content, "<i4").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("", "query_len", None),
        ("query_len=2&num_buckets=1", "num_buckets", "1"),
        ("query_len=2&num_buckets=3", "num_buckets", "3"),
        ("query_len=2&num_buckets=65537", "num_buckets", "65537"),
        ("query_len=2&num_buckets=1&bidirectional=false", "num_buckets", "1"),
        ("query_len=2&max_distance=8", "max_distance", "8"),
        ("query_len=2&max_distance=16&bidirectional=false", "max_distance", "16"),
        ("query_len=2&max_distance=0", "max_distance", "0"),
        ("query_len=2&bidirectional=yes", "bidirectional", "yes"),
        ("query_len=2&dtype=float32", "dtype", "float32"),
        ("query_len=2&head=0", "head", "0"),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


@pytest.mark.parametrize(
    ("rows", "query"), [(3, ""), (1, "&bidirectional=false"), (65_537, "&bidirectional=false")]
)
def test_a_table_has_as_many_rows_as_there_may_be_buckets(
    client: Client, rows: int, query: str
) -> None:
    answer = client.post(f"{URL}/bias?query_len=2{query}", json={"weight": [[0.5]] * rows})

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weight"]


def test_a_table_without_rows_for_both_directions_serves_one(client: Client) -> None:
    answer = client.post(
        f"{URL}/bias?query_len=2&bidirectional=false", json={"weight": [[0.5], [1.5]]}
    )

    assert answer.json()["data"] == [[[0.5, 0.5], [1.5, 0.5]]]
