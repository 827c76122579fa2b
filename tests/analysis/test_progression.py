"""Geometric series of frequencies."""

import numpy as np
import pytest

from service.analysis.progression import Geometric, bases, geometric


def _series(base: float, span: int, count: int, first: float = 1.0) -> np.ndarray:
    return first * base ** (-2 * np.arange(count) / span)


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 150000.0, 100.0])
@pytest.mark.parametrize("width", [4, 64, 128, 512])
def test_a_base_is_found_among_frequencies(base: float, width: int) -> None:
    omega = _series(base, width, width // 2).astype(np.float32).astype(np.float64)
    series = geometric(omega, omega * 2.0**-23)
    assert series is not None
    assert bases(series, width)[0] == base


def test_a_base_is_found_among_scaled_frequencies() -> None:
    omega = _series(10000, 64, 32, first=0.25)
    series = geometric(omega, omega * 1e-9)
    assert series is not None
    assert series.first == pytest.approx(0.25, rel=1e-8)
    assert bases(series, 64)[0] == 10000


def test_frequencies_lost_in_their_errors_change_nothing() -> None:
    omega = _series(10000, 128, 64)
    noise = 6e-5 * np.cos(np.arange(64) ** 2)
    series = geometric(omega + noise, np.full(64, 6e-5))
    assert series is not None
    assert bases(series, 128)[0] == 10000


def test_the_errors_of_a_series_cover_what_is_meant() -> None:
    omega = _series(10000, 128, 64)
    error = omega * 1e-4
    series = geometric(omega + error * np.where(np.arange(64) < 32, 1, -1), error)
    assert series is not None
    assert abs(series.first - 1) <= series.first_error * 1.01
    assert abs(series.ratio / 10000 ** (-1 / 64) - 1) <= series.ratio_error * 1.01


def test_a_series_with_a_bend_is_none() -> None:
    omega = _series(10000, 128, 64)
    omega[40:] /= 8
    assert geometric(omega, omega * 1e-6) is None


def test_nothing_is_no_series() -> None:
    assert geometric(np.zeros(4), np.full(4, 1e-9)) is None


def test_one_frequency_says_nothing_of_a_base() -> None:
    series = geometric(np.ones(1), np.full(1, 1e-9))
    assert series is not None
    assert series.first == pytest.approx(1)
    assert bases(series, 2) == (10000,)


def test_a_series_can_be_written_out() -> None:
    assert Geometric(2.0, 0.5, 0.0, 0.0).at(3).tolist() == [2, 1, 0.5]
