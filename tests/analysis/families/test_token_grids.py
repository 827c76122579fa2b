"""Grids of tokens, and packs of rotary tables."""

import numpy as np
import pytest

from service.analysis.families.rotary_packs import packed_tables
from service.analysis.families.token_grids import (
    axial_tokens,
    axis_lines,
    block_order,
    spread_channels,
    token_grids,
)
from service.analysis.measure import Complexes
from service.encodings.rotary.angles import PACKS
from service.numerics.phase import Float64s
from tests.analysis.samples import input_of

ROUNDING = 2.0**-24
TABLE = "/rope/axial?convention=qwen2_vl&head_dim=8&grid=3,5"


@pytest.mark.parametrize("pack", PACKS)
def test_turns_are_the_same_whatever_the_pack(pack: str) -> None:
    [expected] = packed_tables(input_of(f"{TABLE}&dtype=float64"))

    found = {each.pack: each.phasors for each in packed_tables(input_of(f"{TABLE}&pack={pack}"))}

    assert np.abs(found[pack] - expected.phasors).max() < 2**-20


def test_channels_are_those_of_the_pack() -> None:
    tables = {each.pack: each for each in packed_tables(input_of(f"{TABLE}&pack=half"))}

    assert {name: channels.width for name, channels in tables["half"].channels().items()} == {
        "cos": 8,
        "sin": 8,
    }


def test_pairs_with_unequal_norms_match_no_pack() -> None:
    question = input_of(f"{TABLE}&pack=concat")
    question.sample.values[:, 0] *= 0.5

    assert list(packed_tables(question)) == []


@pytest.mark.parametrize("pack", PACKS)
def test_some_frequencies_equal_those_of_all(pack: str) -> None:
    for table in packed_tables(input_of(f"{TABLE}&pack={pack}")):
        assert table.count == table.phasors.shape[1]
        assert np.array_equal(table.phasors_of([0, 2]), table.phasors[:, [0, 2]])


def turns_of(query: str) -> Complexes:
    """Compute the turns of a table."""
    pairs = input_of(f"/rope/axial?{query}").sample.reals()
    return pairs[..., 0] + 1j * pairs[..., 1]


def test_frequencies_turn_along_an_axis_each() -> None:
    turns = turns_of("convention=qwen2_vl&head_dim=16&grid=3,5")

    tokens = next(axial_tokens(turns, ROUNDING))

    assert tokens.lengths == (3, 5)
    assert tokens.may_be(np.repeat([0, 1], 4))
    assert not tokens.may_be(np.repeat([1, 0], 4))
    assert tokens.block_widths((0, 1)) == (8, 8)
    assert tokens.block_widths((1, 0)) is None


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_class_token_is_left_out(place: str) -> None:
    turns = turns_of(f"convention=llama4&head_dim=16&grid=3,5&class_token={place}")

    tokens = next(axial_tokens(turns, ROUNDING))

    assert (tokens.lengths, tokens.rows, tokens.class_token) == ((3, 5), 16, place)
    assert tokens.coordinates(1, 1.0, 1.0)[0 if place == "first" else -1] == 0


def test_tokens_in_blocks_are_put_in_order() -> None:
    turns = turns_of("convention=qwen2_vl&head_dim=16&grid=4,6&spatial_merge_size=2")

    tokens = next(axial_tokens(turns, ROUNDING))

    assert (tokens.lengths, tokens.merge) == ((4, 6), 2)
    assert tokens.coordinates(0, 0.0, 1.0)[:5].tolist() == [0, 0, 1, 1, 0]
    assert tokens.parameters() == {"spatial_merge_size": 2}


def test_the_order_of_blocks_is_that_of_merged_patches() -> None:
    assert block_order((2, 4), 2).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


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
    assert set(spread_channels(256, 32) % turn) == set(range(turn))
