"""Which parts of two tables can be compared.

Orders that mistakes lead to: undone, they give what was wanted.

Numbers that were printed with a few decimals, and read again.

Arrays side by side, and the way back to where a number was sent.
"""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.diagnosis.structure import (
    SizeFault,
    TableView,
    decimal_roundings,
    decimals_of,
    order_faults,
    size_faults,
    table_views,
)
from service.analysis.diagnosis.waves import waves_of
from service.numerics.dtypes import COMPLEX64, FLOAT32
from service.numerics.tables import StoredTable
from tests.analysis.mistaken import Made, stored

TABLE = Made(20, 16, "concatenated").table()["table"]


def of(have: np.ndarray) -> list[SizeFault]:
    waves = waves_of(TABLE, is_pair=False, positions=None)
    return list(size_faults(have, TABLE, 1, waves))


def names(extent: SizeFault) -> list[str]:
    return [mistake.name for mistake in extent.mistakes]


def test_equal_shapes_are_compared_whole() -> None:
    (whole,) = of(TABLE)

    assert (names(whole), whole.rows, len(whole.have)) == ([], 20, 16)


def test_missing_rows_and_rows_too_many_are_named() -> None:
    assert [names(extent) for extent in of(TABLE[:7])] == [["truncated"]]
    assert of(TABLE[:7])[0].mistakes[0].values["beyond"] == "missing"
    assert [names(extent) for extent in of(np.vstack([TABLE, TABLE]))] == [["longer"]]


def test_rows_and_channels_of_zeros_are_left_out() -> None:
    rows, channels = TABLE.copy(), TABLE.copy()
    rows[9:] = 0
    channels[:, [6, 7, 14, 15]] = 0

    assert of(rows)[0].rows == 9
    assert of(channels)[1].have.tolist() == [*range(6), *range(8, 14)]
    assert of(channels)[1].mistakes[0].values["beyond"] == "zero"


def test_fewer_pairs_may_be_cut_or_of_a_narrower_turn() -> None:
    pairs = TABLE[:, [*range(4), *range(8, 12)]]

    prefix, cut, narrower = of(pairs)

    assert [names(each) for each in (prefix, cut)] == [["truncated"], ["truncated"]]
    assert cut.want.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert (names(narrower), narrower.rotating) == (["partial-width"], 8)


WANTED = np.arange(6 * 8).reshape(6, 8)


def undone(have: np.ndarray, grid: tuple[int, int] | None = None) -> list[list[str]]:
    found = order_faults(len(have), 8, 1, grid)
    return [
        [mistake.name for mistake in order.mistakes]
        for order in found
        if np.array_equal(have[order.rows][:, order.columns], WANTED)
    ]


def test_what_is_in_order_comes_first() -> None:
    assert undone(WANTED)[0] == []


def test_each_exchange_is_undone() -> None:
    halves = np.hstack([WANTED[:, ::2], WANTED[:, 1::2]])
    pairs = np.stack([WANTED[:, :4], WANTED[:, 4:]], axis=-1).reshape(6, 8)

    assert undone(halves) == [["layout-swapped"]]
    assert undone(pairs) == [["layout-swapped"]]
    assert undone(np.roll(WANTED, 4, axis=1)) == [["halves-swapped"]]
    assert undone(WANTED[:, np.arange(8) ^ 1]) == [["halves-swapped"]]
    assert undone(WANTED[::-1]) == [["positions-reversed"]]
    assert undone(halves[::-1]) == [["positions-reversed", "layout-swapped"]]


def test_a_grid_that_is_read_down_is_undone() -> None:
    down = WANTED.reshape(2, 3, 8).swapaxes(0, 1).reshape(6, 8)

    assert undone(down, grid=(2, 3)) == [["axes-swapped"]]
    assert undone(down) == []


def test_of_four_channels_the_exchange_is_named_after_what_is_wanted() -> None:
    for is_interleaved in (False, True):
        found = list(order_faults(1, 4, 1, is_interleaved=is_interleaved))[1].mistakes

        assert found[0].values["want"] == ("interleaved" if is_interleaved else "half")


def test_two_arrays_are_rearranged_each_for_itself() -> None:
    inner = np.concatenate([block + np.array([0, 4, 1, 5, 2, 6, 3, 7]) for block in (0, 8)])

    assert any(np.array_equal(order.columns, np.argsort(inner)) for order in order_faults(1, 16, 2))


NUMBERS = np.sin(np.arange(1.0, 40.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("decimals", [1, 3, 4, 6])
def test_decimals_are_counted(decimals: int, dtype: type) -> None:
    printed = np.round(NUMBERS, decimals).astype(dtype).astype(np.float64)

    assert decimals_of(printed) == decimals


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_numbers_with_all_their_digits_have_no_few_decimals(dtype: type) -> None:
    assert decimals_of(NUMBERS.astype(dtype).astype(np.float64)) is None


@pytest.mark.parametrize("numbers", [[0.0, 1.0, 2.0], [0.5, 1.0], [0.1, np.nan, 0.2, 0.3]])
def test_too_few_numbers_say_nothing(numbers: list[float]) -> None:
    assert decimals_of(np.array(numbers)) is None


def test_what_was_cut_may_be_off_by_half_of_the_last_decimal() -> None:
    (cut, mistakes), (none, nothing) = decimal_roundings(np.round(NUMBERS, 3))

    assert (cut, mistakes) == (0.0005, (Mistake("rounded-decimals", {"decimals": 3}),))
    assert (none, nothing) == (0.0, ())


def side_of(shape: tuple[int, ...], *names: str) -> TableView:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    return TableView.of({name: stored(values, FLOAT32) for name in names or ("a",)})


def sides_orders(have: tuple[int, ...], want: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [side.axes for side in table_views(side_of(have).arrays, side_of(want))]


def test_arrays_stand_side_by_side_with_cosines_first() -> None:
    side = side_of((2, 3), "sin", "cos")

    assert side.names == ("cos", "sin")
    assert side.table().tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]
    leaving = side.mismatch((1, 4), 0.0, 0.0, 0.0)
    assert (leaving.array, leaving.index) == ("sin", (1, 1))


def test_pairs_and_grids_become_rows() -> None:
    assert side_of((5, 4, 2)).table().shape == (5, 8)
    assert side_of((5, 4, 6)).table().shape == (20, 6)
    assert side_of((7,)).table().shape == (1, 7)
    assert side_of((5, 4, 2)).mismatch((2, 5), 0, 0, 0).index == (2, 2, 1)


def test_a_complex_number_is_one_element_of_what_was_sent() -> None:
    elements = np.ones((1, 3, 4), dtype="<c8")
    side = TableView.of({"a": Sample.of(StoredTable(elements, COMPLEX64))})

    assert side.table().shape == (3, 8)
    assert side.mismatch((2, 7), 0, 0, 0).index == (0, 2, 3)


def test_axes_are_tried_in_every_order_that_fits() -> None:
    assert sides_orders((3, 5), (3, 5)) == [(0, 1)]
    assert sides_orders((5, 3), (3, 5)) == [(1, 0)]
    assert sides_orders((4, 4), (4, 4)) == [(0, 1), (1, 0)]
    assert sides_orders((2, 3, 5), (3, 2, 5)) == [(1, 0, 2)]
    assert sides_orders((3, 50), (32, 16)) == []
    assert sides_orders((3, 5, 2), (3, 5)) == []


def test_an_exchange_of_leading_axes_is_no_transposition() -> None:
    (side,) = table_views(side_of((2, 3, 5)).arrays, side_of((3, 2, 5)))

    assert [mistake.name for mistake in side.mistakes] == ["axes-swapped"]
    (side,) = table_views(side_of((3, 5)).arrays, side_of((5, 3)))
    assert [mistake.name for mistake in side.mistakes] == ["transposed"]
