import numpy as np
import pytest

from service.analysis.grids.grid_series import AxisTurns, axis_turns, first_place, geometric
from service.tables.angle import Float64s

ROUNDING = 2.0**-24


def turns_of(rates: Float64s, length: int, first: float = 0.0) -> AxisTurns:
    """Measure tokens that turn at rates."""
    angles = np.outer(first + np.arange(length), rates)
    measured = axis_turns(np.exp(1j * angles), ROUNDING)
    assert measured is not None
    return measured


@pytest.mark.parametrize("step", [0.25, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("length", [2, 3, 16])
def test_rates_that_went_round_are_unwound(step: float, length: int) -> None:
    rates = step * 10000.0 ** (-np.arange(8) / 8)

    series = geometric(turns_of(rates, length))

    assert series is not None
    assert series.first == pytest.approx(step, rel=1e-5)
    assert np.exp(8 * series.decay) == pytest.approx(10000, rel=1e-3)


def test_rates_that_fall_otherwise_are_no_series() -> None:
    assert geometric(turns_of(np.array([1.0, 0.9, 0.1, 0.01, 0.002]), 8)) is None


@pytest.mark.parametrize("first", [0.0, 1.0, -2.5, 37.0])
def test_the_first_token_is_found_past_full_turns(first: float) -> None:
    rates = 10000.0 ** (-np.arange(8) / 8)
    along = turns_of(rates, 4, first)

    place = first_place(along.phases, rates, along.noise)

    assert place is not None
    assert place.first == pytest.approx(first, abs=1e-5)


def test_phases_of_no_one_place_have_none() -> None:
    assert first_place(np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.1, 0.01]), 1e-6) is None


def test_pairs_of_other_norms_are_no_turns() -> None:
    assert axis_turns(np.array([[1.0, 0.5j], [1.0, 0.7j]]), ROUNDING) is None


def test_one_token_has_phases_and_no_rates() -> None:
    along = axis_turns(np.exp(1j * np.array([[0.5, 0.25]])), ROUNDING)

    assert along is not None
    assert along.phases == pytest.approx([0.5, 0.25])
    assert not along.rates.any()
