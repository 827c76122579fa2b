"""Frequencies sorted by the positions that they turn with."""

import numpy as np

from service.analysis.grids.section_groups import grouped

_OMEGA = 10000.0 ** (-np.arange(32) / 32)
_POSITIONS = np.array([[0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 3, 4], [0, 1, 2, 3, 4, 3]], dtype=float)
_AXIS = np.repeat([0, 1, 2], [12, 10, 10])


def _angles(unit: float) -> np.ndarray:
    exact = _POSITIONS[_AXIS].T * _OMEGA
    # A rounding to the worst side of every sine and cosine.
    cos, sin = np.cos(exact) * (1 + unit / 2), np.sin(exact) * (1 - unit / 2)
    return np.asarray(np.angle(cos + 1j * sin))


def test_three_groups_have_their_positions_in_narrow_types() -> None:
    for unit in (2.0**-8, 2.0**-11, 2.0**-24):
        groups = grouped(_angles(unit), _OMEGA, (unit, 0.0))

        assert groups is not None
        assert [each.whole.tolist() for each in groups] == _POSITIONS[[2, 1, 0]].tolist()


def test_four_sequences_are_too_many() -> None:
    angles = _angles(2.0**-24)
    angles[:, 5] = np.array([0, 5, 1, 7, 2, 9]) * _OMEGA[5]

    assert grouped(angles, _OMEGA, (2.0**-24, 0.0)) is None


def test_positions_all_even_are_not_counted() -> None:
    angles = np.outer(2 * np.arange(6.0), _OMEGA)

    groups = grouped(angles, _OMEGA, (2.0**-24, 0.0))

    assert groups is not None
    assert not groups[0].is_counted
