"""Grids of tokens."""

import numpy as np
import pytest

from service.analysis.families.token_grids import (
    AxialTokens,
    axial_tokens,
    axis_lines,
    spread_channels,
    token_grids,
)
from service.numerics.phase import Float64s
from tests.analysis.samples import input_of

ROUNDING = 2.0**-24


def tokens_of(query: str) -> AxialTokens:
    """Return the first reading of a table as tokens."""
    pairs = input_of(f"/rope/axial?head_dim=16&{query}").sample.reals()
    return next(axial_tokens(pairs[..., 0] + 1j * pairs[..., 1], ROUNDING))


def test_each_frequency_has_one_axis() -> None:
    tokens = tokens_of("convention=qwen2_vl&grid=3,5")

    assert tokens.lengths == (3, 5)
    assert tokens.may_be(np.repeat([0, 1], 4))
    assert not tokens.may_be(np.repeat([1, 0], 4))
    assert tokens.block_widths((0, 1)) == (8, 8)
    assert tokens.block_widths((1, 0)) is None


@pytest.mark.parametrize("end", ["first", "last"])
def test_class_token_is_read_at_either_end(end: str) -> None:
    tokens = tokens_of(f"convention=llama4&grid=3,5&class_token={end}")

    assert (tokens.lengths, tokens.rows, tokens.class_token) == ((3, 5), 16, end)


def test_tokens_in_blocks_have_their_parameters() -> None:
    tokens = tokens_of("convention=qwen2_vl&grid=4,6&spatial_merge_size=2")

    assert tokens.lengths == (4, 6)
    assert tokens.parameters() == {"spatial_merge_size": 2}


def rows_of(*lengths: int) -> Float64s:
    """Return the rows of tokens with three channels for each axis."""
    coordinates = np.indices(lengths).reshape(len(lengths), -1)
    return np.hstack([np.sin(np.outer(each, [1.0, 0.3, 0.01])) for each in coordinates])


@pytest.mark.parametrize("lengths", [(3, 5), (5, 3), (2, 2), (16, 16), (2, 3, 4), (4, 2, 2)])
def test_lengths_follow_from_the_rows_that_repeat(lengths: tuple[int, ...]) -> None:
    assert next(token_grids(rows_of(*lengths), ROUNDING)) == lengths


def test_an_axis_of_one_token_may_be_anywhere() -> None:
    assert {(1, 6), (6, 1)} <= set(token_grids(rows_of(1, 6), ROUNDING))


def test_rows_that_do_not_repeat_are_no_grid() -> None:
    assert not list(token_grids(np.random.default_rng(0).random((24, 8)), ROUNDING))


def test_lines_are_the_rows_along_an_axis() -> None:
    rows = rows_of(3, 5)
    lines = axis_lines(rows, (3, 5), ROUNDING)

    assert np.array_equal(lines.lines[0], rows[::5])
    assert np.array_equal(lines.lines[1], rows[:5])
    assert lines.only(0, range(3))
    assert not lines.only(1, range(3))


@pytest.mark.parametrize("step", [2, 3, 4, 8])
def test_spread_channels_include_all_axes_that_alternate(step: int) -> None:
    assert set(spread_channels(256, 32) % step) == set(range(step))
