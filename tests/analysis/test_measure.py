"""Layouts, frequencies, geometric series, round numbers and rounding errors are measured."""

from dataclasses import replace

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.measure import (
    fit_geometric,
    layout_readings,
    measure,
    read_layout,
    round_bases,
)
from service.analysis.precision import dtype_parameters, error_share, rounded, rounding_share
from service.analysis.round_numbers import (
    common_value,
    round_integers,
    round_numbers,
    signed_round_numbers,
    significant_digits,
)
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
)
from service.numerics.phasors import Channels
from service.numerics.tables import StoredTable

OMEGA = 10000.0 ** (-2 * np.arange(32) / 64)


def phasors(positions: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return scale * np.exp(1j * np.outer(positions, OMEGA))


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 17, 512, 4096])
def test_frequencies_are_measured_from_any_number_of_rows(rows: int) -> None:
    waves = measure(phasors(np.arange(rows)))

    assert np.allclose(waves.omega, OMEGA, rtol=1e-9, atol=0)
    assert waves.step == 1


def test_phase_and_scale_are_measured() -> None:
    waves = measure(phasors(np.arange(100) + 7.0, scale=1.2772588722239782))

    assert np.allclose(np.exp(1j * waves.phase), np.exp(7j * OMEGA), atol=1e-12)
    assert waves.scale == pytest.approx(1.2772588722239782, rel=1e-14)
    assert waves.norm_error < 1e-14


def test_rows_need_not_be_evenly_spaced() -> None:
    positions = np.array([-3.0, -2.0, 0.5, 4.0, 100.0, 1000.0])

    waves = measure(phasors(positions), positions)

    assert np.allclose(waves.omega, OMEGA, rtol=1e-9, atol=0)
    assert np.allclose(waves.phase, 0, atol=1e-9)


def test_wide_steps_leave_frequencies_known_modulo_2_pi() -> None:
    waves = measure(phasors(np.arange(0, 400, 8.0)), np.arange(0, 400, 8.0))

    assert waves.step == 8
    off = (waves.omega - OMEGA) * 8 / (2 * np.pi)
    assert np.allclose(off, np.round(off), atol=1e-9)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 2.0**-24), (np.float16, 2.0**-11)])
def test_error_bounds_contain_the_rounding_of_narrow_types(dtype: type, unit: float) -> None:
    exact = phasors(np.arange(300.0))
    rounded = exact.real.astype(dtype).astype(float) + 1j * exact.imag.astype(dtype).astype(float)

    waves = measure(rounded)

    assert (np.abs(waves.omega - OMEGA) <= waves.omega_error).all()
    assert waves.norm_error < 4 * unit
    assert (waves.angle_error < 4 * unit).all()


def test_errors_in_late_rows_do_not_change_the_measurement() -> None:
    positions = np.arange(2048.0)
    positions[257:] = np.round(positions[257:] / 8) * 8

    waves = measure(phasors(positions))

    assert np.allclose(waves.omega, OMEGA, rtol=1e-9, atol=0)


def test_noise_has_large_norm_and_angle_errors() -> None:
    noise = np.random.default_rng(0).normal(size=(64, 8, 2)).view(np.complex128)[..., 0]

    waves = measure(noise)

    assert waves.norm_error > 0.5
    assert (waves.angle_error > 0.5).all()


def test_zeros_have_finite_frequencies() -> None:
    waves = measure(np.zeros((8, 4), dtype=np.complex128))

    assert np.isfinite(waves.omega).all()
    assert waves.norm_error == 1


def _series(base: float, span: int, count: int, first: float = 1.0) -> np.ndarray:
    return first * base ** (-2 * np.arange(count) / span)


@pytest.mark.parametrize("base", [10000.0, 500000.0, 100.0])
@pytest.mark.parametrize("width", [4, 128, 512])
@pytest.mark.parametrize("first", [1.0, 0.25])
def test_base_of_frequencies_is_found(base: float, width: int, first: float) -> None:
    omega = _series(base, width, width // 2, first).astype(np.float32).astype(np.float64)

    series = fit_geometric(omega, omega * 2.0**-23)

    assert series is not None
    assert series.first == pytest.approx(first, rel=1e-6)
    assert round_bases(series, width)[0] == base


def test_frequencies_smaller_than_their_errors_have_no_weight() -> None:
    noise = 6e-5 * np.cos(np.arange(64) ** 2)

    series = fit_geometric(_series(10000, 128, 64) + noise, np.full(64, 6e-5))

    assert series is not None
    assert round_bases(series, 128)[0] == 10000


def test_error_bounds_of_a_series_contain_the_exact_one() -> None:
    omega = _series(10000, 128, 64)
    error = omega * 1e-4

    series = fit_geometric(omega + error * np.where(np.arange(64) < 32, 1, -1), error)

    assert series is not None
    assert abs(series.first - 1) <= series.first_error * 1.01
    assert abs(series.ratio / 10000 ** (-1 / 64) - 1) <= series.ratio_error * 1.01


def test_zeros_and_numbers_with_a_bend_are_no_geometric_series() -> None:
    omega = _series(10000, 128, 64)
    omega[40:] /= 8

    assert fit_geometric(omega, omega * 1e-6) is None
    assert fit_geometric(np.zeros(4), np.full(4, 1e-9)) is None


def test_single_frequency_has_the_usual_base() -> None:
    series = fit_geometric(np.ones(1), np.full(1, 1e-9))

    assert series is not None
    assert series.first == pytest.approx(1)
    assert round_bases(series, 2) == (10000,)


LAYOUTS_OMEGA = 10000.0 ** (-2 * np.arange(8) / 16)
ANGLES = np.outer(np.arange(20), LAYOUTS_OMEGA)

LAYOUTS: dict[str, Channels] = {
    "interleaved": Channels(("sin", "cos"), True, 16),
    "concatenated": Channels(("sin", "cos"), False, 16),
    "flat": Channels(("cos", "sin"), True, 16),
    "concat": Channels(("cos", "sin"), False, 16),
    "half_concat": Channels(("cos", "cos", "sin", "sin"), False, 32),
    "sin_half_concat": Channels(("sin", "sin", "cos", "cos"), False, 32),
    "sin_interleaved_concat": Channels(("sin", "cos"), False, 32, 2),
}


def rows_in(channels: Channels) -> np.ndarray:
    frequency, is_sine = channels.indices()
    angles = ANGLES[:, frequency]
    return np.asarray(np.where(is_sine, np.sin(angles), np.cos(angles)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_right_layout_has_equal_norms_positive_and_fewest_frequencies(layout: str) -> None:
    fitting = []
    for reading in layout_readings(rows_in(LAYOUTS[layout])):
        waves = measure(reading.phasors)
        if reading.copy_error < 1e-9 and waves.norm_error < 1e-9 and (waves.omega > 0).all():
            fitting.append((reading.phasors.shape[1], reading.layout))

    assert min(fitting) == (8, layout)
    assert [count for count, _ in fitting].count(8) == 1


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_sine_without_a_cosine_is_left_out(layout: str) -> None:
    channels = replace(LAYOUTS[layout], width=15)

    reading = read_layout(layout, channels, rows_in(channels))

    assert reading.phasors.shape == (20, 7)
    assert np.allclose(reading.phasors, np.exp(1j * ANGLES[:, :7]))


def test_copy_error_is_the_difference_of_channels_that_should_be_equal() -> None:
    rows = rows_in(LAYOUTS["half_concat"])
    rows[3, 9] += 0.25

    reading = read_layout("half_concat", LAYOUTS["half_concat"], rows)

    assert reading.copy_error == pytest.approx(0.25)


@pytest.mark.parametrize("width", range(1, 13))
def test_every_width_from_2_has_layouts(width: int) -> None:
    readings = list(layout_readings(np.ones((3, width))))

    assert bool(readings) == (width > 1)
    for reading in readings:
        assert reading.phasors.shape[0] == 3
        assert 1 <= reading.phasors.shape[1] <= width // 2


@pytest.mark.parametrize(
    ("measured", "error", "first"),
    [
        (9999.87, 3e-4, 10000.0),
        (499999.2, 1e-5, 500000.0),
        (131071.6, 1e-5, 131072.0),
        (0.088388, 1e-5, 0.088388),
        (1.2772588722239782, 1e-16, 1.2772588722239782),
        (150000.4, 1e-4, 150000.0),
        (8.0000003, 1e-6, 8.0),
    ],
)
def test_number_of_fewest_digits_comes_first(measured: float, error: float, first: float) -> None:
    assert next(round_numbers(measured, error)) == first


def test_round_numbers_are_within_the_error_different_and_limited_in_number() -> None:
    numbers = list(round_numbers(9999.87, 3e-4))

    assert len(numbers) == len(set(numbers)) == 3
    assert all(abs(number - 9999.87) <= 3e-4 * 9999.87 for number in numbers)
    assert len(list(round_numbers(3.14159, 1e-2, most=2))) == 2
    assert 65536.0 in list(round_numbers(65535.2, 1e-4))


@pytest.mark.parametrize("measured", [0.0, -1.0, float("inf"), float("nan")])
def test_only_positive_finite_numbers_have_round_numbers(measured: float) -> None:
    assert not list(round_numbers(measured, 0.1))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (100, 150, [128, 100, 110]),
        (17, 40, [32, 20, 30]),
        (130, 255, [200, 130, 140]),
        (7, 7, [7]),
        (9, 8, []),
        (1000, 5000, [1024, 2048, 4096]),
    ],
)
def test_powers_of_two_and_multiples_of_ten_come_first(
    low: int, high: int, expected: list[int]
) -> None:
    assert list(round_integers(low, high, 128, 3)) == expected


def sample_of(dtype: DType) -> Sample:
    return Sample.of(StoredTable(np.ones(3, dtype=dtype.storage), dtype))


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda dtype: dtype.name)
def test_rounding_share_is_a_tight_bound(dtype: DType) -> None:
    values = np.random.default_rng(0).uniform(1, 2, 1000)

    error = np.abs(rounded(values, dtype) / values - 1).max()

    assert rounding_share(sample_of(dtype)) / 4 < error <= rounding_share(sample_of(dtype))


@pytest.mark.parametrize(
    ("dtype", "counts_as", "parameters"),
    [
        (FLOAT16, FLOAT16, {"dtype": "float16"}),
        (BFLOAT16, BFLOAT16, {"dtype": "bfloat16"}),
        (FLOAT32, FLOAT32, {}),
        (FLOAT64, FLOAT32, {"dtype": "float64"}),
        (COMPLEX64, FLOAT32, {}),
        (COMPLEX128, FLOAT32, {"dtype": "float64"}),
        (INT64, FLOAT32, {}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_error_share_is_four_roundings_and_dtype_is_named_unless_it_is_the_default(
    dtype: DType, counts_as: DType, parameters: dict[str, str]
) -> None:
    assert error_share(sample_of(dtype)) == 4 * rounding_share(sample_of(counts_as))
    assert dtype_parameters(sample_of(dtype)) == parameters


def test_common_value_is_the_most_exact_measurement() -> None:
    assert common_value([(2.001, 1e-3), (2.00001, 1e-5)]) == (2.00001, 1e-5)
    assert common_value([(2.0, 1e-5), (2.1, 1e-5)]) is None


@pytest.mark.parametrize(
    ("measured", "error", "number"),
    [(-2.00001, 1e-4, -2.0), (1e-9, 1e-8, 0.0), (1.8763, 2e-2, 1.875)],
)
def test_signed_round_numbers_are_0_or_decimals_or_multiples_of_an_eighth(
    measured: float, error: float, number: float
) -> None:
    assert number in signed_round_numbers(measured, error)


def test_number_of_many_digits_has_no_signed_round_number() -> None:
    assert signed_round_numbers(12.566370614359172, 1e-12) == []


def test_significant_digits_are_counted() -> None:
    assert [significant_digits(each) for each in (10000.0, -9646.6, 1 / 3)] == [1, 5, 15]
