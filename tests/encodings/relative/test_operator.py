"""The shift operator and the similarity of the sinusoidal encoding."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.__main__ import find_body
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.encodings.relative.operator import ShiftOperator, Similarity
from service.numerics.dtypes import REAL_DTYPES, to_float64
from service.numerics.tables import Table, size
from tests.client import Client
from tests.exact import UNIT, frequency

FAR = st.integers(-(2**60), 2**60)
LAYOUTS = ["interleaved", "concatenated"]


def whole(table: Table) -> NDArray[np.float64]:
    return to_float64(table.read(0, size(table)), table.dtype).reshape(table.shape)


def operator(**values: Any) -> NDArray[np.float64]:
    return whole(ShiftOperator.model_validate({"dtype": "float64", **values}).table())


def similarity(d_model: int, offset: int) -> float:
    family = Similarity.model_validate(
        {"d_model": d_model, "offsets": [offset], "dtype": "float64"}
    )
    return float(whole(family.table())[0])


def encoded(d_model: int, base: float, position: int, layout: str) -> NDArray[np.float64]:
    encoding = SinusoidalEncoding.model_validate(
        {"d_model": d_model, "base": base, "layout": layout}
        | {"start": position, "seq_len": 1, "dtype": "float64"}
    )
    (row,) = whole(encoding.table())
    return np.asarray(row, dtype=np.float64)


@settings(max_examples=80)
@given(st.integers(1, 40), st.floats(1.0001, 1e12), FAR, FAR, st.sampled_from(LAYOUTS))
def test_the_operator_moves_an_encoding_by_its_offset(
    half: int, base: float, position: int, offset: int, layout: str
) -> None:
    matrix = operator(d_model=2 * half, base=base, offset=offset, layout=layout)

    moved = matrix @ encoded(2 * half, base, position, layout)

    assert np.abs(moved - encoded(2 * half, base, position + offset, layout)).max() <= 24 * UNIT


@pytest.mark.parametrize("layout", LAYOUTS)
def test_offset_0_is_the_identity_without_negative_zeros(layout: str) -> None:
    matrix = operator(d_model=6, offset=0, layout=layout)

    assert np.eye(6).tolist() == matrix.tolist()
    assert not np.signbit(matrix).any()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_several_offsets_are_stacked_operators(dtype: str) -> None:
    values = {"d_model": 4, "base": 100.0, "layout": "concatenated"}

    stacked = operator(**values, offsets="-3:13:5,7", dtype=dtype)

    assert stacked.shape == (5, 4, 4)
    for matrix, offset in zip(stacked, [-3, 2, 7, 12, 7], strict=True):
        assert np.abs(matrix - operator(**values, offset=offset)).max() <= 2.0**-8


@settings(max_examples=40)
@given(st.integers(1, 60), FAR)
def test_similarity_is_the_sum_of_cosines_within_its_bound(half: int, offset: int) -> None:
    value = similarity(2 * half, offset)

    exact = sum(mpmath.cos(offset * frequency(10000.0, 2 * half, pair)) for pair in range(half))
    assert abs(value - exact) <= half * (5 + 2 * (half - 1).bit_length()) * UNIT


def test_similarity_is_largest_at_0_and_symmetric() -> None:
    family = Similarity.model_validate({"d_model": 10, "offsets": "-50:51", "dtype": "float64"})

    values = whole(family.table())

    assert values[50] == 5.0 == values.max()
    assert (values == values[::-1]).all()


def test_sums_of_many_cosines_are_sent_in_small_blocks(client: Client) -> None:
    builds = client.app.state.delivery.cache.builds
    body = find_body("/relative/similarity.npy?d_model=65536&offsets=0:1000000")

    blocks = body.blocks()
    header, first = next(blocks), next(blocks)

    assert len(header) + len(first) < 300
    answer = client.get("/relative/similarity.npy?d_model=65536&offsets=0:600")
    assert answer.status_code == 200
    assert client.app.state.delivery.cache.builds == builds
