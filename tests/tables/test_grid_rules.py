"""Frequencies that only grids have."""

import mpmath
import pytest
from mpmath import mpf

from service.tables.frequencies import Geometric
from service.tables.grid_rules import InTurns, Timescales


@pytest.mark.parametrize(
    ("shortest", "longest"), [(1.0, 1e4), (2.0, 500.0), (0.5, 0.5), (3.0, 2.0)]
)
def test_timescales_go_from_the_shortest_to_its_square_over_the_longest(
    shortest: float, longest: float
) -> None:
    found = Timescales(shortest, longest, 5).exact()

    for k, frequency in enumerate(found):
        exact = mpf(shortest) * (mpf(longest) / mpf(shortest)) ** (mpf(-k) / 4)
        assert mpmath.almosteq(mpf(str(frequency)), exact, mpf("1e-75"))


def test_turns_are_two_pi_radians() -> None:
    rule = Geometric(10.0, 4, 2)

    found = InTurns(rule).exact()

    assert InTurns(rule).count == 2
    for turn, radian in zip(found, rule.exact(), strict=True):
        assert mpmath.almosteq(mpf(str(turn)), 2 * mpmath.pi * mpf(str(radian)), mpf("1e-75"))
