"""Rules and positions of rows that turn."""

import numpy as np
import pytest

from service.analysis.rotary.located import evenly_located, rules_of_first_rows, scattered
from service.analysis.waves import Complexes

_UNIT = 2.0**-24
_OMEGA = 10000.0 ** (-np.arange(32) / 32)


def _turns(positions: list[int]) -> Complexes:
    exact = np.exp(1j * np.outer(positions, _OMEGA))
    rounded: Complexes = exact.astype(np.complex64).astype(np.complex128)
    return rounded


def test_rows_that_follow_each_other_say_rule_and_start() -> None:
    first = next(evenly_located(_turns(list(range(7, 107))), _UNIT))

    assert first.found.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == list(range(7, 107))


def test_rows_far_out_in_float16_say_base_and_start() -> None:
    omega = 500000.0 ** (-np.arange(32) / 32)
    angles = np.outer(np.arange(100000, 100040), omega)
    turns = np.cos(angles).astype(np.float16) + 1j * np.sin(angles).astype(np.float16)

    first = next(evenly_located(turns.astype(np.complex128), 2.0**-11))

    # The slowest pairs have one and the same numbers in all rows, which says nothing of their rate.
    assert first.found.parameters == {"rope_theta": 500000.0}
    assert first.positions.tolist() == list(range(100000, 100040))


def test_first_rows_say_the_rule_whatever_follows() -> None:
    found = list(rules_of_first_rows(_turns([4, 5, 6, 7, 8, 8, 8, 30, 2]), _UNIT))

    assert found[0].parameters == {"rope_theta": 10000.0}


def test_rows_three_apart_are_no_faster_rule() -> None:
    first = next(evenly_located(_turns(list(range(0, 300, 3))), _UNIT))

    assert first.found.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == list(range(0, 300, 3))


def test_known_positions_say_the_rule() -> None:
    known = [0, 1, 2, 255, 1023]

    first = next(evenly_located(_turns(known), _UNIT, np.array(known, dtype=np.float64)))

    assert first.found.parameters == {"rope_theta": 10000.0}


def test_one_row_of_a_known_position_says_the_rule() -> None:
    found = evenly_located(_turns([100]), _UNIT, np.array([100.0]))

    first = next(found)
    assert first.found.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == [100]


@pytest.mark.parametrize(
    "positions", [[4095], [0, 1, 2, 255, 1023, 4095], list(range(5, 200, 3)), [9, 3, 1000]]
)
def test_positions_of_scattered_rows_are_found(positions: list[int]) -> None:
    first = next(scattered(_turns(positions), _UNIT))

    assert first.found.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == positions


def test_noise_is_nowhere() -> None:
    angles = np.random.default_rng(5).uniform(-3, 3, (40, 16))

    assert not list(evenly_located(np.exp(1j * angles), _UNIT))
    assert not list(scattered(np.exp(1j * angles), _UNIT))
