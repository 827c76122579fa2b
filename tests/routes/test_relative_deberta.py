"""``/relative/deberta`` through HTTP."""

import pytest

from tests.client import Client

URL = "/relative/deberta"


def numbers(client: Client, query: str) -> list[list[int]]:
    answer = client.get(f"{URL}?{query}")
    assert answer.status_code == 200, answer.text
    rows: list[list[int]] = answer.json()["data"]
    return rows


def test_numbers_count_from_the_key_to_the_query(client: Client) -> None:
    """The other way than those of T5: a key that comes later has a negative one."""
    assert numbers(client, "query_len=2&key_len=4") == [[0, -1, -2, -3], [1, 0, -1, -2]]


def test_far_distances_share_numbers_that_are_not_clipped(client: Client) -> None:
    query = "query_positions=4,5,8,11,12,100&key_len=1&bucket_size=8&max_position=12"

    assert numbers(client, query) == [[4], [5], [7], [7], [8], [14]]


@pytest.mark.parametrize(
    "none", ["bucket_size=-1", "max_position=-1", "bucket_size=-1&max_position=-1"]
)
def test_without_buckets_distances_are_their_own_numbers(client: Client, none: str) -> None:
    answer = client.get(f"{URL}?query_positions=7,-900&key_len=2&{none}").json()

    assert answer["data"] == [[7, 6], [-900, -901]]
    assert answer["parameters"]["bucket_size"] == -1
    assert "max_position" not in answer["parameters"]


def test_distances_beyond_32_bits_need_64(client: Client) -> None:
    far = f"{URL}?query_start={2**31}&query_len=1&key_len=1&bucket_size=-1"

    assert [error["parameter"] for error in client.get(far).json()["errors"]] == ["dtype"]
    assert client.get(f"{far}&dtype=int64").json()["data"] == [[2**31]]
    assert numbers(client, f"query_start={2**62}&query_len=1&key_len=1") == [[3626]]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("", "query_len", None),
        ("query_len=2&bucket_size=0", "bucket_size", "0"),
        ("query_len=2&bucket_size=1", "bucket_size", "1"),
        ("query_len=2&bucket_size=-2", "bucket_size", "-2"),
        ("query_len=2&bucket_size=65537", "bucket_size", "65537"),
        ("query_len=2&max_position=129", "max_position", "129"),
        ("query_len=2&max_position=0", "max_position", "0"),
        ("query_len=2&max_position=-2", "max_position", "-2"),
        ("query_len=2&max_position=-1&bucket_size=256", "bucket_size", "256"),
        ("query_len=2&max_position=512&bucket_size=-1", "max_position", "512"),
        (
            "query_start=1000000&query_len=2&key_len=2&bucket_size=60000&max_position=30002",
            "max_position",
            "30002",
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
