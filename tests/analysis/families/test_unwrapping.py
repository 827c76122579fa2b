"""Frequencies, positions and bands found from angles modulo 2π."""

import numpy as np
import pytest

from service.analysis.families.unwrapping import (
    AxisWaves,
    axis_series,
    axis_waves,
    band_resolutions,
    first_coordinate,
    highest_bands,
    locate,
    locate_whole,
    sine_bands,
    unwrapped_series,
    whole_positions,
)
from service.analysis.measure import Complexes, wrap_angles
from service.numerics.phase import Float64s

ROUNDING = 2.0**-24
ONE = np.array([1.0])


def omega_of(count: int) -> Float64s:
    omega: Float64s = 10000.0 ** (-np.arange(count) / count)
    return omega


OMEGA = omega_of(16)


def wrapped(positions: list[float], omega: Float64s = OMEGA) -> Float64s:
    return wrap_angles(np.outer(positions, omega))


@pytest.mark.parametrize("position", [1.0, 0.25, 37.0, 999.0, -250.0])
def test_angles_of_one_row_give_the_ratio_of_frequencies(position: float) -> None:
    unwrapped = unwrapped_series(wrapped([position], omega_of(32))[0], np.full(32, 1e-9))

    assert unwrapped is not None
    series, sign = unwrapped
    assert sign == np.sign(position)
    assert series.first == pytest.approx(abs(position), rel=1e-4)
    assert series.ratio**-32 == pytest.approx(10000, rel=1e-4)


def test_angles_without_a_constant_ratio_and_within_their_errors_are_no_series() -> None:
    angles = 5.0 * OMEGA
    angles[8] *= 1.1

    assert unwrapped_series(wrap_angles(angles), np.full(16, 1e-9)) is None
    assert unwrapped_series(np.array([1e-3, 1e-4]), np.full(2, 1e-2)) is None


@pytest.mark.parametrize(
    "positions",
    [[0.0, 0.5, 3.0, 100.0, 2047.0, -7.25], [131071.0, 2.0**20]],
    ids=("in any order, with fractions", "beyond the period of the slowest frequency"),
)
def test_rows_are_located(positions: list[float]) -> None:
    located = locate(wrapped(positions), np.full((len(positions), 16), 1e-8), OMEGA)

    assert located is not None
    assert located.rounded().tolist() == positions


def test_phases_of_other_frequencies_have_no_position() -> None:
    assert locate(wrapped([100.0], OMEGA**1.1), np.full((1, 16), 1e-8), OMEGA) is None


@pytest.mark.parametrize("position", [-5.0, 1000.0])
def test_a_single_frequency_gives_the_nearest_integer_position(position: float) -> None:
    located = locate_whole(wrapped([position], ONE), np.full((1, 1), 1e-9), ONE)

    assert located is not None
    assert located.rounded().tolist() == [position]


def test_a_position_that_fits_by_chance_is_rejected() -> None:
    assert locate_whole(wrapped([1000.0], ONE), np.full((1, 1), 1e-3), ONE) is None


@pytest.mark.parametrize("position", [0, 1, -20, 4095, 131071, 5_000_000])
@pytest.mark.parametrize("error", [1e-9, 1e-6, 1e-3])
def test_whole_positions_are_found_however_far(position: int, error: float) -> None:
    omega = omega_of(32)

    assert whole_positions(wrapped([position], omega)[0], omega, error)[0] == position


def test_whole_positions_near_0_come_first() -> None:
    found = whole_positions(np.zeros(1), np.array([np.pi / 4]), 1e-6)

    assert np.abs(found).tolist() == [0, 8, 8, 16]


@pytest.mark.parametrize("omega", [np.zeros(32), omega_of(32)], ids=("zeros", "falling"))
def test_random_angles_and_zero_frequencies_have_no_whole_position(omega: Float64s) -> None:
    angles = np.random.default_rng(3).uniform(-3, 3, 32)

    assert not len(whole_positions(angles, omega, 1e-6))


def test_swapped_cosines_and_sines_have_no_distant_whole_position() -> None:
    omega = omega_of(2)

    assert not len(whole_positions(np.pi / 2 - 4 * omega, omega, 1e-6))


def measured(phasors: Complexes) -> AxisWaves:
    waves = axis_waves(phasors, ROUNDING)
    assert waves is not None
    return waves


def axis_of(omega: Float64s, length: int, first: float = 0.0) -> AxisWaves:
    return measured(np.exp(1j * np.outer(first + np.arange(length), omega)))


@pytest.mark.parametrize("step", [0.25, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("length", [2, 3, 16])
def test_rates_modulo_2_pi_are_unwrapped(step: float, length: int) -> None:
    series = axis_series(axis_of(step * omega_of(8), length))

    assert series is not None
    assert series.first == pytest.approx(step, rel=1e-5)
    assert series.base(8)[0] == pytest.approx(10000, rel=1e-3)


def test_rates_without_a_constant_ratio_are_no_series() -> None:
    assert axis_series(axis_of(np.array([1.0, 0.9, 0.1, 0.01, 0.002]), 8)) is None


@pytest.mark.parametrize("first", [0.0, 1.0, -2.5, 37.0])
def test_the_first_coordinate_is_found_beyond_a_period(first: float) -> None:
    found = first_coordinate(axis_of(omega_of(8), 4, first), omega_of(8))

    assert found is not None
    assert found[0] == pytest.approx(first, abs=1e-5)


def test_phases_of_different_coordinates_have_no_first_coordinate() -> None:
    waves = AxisWaves(np.zeros(3), np.array([1.0, 2.0, 0.5]), np.ones(3), 1e-6, 1)

    assert first_coordinate(waves, np.array([1.0, 0.1, 0.01])) is None


def test_pairs_of_unequal_norms_are_no_waves() -> None:
    assert axis_waves(np.array([[1.0, 0.5j], [1.0, 0.7j]]), ROUNDING) is None


def bands_up_to(highest: float, count: int, *, is_linear: bool) -> Float64s:
    return np.linspace(1, highest, count) if is_linear else highest ** np.linspace(0, 1, count)


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("resolution", [7, 10, 64, 224])
def test_twice_the_highest_band_is_found(resolution: int, is_linear: bool) -> None:
    omega = np.pi * bands_up_to(resolution / 2, 8, is_linear=is_linear)
    waves = measured(np.exp(1j * np.outer(np.linspace(-1, 1, 6), omega)))

    # So few tokens have the same numbers for other bands too.
    assert (resolution, is_linear) in highest_bands(waves)


def test_other_rates_are_no_bands() -> None:
    assert highest_bands(axis_of(np.array([1.0, 0.1]), 6)) == []


def test_other_sines_are_no_bands() -> None:
    assert sine_bands(np.sin(np.outer(np.arange(12), [1.0, 0.1])), ROUNDING) is None


def test_the_length_of_an_axis_comes_before_usual_resolutions() -> None:
    omega = np.pi * bands_up_to(5 / 2, 2, is_linear=True)
    waves = measured(np.exp(1j * np.outer(np.linspace(-1, 1, 5), omega)))

    assert band_resolutions([waves]) == [(5,)]
