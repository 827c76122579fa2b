"""Tables are read as waves, and angle faults compute the tables of mistakes."""

import numpy as np
import pytest

from service.analysis.diagnosis.explanation import ExpectedTable, diagnose
from service.analysis.diagnosis.structure import TableView
from service.analysis.diagnosis.waves import (
    LARGEST_INTEGERS,
    AngleFault,
    Narrowing,
    Waves,
    error_weights,
    offset_of,
    tutorial_slips,
    waves_of,
)
from service.analysis.precision import narrowest_dtype, rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.mistaken import FORMS, WaveTable, sent_arrays
from tests.analysis.samples import float_sample


def read(sent: WaveTable, dtype: DType = FLOAT32) -> Waves:
    view = TableView.of(sent_arrays(sent, dtype))
    waves = waves_of(view.table, is_pair=len(view.names) == 2, positions=None)
    assert waves is not None
    return waves


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=lambda dtype: dtype.name)
def test_base_and_first_position_are_read_from_every_layout(form: str, dtype: DType) -> None:
    waves = read(WaveTable(40, 32, form, base=500000.0, start=9), dtype)

    assert waves.base == (500000.0, 32)
    assert waves.positions.tolist() == list(range(9, 49))
    assert waves.scale == pytest.approx(1, rel=2.0**-8)
    assert len(waves.omega) == 16


def test_frequencies_without_a_base_are_measured_on_all_rows() -> None:
    omega = np.array([1.0, 0.7, 0.11, 0.013])
    angles = np.outer(np.arange(2000), omega)
    table = np.hstack([np.sin(angles), np.cos(angles)])
    waves = waves_of(table, is_pair=False, positions=None)

    assert waves is not None
    assert waves.base is None
    assert waves.omega == pytest.approx(omega, abs=1e-14)
    assert list(tutorial_slips(waves, table)) == []


@pytest.mark.parametrize("rows", [20, 1])
def test_noise_has_no_waves(rows: int) -> None:
    noise = np.random.default_rng(3).normal(size=(rows, 8))

    assert waves_of(noise, is_pair=False, positions=None) is None


def test_given_positions_are_kept() -> None:
    positions = np.array([0.0, 1, 5, 6, 20])
    angles = np.outer(positions, 10000.0 ** (-np.arange(4) / 4))
    table = np.hstack([np.sin(angles), np.cos(angles)])

    waves = waves_of(table, is_pair=False, positions=positions)

    assert waves is not None
    assert waves.positions.tolist() == positions.tolist()


def test_waves_are_restricted_to_whole_pairs() -> None:
    waves = read(WaveTable(10, 16, "interleaved"))

    kept = waves.restricted(np.arange(8), 5)

    assert kept is not None
    assert (len(kept.omega), len(kept.positions)) == (4, 5)
    assert waves.restricted(np.arange(7), 5) is None


OMEGA = 10000.0 ** (-np.arange(16) / 16)


@pytest.mark.parametrize("rows", [0, 1, -7, 5000])
def test_offset_is_found_from_all_angles_together(rows: int) -> None:
    assert offset_of(np.angle(np.exp(1j * rows * OMEGA)), OMEGA) == rows
    assert offset_of(np.arange(16.0) ** 2, OMEGA) is None


@pytest.mark.parametrize("form", FORMS)
def test_angle_fault_computes_the_table_of_its_mistakes(form: str) -> None:
    waves = read(WaveTable(300, 16, form), FLOAT64)
    sent = WaveTable(300, 16, form, start=2, sine_factor=-1.0, factor=3.0, position_dtype=BFLOAT16)
    narrowing = Narrowing(BFLOAT16, positions=True)
    fault = AngleFault((), -waves.omega, -waves.omega, 2.0, narrowing, 3.0)

    table, weights = fault.table(waves, np.arange(300))

    assert np.abs(table - TableView.of(sent_arrays(sent, FLOAT64)).table).max() < 1e-12
    assert weights.max() == 300


@pytest.mark.parametrize(("dtype", "largest"), LARGEST_INTEGERS.items(), ids=str)
def test_narrow_type_has_every_integer_up_to_the_largest(dtype: DType, largest: int) -> None:
    integers = np.arange(largest + 1.0)

    assert (rounded(integers, dtype) == integers).all()
    assert rounded(np.array([largest + 1.0]), dtype) == largest


def test_overflow_of_a_narrow_type_is_its_largest_number() -> None:
    waves = read(WaveTable(20, 8, "interleaved"), FLOAT64)
    fault = AngleFault((), waves.omega, waves.omega, 1e9, Narrowing(FLOAT16, positions=True))

    assert np.isfinite(fault.table(waves, np.arange(20))[0]).all()


def test_error_weights_grow_with_the_logarithm_of_the_frequency_and_its_index() -> None:
    angles, omega = np.array([[2.0, -2.0, 0.0, 2.0]]), np.array([1.0, np.exp(-6.0), 0.0, 1.0])

    assert error_weights(angles, omega).tolist() == [[2, 12, 0, 5]]


@pytest.mark.parametrize(
    ("computed_in", "sent_in"),
    [
        (FLOAT64, FLOAT64),
        (FLOAT32, FLOAT64),
        (FLOAT16, FLOAT64),
        (BFLOAT16, FLOAT64),
        (BFLOAT16, FLOAT16),
    ],
    ids=lambda dtype: dtype.name,
)
def test_narrowest_type_of_numbers_is_found(computed_in: DType, sent_in: DType) -> None:
    values = rounded(np.sin(np.arange(100.0)), computed_in)

    assert narrowest_dtype(values, sent_in) is computed_in


RIGHT = WaveTable(20, 8, "interleaved").table()["table"]


def slip_mistakes(
    sines: np.ndarray, cosines: np.ndarray, start: int = 0
) -> list[tuple[str, object]]:
    """Diagnose an interleaved table whose sines and cosines have these exponents."""
    angles = [np.outer(start + np.arange(20), 10000.0**-each) for each in (sines, cosines)]
    table = np.stack([np.sin(angles[0]), np.cos(angles[1])], axis=-1).reshape(20, 8)
    expected = ExpectedTable({"table": float_sample(RIGHT, FLOAT32)}, FLOAT32)
    diagnosis = diagnose({"table": float_sample(table, FLOAT32)}, expected)
    assert diagnosis is not None
    return [(each.name, next(iter(each.values.values()))) for each in diagnosis.mistakes]


CHANNEL = np.arange(0, 8, 2)


@pytest.mark.parametrize(
    ("sines", "cosines", "exponent"),
    [
        (CHANNEL / 8, (CHANNEL + 1) / 8, "(i + 1)/d"),
        (CHANNEL / 8, (CHANNEL + 2) / 8, "(i + 2)/d"),
        (2 * CHANNEL / 8, 2 * (CHANNEL + 1) / 8, "2(i + 1)/d, and 2i/d for sines"),
    ],
)
def test_tutorial_slips_are_recognized(
    sines: np.ndarray, cosines: np.ndarray, exponent: str
) -> None:
    assert slip_mistakes(sines, cosines) == [("tutorial-slip", exponent)]


@pytest.mark.parametrize("start", [-3, 1, 40])
def test_tutorial_slip_is_found_beside_an_offset(start: int) -> None:
    assert slip_mistakes(CHANNEL / 8, (CHANNEL + 1) / 8, start) == [
        ("tutorial-slip", "(i + 1)/d"),
        ("position-offset", start),
    ]
