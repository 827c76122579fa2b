"""``/relative/fire`` through HTTP."""

from math import log1p

import mpmath
import pytest

from tests.client import Client
from tests.parity import exact_bias


def test_coordinates_are_those_of_an_independent_evaluation(client: Client) -> None:
    asked = {"query_start": 600, "query_len": 5, "key_len": 40, "c": 0.3, "threshold": 602.5}
    query = "&".join(f"{name}={value}" for name, value in asked.items())

    answer = client.get(f"/relative/fire?dtype=float64&{query}").json()

    assert answer["shape"] == [5, 40]
    with mpmath.workdps(45):
        (expected,) = exact_bias.fire(asked).values()
    found = [value for row in answer["data"] for value in row]
    for got, truth in zip(found, expected.flat, strict=True):
        assert abs(got - truth.value) <= truth.bound


def test_defaults_are_those_of_the_listing_of_the_paper(client: Client) -> None:
    (row,) = client.get("/relative/fire?dtype=float64&query_start=9&query_len=1&key_len=1").json()[
        "data"
    ]

    assert row[0] == pytest.approx(log1p(0.9) / (log1p(51.2) + 1e-6), rel=1e-15)


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("c=0.1", "query_len"),
        ("query_len=2&c=0", "c"),
        ("query_len=2&threshold=-1", "threshold"),
        ("query_len=2&threshold=1e-10", "threshold"),
        ("query_len=2&threshold=0&eps=0", "eps"),
        ("query_len=2&eps=-1", "eps"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/fire?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]
