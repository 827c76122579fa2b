import numpy as np
import pytest

from service.analysis.grids.grid_tokens import axis_lines, some_of, token_grids
from service.tables.angle import Float64s

ROUNDING = 2.0**-53


def rows_of(*lengths: int) -> Float64s:
    """Make rows of tokens with three channels for each axis."""
    places = np.indices(lengths).reshape(len(lengths), -1)
    return (
        np.concatenate([np.sin(np.outer(each, [1.0, 0.3, 0.01])) for each in places])
        .reshape(len(lengths), -1, 3)
        .transpose(1, 0, 2)
        .reshape(-1, 3 * len(lengths))
    )


@pytest.mark.parametrize("lengths", [(3, 5), (5, 3), (2, 2), (16, 16), (2, 3, 4), (4, 2, 2)])
def test_lengths_follow_from_which_rows_repeat(lengths: tuple[int, ...]) -> None:
    assert next(token_grids(rows_of(*lengths), ROUNDING)) == lengths


def test_an_axis_of_one_token_may_be_anywhere() -> None:
    found = list(token_grids(rows_of(1, 6), ROUNDING))

    assert (1, 6) in found
    assert (6, 1) in found


def test_rows_that_do_not_repeat_are_no_grid() -> None:
    assert list(token_grids(np.random.default_rng(0).random((24, 8)), ROUNDING)) == []


def test_lines_are_the_rows_along_an_axis() -> None:
    rows = rows_of(3, 5)
    lines = axis_lines(rows, (3, 5), ROUNDING)

    assert np.array_equal(lines.lines[0], rows[::5])
    assert np.array_equal(lines.lines[1], rows[:5])
    assert lines.only(0, range(3))
    assert not lines.only(1, range(3))


@pytest.mark.parametrize("turn", [2, 3, 4, 8])
def test_some_channels_are_of_every_axis_that_takes_turns(turn: int) -> None:
    assert set(some_of(256, 32) % turn) == set(range(turn))
