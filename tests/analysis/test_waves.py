"""Waves: frequencies, phases and scale, measured from turns along rows."""

import numpy as np
import pytest

from service.analysis.waves import measure

OMEGA = 10000.0 ** (-2 * np.arange(32) / 64)


def turns(places: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return scale * np.exp(1j * np.outer(places, OMEGA))


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 17, 512, 4096])
def test_frequencies_are_measured_whatever_the_number_of_rows(rows: int) -> None:
    waves = measure(turns(np.arange(rows)))

    assert np.allclose(waves.omega, OMEGA, rtol=1e-9, atol=0)
    assert waves.step == 1


def test_phases_say_where_rows_begin() -> None:
    waves = measure(turns(np.arange(100) + 7.0))

    assert np.allclose(np.exp(1j * waves.phase), np.exp(7j * OMEGA), atol=1e-12)


def test_the_scale_is_measured() -> None:
    waves = measure(turns(np.arange(50), scale=1.2772588722239782))

    assert waves.scale == pytest.approx(1.2772588722239782, rel=1e-14)
    assert waves.unevenness < 1e-14


def test_places_may_be_anywhere() -> None:
    places = np.array([-3.0, -2.0, 0.5, 4.0, 100.0, 1000.0])

    waves = measure(turns(places), places)

    assert np.allclose(waves.omega, OMEGA, rtol=1e-9, atol=0)
    assert np.allclose(waves.phase, 0, atol=1e-9)


def test_steps_too_wide_leave_frequencies_open_by_whole_turns() -> None:
    waves = measure(turns(np.arange(0, 400, 8.0)), np.arange(0, 400, 8.0))

    assert waves.step == 8
    off = (waves.omega - OMEGA) * 8 / (2 * np.pi)
    assert np.allclose(off, np.round(off), atol=1e-9)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 2.0**-24), (np.float16, 2.0**-11)])
def test_the_error_covers_what_narrow_types_lose(dtype: type, unit: float) -> None:
    exact = turns(np.arange(300.0))
    rounded = exact.real.astype(dtype).astype(float) + 1j * exact.imag.astype(dtype).astype(float)

    waves = measure(rounded)

    assert (np.abs(waves.omega - OMEGA) <= waves.omega_error).all()
    assert waves.unevenness < 4 * unit
    assert (waves.crookedness < 4 * unit).all()


def test_what_goes_wrong_far_out_does_not_touch_the_measure() -> None:
    places = np.arange(2048.0)
    places[257:] = np.round(places[257:] / 8) * 8

    waves = measure(turns(places))

    assert np.allclose(waves.omega, OMEGA, rtol=1e-9, atol=0)


def test_noise_is_no_wave() -> None:
    noise = np.random.default_rng(0).normal(size=(64, 8, 2)).view(np.complex128)[..., 0]

    waves = measure(noise)

    assert waves.unevenness > 0.5
    assert (waves.crookedness > 0.5).all()


def test_zeros_are_measured_without_a_warning() -> None:
    waves = measure(np.zeros((8, 4), dtype=np.complex128))

    assert np.isfinite(waves.omega).all()
    assert waves.unevenness == 1
