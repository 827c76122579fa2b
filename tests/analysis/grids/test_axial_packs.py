import numpy as np
import pytest

from service.analysis.grids.axial_packs import packed
from service.tables.packs import PACKS
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
