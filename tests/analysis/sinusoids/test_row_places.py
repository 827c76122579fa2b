import numpy as np
import pytest

from service.analysis.sinusoids.row_places import locate, locate_whole

OMEGA = 10000.0 ** (-np.arange(16) / 16)


def phases(places: list[float], omega: np.ndarray = OMEGA) -> np.ndarray:
    return (np.outer(places, omega) + np.pi) % (2 * np.pi) - np.pi


def errors(rows: int, omega: np.ndarray = OMEGA) -> np.ndarray:
    return np.full((rows, len(omega)), 1e-8)


def test_rows_in_any_order_are_located_with_fractions_among_them() -> None:
    places = [0.0, 0.5, 3.0, 100.0, 2047.0, -7.25]

    found = locate(phases(places), errors(6), OMEGA)

    assert found is not None
    assert found.rounded().tolist() == places


def test_a_place_many_turns_of_the_slowest_frequency_away_is_found() -> None:
    found = locate(phases([131071.0, 2.0**20]), errors(2), OMEGA)

    assert found is not None
    assert found.rounded().tolist() == [131071.0, 2.0**20]


def test_phases_of_other_frequencies_have_no_place() -> None:
    assert locate(phases([100.0], OMEGA**1.1), errors(1), OMEGA) is None


@pytest.mark.parametrize("place", [-5.0, 1000.0])
def test_one_frequency_alone_gives_the_nearest_whole_place(place: float) -> None:
    one = np.array([1.0])

    found = locate_whole(phases([place], one), np.full((1, 1), 1e-9), one)

    assert found is not None
    assert found.rounded().tolist() == [place]


def test_a_place_that_chance_may_have_made_is_none() -> None:
    one = np.array([1.0])

    assert locate_whole(phases([1000.0], one), np.full((1, 1), 1e-3), one) is None
