"""Where rows are, by their angles."""

import numpy as np
import pytest

from service.analysis.rotary.positions import positions_of
from service.tables.angle import Float64s

_OMEGA = 10000.0 ** (-np.arange(32) / 32)


def _angles(positions: list[int]) -> Float64s:
    angles: Float64s = np.angle(np.exp(1j * np.outer(positions, _OMEGA)))
    return angles


@pytest.mark.parametrize("position", [0, 1, -20, 4095, 131071, 5_000_000])
@pytest.mark.parametrize("error", [1e-9, 1e-6, 1e-3])
def test_a_position_is_found_however_far_out(position: int, error: float) -> None:
    (found,) = positions_of(_angles([position]), _OMEGA, error)

    assert found[0] == position


def test_every_row_has_its_own() -> None:
    found = positions_of(_angles([3, 77, 5]), _OMEGA, 1e-6)

    assert [each[0] for each in found] == [3, 77, 5]


def test_angles_of_no_position_have_none() -> None:
    angles = np.random.default_rng(3).uniform(-3, 3, (1, 32))

    (found,) = positions_of(angles, _OMEGA, 1e-6)

    assert not len(found)


def test_where_several_fit_those_near_zero_come_first() -> None:
    (found,) = positions_of(np.array([0.0]), np.array([np.pi / 4]), 1e-6)

    assert found[0] == 0
    assert abs(int(found[1])) == 8


def test_frequencies_of_zero_say_nothing() -> None:
    (found,) = positions_of(np.zeros(2), np.zeros(2), 1e-6)

    assert not len(found)
