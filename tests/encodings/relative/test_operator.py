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


def test_the_rows_of_a_pair_are_a_rotation() -> None:
    """Sine row [cos kω, sin kω], cosine row [−sin kω, cos kω]."""
    matrix = operator(d_model=2, offset=3)

    expected = [[mpmath.cos(3), mpmath.sin(3)], [-mpmath.sin(3), mpmath.cos(3)]]
    for row in range(2):
        for column in range(2):
            assert abs(matrix[row, column] - expected[row][column]) <= 6 * UNIT


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


@given(st.data())
def test_any_range_of_an_operator_has_the_bytes_of_the_whole(data: st.DataObject) -> None:
    table = ShiftOperator.model_validate({"d_model": 6, "offsets": "-2:3"}).table()
    start = data.draw(st.integers(0, 179))
    stop = data.draw(st.integers(start + 1, 180))

    assert table.read(0, 180)[start:stop].tobytes() == table.read(start, stop).tobytes()


@settings(max_examples=40)
@given(st.integers(1, 60), FAR)
def test_similarity_is_the_sum_of_cosines_within_its_bound(half: int, offset: int) -> None:
    value = similarity(2 * half, offset)

    exact = sum(mpmath.cos(offset * frequency(10000.0, 2 * half, pair)) for pair in range(half))
    assert abs(value - exact) <= half * (5 + 2 * (half - 1).bit_length()) * UNIT


@given(FAR, st.integers(-1000, 1000))
def test_similarity_is_the_product_of_two_encodings(position: int, offset: int) -> None:
    here = encoded(16, 10000.0, position, "interleaved")
    there = encoded(16, 10000.0, position + offset, "interleaved")

    assert abs(similarity(16, offset) - here @ there) < 200 * UNIT


def test_the_size_of_steps_does_not_change_similarities(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"d_model": 10, "offsets": "-50:51", "dtype": "float64"}
    table = Similarity.model_validate(values).table()
    at_once = table.read(0, 101)
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", 5)

    assert at_once.tobytes() == table.read(0, 101).tobytes()
    assert at_once[50] == 5.0 == at_once.max()
    assert (at_once == at_once[::-1]).all()


def data_of(client: Client, url: str) -> NDArray[np.float64]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_operator_moves_rows_of_the_encoding(client: Client, layout: str) -> None:
    query = f"d_model=6&base=100&layout={layout}&dtype=float64"
    here, there = data_of(client, f"/encoding?positions=11,16&{query}")

    matrix = data_of(client, f"/relative?offset=5&{query}")

    assert np.abs(matrix @ here - there).max() < 1e-15


def test_one_offset_is_a_matrix_and_several_are_a_stack(client: Client) -> None:
    one = data_of(client, "/relative?d_model=4&offset=2")
    several = data_of(client, "/relative?d_model=4&offsets=-1:3")

    assert (one.shape, several.shape) == ((4, 4), (4, 4, 4))
    assert several[3].tolist() == one.tolist()


def test_sums_of_many_cosines_are_sent_in_small_blocks(client: Client) -> None:
    builds = client.app.state.delivery.cache.builds
    body = find_body("/relative/similarity.npy?d_model=65536&offsets=0:1000000")

    blocks = body.blocks()
    header, first = next(blocks), next(blocks)

    assert len(header) + len(first) < 300
    answer = client.get("/relative/similarity.npy?d_model=65536&offsets=0:600")
    assert answer.status_code == 200
    assert client.app.state.delivery.cache.builds == builds
