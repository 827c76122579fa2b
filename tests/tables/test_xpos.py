"""The growth of xPos."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import Int64s
from service.tables.xpos import XPos
from tests.exact import UNIT


def at(*positions: int) -> Int64s:
    return np.array(positions, dtype=np.int64)


def zeta(pair: int, dim: int) -> Any:
    return (2 * pair + mpmath.mpf(2) * dim / 5) / (mpmath.mpf(7) * dim / 5)


@given(
    st.integers(1, 12).map(lambda pairs: 2 * pairs),
    st.floats(1.0, 1e6),
    st.integers(-3000, 3000),
    st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=4),
    st.booleans(),
)
def test_multipliers_are_within_three_units_of_their_size(
    dim: int, scale_base: float, centre: int, positions: list[int], inverse: bool
) -> None:
    xpos = XPos(dim, scale_base, centre, inverse)
    reach = max(abs(position - centre) for position in positions) / scale_base
    if reach > 500:
        scale_base *= reach / 500
        xpos = XPos(dim, scale_base, centre, inverse)

    got = xpos.at(at(*positions))

    for row, position in enumerate(positions):
        for pair in range(dim // 2):
            power = (position - centre) / mpmath.mpf(scale_base) * (-1 if inverse else 1)
            exact = zeta(pair, dim) ** power
            assert abs(got[row, pair] - exact) <= 3 * UNIT * exact


def test_the_multiplier_of_the_centre_is_one() -> None:
    for inverse in (False, True):
        assert (XPos(64, 512.0, 1000, inverse).at(at(1000, 1000)) == 1.0).all()


def test_keys_are_multiplied_by_the_reciprocals() -> None:
    positions = np.arange(-700, 900, dtype=np.int64)
    query, key = (XPos(64, 512.0, 100, inverse).at(positions) for inverse in (False, True))

    assert np.abs(query * key - 1).max() <= 7 * UNIT


def test_the_multiplier_of_a_position_is_the_same_in_any_company() -> None:
    xpos = XPos(16, 512.0, 5, inverse=False)
    whole = xpos.at(np.arange(-200, 200, dtype=np.int64))

    for position in (-200, -64, -1, 0, 63, 64, 199):
        assert (xpos.at(at(position)) == whole[position + 200]).all()


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.floats(1e4, 1e9))
def test_no_multiplier_exceeds_the_peak(position: int, centre: int, scale_base: float) -> None:
    for inverse in (False, True):
        xpos = XPos(8, scale_base, centre, inverse)

        peak = xpos.peak(abs(position - centre))

        assert (xpos.at(at(position)) <= peak).all()


@pytest.mark.parametrize("distance", [10**6, 2**63])
def test_a_peak_past_every_number_is_infinite(distance: int) -> None:
    assert XPos(8, 1.0, 0, inverse=False).peak(distance) == np.inf


def test_multipliers_have_all_their_digits_in_a_bare_thread() -> None:
    xpos = XPos(16, 512.0, 5, inverse=False)

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(xpos.at, at(100_000)).result()

    assert (in_thread == xpos.at(at(100_000))).all()
