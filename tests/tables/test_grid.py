"""Tokens of a grid, and the position of each along an axis."""

from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.tables.axes import RowPositions
from service.tables.grid import GridAxis, Picked, Tokens
from service.tables.positions import Positions
from service.tables.rope_rules import Default

AXES = ("t", "h", "w")


def along(axis: RowPositions, rows: int) -> list[int]:
    return [int(position) for position in axis.at(0, rows)]


def test_tokens_of_a_grid_run_along_the_last_axis_first() -> None:
    tokens = Tokens.of_grid((2, 2, 3), AXES)

    assert tokens.rows == 12
    assert along(tokens.axes["t"], 12) == [0] * 6 + [1] * 6
    assert along(tokens.axes["h"], 12) == [0, 0, 0, 1, 1, 1] * 2
    assert along(tokens.axes["w"], 12) == [0, 1, 2] * 4
    assert tokens.spelled == {"grid": (2, 2, 3)}


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_any_part_of_a_grid_is_that_part_of_the_whole(
    lengths: tuple[int, ...], start: int, count: int
) -> None:
    names = [f"axis {index}" for index in range(len(lengths))]
    tokens = Tokens.of_grid(lengths, names)
    expected = np.indices(lengths).reshape(len(lengths), -1)
    part = slice(min(start, tokens.rows), min(start + count, tokens.rows))

    for name, whole in zip(names, expected, strict=True):
        assert (tokens.axes[name].at(part.start, part.stop) == whole[part]).all()


@given(st.integers(-50, 50), st.integers(-9, 9), st.integers(1, 9), st.integers(1, 4))
def test_the_farthest_position_is_the_largest_that_there_is(
    first: int, step: int, length: int, inner: int
) -> None:
    axis = GridAxis(first, step, length, inner)

    positions = axis.at(0, length * inner)

    assert axis.farthest == np.abs(positions).max()
    assert positions[:: max(inner, 1)].tolist() == [first + step * n for n in range(length)]


def test_a_grid_of_2_to_the_62_tokens_takes_no_room() -> None:
    tokens = Tokens.of_grid((2**20, 2**21, 2**21), AXES)

    last = tokens.rows - 1
    assert [tokens.axes[name].at(last, last + 1).tolist() for name in AXES] == [
        [2**20 - 1],
        [2**21 - 1],
        [2**21 - 1],
    ]


def test_lists_are_positions_by_axis() -> None:
    lists = {"t": Positions.contiguous(0, 3), "h": Positions.contiguous(5, 3)}

    tokens = Tokens.of_lists(lists)

    assert tokens.rows == 3
    assert along(tokens.axes["h"], 3) == [5, 6, 7]
    assert tokens.spelled == {"positions_t": "0:3", "positions_h": "5:8"}


def test_text_has_one_position_along_all_axes() -> None:
    tokens = Tokens.of_sequence(Positions.contiguous(4, 3), AXES)

    assert {tuple(along(tokens.axes[name], 3)) for name in AXES} == {(4, 5, 6)}
    assert (tokens.rows, tokens.spelled) == (3, {"start": 4, "seq_len": 3})


def test_picked_frequencies_are_those_of_the_rule() -> None:
    rule = Default(8, 10000.0)
    picked = Picked(rule, (3, 0))

    assert picked.count == 2
    assert picked.exact() == [rule.exact()[3], Decimal(1)]
    assert hash(picked) == hash(Picked(Default(8, 10000.0), (3, 0)))
