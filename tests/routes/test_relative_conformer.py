"""``/relative/conformer`` through HTTP."""

import pytest

from tests.client import Client


def test_rows_are_all_differences_those_to_the_left_first(client: Client) -> None:
    answer = client.get("/relative/conformer?d_model=6&seq_len=3&dtype=float64")
    query = "positions=2:-3:-1&d_model=6&dtype=float64"

    assert answer.headers["Array-Shape"] == "5, 6"
    assert answer.json()["data"] == client.get(f"/encoding?{query}").json()["data"]


def test_another_base_is_that_of_the_series(client: Client) -> None:
    answer = client.get("/relative/conformer?d_model=6&seq_len=3&base=100")
    query = "positions=2:-3:-1&d_model=6&base=100"

    assert answer.json()["data"] == client.get(f"/encoding?{query}").json()["data"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [("d_model=5&seq_len=3", "d_model"), ("d_model=4&seq_len=0", "seq_len")],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/conformer?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]
