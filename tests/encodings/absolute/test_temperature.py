"""The factors of queries by position."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.absolute.temperature import AttentionTemperature
from service.numerics.tables import size
from tests.client import Client, load_data
from tests.exact import UNIT

mpf = mpmath.mpf
POSITIONS = st.one_of(st.integers(0, 2**62), st.integers(0, 10**6))


def values(**query: object) -> np.ndarray[Any, Any]:
    family = AttentionTemperature.model_validate({"dtype": "float64", **query})
    table = family.table()
    return np.asarray(table.read(0, size(table)))


@settings(max_examples=500, deadline=None)
@given(POSITIONS, st.integers(1, 10**5), st.floats(0, 1000))
@pytest.mark.parametrize(
    ("convention", "names", "moved"),
    [
        ("llama4", ("floor_scale", "attn_scale"), 1),
        ("ministral3", ("original_max_position_embeddings", "llama_4_scaling_beta"), 0),
    ],
)
def test_a_stepped_factor_is_within_its_bound(
    convention: str, names: tuple[str, str], moved: int, position: int, length: int, factor: float
) -> None:
    keys = dict(zip(names, (length, factor), strict=True))

    (value,) = values(convention=convention, positions=str(position), **keys)

    true = 1 + mpf(factor) * mpmath.log(1 + (position + moved) // length)
    assert abs(mpf(float(value)) - true) <= true * 1.01 * UNIT


@settings(max_examples=300, deadline=None)
@given(POSITIONS)
def test_a_factor_of_beam_is_within_its_bound(position: int) -> None:
    (value,) = values(convention="beam", positions=str(position))

    true = (1 + mpf(position + 1) / 2048) ** (mpf(1) / 10)
    assert abs(mpf(float(value)) - true) <= true * 1.2 * UNIT


def _llama4(p: Any) -> Any:
    return np.log1p(np.floor((p + np.float32(1)) / np.float32(8192))) * np.float32(0.1) + 1


def _ministral3(p: Any) -> Any:
    return 1 + np.float32(0.1) * np.log(1 + np.floor(p / np.float32(8192)))


def _beam(p: Any) -> Any:
    return np.exp(np.float32(0.1) * np.log1p((p + 1) / np.float32(2048)))


@pytest.mark.parametrize(
    ("query", "library"),
    [
        ({}, _llama4),
        ({"convention": "ministral3", "original_max_position_embeddings": 8192}, _ministral3),
        ({"convention": "beam"}, _beam),
    ],
)
def test_float32_of_libraries_is_within_the_stated_distance(
    query: dict[str, object], library: Callable[[Any], Any]
) -> None:
    positions = np.arange(0, 2**24 - 1, 1013)

    exact = values(positions=",".join(map(str, positions)), **query)

    found = library(positions.astype(np.float32))
    assert found.dtype == np.float32
    assert (np.abs(found - exact) <= 2.0**-22 * exact).all()


def test_the_steps_of_llama_4_begin_one_position_earlier_than_those_of_ministral() -> None:
    near = "8190:8193"

    assert (values(positions=near) > 1).tolist() == [False, True, True]
    ministral = values(
        positions=near, convention="ministral3", original_max_position_embeddings=8192
    )
    assert (ministral > 1).tolist() == [False, False, True]


def test_an_answer_has_the_keys_that_were_used(client: Client) -> None:
    answer = client.get("/attention/temperature.json?seq_len=3&dtype=float64")

    assert answer.json()["parameters"] == {
        "convention": "llama4",
        "floor_scale": 8192,
        "attn_scale": 0.1,
        "start": 0,
        "seq_len": 3,
    }
    assert load_data(answer).tolist() == [1, 1, 1]
