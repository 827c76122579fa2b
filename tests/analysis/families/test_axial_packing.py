""" """

import numpy as np
import pytest

from service.analysis.families.axial_packing import axial_tokens, block_order, packed
from service.analysis.measure import Complexes
from service.encodings.rotary.packs import PACKS
from tests.analysis.grid_asking import question_of

TABLE = "/rope/axial?convention=qwen2_vl&head_dim=8&grid=3,5"


@pytest.mark.parametrize("pack", PACKS)
def test_turns_are_the_same_whatever_the_pack(pack: str) -> None:
    [expected] = packed(question_of(f"{TABLE}&dtype=float64"))

    found = {each.pack: each.turns for each in packed(question_of(f"{TABLE}&pack={pack}"))}

    assert np.abs(found[pack] - expected.turns).max() < 2**-20


def test_channels_are_those_of_the_pack() -> None:
    tables = {each.pack: each for each in packed(question_of(f"{TABLE}&pack=half"))}

    assert {name: channels.width for name, channels in tables["half"].channels().items()} == {
        "cos": 8,
        "sin": 8,
    }


def test_pairs_of_uneven_norms_are_in_no_pack() -> None:
    question = question_of(f"{TABLE}&pack=concat")
    question.sample.values[:, 0] *= 0.5

    assert list(packed(question)) == []


@pytest.mark.parametrize("pack", PACKS)
def test_some_frequencies_are_those_of_all(pack: str) -> None:
    for table in packed(question_of(f"{TABLE}&pack={pack}")):
        assert table.count == table.turns.shape[1]
        assert np.array_equal(table.some([0, 2]), table.turns[:, [0, 2]])


ROUNDING = 2.0**-24


def turns_of(query: str) -> Complexes:
    """Compute the turns of a table."""
    pairs = question_of(f"/rope/axial?{query}").sample.reals()
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


def test_blocks_are_put_in_order() -> None:
    turns = turns_of("convention=qwen2_vl&head_dim=16&grid=4,6&spatial_merge_size=2")

    tokens = next(axial_tokens(turns, ROUNDING))

    assert (tokens.lengths, tokens.merge) == ((4, 6), 2)
    assert tokens.coordinates(0, 0.0, 1.0)[:5].tolist() == [0, 0, 1, 1, 0]
    assert tokens.parameters() == {"spatial_merge_size": 2}


def test_the_order_of_blocks_is_that_of_merged_patches() -> None:
    assert block_order((2, 4), 2).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
