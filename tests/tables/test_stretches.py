"""Consecutive positions cut into runs of one a."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import MAX_POSITION
from service.tables.stretches import STRIDE, run_of, stretches


@given(
    st.integers(-400, 400) | st.integers(-MAX_POSITION, MAX_POSITION - 1000),
    st.integers(1, 1000),
)
def test_stretches_are_all_the_positions_in_order(start: int, count: int) -> None:
    positions = range(start, start + count)

    cut = [
        run * STRIDE + fine
        for stretch in stretches(positions)
        for run in range(stretch.run, stretch.run + stretch.runs)
        for fine in stretch.fine
    ]

    assert list(positions) == cut


@given(st.integers(-400, 400) | st.integers(-MAX_POSITION, MAX_POSITION))
def test_both_parts_of_a_position_have_its_sign(position: int) -> None:
    (stretch,) = stretches(range(position, position + 1))

    assert stretch.run == run_of(position)
    assert position - run_of(position) * STRIDE == np.fmod(np.int64(position), np.int64(STRIDE))


def test_consecutive_positions_are_few_stretches_however_many() -> None:
    assert len(list(stretches(range(-(10**15), 10**15)))) <= 7
