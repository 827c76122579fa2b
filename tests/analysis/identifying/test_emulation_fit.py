"""The frequencies that an engine used, read off its table."""

import numpy as np

from service.analysis.identifying.emulation_fit import fitted_frequencies, misfit_by_frequency
from tests.analysis.engines import by_exponentials, in_float32, turning

ROWS = np.linspace(0, 4095, 48).astype(np.int64)


def test_the_float32_frequencies_of_an_engine_are_found_to_the_bit() -> None:
    table = in_float32(4096, 64)
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    used = np.float32(1) / np.float32(10000) ** exponents
    fitted = fitted_frequencies(turning(4096, 64), ROWS, {"x": table[ROWS]})

    turns_enough = used * 4095 > 16
    assert (fitted[turns_enough] == used[turns_enough]).all()


def test_a_row_that_is_wrong_does_not_move_them() -> None:
    table = by_exponentials(4096, 64)
    right = fitted_frequencies(turning(4096, 64), ROWS, {"x": table[ROWS]})
    table[ROWS[20]] = 0.5
    fitted = fitted_frequencies(turning(4096, 64), ROWS, {"x": table[ROWS]})

    fast = right > 0.01
    assert (fitted[fast] == right[fast]).all()


def test_frequencies_are_never_moved_farther_than_float32_may_bring_them() -> None:
    table = in_float32(4096, 64, base=10100.0)
    exact = turning(4096, 64)
    fitted = fitted_frequencies(exact, ROWS, {"x": table[ROWS]})

    assert np.abs(fitted / exact.omega - 1).max() < 40 * 2.0**-24


def test_a_misfit_is_counted_where_its_frequency_is() -> None:
    exact = turning(4096, 8)
    angles = exact.coordinates[ROWS] * exact.omega
    table = np.empty((48, 8))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    table[:, 5] += 0.25
    misfit = misfit_by_frequency(exact, angles, {"x": table})

    assert np.allclose(misfit, [0, 0, 12, 0])
