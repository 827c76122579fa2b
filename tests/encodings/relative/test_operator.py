"""The shift operator of the sinusoidal encoding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.encodings.relative.operator import ShiftOperator
from service.numerics.dtypes import REAL_DTYPES, to_float64
from service.numerics.tables import Table, size
from tests.exact import UNIT

FAR = st.integers(-(2**60), 2**60)
LAYOUTS = ["interleaved", "concatenated"]


def whole(table: Table) -> NDArray[np.float64]:
    return to_float64(table.read(0, size(table)), table.dtype).reshape(table.shape)


def operator(**values: Any) -> NDArray[np.float64]:
    return whole(ShiftOperator.model_validate({"dtype": "float64", **values}).table())


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
