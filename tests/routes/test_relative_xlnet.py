"""``/relative/xlnet`` through HTTP."""

import pytest

from tests.client import Client


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        ("query_len=3&key_len=4", "4:-3:-1"),
        ("key_len=4&attn_type=uni", "4:-1:-1"),
        ("query_len=3&key_len=4&clamp_len=1", "1,1,1,1,0,-1,-1"),
    ],
)
def test_rows_are_positions_from_left_to_right(client: Client, query: str, positions: str) -> None:
    answer = client.get(f"/relative/xlnet?d_model=6&{query}&dtype=float64")
    same = f"positions={positions}&d_model=6&layout=concatenated&dtype=float64"

    assert answer.json()["data"] == client.get(f"/encoding?{same}").json()["data"]


def test_two_directions_are_an_axis(client: Client) -> None:
    url = "/relative/xlnet?d_model=4&query_len=2&key_len=3"

    both = client.get(f"{url}&bi_data=true").json()

    assert both["axes"] == ["position", "direction", "channel"]
    assert [row[0] for row in both["data"]] == client.get(url).json()["data"]


def test_canonical_parameters_ask_for_it_again(client: Client) -> None:
    said = client.get("/relative/xlnet?d_model=6&key_len=4&attn_type=uni").json()

    assert "query_len" not in said["parameters"]
    query = "&".join(f"{name}={str(value).lower()}" for name, value in said["parameters"].items())
    assert client.get(f"/relative/xlnet?{query}").json() == said


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("d_model=4&key_len=3", "query_len"),
        ("d_model=4&query_len=3", "key_len"),
        ("d_model=4&query_len=3&key_len=3&attn_type=both", "attn_type"),
        ("d_model=4&query_len=3&key_len=3&attn_type=uni", "query_len"),
        ("query_len=3&key_len=3", "d_model"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/xlnet?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]
