"""Packs of rotary tables."""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.families.rotary_packs import (
    equal_channels,
    packed_tables,
    rows_of,
)
from service.numerics.dtypes import FLOAT32
from service.numerics.tables import StoredTable
from tests.analysis.samples import input_of

TABLE = "/rope/axial?convention=qwen2_vl&head_dim=8&grid=3,5"


def test_pairs_with_unequal_norms_match_no_pack() -> None:
    request = input_of(f"{TABLE}&pack=concat")
    request.sample.values[:, 0] *= 0.5

    assert not list(packed_tables(request))


def test_phasors_of_some_frequencies_equal_those_of_all() -> None:
    for table in packed_tables(input_of(f"{TABLE}&pack=sin_half_concat")):
        assert np.array_equal(table.phasors_of([0, 2]), table.phasors[:, [0, 2]])


@pytest.mark.parametrize("shape", [(1, 6), (6, 1)])
def test_rows_keep_a_last_axis_of_one(shape: tuple[int, int]) -> None:
    sample = Sample.of(StoredTable(np.ones(shape, dtype=np.float32), FLOAT32))

    assert rows_of(sample).shape == shape


def test_packs_of_one_component_have_equal_channels() -> None:
    rows = np.array([[1.0, 1.0, 2.0, 2.0]])

    firsts = {pack: rows[:, first].tolist() for pack, first in equal_channels(FLOAT32, rows)}

    assert firsts == {"interleaved": [[1.0, 2.0]], "compact": rows.tolist()}
