"""Measured frequencies, phases and bases are within their stated errors."""

from math import exp, log
from typing import Any

import numpy as np
import pytest

from service.analysis.explanation import measured
from service.analysis.explanation.measured import (
    Measured,
    fewest_digits,
    fitted_line,
    fold,
    measure,
    refined_base,
)
from service.analysis.explanation.sampling import sampled_rows
from service.analysis.explanation.views import HALF_STEP, View
from service.analysis.precision import rounded
from service.numerics.dtypes import FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from tests.analysis.turning import DTYPES, UNIT, powers, turned

SEEDS = range(6)
BASES = (100.0, 10000.0, 43871.0, 500000.0, 1e7, 1e10)
WIDTH = 32


def view_of(cosine: Float64s | None, sine: Float64s | None, dtype: DType) -> View:
    """Return a view of numbers, rounded to a type."""
    cosine, sine = (None if each is None else rounded(each, dtype) for each in (cosine, sine))
    return View(cosine, sine, dtype, "compact")


def measured_of(
    omega: Float64s, positions: Any, dtype: DType = FLOAT32, scale: float = 1.0
) -> Measured:
    return measure(view_of(*turned(omega, positions, scale), dtype), positions)


def within(found: Measured, omega: Float64s) -> bool:
    """Return whether frequencies are within the stated errors, modulo a turn per step."""
    apart = np.abs(fold((found.omega - omega) * found.step)) / found.step
    return bool((apart <= found.error).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_frequencies_are_within_their_error(dtype: str, base: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for rows in (2, 5, int(rng.integers(8, 64)), 500):
        positions = np.arange(rows) + float(rng.integers(0, 2000))
        scale = float(rng.choice([1.0, 1.25, 0.5]))
        omega = powers(WIDTH, base)

        found = measured_of(omega, positions, DTYPES[dtype], scale)

        assert within(found, omega)
        assert found.scale == pytest.approx(scale, rel=2.0**-7)
        assert found.moving == WIDTH // 2
        assert found.agrees(omega)


@pytest.mark.parametrize("seed", SEEDS)
def test_frequencies_of_no_base_are_within_their_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    omega = np.sort(rng.uniform(0, 3, 12))[::-1].copy()

    for dtype in DTYPES.values():
        assert within(measured_of(omega, np.arange(100.0), dtype), omega)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("base", BASES)
def test_the_more_rows_the_less_the_error(dtype: str, base: float) -> None:
    errors = [
        measured_of(powers(WIDTH, base), np.arange(float(rows)), DTYPES[dtype]).error[-1]
        for rows in (4, 16, 64, 256, 1024)
    ]

    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 10


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sampled_rows_of_a_large_table_are_measured(dtype: str) -> None:
    positions = sampled_rows(131072).astype(np.float64)
    omega = powers(128, 500000.0)

    found = measured_of(omega, positions, DTYPES[dtype])

    assert within(found, omega)
    assert (found.error < (8 + 2 * 64) * UNIT).all()


@pytest.mark.parametrize("step", [0.5, 2.0, 7.0])
def test_frequencies_are_known_modulo_a_turn_per_step(step: float) -> None:
    omega = powers(WIDTH)

    found = measured_of(omega, np.arange(64) * step)

    assert found.step == step
    assert within(found, omega)
    assert found.agrees(omega + 2 * np.pi / step)


def test_rows_in_any_order_are_measured() -> None:
    positions = np.random.default_rng(5).permutation(80).astype(np.float64)
    omega = powers(WIDTH)

    assert within(measured_of(omega, positions), omega)


@pytest.mark.parametrize("start", [-7.0, 0.0, 1.0, 4000.0])
def test_the_phases_show_the_position_of_the_first_row(start: float) -> None:
    omega = powers(WIDTH)
    positions = np.arange(64.0)
    view = view_of(*turned(omega, positions + start), FLOAT32)

    assert measure(view, positions).shift(omega) == start


def test_phases_of_different_positions_show_no_position() -> None:
    omega = powers(WIDTH)
    angles = np.outer(np.arange(64.0), omega) + np.arange(16) ** 2
    view = view_of(np.cos(angles), np.sin(angles), FLOAT32)

    assert measure(view, np.arange(64.0)).shift(omega) is None


def test_sines_with_the_other_sign_turn_backward() -> None:
    cosine, sine = turned(powers(WIDTH), 64)

    assert measure(view_of(cosine, -sine, FLOAT32), np.arange(64.0)).is_backward
    assert not measure(view_of(cosine, sine, FLOAT32), np.arange(64.0)).is_backward


def test_pairs_that_stand_still_do_not_move() -> None:
    omega = np.where(np.arange(16) < 5, powers(WIDTH), 0.0)

    assert measured_of(omega, np.arange(64.0)).moving == 5
    assert measured_of(0 * omega, np.arange(64.0)).moving == 0


@pytest.mark.parametrize("decimals", [2, 4])
def test_printed_decimals_are_part_of_the_error(decimals: int) -> None:
    omega, slack = powers(WIDTH), 0.5 * 10.0**-decimals
    cosine, sine = (np.round(each, decimals) for each in turned(omega, 60))
    view = View(cosine, sine, FLOAT64, "compact", slack=slack)

    found = measure(view, np.arange(60.0))

    assert within(found, omega)
    assert found.error.max() < slack


def test_rows_of_little_weight_count_little() -> None:
    omega, rows = powers(WIDTH), 60
    cosine, sine = turned(omega, rows)
    weights = np.ones(cosine.shape)
    cosine[40:45], weights[40:45] = 0.3, 1e-9
    view = View(cosine, sine, FLOAT64, "compact", weights=weights)

    assert within(measure(view, np.arange(float(rows))), omega)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("base", [100.0, 10000.0, 500000.0])
@pytest.mark.parametrize("component", ["cosine", "sine"])
def test_one_component_alone_is_measured(component: str, base: float, dtype: str) -> None:
    omega, positions = powers(16, base), np.arange(256.0)
    cosine, sine = turned(omega, positions)
    is_cosine = component == "cosine"
    view = view_of(cosine if is_cosine else None, None if is_cosine else sine, DTYPES[dtype])

    found = measure(view, positions)

    assert (np.abs(found.omega - omega) <= found.error).all()
    assert found.phasors is None
    assert found.agrees(omega)
    assert found.agrees(-omega)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("base", BASES)
def test_a_line_has_the_base_within_its_error(dtype: str, base: float) -> None:
    found = measured_of(powers(WIDTH, base), np.arange(200.0), DTYPES[dtype])

    line = fitted_line(found.omega, found.error)

    assert line is not None
    assert abs(-line.slope * WIDTH / 2 - log(base)) <= line.slope_error * WIDTH / 2
    assert abs(line.height) <= line.height_error


def test_frequencies_off_a_line_have_none() -> None:
    omega, error = powers(WIDTH), np.full(16, 1e-9)
    bent = omega * np.where(np.arange(16) == 5, 1 + 1e-4, 1)

    assert fitted_line(bent, error) is None
    assert fitted_line(omega[:1], error[:1]) is None
    assert fitted_line(np.zeros(16), error) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("rows", [16, 200])
def test_all_numbers_at_once_give_the_base_within_its_error(
    dtype: str, base: float, rows: int
) -> None:
    found = measured_of(powers(WIDTH, base), np.arange(float(rows)), DTYPES[dtype])
    exponents = np.arange(0, WIDTH, 2) / WIDTH

    fitted = refined_base(found, lambda ln: np.exp(-ln * exponents), log(base * 1.002))

    assert fitted is not None
    assert abs(fitted[0] - log(base)) <= fitted[1]
    line = fitted_line(found.omega, found.error)
    assert line is not None
    assert fitted[1] < line.slope_error * WIDTH / 2


def test_nothing_is_refined_where_nothing_depends_on_the_base() -> None:
    found = measured_of(np.ones(4), np.arange(20.0))
    alone = measure(view_of(turned(np.ones(4), 20)[0], None, FLOAT32), np.arange(20.0))

    assert refined_base(found, lambda _: np.ones(4), 9.0) is None
    assert refined_base(alone, lambda ln: np.full(4, exp(-ln)), 9.0) is None


@pytest.mark.parametrize(
    ("low", "high", "number", "digits"),
    [
        (9999.94, 10000.06, 10000.0, 1),
        (43859.0, 43881.8, 43860.0, 4),
        (43870.7, 43871.3, 43871.0, 5),
        (3.1, 3.9, 3.1, 2),
        (2.0, 2.0, 2.0, 1),
        (0.0199, 0.0201, 0.02, 1),
        (8.0, 9.0, 8.0, 1),
        (9.5, 12.0, 10.0, 1),
        (1.386, 1.387, 1.386, 4),
        (123456.7891, 123456.7901, 123456.79, 8),
        (1e-300, 4.0, 1.0, 1),
    ],
)
def test_the_number_of_fewest_digits_is_found(
    low: float, high: float, number: float, digits: int
) -> None:
    found = fewest_digits(low, high)

    assert found == (number, digits)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_number_of_fewest_digits_is_in_the_interval_and_none_is_shorter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(200):
        low = float(10 ** rng.uniform(-3, 8))
        high = low * float(1 + 10 ** rng.uniform(-6, -0.5))

        found = fewest_digits(low, high)

        assert found is not None
        number, digits = found
        assert low * (1 - 1e-11) <= number <= high * (1 + 1e-11)
        assert digits == len(f"{number:.12e}".split("e")[0].replace(".", "").rstrip("0"))
        unit = 10.0 ** (np.floor(np.log10(high)) - (digits - 2))
        assert digits == 1 or np.ceil(low / unit * (1 + 1e-12)) * unit > high


@pytest.mark.parametrize("interval", [(0.0, 1.0), (2.0, 1.0), (1.0, float("inf")), (-1.0, 2.0)])
def test_other_intervals_have_no_number(interval: tuple[float, float]) -> None:
    assert fewest_digits(*interval) is None


def test_an_angle_is_folded_into_half_a_turn() -> None:
    angles = np.array([0.0, 3.0, 3.5, -3.5, 100.0])

    folded = fold(angles)

    assert (np.abs(folded) <= np.pi).all()
    np.testing.assert_allclose(np.exp(1j * folded), np.exp(1j * angles))


def test_an_error_that_is_stated_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    omega, positions = powers(WIDTH), np.arange(3.0)
    view = view_of(*turned(omega, positions), DTYPES["bfloat16"])
    assert within(measure(view, positions), omega)

    tight = {dtype: step / 2**12 for dtype, step in HALF_STEP.items()}
    monkeypatch.setattr(measured, "HALF_STEP", tight)

    assert not within(measure(view, positions), omega)
