"""Rows looked up in an array: the bits that were sent, wherever they are wanted."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, DType, Elements
from service.tables.gathered import GatheredTable, biases, embeddings
from service.tables.table import StoredTable, size

INDEX = StoredTable(np.array([[2, 0, 1, 2], [3, 3, 0, 1], [1, 2, 3, 0]], dtype=np.int64), INT64)
WEIGHT = StoredTable(np.arange(20.0).reshape(4, 5), FLOAT64)


def whole(table: GatheredTable) -> np.ndarray[Any, np.dtype[Any]]:
    return table.read(0, size(table)).reshape(table.shape)


def test_heads_come_before_queries_and_keys() -> None:
    table = biases(WEIGHT, INDEX, None)

    assert table.shape == (5, 3, 4)
    assert (whole(table) == WEIGHT.elements[INDEX.elements].transpose(2, 0, 1)).all()


def test_one_head_alone_has_no_axis_of_heads() -> None:
    table = biases(WEIGHT, INDEX, 3)

    assert table.shape == (3, 4)
    assert (whole(table) == WEIGHT.elements[INDEX.elements, 3]).all()


def test_channels_come_after_queries_and_keys() -> None:
    table = embeddings(WEIGHT, INDEX)

    assert table.shape == (3, 4, 5)
    assert (whole(table) == WEIGHT.elements[INDEX.elements]).all()


@given(st.sampled_from(["biases", "head", "embeddings"]), st.integers(0, 60), st.integers(0, 60))
def test_any_range_is_a_slice_of_the_whole(which: str, start: int, length: int) -> None:
    table = {
        "biases": biases(WEIGHT, INDEX, None),
        "head": biases(WEIGHT, INDEX, 1),
        "embeddings": embeddings(WEIGHT, INDEX),
    }[which]
    start = min(start, size(table))
    stop = min(start + length, size(table))

    assert table.read(start, stop).tolist() == whole(table).reshape(-1)[start:stop].tolist()


@pytest.mark.parametrize(
    ("dtype", "bits"), [(FLOAT32, "<u4"), (FLOAT64, "<u8"), (FLOAT16, "<u2"), (BFLOAT16, "<u2")]
)
def test_every_bit_is_copied(dtype: DType, bits: str) -> None:
    """Also those of NaNs, which arithmetic would make the same."""
    raw = np.random.default_rng(0).bytes(4 * 5 * dtype.itemsize_bytes)
    sent = StoredTable(np.frombuffer(raw, dtype.storage).reshape(4, 5), dtype)

    found = whole(biases(sent, INDEX, None)).view(bits)

    expected = np.frombuffer(raw, bits).reshape(4, 5)[INDEX.elements].transpose(2, 0, 1)
    assert (found == expected).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_told(value: float) -> None:
    sent = StoredTable(np.array([[1.0], [value], [0.0], [0.0]]), FLOAT64)

    assert not biases(sent, INDEX, None).is_finite
    assert not embeddings(sent, INDEX).is_finite
    assert biases(WEIGHT, INDEX, None).is_finite


@pytest.mark.parametrize("step", [1, 11, 12, 25, 2**17])
def test_heads_are_the_same_looked_up_together_or_not(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = WEIGHT.elements[INDEX.elements].transpose(2, 0, 1).ravel()
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", step)

    assert biases(WEIGHT, INDEX, None).read(5, 58).tolist() == expected[5:58].tolist()


def test_many_heads_of_few_pairs_read_the_index_once() -> None:
    """Each of them anew, it would take seconds."""
    reads = []

    class Counted(StoredTable):
        def read(self, start: int, stop: int) -> Elements:
            reads.append((start, stop))
            return super().read(start, stop)

    index = Counted(np.array([[1, 0]]), INT64)
    weight = np.arange(2.0 * 2**15).reshape(2, 2**15)

    found = whole(biases(StoredTable(weight, FLOAT64), index, None))

    assert reads == [(0, 2)]
    assert (found == weight[::-1].T.reshape(2**15, 1, 2)).all()
