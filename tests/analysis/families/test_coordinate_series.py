"""Series, places and bands along an axis, and the plain numbers they give."""

import numpy as np
import pytest

from service.analysis.families.coordinate_series import (
    AxisTurns,
    axis_series,
    axis_turns,
    common_value,
    first_place,
    highest_bands,
    nearest,
    signed_plain_numbers,
    sine_bands,
)
from service.numerics.phase import Float64s

ROUNDING = 2.0**-24


def turns_of(rates: Float64s, length: int, first: float = 0.0) -> AxisTurns:
    """Measure tokens that turn at rates."""
    angles = np.outer(first + np.arange(length), rates)
    measured = axis_turns(np.exp(1j * angles), ROUNDING)
    assert measured is not None
    return measured


@pytest.mark.parametrize("step", [0.25, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("length", [2, 3, 16])
def test_aliased_rates_are_unwound(step: float, length: int) -> None:
    rates = step * 10000.0 ** (-np.arange(8) / 8)

    series = axis_series(turns_of(rates, length))

    assert series is not None
    assert series.first == pytest.approx(step, rel=1e-5)
    assert np.exp(8 * series.decay) == pytest.approx(10000, rel=1e-3)


def test_rates_without_a_constant_ratio_are_no_series() -> None:
    assert axis_series(turns_of(np.array([1.0, 0.9, 0.1, 0.01, 0.002]), 8)) is None


@pytest.mark.parametrize("first", [0.0, 1.0, -2.5, 37.0])
def test_the_first_coordinate_is_found_beyond_a_whole_turn(first: float) -> None:
    rates = 10000.0 ** (-np.arange(8) / 8)
    along = turns_of(rates, 4, first)

    place = first_place(along.phases, rates, along.noise)

    assert place is not None
    assert place[0] == pytest.approx(first, abs=1e-5)


def test_phases_of_different_places_have_no_first_place() -> None:
    assert first_place(np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.1, 0.01]), 1e-6) is None


def test_pairs_of_unequal_norms_are_no_turns() -> None:
    assert axis_turns(np.array([[1.0, 0.5j], [1.0, 0.7j]]), ROUNDING) is None


def test_one_token_has_phases_and_no_rates() -> None:
    along = axis_turns(np.exp(1j * np.array([[0.5, 0.25]])), ROUNDING)

    assert along is not None
    assert along.phases == pytest.approx([0.5, 0.25])
    assert not along.rates.any()


def test_common_value_is_the_most_exact_measurement() -> None:
    assert common_value([(2.001, 1e-3), (2.00001, 1e-5)]) == (2.00001, 1e-5)


def test_different_numbers_have_no_common_value() -> None:
    assert common_value([(2.0, 1e-5), (2.1, 1e-5)]) is None


def bands_of(highest: float, count: int, *, is_linear: bool) -> Float64s:
    """Give bands from 1 to half of a number."""
    half = highest / 2
    return np.linspace(1, half, count) if is_linear else half ** np.linspace(0, 1, count)


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("highest", [7, 10, 64, 224])
def test_the_highest_band_is_found(highest: int, is_linear: bool) -> None:
    bands = np.pi * bands_of(highest, 8, is_linear=is_linear)
    along = axis_turns(np.exp(1j * np.outer(np.linspace(-1, 1, 6), bands)), ROUNDING)

    assert along is not None
    # Bands that are whole turns farther apart look the same at so few tokens.
    assert (highest, is_linear) in highest_bands(along)


def test_other_rates_are_no_bands() -> None:
    along = axis_turns(np.exp(1j * np.outer(np.arange(6), [1.0, 0.1])), ROUNDING)

    assert along is not None
    assert highest_bands(along) == []


def test_sines_without_cosines_give_the_highest_band() -> None:
    bands = np.pi * bands_of(64, 6, is_linear=True)
    sines = np.sin(np.outer(np.linspace(-1, 1, 12), bands))

    along = sine_bands(sines, ROUNDING)

    assert along is not None
    assert (64, True) in highest_bands(along)


def test_other_sines_are_no_bands() -> None:
    assert sine_bands(np.sin(np.outer(np.arange(12), [1.0, 0.1])), ROUNDING) is None


@pytest.mark.parametrize(
    ("measured", "error", "plain"),
    [(-2.00001, 1e-4, -2.0), (1e-9, 1e-8, 0.0), (1.8763, 2e-2, 1.875)],
)
def test_plain_numbers_have_a_sign_or_are_0_or_multiples_of_an_eighth(
    measured: float, error: float, plain: float
) -> None:
    assert plain in signed_plain_numbers(measured, error)


def test_numbers_of_many_digits_are_not_plain() -> None:
    assert signed_plain_numbers(12.566370614359172, 1e-12) == []


@pytest.mark.parametrize(
    ("apart", "described", "chosen"),
    [
        ([2e-8, 3e-8], ["longer", "short"], [1]),
        ([2e-9, 3e-8], ["longer", "short"], [1, 0]),
        ([3e-4, 2e-4, 0.5], ["a", "b", "c"], [1, 0]),
    ],
    ids=("shortest of the good", "a much nearer one beside it", "near ones by distance"),
)
def test_nearest_parameters_are_chosen(
    apart: list[float], described: list[str], chosen: list[int]
) -> None:
    assert nearest(apart, described, 2**-24) == chosen
