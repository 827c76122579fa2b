"""``/relative/sandwich`` through HTTP."""

from math import cos

import pytest

from tests.client import Client


def test_a_bias_is_the_formula(client: Client) -> None:
    query = "num_heads=2&head_dim=4&base=100&query_positions=3&key_positions=1"

    answer = client.get(f"/relative/sandwich?{query}&dtype=float64")

    assert answer.status_code == 200, answer.text
    total = cos(2 * 100**-0.5) + cos(2 * 100**-1) - 2
    expected = [total / (8 / 2), total / (16 / 2)]
    assert [row[0][0] for row in answer.json()["data"]] == pytest.approx(expected, rel=1e-12)


def test_the_future_has_no_bias_unless_it_is_asked_for(client: Client) -> None:
    query = "/relative/sandwich?num_heads=2&head_dim=4&head=1&query_len=2"

    causal = client.get(query).json()["data"]
    both = client.get(f"{query}&causal=false").json()["data"]

    assert causal[0] == [0, 0]
    assert both[0][1] == both[1][0] == causal[1][0] < 0


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("num_heads=2&head_dim=5&query_len=2", "head_dim"),
        ("num_heads=2&head_dim=4", "query_len"),
        ("head_dim=4&query_len=2", "num_heads"),
        ("num_heads=2&head_dim=4&query_len=2&head=2", "head"),
        ("num_heads=2&head_dim=4&query_len=2&base=1e101", "base"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/sandwich?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]
