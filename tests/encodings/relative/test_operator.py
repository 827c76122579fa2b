"""The shift operator and the similarity.

``/relative`` through HTTP.
"""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.encodings.relative import operator as relative
from service.local import find_body
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, to_float64
from service.numerics.positions import Positions, Run
from service.numerics.tables import Table, size
from tests.client import Client
from tests.exact import UNIT, frequency

FAR = st.integers(-(2**60), 2**60)


def whole(table: Table) -> NDArray[np.float64]:
    return to_float64(table.read(0, size(table)), table.dtype).reshape(table.shape)


def operator(d_model: int, base: float, offset: int, layout: str) -> NDArray[np.float64]:
    document = relative.operator(
        d_model=d_model,
        base=base,
        offsets=Positions.contiguous(offset, 1),
        stacked=False,
        layout=layout,
        dtype=FLOAT64,
    )
    return whole(document.arrays["relative"])


def encoded(d_model: int, base: float, position: int, layout: str) -> NDArray[np.float64]:
    encoding = SinusoidalEncoding.model_validate(
        {"d_model": d_model, "base": base, "layout": layout}
        | {"start": position, "seq_len": 1, "dtype": "float64"}
    )
    (row,) = whole(encoding.table())
    return np.asarray(row, dtype=np.float64)


@settings(max_examples=80)
@given(
    st.integers(1, 40),
    st.floats(1.0001, 1e12),
    FAR,
    FAR,
    st.sampled_from(["interleaved", "concatenated"]),
)
def test_the_operator_moves_an_encoding_to_another_position(
    half: int, base: float, position: int, offset: int, layout: str
) -> None:
    moved = operator(2 * half, base, offset, layout) @ encoded(2 * half, base, position, layout)

    assert np.abs(moved - encoded(2 * half, base, position + offset, layout)).max() <= 24 * UNIT


def test_the_rows_of_a_pair_are_a_rotation() -> None:
    """Sine row [cos kω, sin kω], cosine row [−sin kω, cos kω]."""
    matrix = operator(2, 10000.0, 3, "interleaved")

    expected = [[mpmath.cos(3), mpmath.sin(3)], [-mpmath.sin(3), mpmath.cos(3)]]
    for row in range(2):
        for column in range(2):
            assert abs(matrix[row, column] - expected[row][column]) <= 6 * UNIT


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_no_offset_is_the_identity_without_negative_zeros(layout: str) -> None:
    matrix = operator(6, 10000.0, 0, layout)

    assert np.eye(6).tolist() == matrix.tolist()
    assert not np.signbit(matrix).any()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_several_offsets_are_stacked_operators(dtype: str) -> None:
    offsets = Positions.of_runs([Run(-3, 5, 4), Run(7, 1, 1)])
    document = relative.operator(
        d_model=4,
        base=100.0,
        offsets=offsets,
        stacked=True,
        layout="concatenated",
        dtype=REAL_DTYPES[dtype],
    )

    table = document.arrays["relative"]
    stacked = whole(table)

    assert table.shape == (5, 4, 4)
    for matrix, offset in zip(stacked, [-3, 2, 7, 12, 7], strict=True):
        assert np.abs(matrix - operator(4, 100.0, offset, "concatenated")).max() <= 2.0**-8


@given(st.data())
def test_any_range_of_an_operator_has_the_bytes_of_the_whole(data: st.DataObject) -> None:
    document = relative.operator(
        d_model=6,
        base=10000.0,
        offsets=Positions.contiguous(-2, 5),
        stacked=True,
        layout="interleaved",
        dtype=FLOAT64,
    )
    table = document.arrays["relative"]
    start = data.draw(st.integers(0, 179))
    stop = data.draw(st.integers(start + 1, 180))

    assert table.read(0, 180)[start:stop].tobytes() == table.read(start, stop).tobytes()


@settings(max_examples=40)
@given(st.integers(1, 60), FAR)
def test_similarity_is_the_sum_of_cosines_within_its_bound(half: int, offset: int) -> None:
    document = relative.similarity(
        d_model=2 * half, base=10000.0, offsets=Positions.contiguous(offset, 1), dtype=FLOAT64
    )

    value = whole(document.arrays["similarity"])[0]

    exact = sum(mpmath.cos(offset * frequency(10000.0, 2 * half, pair)) for pair in range(half))
    assert abs(value - exact) <= half * (5 + 2 * (half - 1).bit_length()) * UNIT


@given(FAR, st.integers(-1000, 1000))
def test_similarity_is_the_product_of_two_encodings(position: int, offset: int) -> None:
    document = relative.similarity(
        d_model=16, base=10000.0, offsets=Positions.contiguous(offset, 1), dtype=FLOAT64
    )
    here = encoded(16, 10000.0, position, "interleaved")
    there = encoded(16, 10000.0, position + offset, "interleaved")

    assert abs(whole(document.arrays["similarity"])[0] - here @ there) < 200 * UNIT


def test_similarity_of_many_offsets_is_the_same_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    document = relative.similarity(
        d_model=10, base=10000.0, offsets=Positions.contiguous(-50, 101), dtype=FLOAT64
    )
    table = document.arrays["similarity"]
    at_once = table.read(0, 101)
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", 5)

    assert at_once.tobytes() == table.read(0, 101).tobytes()
    assert at_once[50] == 5.0
    assert (at_once == at_once[::-1]).all()


def table(client: Client, url: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_operator_moves_one_row_of_the_table_to_another(client: Client, layout: str) -> None:
    query = f"d_model=6&base=100&layout={layout}&dtype=float64"
    here, there = table(client, f"/encoding?positions=11,16&{query}")

    operator = table(client, f"/relative?offset=5&{query}")

    assert np.abs(operator @ here - there).max() < 1e-15


def test_one_offset_gives_a_matrix_and_several_a_stack(client: Client) -> None:
    one = table(client, "/relative?d_model=4&offset=2")
    several = table(client, "/relative?d_model=4&offsets=-1:3")

    assert (one.shape, several.shape) == ((4, 4), (4, 4, 4))
    assert several[3].tolist() == one.tolist()


def test_similarity_is_largest_at_no_offset_and_even(client: Client) -> None:
    values = table(client, "/relative/similarity?d_model=8&offsets=-50:51&dtype=float64")

    assert values[50] == 4.0 == values.max()
    assert values.tolist() == values[::-1].tolist()


@pytest.mark.parametrize(
    ("url", "parameter"),
    [
        ("/relative?d_model=5&offset=1", "d_model"),
        ("/relative?d_model=4", "offset"),
        ("/relative?d_model=4&offset=1&offsets=1", "offset"),
        ("/relative/similarity?d_model=5&offsets=1", "d_model"),
        ("/relative/similarity?d_model=4", "offsets"),
        (f"/relative?d_model=4&offset={2**62 + 1}", "offset"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, url: str, parameter: str) -> None:
    answer = client.get(url)

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_a_sum_of_many_cosines_is_made_in_small_blocks_while_it_is_sent(client: Client) -> None:
    builds = client.app.state.delivery.cache.builds
    body = find_body("/relative/similarity.npy?d_model=65536&offsets=0:1000000")

    blocks = body.blocks()
    header, first = next(blocks), next(blocks)

    assert len(header) + len(first) < 300
    answer = client.get("/relative/similarity.npy?d_model=65536&offsets=0:600")
    assert answer.status_code == 200
    assert client.app.state.delivery.cache.builds == builds
