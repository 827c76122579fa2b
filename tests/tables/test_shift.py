"""The relative shift: data moved as the libraries move it, to the last bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import shift
from service.tables.document import Document
from service.tables.dtypes import BFLOAT16, FLOAT64, REAL_DTYPES
from service.tables.table import StoredTable

LENGTHS = st.integers(1, 7)
# With batch and heads, with one of them, or with neither.
OTHERS = st.lists(st.integers(1, 3), max_size=2).map(tuple)


def stored(x: NDArray[Any], dtype: str = "float64") -> StoredTable:
    return StoredTable(x.astype(REAL_DTYPES[dtype].storage), REAL_DTYPES[dtype])


def elements(document: Document) -> NDArray[Any]:
    table = document.arrays["shift"]
    assert isinstance(table, StoredTable)
    return table.elements


@given(LENGTHS, LENGTHS, OTHERS)
def test_a_key_gets_the_score_of_its_distance(
    queries: int, keys: int, others: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).standard_normal((queries, keys, *others))

    found = elements(shift.transformer_xl(stored(x), zero_triu=False))

    assert found.shape == x.shape
    for i, j in np.ndindex(queries, keys):
        if j + queries - 1 - i < keys:
            assert (found[i, j] == x[i, j + queries - 1 - i]).all()


def test_what_a_mask_hides_is_what_comes_next_in_memory() -> None:
    x = np.arange(1.0, 10.0).reshape(3, 3)

    found = elements(shift.transformer_xl(stored(x), zero_triu=False))

    # 0 1 2 3 | 0 4 5 6 | 0 7 8 9, without the first three.
    assert found.tolist() == [[3, 0, 4], [5, 6, 0], [7, 8, 9]]


@given(LENGTHS, LENGTHS)
def test_zeros_above_the_diagonal_leave_the_rest_alone(queries: int, keys: int) -> None:
    x = stored(np.random.default_rng(0).standard_normal((queries, keys)))

    plain = elements(shift.transformer_xl(x, zero_triu=False))
    found = elements(shift.transformer_xl(x, zero_triu=True))

    assert (found == np.tril(plain, keys - queries)).all()
    assert (x.elements == np.random.default_rng(0).standard_normal((queries, keys))).all()


@given(LENGTHS, st.integers(2, 7), OTHERS, st.data())
def test_xlnets_shift_is_that_of_rows_with_one_position_more(
    queries: int, columns: int, others: tuple[int, ...], data: st.DataObject
) -> None:
    key_len = data.draw(st.integers(1, columns - 1))
    x = np.random.default_rng(0).standard_normal((queries, columns, *others))

    found = elements(shift.xlnet(stored(x), key_len=key_len))

    assert found.shape == (queries, key_len, *others)
    for i, j in np.ndindex(queries, key_len):
        if j + queries - i < columns:
            assert (found[i, j] == x[i, j + queries - i]).all()


def test_transformer_xls_shift_is_xlnets_after_a_column_of_zeros() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6, 2))
    padded = np.concatenate([np.zeros((4, 1, 2)), x], axis=1)

    found = elements(shift.transformer_xl(stored(x), zero_triu=False))

    assert (found == elements(shift.xlnet(stored(padded), key_len=6))).all()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
def test_every_type_keeps_its_bits(dtype: str) -> None:
    bits = np.random.default_rng(0).integers(0, 60000, (3, 5))
    x = stored(bits, dtype)

    found = elements(shift.transformer_xl(x, zero_triu=False))

    assert found.dtype == x.elements.dtype
    assert set(found.reshape(-1).tolist()) <= {0, *x.elements.reshape(-1).tolist()}
    assert found[2].tolist() == x.elements[2].tolist()


def test_nan_and_infinity_pass_and_are_known_of() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 2.0]])

    document = shift.transformer_xl(StoredTable(x, FLOAT64), zero_triu=False)

    table = document.arrays["shift"]
    assert isinstance(table, StoredTable)
    assert not table.is_finite
    assert np.isnan(table.elements[0, 0])
    narrow = StoredTable(np.array([[0x7F80, 0x3F80]], dtype="<u2"), BFLOAT16)
    moved = shift.transformer_xl(narrow, zero_triu=False).arrays["shift"]
    assert isinstance(moved, StoredTable)
    assert not moved.is_finite


def test_axes_are_named_as_far_as_they_go() -> None:
    for rank in (2, 3, 4):
        document = shift.transformer_xl(stored(np.ones((2,) * rank)), zero_triu=False)
        assert document.axes == ("query", "key", "batch", "head")[:rank]
