"""Arrays side by side, and the way back to where a number was sent."""

import numpy as np

from service.analysis.mistakes.sides import Side, sides
from service.analysis.sample import Sample
from service.tables.dtypes import COMPLEX64, FLOAT32
from service.tables.table import StoredTable
from tests.analysis.mistaken import stored


def side_of(shape: tuple[int, ...], *names: str) -> Side:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    return Side.of({name: stored(values, FLOAT32) for name in names or ("a",)})


def orders(have: tuple[int, ...], want: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [side.axes for side in sides(side_of(have).arrays, side_of(want))]


def test_arrays_stand_side_by_side_with_cosines_first() -> None:
    side = side_of((2, 3), "sin", "cos")

    assert side.names == ("cos", "sin")
    assert side.table().tolist() == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]
    leaving = side.leaving((1, 4), 0.0, 0.0, 0.0)
    assert (leaving.array, leaving.index) == ("sin", (1, 1))


def test_pairs_and_grids_become_rows() -> None:
    assert side_of((5, 4, 2)).table().shape == (5, 8)
    assert side_of((5, 4, 6)).table().shape == (20, 6)
    assert side_of((7,)).table().shape == (1, 7)
    assert side_of((5, 4, 2)).leaving((2, 5), 0, 0, 0).index == (2, 2, 1)


def test_a_complex_number_is_one_element_of_what_was_sent() -> None:
    elements = np.ones((1, 3, 4), dtype="<c8")
    side = Side.of({"a": Sample.of(StoredTable(elements, COMPLEX64))})

    assert side.table().shape == (3, 8)
    assert side.leaving((2, 7), 0, 0, 0).index == (0, 2, 3)


def test_axes_are_tried_in_every_order_that_fits() -> None:
    assert orders((3, 5), (3, 5)) == [(0, 1)]
    assert orders((5, 3), (3, 5)) == [(1, 0)]
    assert orders((4, 4), (4, 4)) == [(0, 1), (1, 0)]
    assert orders((2, 3, 5), (3, 2, 5)) == [(1, 0, 2)]
    assert orders((3, 50), (32, 16)) == []
    assert orders((3, 5, 2), (3, 5)) == []


def test_an_exchange_of_leading_axes_is_no_transposition() -> None:
    (side,) = sides(side_of((2, 3, 5)).arrays, side_of((3, 2, 5)))

    assert [mistake.name for mistake in side.mistakes] == ["axes-swapped"]
    (side,) = sides(side_of((3, 5)).arrays, side_of((5, 3)))
    assert [mistake.name for mistake in side.mistakes] == ["transposed"]
