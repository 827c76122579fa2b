"""What an array itself says of a call."""

import numpy as np
import pytest

from service.analysis.question import Question
from service.analysis.rotary.parameters import (
    has_whole_positions,
    is_of_numbers,
    positions_as_parameters,
    unit_of,
)
from service.analysis.sample import Sample
from service.tables.dtypes import BFLOAT16, FLOAT32, INT64, DType
from service.tables.table import StoredTable


def _sample(dtype: DType, number: float = 1) -> Sample:
    return Sample.of(StoredTable(np.full(2, number).astype(dtype.storage), dtype))


def test_positions_are_spelled_as_shortly_as_possible() -> None:
    assert positions_as_parameters(np.arange(5)) == {"seq_len": 5}
    assert positions_as_parameters(np.arange(3, 8)) == {"start": 3, "seq_len": 5}
    assert positions_as_parameters(np.array([0, 1, 2, 9])) == {"positions": "0:3,9"}


def test_cosines_and_sines_are_rounded_by_half_a_step_below_1() -> None:
    assert unit_of(_sample(FLOAT32)) == pytest.approx(2.0**-24)
    assert unit_of(_sample(BFLOAT16)) == pytest.approx(2.0**-9)


def test_positions_must_be_whole_and_rise_and_be_as_many_as_rows() -> None:
    def fits(*positions: float) -> bool:
        known = np.array(positions) if positions else None
        return has_whole_positions(Question({"array": _sample(FLOAT32)}, positions=known), 2)

    assert fits()
    assert fits(3, 9)
    assert not fits(3, 9.5)
    assert not fits(9, 3)
    assert not fits(1, 2, 3)


def test_integers_zeros_and_infinities_are_no_waves() -> None:
    assert is_of_numbers(_sample(FLOAT32))
    assert not is_of_numbers(_sample(FLOAT32, 0))
    assert not is_of_numbers(_sample(FLOAT32, np.inf))
    assert not is_of_numbers(_sample(INT64))
