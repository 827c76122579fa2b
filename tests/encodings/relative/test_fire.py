"""FIRE's coordinates.

``/relative/fire`` through HTTP.
"""

from math import log1p

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.relative import fire
from service.encodings.relative.distance import QueryKey
from service.encodings.relative.fire import FireTable, Interpolation
from service.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64
from service.numerics.positions import Positions
from tests.client import Client
from tests.exact import UNIT
from tests.parity import exact_bias

mpf = mpmath.mpf
PLACES = st.one_of(st.integers(-(2**61), 2**61), st.integers(-2000, 2000))


def one(interpolation: Interpolation, query: int, key: int) -> float:
    pairs = QueryKey(Positions.contiguous(query, 1), Positions.contiguous(key, 1))
    return float(FireTable(interpolation, pairs, FLOAT64).read(0, 1)[0])


@settings(max_examples=500)
@given(
    st.floats(1e-9, 1e9),
    st.one_of(st.floats(1e-9, 1e6), st.just(0.0)),
    st.floats(1e-9, 1.0),
    PLACES,
    PLACES,
)
def test_a_coordinate_is_within_its_bound(
    c: float, threshold: float, eps: float, query: int, key: int
) -> None:
    got = one(Interpolation(c, threshold, eps), query, key)

    longest = max(mpf(threshold), mpf(query))
    true = mpmath.log1p(mpf(c) * abs(query - key)) / (mpmath.log1p(mpf(c) * longest) + mpf(eps))
    assert abs(mpf(got) - true) <= true * 4.1 * UNIT


def test_queries_before_the_threshold_are_measured_by_it() -> None:
    interpolation = Interpolation(1.0, 7.5, 0.0)

    at = [one(interpolation, query, query - 3) for query in (-5, 0, 7, 8)]

    assert at[0] == at[1] == at[2]
    assert at[3] < at[2]


def test_a_part_of_the_table_is_a_part_of_the_whole() -> None:
    pairs = QueryKey(Positions.contiguous(500, 30), Positions.contiguous(3, 17))
    table = FireTable(Interpolation(0.1, 512.0, 1e-6), pairs, FLOAT64)

    whole = table.read(0, 510)
    assert whole.shape == (510,)
    for start, stop in [(0, 1), (5, 40), (16, 18), (17, 34), (300, 510)]:
        assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_the_document_says_what_it_was_made_of() -> None:
    pairs = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(0, 3))
    document = fire.coordinates(
        interpolation=Interpolation(0.1, 512.0, 1e-6), pairs=pairs, dtype=FLOAT64
    )

    assert document.shape == (2, 3)
    assert document.axes == ("query", "key")
    assert dict(document.parameters) == {
        "c": 0.1,
        "threshold": 512.0,
        "eps": 1e-6,
        "query_start": 0,
        "query_len": 2,
        "key_start": 0,
        "key_len": 3,
    }
    assert np.isfinite(document.arrays["fire"].read(0, 6)).all()


@settings(max_examples=300)
@given(
    st.floats(1e-9, 1e9),
    st.one_of(st.floats(1e-9, 1e6), st.just(0.0)),
    st.floats(1e-30, 1.0),
    st.integers(-40, 40),
    st.integers(-40, 40),
)
def test_a_table_that_does_not_say_it_may_overflow_does_not(
    c: float, threshold: float, eps: float, query: int, key: int
) -> None:
    pairs = QueryKey(Positions.contiguous(query, 5), Positions.contiguous(key, 3))
    table = FireTable(Interpolation(c, threshold, eps), pairs, FLOAT16)

    assert table.overflows or np.isfinite(table.read(0, 15)).all()


def test_a_small_denominator_overflows_and_that_of_the_listing_never_does() -> None:
    pairs = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(0, 2))
    far = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(-(2**61), 2))

    assert FireTable(Interpolation(0.1, 0.0, 1e-9), pairs, FLOAT16).overflows
    assert not FireTable(Interpolation(0.1, 0.0, 1e-9), pairs, FLOAT32).overflows
    assert not FireTable(Interpolation(0.1, 512.0, 1e-6), far, FLOAT16).overflows


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
