"""Tables: any range of flat elements equals a slice of the whole; gathered rows."""

from dataclasses import replace
from decimal import Decimal
from math import prod
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.encodings.absolute.conventions import ZeroRow
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, DType, Elements
from service.numerics.phase import FREQUENCY_SECONDS, Geometric
from service.numerics.phasors import Channels, PhasorTable
from service.numerics.positions import Positions
from service.numerics.setups import setup_of
from service.numerics.tables import (
    ColumnsTable,
    DecimalTable,
    FormulaTable,
    GatheredTable,
    StoredTable,
    Table,
    distinct_integers,
    gather_biases,
    gather_rows,
    overflows,
    row_ranges,
    size,
    size_bytes,
)

STORED = StoredTable(np.arange(12.0).reshape(4, 3), FLOAT64)
COUNTING = FormulaTable(
    STORED.shape,
    FLOAT64,
    row_elements=3,
    evaluate=lambda rows, columns: STORED.elements[
        rows.start : rows.stop, columns.start : columns.stop
    ],
)


@pytest.mark.parametrize("table", [COUNTING, STORED])
def test_every_range_is_read_in_order(table: Table) -> None:
    for start in range(12):
        for stop in range(start, 13):
            assert list(range(start, stop)) == table.read(start, stop).tolist()


def test_sizes_are_counted_from_the_shape() -> None:
    table = StoredTable(np.zeros((2, 3, 5), dtype="<f4"), FLOAT32)

    assert (size(table), size_bytes(table)) == (30, 120)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 12), st.integers(1, 9))
def test_row_ranges_are_whole_rows_or_parts_of_one(
    start: int, length: int, width: int, step: int
) -> None:
    with mock.patch("service.numerics.tables.STEP_ELEMENTS", step):
        found = list(row_ranges(start, start + length, width))

    flat = [row * width + item for rows, items in found for row in rows for item in items]
    assert flat == list(range(start, start + length))
    for rows, items in found:
        assert len(rows) * len(items) <= step
        assert len(rows) == 1 or items == range(width)


def test_many_short_rows_are_few_ranges() -> None:
    assert len(list(row_ranges(1, 3 * 2**18 - 1, 3))) <= 9


def test_overflows_is_false_without_the_attribute() -> None:
    assert overflows(replace(COUNTING, overflows=True))
    assert not overflows(STORED)


def test_setup_seconds_is_zero_without_the_attribute_and_for_what_the_caches_have() -> None:
    rule = Geometric(9871.0, 8, 4)
    channels = Channels(("sin", "cos"), interleaved=True, width=8)
    rows = PhasorTable(rule, channels, Positions.contiguous(0, 2), FLOAT64, (2, 8))

    assert setup_of(STORED).seconds == 0
    assert setup_of(rows).seconds > 4 * FREQUENCY_SECONDS
    assert ZeroRow(rows, rows.positions, 1, 8).setup is rows.setup
    assert ColumnsTable(rows, 1, Positions.contiguous(1, 2)).setup is rows.setup

    assert list(rows.setup.steps()) == []
    other = replace(rows, positions=Positions.contiguous(7, 3), shape=(3, 8))
    assert setup_of(rows).seconds == setup_of(other).seconds == 0


TABLE = DecimalTable((3,), lambda: [Decimal("0.1"), Decimal("1e-400"), Decimal("Infinity")])


def test_each_number_is_rounded_once() -> None:
    assert TABLE.shape == (3,)
    assert TABLE.read(0, 3).tolist() == [0.1, 0.0, float("inf")]


LISTS = st.lists(st.integers(-9, 9), min_size=1) | st.lists(
    st.integers(-(2**62), 2**62), min_size=1
)


@given(LISTS)
@example([-(2**62), 2**62])
@example([2**62, 2**62 - 3])
def test_distinct_integers_and_their_index_reproduce_the_input(listed: list[int]) -> None:
    some, place = distinct_integers(np.array(listed, dtype=np.int64))

    assert some[place].tolist() == listed


@given(LISTS)
def test_distinct_integers_are_sorted_and_at_most_twice_as_many(listed: list[int]) -> None:
    some, _ = distinct_integers(np.array(listed, dtype=np.int64))

    assert (np.diff(some) > 0).all()
    assert len(some) <= 2 * len(listed)


INDEX = StoredTable(np.array([[2, 0, 1, 2], [3, 3, 0, 1], [1, 2, 3, 0]], dtype=np.int64), INT64)
WEIGHT = StoredTable(np.arange(20.0).reshape(4, 5), FLOAT64)


def whole(table: GatheredTable) -> np.ndarray[Any, np.dtype[Any]]:
    return table.read(0, size(table)).reshape(table.shape)


def test_heads_come_before_queries_and_keys() -> None:
    table = gather_biases(WEIGHT, INDEX, None)

    assert table.shape == (5, 3, 4)
    assert (whole(table) == WEIGHT.elements[INDEX.elements].transpose(2, 0, 1)).all()


def test_one_head_alone_has_no_axis_of_heads() -> None:
    table = gather_biases(WEIGHT, INDEX, 3)

    assert table.shape == (3, 4)
    assert (whole(table) == WEIGHT.elements[INDEX.elements, 3]).all()


def test_channels_come_after_queries_and_keys() -> None:
    table = gather_rows(WEIGHT, INDEX)

    assert table.shape == (3, 4, 5)
    assert (whole(table) == WEIGHT.elements[INDEX.elements]).all()


@pytest.mark.parametrize(
    ("dtype", "bits"), [(FLOAT32, "<u4"), (FLOAT64, "<u8"), (FLOAT16, "<u2"), (BFLOAT16, "<u2")]
)
def test_every_bit_is_copied(dtype: DType, bits: str) -> None:
    """Also those of NaNs, which arithmetic would make the same."""
    raw = np.random.default_rng(0).bytes(4 * 5 * dtype.itemsize_bytes)
    sent = StoredTable(np.frombuffer(raw, dtype.storage).reshape(4, 5), dtype)

    found = whole(gather_biases(sent, INDEX, None)).view(bits)

    expected = np.frombuffer(raw, bits).reshape(4, 5)[INDEX.elements].transpose(2, 0, 1)
    assert (found == expected).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_elements_are_detected(value: float) -> None:
    sent = StoredTable(np.array([[1.0], [value], [0.0], [0.0]]), FLOAT64)

    assert not gather_biases(sent, INDEX, None).is_finite
    assert not gather_rows(sent, INDEX).is_finite
    assert gather_biases(WEIGHT, INDEX, None).is_finite


def test_many_heads_of_few_pairs_read_the_index_once() -> None:
    """Each of them anew, it would take seconds."""
    reads = []

    class Counted(StoredTable):
        def read(self, start: int, stop: int) -> Elements:
            reads.append((start, stop))
            return super().read(start, stop)

    index = Counted(np.array([[1, 0]]), INT64)
    weight = np.arange(2.0 * 2**15).reshape(2, 2**15)

    found = whole(gather_biases(StoredTable(weight, FLOAT64), index, None))

    assert reads == [(0, 2)]
    assert (found == weight[::-1].T.reshape(2**15, 1, 2)).all()


@given(st.data())
def test_an_array_in_any_memory_order_is_read_in_c_order(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axes = data.draw(st.permutations(range(len(shape))))
    expected = np.arange(prod(shape), dtype=data.draw(st.sampled_from(["<i2", "<i8"])))
    stored = np.ascontiguousarray(expected.reshape(shape).transpose(axes))
    table = StoredTable(stored.transpose(np.argsort(axes)), INT64)

    start = data.draw(st.integers(0, prod(shape)))
    stop = data.draw(st.integers(start, prod(shape)))

    assert table.read(start, stop).dtype == np.int64
    assert table.read(start, stop).tolist() == expected[start:stop].tolist()
