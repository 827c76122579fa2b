"""Mistakes of structure: sizes, orders, decimals, and the axes of arrays side by side."""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.diagnosis.structure import (
    SizeFault,
    TableView,
    decimal_roundings,
    order_faults,
    size_faults,
    table_views,
)
from service.analysis.diagnosis.waves import waves_of
from service.numerics.dtypes import COMPLEX64, FLOAT32
from service.numerics.tables import StoredTable
from tests.analysis.mistaken import WaveTable
from tests.analysis.samples import float_sample

TABLE = WaveTable(20, 16, "concatenated").table()["table"]


def faults(sent: np.ndarray) -> list[SizeFault]:
    waves = waves_of(TABLE, is_pair=False, positions=None)
    return list(size_faults(sent, TABLE, 1, waves))


def names(fault: SizeFault) -> list[str]:
    return [mistake.name for mistake in fault.mistakes]


def test_rows_and_channels_of_zeros_are_left_out() -> None:
    rows, channels = TABLE.copy(), TABLE.copy()
    rows[9:] = 0
    channels[:, [6, 7, 14, 15]] = 0

    assert faults(rows)[0].rows == 9
    assert faults(channels)[1].sent.tolist() == [*range(6), *range(8, 14)]
    assert faults(channels)[1].mistakes[0].values["beyond"] == "zero"


def test_fewer_pairs_are_truncated_or_of_a_smaller_width() -> None:
    prefix, cut, narrower = faults(TABLE[:, [*range(4), *range(8, 12)]])

    assert [names(each) for each in (prefix, cut)] == [["truncated"], ["truncated"]]
    assert cut.expected.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert (names(narrower), narrower.rotating) == (["partial-width"], 8)


EXPECTED = np.arange(6 * 8).reshape(6, 8)
HALVES = np.hstack([EXPECTED[:, ::2], EXPECTED[:, 1::2]])
PAIRS = np.stack([EXPECTED[:, :4], EXPECTED[:, 4:]], axis=-1).reshape(6, 8)
COLUMN_MAJOR = EXPECTED.reshape(2, 3, 8).swapaxes(0, 1).reshape(6, 8)


@pytest.mark.parametrize(
    ("sent", "grid", "expected"),
    [
        (HALVES, None, [["layout-swapped"]]),
        (PAIRS, None, [["layout-swapped"]]),
        (np.roll(EXPECTED, 4, axis=1), None, [["halves-swapped"]]),
        (EXPECTED[:, np.arange(8) ^ 1], None, [["halves-swapped"]]),
        (EXPECTED[::-1], None, [["positions-reversed"]]),
        (HALVES[::-1], None, [["positions-reversed", "layout-swapped"]]),
        (COLUMN_MAJOR, (2, 3), [["axes-swapped"]]),
        (COLUMN_MAJOR, None, []),
        (COLUMN_MAJOR, (4, 6), []),
    ],
)
def test_order_of_rows_and_columns_is_found(
    sent: np.ndarray, grid: tuple[int, int] | None, expected: list[list[str]]
) -> None:
    matching = [
        [mistake.name for mistake in order.mistakes]
        for order in order_faults(6, 8, 1, grid)
        if np.array_equal(sent[order.rows][:, order.columns], EXPECTED)
    ]

    assert matching == expected


@pytest.mark.parametrize(("is_interleaved", "layout"), [(False, "half"), (True, "interleaved")])
def test_layout_of_four_channels_is_named_by_the_expected_one(
    is_interleaved: bool,
    layout: str,
) -> None:
    _, order, *_ = order_faults(1, 4, 1, is_interleaved=is_interleaved)

    assert order.mistakes[0].values["want"] == layout


NUMBERS = np.sin(np.arange(1.0, 40.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("decimals", [1, 3, 4, 6])
def test_rounding_to_decimals_allows_half_of_the_last(decimals: int, dtype: type) -> None:
    printed = np.round(NUMBERS, decimals).astype(dtype).astype(np.float64)

    assert list(decimal_roundings(printed)) == [
        (0.5 * 10.0**-decimals, (Mistake("rounded-decimals", {"decimals": decimals}),)),
        (0.0, ()),
    ]


@pytest.mark.parametrize(
    "numbers",
    [
        NUMBERS,
        NUMBERS.astype(np.float16).astype(np.float64),
        np.array([0.0, 1.0, 2.0]),
        np.array([0.5, 1.0]),
        np.array([0.1, np.nan, 0.2, 0.3]),
    ],
)
def test_exact_and_too_few_numbers_are_not_rounded_to_decimals(numbers: np.ndarray) -> None:
    assert list(decimal_roundings(numbers)) == [(0.0, ())]


def view_of(shape: tuple[int, ...], *names: str) -> TableView:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    return TableView.of({name: float_sample(values, FLOAT32) for name in names or ("a",)})


def test_table_has_the_columns_of_cosines_before_those_of_sines() -> None:
    view = view_of((2, 3), "sin", "cos")

    assert view.names == ("cos", "sin")
    assert view.table.tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]
    mismatch = view.mismatch((1, 4), 0.0, 0.0, 0.0)
    assert (mismatch.array, mismatch.index) == ("sin", (1, 1))


@pytest.mark.parametrize(
    ("shape", "table", "element", "index"),
    [
        ((5, 4, 2), (5, 8), (2, 5), (2, 2, 1)),
        ((5, 4, 6), (20, 6), (6, 5), (1, 2, 5)),
        ((7,), (1, 7), (0, 3), (3,)),
    ],
)
def test_leading_axes_become_rows_and_pairs_become_columns(
    shape: tuple[int, ...], table: tuple[int, int], element: tuple[int, int], index: tuple[int, ...]
) -> None:
    assert view_of(shape).table.shape == table
    assert view_of(shape).mismatch(element, 0, 0, 0).index == index


def test_complex_number_is_two_columns_and_one_element() -> None:
    elements = np.ones((1, 3, 4), dtype="<c8")
    view = TableView.of({"a": Sample.of(StoredTable(elements, COMPLEX64))})

    assert view.table.shape == (3, 8)
    assert view.mismatch((2, 7), 0, 0, 0).index == (0, 2, 3)


@pytest.mark.parametrize(
    ("sent", "expected", "orders"),
    [
        ((3, 5), (3, 5), [((0, 1), [])]),
        ((5, 3), (3, 5), [((1, 0), ["transposed"])]),
        ((4, 4), (4, 4), [((0, 1), []), ((1, 0), ["transposed"])]),
        ((2, 3, 5), (3, 2, 5), [((1, 0, 2), ["axes-swapped"])]),
        ((3, 50), (32, 16), []),
        ((3, 5, 2), (3, 5), []),
    ],
)
def test_axes_are_tried_in_every_order_that_fits(
    sent: tuple[int, ...],
    expected: tuple[int, ...],
    orders: list[tuple[tuple[int, ...], list[str]]],
) -> None:
    views = table_views(view_of(sent).arrays, view_of(expected))

    assert [(view.axes, [each.name for each in view.mistakes]) for view in views] == orders
