"""What is wanted, read as waves."""

import numpy as np
import pytest

from service.analysis.mistakes.sides import Side
from service.analysis.mistakes.waves import Waves, offset_of, waves_of
from service.tables.dtypes import BFLOAT16, FLOAT32
from tests.analysis.mistaken import FORMS, Made, had


def read(made: Made, dtype: object = FLOAT32) -> Waves:
    side = Side.of(had(made, dtype))  # type: ignore[arg-type]
    waves = waves_of(side.table(), is_pair=len(side.names) == 2, positions=None)
    assert waves is not None
    return waves


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=lambda d: d.name)
def test_base_and_start_are_read_from_every_form(form: str, dtype: object) -> None:
    waves = read(Made(40, 32, form, base=500000.0, start=9), dtype)

    assert waves.base == (500000.0, 32)
    assert waves.positions.tolist() == list(range(9, 49))
    assert waves.scale == pytest.approx(1, rel=2.0**-8)
    assert len(waves.omega) == 16


def test_frequencies_of_no_base_are_measured_by_all_rows() -> None:
    omega = np.array([1.0, 0.7, 0.11, 0.013])
    angles = np.outer(np.arange(2000), omega)
    table = np.hstack([np.sin(angles), np.cos(angles)])

    waves = waves_of(table, is_pair=False, positions=None)

    assert waves is not None
    assert waves.base is None
    assert waves.omega == pytest.approx(omega, abs=1e-14)


def test_noise_is_no_waves() -> None:
    noise = np.random.default_rng(3).normal(size=(20, 8))

    assert waves_of(noise, is_pair=False, positions=None) is None
    assert waves_of(noise[:1], is_pair=False, positions=None) is None


def test_listed_positions_are_taken_as_they_are() -> None:
    positions = np.array([0.0, 1, 5, 6, 20])
    angles = np.outer(positions, 10000.0 ** (-np.arange(4) / 4))

    waves = waves_of(
        np.hstack([np.sin(angles), np.cos(angles)]), is_pair=False, positions=positions
    )

    assert waves is not None
    assert waves.positions.tolist() == positions.tolist()


def test_some_columns_are_kept_whole_or_not_at_all() -> None:
    waves = read(Made(10, 16, "interleaved"))

    kept = waves.narrowed(np.arange(8), 5)

    assert kept is not None
    assert (len(kept.omega), len(kept.positions)) == (4, 5)
    assert waves.narrowed(np.arange(7), 5) is None


def test_frequencies_may_fall_over_other_channels() -> None:
    omega = read(Made(10, 16, "interleaved")).of_width(8).omega

    assert omega[1] == pytest.approx(10000 ** (-2 / 8))


def test_an_offset_is_found_by_all_frequencies_together() -> None:
    omega = 10000.0 ** (-np.arange(16) / 16)

    for rows in (0, 1, -7, 5000):
        assert offset_of(np.angle(np.exp(1j * rows * omega)), omega) == rows
    assert offset_of(np.arange(16.0) ** 2, omega) is None
