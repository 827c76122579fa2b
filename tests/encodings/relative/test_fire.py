"""FIRE's coordinates."""

from math import log1p

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.relative.fire import Fire
from service.numerics.tables import overflows
from tests.client import Client
from tests.exact import UNIT

mpf = mpmath.mpf
PLACES = st.one_of(st.integers(-(2**61), 2**61), st.integers(-2000, 2000))


def fire(*, c: float = 0.1, threshold: float = 512.0, eps: float = 1e-6, **places: object) -> Fire:
    defaults = {"dtype": "float64", "query_len": 1, "key_len": 1}
    values = {**defaults, "c": c, "threshold": threshold, "eps": eps, **places}
    return Fire.model_validate(values)


def one(family: Fire) -> float:
    return float(family.table().read(0, 1)[0])


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
    value = one(fire(c=c, threshold=threshold, eps=eps, query_start=query, key_start=key))

    longest = max(mpf(threshold), mpf(query))
    true = mpmath.log1p(mpf(c) * abs(query - key)) / (mpmath.log1p(mpf(c) * longest) + mpf(eps))
    assert abs(mpf(value) - true) <= true * 4.1 * UNIT


def test_queries_before_the_threshold_are_normalized_by_it() -> None:
    at = [
        one(fire(c=1.0, threshold=7.5, eps=0.0, query_start=query, key_start=query - 3))
        for query in (-5, 0, 7, 8)
    ]

    assert at[0] == at[1] == at[2]
    assert at[3] < at[2]


@settings(max_examples=300)
@given(
    st.floats(1e-9, 1e9),
    st.one_of(st.floats(1e-9, 1e6), st.just(0.0)),
    st.floats(1e-30, 1.0),
    st.integers(-40, 40),
    st.integers(-40, 40),
)
def test_a_table_without_overflows_is_finite(
    c: float, threshold: float, eps: float, query: int, key: int
) -> None:
    places = {"query_start": query, "query_len": 5, "key_start": key, "key_len": 3}
    table = fire(c=c, threshold=threshold, eps=eps, dtype="float16", **places).table()

    assert overflows(table) or np.isfinite(table.read(0, 15)).all()


def test_a_small_denominator_overflows_and_the_default_never_does() -> None:
    near = {"query_len": 2, "key_len": 2}
    far = {**near, "key_start": -(2**61)}

    assert overflows(fire(threshold=0.0, eps=1e-9, dtype="float16", **near).table())
    assert not overflows(fire(threshold=0.0, eps=1e-9, dtype="float32", **near).table())
    assert not overflows(fire(dtype="float16", **far).table())


def test_defaults_are_those_of_the_paper(client: Client) -> None:
    answer = client.get("/relative/fire?dtype=float64&query_start=9&query_len=1&key_len=1").json()

    ((value,),) = answer["data"]
    assert value == pytest.approx(log1p(0.9) / (log1p(51.2) + 1e-6), rel=1e-15)
    assert answer["parameters"] == {
        "c": 0.1,
        "threshold": 512,
        "eps": 1e-6,
        "query_start": 9,
        "query_len": 1,
        "key_start": 0,
        "key_len": 1,
    }
