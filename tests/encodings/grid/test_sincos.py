"""Tables of the tokens of a grid, and what each convention lays out in which order."""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from service.encodings.grid.grids import GridAxis
from service.encodings.grid.sincos import (
    Along,
    ChannelBlock,
    GridTable,
    Lane,
    Layout,
    lanes,
)
from service.numerics.dtypes import BFLOAT16, FLOAT64, REAL_DTYPES
from service.numerics.phase import Geometric
from service.numerics.tables import Table, size
from tests.exact import UNIT, frequency

RULE = Geometric(100.0, 6, 3)
DOWN = Along(GridAxis(-2, 3, 4, 5), Fraction(2, 7), RULE)
ACROSS = Along(GridAxis(1, 1, 5, 1), Fraction(1, 3), RULE)
BLOCKS = (
    ChannelBlock(("coordinate",), ("w", "h"), 1),
    ChannelBlock(("sin", "cos"), ("h",), 3),
    ChannelBlock((), (), 2),
    ChannelBlock(("cos",), ("h", "w"), 3),
)
WIDTH, ZEROS = 14, 2


def read(table: Table) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def of_both(dtype: str = "float64") -> GridTable:
    shape = (ZEROS + 20, WIDTH)
    axes = {"h": DOWN, "w": ACROSS}
    layout = Layout(axes, BLOCKS, zero_rows=ZEROS)
    return GridTable(layout, WIDTH, REAL_DTYPES[dtype], shape)


def exact_row(token: int) -> list[Any]:
    h, w = mpf(-2 + 3 * (token // 5)) * 2 / 7, mpf(1 + token % 5) / 3
    rates = [frequency(100.0, 6, k) for k in range(3)]
    both = [f(h * rate) for rate in rates for f in (mpmath.sin, mpmath.cos)]
    rest = [mpmath.cos(place * rate) for rate in rates for place in (h, w)]
    return [w, h, *both, mpf(0), mpf(0), *rest][:WIDTH]


def test_channels_are_the_formula_of_their_block() -> None:
    rows = read(of_both())

    for token in range(20):
        for channel, exact in enumerate(exact_row(token)):
            assert abs(rows[ZEROS + token, channel] - exact) <= 4 * UNIT, (token, channel)


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_rows_and_channels_of_zeros_are_zeros(dtype: str) -> None:
    rows = read(of_both(dtype))

    assert not rows[:ZEROS].any()
    assert not rows[:, 8:10].any()
    assert rows[ZEROS:, 2:8].all()


def test_parts_of_channels_are_those_of_the_whole() -> None:
    table = of_both()
    whole = read(table)

    for first in range(WIDTH):
        for last in range(first + 1, WIDTH + 1):
            part = np.empty((8, last - first))
            table.fill(range(1, 9), range(first, last), part)
            assert (part == whole[1:9, first:last]).all()


@pytest.mark.parametrize("length", [9, 2**31, 2**60 + 1])
def test_a_coordinate_is_the_float64_nearest_to_it(length: int) -> None:
    axis = Along(GridAxis(1 - length, 2, length, 1), Fraction(1, length - 1), RULE)
    table = GridTable(Layout({"w": axis}, BLOCKS[:1]), 1, FLOAT64, (length, 1))

    for first in (0, length // 3, length - 3):
        found = table.read(first, first + 3).tolist()
        exact = [Fraction(1 - length + 2 * (first + i), length - 1) for i in range(3)]
        assert found == [float(coordinate) for coordinate in exact]


def test_a_grid_may_have_any_number_of_tokens() -> None:
    rows, columns = 2**40, 2**21
    down = Along(GridAxis(0, 1, rows, columns), Fraction(1), RULE)
    across = Along(GridAxis(0, 1, columns, 1), Fraction(1), RULE)
    blocks = (ChannelBlock(("sin",), ("h",), 3), ChannelBlock(("cos",), ("w",), 3))
    layout = Layout({"h": down, "w": across}, blocks, zero_rows=1)
    table = GridTable(layout, 6, BFLOAT16, (rows * columns + 1, 6))
    exact = GridTable(layout, 6, FLOAT64, table.shape)

    token = 123_456_789 * columns + columns - 1
    row = exact.read((token + 1) * 6, (token + 2) * 6)
    for k in range(3):
        rate = frequency(100.0, 6, k)
        assert abs(row[k] - mpmath.sin(123_456_789 * rate)) <= 4 * UNIT
        assert abs(row[3 + k] - mpmath.cos((columns - 1) * rate)) <= 4 * UNIT
    assert table.read(token * 6, (token + 9) * 6).shape == (54,)


def test_distinct_positions_of_tokens_across_a_row_end() -> None:
    # The last tokens of one row and the first of the next.
    across = Along(GridAxis(0, 1, 2**40, 1), Fraction(1), RULE)

    positions, place = across.distinct(2**40 - 2, 2**40 + 2)

    assert positions[place].tolist() == [2**40 - 2, 2**40 - 1, 0, 1]


def test_blocks_are_described() -> None:
    assert [str(block) for block in BLOCKS] == ["w|h", "sin|cos h", "0", "cos h|w"]
    assert [block.width for block in BLOCKS] == [2, 6, 2, 6]


def test_lanes_end_at_the_width() -> None:
    found = list(lanes(BLOCKS, 11))

    assert found[2:4] == [Lane("h", "sin", range(2, 8, 2)), Lane("h", "cos", range(3, 8, 2))]
    assert [len(lane.channels) for lane in found[4:]] == [1, 0]
