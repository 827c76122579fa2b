"""Waves that somebody made in place of others.

What is wanted, read as waves.

The tutorial_slips of tutorials, as loops write them.
"""

import numpy as np
import pytest

from service.analysis.diagnosis.explanation import ExpectedTable, diagnose
from service.analysis.diagnosis.structure import TableView
from service.analysis.diagnosis.waves import (
    NARROWINGS,
    AngleFault,
    Narrowing,
    Waves,
    error_weights,
    narrowest_dtype,
    offset_of,
    tutorial_slips,
    waves_of,
)
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tests.analysis.mistaken import FORMS, Made, had, stored


@pytest.mark.parametrize("form", FORMS)
def test_what_was_done_is_computed_in_the_form_that_is_wanted(form: str) -> None:
    right = Made(300, 16, form)
    side = TableView.of(had(right, FLOAT64))
    waves = waves_of(side.table(), is_pair=len(side.names) == 2, positions=None)
    assert waves is not None
    made = Made(300, 16, form, start=2, sine=-1.0, factor=3.0, position_dtype=BFLOAT16)
    turned = AngleFault(
        (), -waves.omega, -waves.omega, 2.0, Narrowing(BFLOAT16, positions=True), 3.0
    )

    table, reaches = turned.table(waves, np.arange(300))

    assert np.abs(table - TableView.of(had(made, FLOAT64)).table()).max() < 1e-12
    assert reaches.max() == 300


def test_each_narrowing_has_its_names() -> None:
    names = [tuple(mistake.name for mistake in each.mistakes) for each in NARROWINGS]

    assert set(names) == {
        ("narrow-positions",),
        ("narrow-frequencies",),
        ("narrow-positions", "narrow-frequencies"),
        ("narrow-angles",),
    }


def test_slow_frequencies_may_be_off_by_more_of_themselves() -> None:
    angles, omega = np.array([[2.0, -2.0, 0.0]]), np.array([1.0, np.exp(-6.0), 0.0])

    assert error_weights(angles, omega).tolist() == [[2, 8, 0]]


def test_the_type_that_numbers_were_computed_in_shows_in_a_wider_one() -> None:
    values = np.sin(np.arange(100.0))

    assert narrowest_dtype(values, FLOAT64) is FLOAT64
    for dtype in (FLOAT32, FLOAT16, BFLOAT16):
        assert narrowest_dtype(rounded(values, dtype), FLOAT64) is dtype
    assert narrowest_dtype(rounded(values, BFLOAT16), FLOAT16) is BFLOAT16


def read(made: Made, dtype: object = FLOAT32) -> Waves:
    side = TableView.of(had(made, dtype))  # type: ignore[arg-type]
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

    kept = waves.restricted(np.arange(8), 5)

    assert kept is not None
    assert (len(kept.omega), len(kept.positions)) == (4, 5)
    assert waves.restricted(np.arange(7), 5) is None


def test_frequencies_may_fall_over_other_channels() -> None:
    omega = read(Made(10, 16, "interleaved")).of_width(8).omega

    assert omega[1] == pytest.approx(10000 ** (-2 / 8))


def test_an_offset_is_found_by_all_frequencies_together() -> None:
    omega = 10000.0 ** (-np.arange(16) / 16)

    for rows in (0, 1, -7, 5000):
        assert offset_of(np.angle(np.exp(1j * rows * omega)), omega) == rows
    assert offset_of(np.arange(16.0) ** 2, omega) is None


RIGHT = Made(20, 8, "interleaved").table()["table"]


def loop(sine: str, cosine: str) -> np.ndarray:
    table = np.zeros((20, 8))
    for position in range(20):
        for i in range(0, 8, 2):
            exponents = {
                "i/d": i / 8,
                "(i + 1)/d": (i + 1) / 8,
                "(i + 2)/d": (i + 2) / 8,
                "2i/d": 2 * i / 8,
                "2(i + 1)/d": 2 * (i + 1) / 8,
            }
            table[position, i] = np.sin(position / 10000 ** exponents[sine])
            table[position, i + 1] = np.cos(position / 10000 ** exponents[cosine])
    return table


@pytest.mark.parametrize(
    ("sine", "cosine", "said"),
    [
        ("i/d", "(i + 1)/d", "(i + 1)/d"),
        ("i/d", "(i + 2)/d", "(i + 2)/d"),
        ("2i/d", "2(i + 1)/d", "2(i + 1)/d, and 2i/d for sines"),
    ],
)
def test_loops_of_tutorials_are_recognized(sine: str, cosine: str, said: str) -> None:
    have = {"table": stored(loop(sine, cosine), FLOAT32)}

    diagnosis = diagnose(have, ExpectedTable({"table": stored(RIGHT, FLOAT32)}, FLOAT32))

    assert diagnosis is not None
    (mistake,) = diagnosis.mistakes
    assert (mistake.name, mistake.values["exponent"]) == ("tutorial-slip", said)


def test_frequencies_without_a_base_have_no_exponent() -> None:
    angles = np.outer(np.arange(20), [1.0, 0.7, 0.11, 0.013])
    table = np.hstack([np.sin(angles), np.cos(angles)])
    waves = waves_of(table, is_pair=False, positions=None)
    assert waves is not None

    assert list(tutorial_slips(waves, table)) == []


@pytest.mark.parametrize("start", [-3, 1, 40])
def test_a_slip_is_found_where_counting_starts_elsewhere(start: int) -> None:
    places, pairs = start + np.arange(20), np.arange(4)
    sines = np.sin(np.outer(places, 10000.0 ** (-2 * pairs / 8)))
    cosines = np.cos(np.outer(places, 10000.0 ** (-(2 * pairs + 1) / 8)))
    have = {"table": stored(np.stack([sines, cosines], axis=-1).reshape(20, 8), FLOAT32)}

    diagnosis = diagnose(have, ExpectedTable({"table": stored(RIGHT, FLOAT32)}, FLOAT32))

    assert diagnosis is not None
    assert [mistake.name for mistake in diagnosis.mistakes] == ["tutorial-slip", "position-offset"]
    assert diagnosis.mistakes[1].values == {"rows": start}
