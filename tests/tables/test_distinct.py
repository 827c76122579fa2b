"""Equal integers, once each."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from service.tables.distinct import distinct

LISTS = st.lists(st.integers(-9, 9), min_size=1) | st.lists(
    st.integers(-(2**62), 2**62), min_size=1
)


@given(LISTS)
@example([-(2**62), 2**62])
@example([2**62, 2**62 - 3])
def test_every_number_is_at_its_place(listed: list[int]) -> None:
    some, place = distinct(np.array(listed, dtype=np.int64))

    assert some[place].tolist() == listed


@given(LISTS)
def test_integers_rise_and_are_at_most_twice_as_many(listed: list[int]) -> None:
    some, _ = distinct(np.array(listed, dtype=np.int64))

    assert (np.diff(some) > 0).all()
    assert len(some) <= 2 * len(listed)
