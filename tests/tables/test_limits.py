"""Limits, and that what is made of numbers up to them stays in range."""

from math import isfinite, log

import numpy as np

from service.tables.angle import MAX_FREQUENCY, MAX_POSITION, MIN_FREQUENCY
from service.tables.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_MSCALE,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)


def test_frequencies_stay_in_the_range_of_exact_phases() -> None:
    assert 1 / MAX_BASE >= MIN_FREQUENCY
    # Divided by a factor of its own, by one for all, and by what dynamic scaling makes of a length.
    assert 1 / MAX_SCALED_BASE / MAX_FACTOR**2 / MAX_LENGTH >= MIN_FREQUENCY
    assert 1 / MIN_FACTOR**2 <= MAX_FREQUENCY * (1 + 1e-15)
    assert MAX_LENGTH <= MAX_POSITION


def test_attention_factors_stay_in_the_range_of_every_type() -> None:
    largest = float(np.finfo(np.float16).max)
    assert largest > MAX_ATTENTION_FACTOR
    assert 0.1 * MAX_MSCALE * log(MAX_FACTOR) + 1 < largest


def test_wavelengths_stay_in_the_range_of_float64() -> None:
    assert isfinite(2 * 3.2 * MAX_SCALED_BASE * MAX_FACTOR**2 * MAX_LENGTH)
    assert isfinite(2 * 3.2 * MAX_BASE)
