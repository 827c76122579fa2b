"""Rules and positions of rotary rows."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Sample
from service.analysis.families.row_positions import (
    evenly_located,
    has_real_numbers,
    has_rising_positions,
    rules_of_first_rows,
    scattered,
    unit_of,
)
from service.analysis.measure import Complexes
from service.numerics.dtypes import BFLOAT16, FLOAT32, INT64, DType
from service.numerics.tables import StoredTable

UNIT = 2.0**-24


def phasors_of(
    positions: list[int], base: float = 10000.0, dtype: type[np.floating] = np.float32
) -> Complexes:
    angles = np.outer(positions, base ** (-np.arange(32) / 32))
    cosine, sine = (
        each.astype(dtype).astype(np.float64) for each in (np.cos(angles), np.sin(angles))
    )
    return np.asarray(cosine + 1j * sine)


@pytest.mark.parametrize(
    ("positions", "is_known"),
    [
        (list(range(7, 107)), False),
        (list(range(0, 300, 3)), False),
        ([0, 1, 2, 255, 1023], True),
        ([100], True),
    ],
)
def test_even_rows_and_known_positions_give_the_rule(positions: list[int], is_known: bool) -> None:
    known = np.array(positions, dtype=np.float64) if is_known else None

    first = next(evenly_located(phasors_of(positions), UNIT, known))

    assert first.match.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == positions


def test_distant_rows_in_float16_give_base_and_start() -> None:
    positions = list(range(100000, 100040))

    first = next(evenly_located(phasors_of(positions, 500000.0, np.float16), 2.0**-11))

    # The slowest pairs have the same numbers in all rows, which do not show their rate.
    assert first.match.parameters == {"rope_theta": 500000.0}
    assert first.positions.tolist() == positions


def test_rows_that_hardly_turn_are_not_a_huge_step_apart() -> None:
    fixed = [-1.27364, -0.69899, 1.3894, 2.0802]
    rounded_angles = [
        [*fixed, 1.90431, 1.45703, 0.25903, 0.04605],
        [*fixed, 1.91213, 1.45703, 0.25903, 0.04608],
        [*fixed, 1.91213, 1.45703, 0.25903, 0.04608],
    ]

    located = list(evenly_located(np.exp(1j * np.array(rounded_angles)), UNIT))

    assert located
    assert all(np.diff(rows.positions).max() <= 2**24 for rows in located)


def test_frequency_rule_is_found_from_the_contiguous_first_rows() -> None:
    found = list(rules_of_first_rows(phasors_of([4, 5, 6, 7, 8, 8, 8, 30, 2]), UNIT))

    assert found[0].parameters == {"rope_theta": 10000.0}


@pytest.mark.parametrize(
    "positions",
    [[4095], [0, 1, 2, 255, 1023, 4095], [*range(5, 200, 3), 7], [0, 2, 4, 9], [9, 3, 1000]],
)
def test_positions_of_scattered_rows_are_found(positions: list[int]) -> None:
    first = next(scattered(phasors_of(positions), UNIT))

    assert first.match.parameters == {"rope_theta": 10000.0}
    assert first.positions.tolist() == positions


def test_noise_has_no_positions() -> None:
    noise = np.exp(1j * np.random.default_rng(5).uniform(-3, 3, (40, 16)))

    assert not list(evenly_located(noise, UNIT))
    assert not list(scattered(noise, UNIT))


def sample_of_dtype(dtype: DType, number: float = 1) -> Sample:
    return Sample.of(StoredTable(np.full(2, number).astype(dtype.storage), dtype))


def test_the_error_of_cosines_and_sines_is_half_a_step_below_1() -> None:
    assert unit_of(sample_of_dtype(FLOAT32)) == pytest.approx(2.0**-24)
    assert unit_of(sample_of_dtype(BFLOAT16)) == pytest.approx(2.0**-9)


@pytest.mark.parametrize(
    ("positions", "are_valid"),
    [(None, True), ([3, 9], True), ([3, 9.5], False), ([9, 3], False), ([1, 2, 3], False)],
)
def test_positions_are_rising_integers_one_for_each_row(
    positions: list[float] | None, are_valid: bool
) -> None:
    known = None if positions is None else np.array(positions)
    request = IdentifyInput({"array": sample_of_dtype(FLOAT32)}, positions=known)

    assert has_rising_positions(request, 2) == are_valid


def test_integers_zeros_and_infinities_are_no_cosines_and_sines() -> None:
    assert has_real_numbers(sample_of_dtype(FLOAT32))
    assert not has_real_numbers(sample_of_dtype(FLOAT32, 0))
    assert not has_real_numbers(sample_of_dtype(FLOAT32, np.inf))
    assert not has_real_numbers(sample_of_dtype(INT64))
