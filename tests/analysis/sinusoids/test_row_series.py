import numpy as np
import pytest

from service.analysis.sinusoids.row_series import climb

BASE = 10000.0


def series(position: float, count: int) -> np.ndarray:
    return position * BASE ** (-np.arange(count) / count)


def folded(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi


@pytest.mark.parametrize("position", [1.0, 0.25, 37.0, 999.0, -250.0])
def test_one_row_gives_the_ratio_of_its_frequencies(position: float) -> None:
    climbed = climb(folded(series(position, 32)), np.full(32, 1e-9))

    assert climbed is not None
    assert climbed.sign == np.sign(position)
    assert climbed.series.first == pytest.approx(abs(position), rel=1e-4)
    assert climbed.series.ratio**-32 == pytest.approx(BASE, rel=1e-4)


def test_angles_that_are_no_series_are_told() -> None:
    angles = series(5.0, 16)
    angles[8] *= 1.1

    assert climb(folded(angles), np.full(16, 1e-9)) is None


def test_a_slowest_angle_within_its_error_says_nothing() -> None:
    assert climb(np.array([1e-3, 1e-4]), np.full(2, 1e-2)) is None
