"""The shift operator and the similarity."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import relative, sinusoidal
from service.tables.dtypes import FLOAT64, REAL_DTYPES, widened
from service.tables.positions import Positions, Run
from service.tables.recipes import recipe
from service.tables.table import Table, size
from tests.exact import UNIT, frequency

FAR = st.integers(-(2**60), 2**60)


def whole(table: Table) -> NDArray[np.float64]:
    return widened(table.read(0, size(table)), table.dtype).reshape(table.shape)


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
    document = sinusoidal.encoding(
        recipe=recipe("vaswani", d_model, {"base": base, "layout": layout}),
        positions=Positions.contiguous(position, 1),
        batch=False,
        dtype=FLOAT64,
    )
    (row,) = whole(document.arrays["encoding"])
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
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", 5)

    assert at_once.tobytes() == table.read(0, 101).tobytes()
    assert at_once[50] == 5.0
    assert (at_once == at_once[::-1]).all()
