"""How rotary tables lie in arrays."""

import numpy as np
import pytest

from service.analysis.rotary.layouts import component_channels, packings, pick, rows_of
from service.analysis.sample import Sample
from service.tables.dtypes import FLOAT32
from service.tables.packs import PACKS
from service.tables.table import StoredTable
from tests.analysis.rotary_tables import asked

_UNIT = 2.0**-24


@pytest.mark.parametrize("pack", [pack for pack in PACKS if pack != "angle"])
def test_every_pack_is_read_as_itself(pack: str) -> None:
    question = asked(f"/rope?head_dim=8&seq_len=5&start=2&pack={pack}")
    expected = np.exp(1j * np.outer(np.arange(2, 7), 10.0 ** -np.arange(4.0)))

    read = {each.pack: each.turns for each in packings(question, _UNIT)}

    assert np.abs(read[pack] - expected).max() < 1e-6


def test_what_repeats_its_channels_is_read_so_first() -> None:
    first = next(packings(asked("/rope?head_dim=8&seq_len=5&pack=half_concat"), _UNIT))

    assert first.turns.shape == (5, 4)


def test_one_row_keeps_its_channels() -> None:
    row = Sample.of(StoredTable(np.ones((1, 6), dtype=np.float32), FLOAT32))
    column = Sample.of(StoredTable(np.ones((6, 1), dtype=np.float32), FLOAT32))

    assert rows_of(row).shape == (1, 6)
    assert rows_of(column).shape == (6, 1)


def test_of_copies_the_first_is_picked() -> None:
    rows = np.array([[1.0, 1.0, 2.0, 2.0]])

    laid_out = dict(component_channels(rows, _UNIT))

    assert laid_out.keys() == {"interleaved", "compact"}
    assert pick(rows, laid_out["interleaved"]).tolist() == [[1.0, 2.0]]
