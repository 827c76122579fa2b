"""Emulations equal engines, and frequencies are fitted to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from service.analysis.identification.arithmetic import (
    EXACT,
    FLOAT32_ARITHMETIC,
    FLOAT32_STEPS,
    FLOAT64_ARITHMETIC,
    REPEATED,
    Arithmetic,
    Emulation,
    Repeated,
    exact_emulation,
    fitted_frequencies,
    float32_emulations,
    loosest_float32,
    misfit_by_frequency,
    narrow_angles,
    narrow_emulations,
    narrow_frequencies,
    narrow_positions,
    narrow_throughout,
    without_looser,
)
from service.analysis.precision import rounded
from service.numerics import dtypes
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.engines import (
    angle_model,
    by_exponentials,
    by_multiplication,
    in_float32,
    in_float64,
    laid_out,
)


def test_ranks_rise_from_exact_to_narrow_arithmetics() -> None:
    ranked = [EXACT, FLOAT64_ARITHMETIC, FLOAT32_ARITHMETIC, REPEATED, FLOAT32_STEPS]
    narrow = [narrow_positions, narrow_frequencies, narrow_angles, narrow_throughout]
    ranks = [each.rank for each in [*ranked, *(make("bfloat16") for make in narrow)]]

    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize(
    ("arithmetics", "expected"),
    [
        (
            (FLOAT32_ARITHMETIC, EXACT, FLOAT64_ARITHMETIC),
            (EXACT, FLOAT64_ARITHMETIC, FLOAT32_ARITHMETIC),
        ),
        ((FLOAT32_STEPS, FLOAT32_ARITHMETIC), (FLOAT32_ARITHMETIC,)),
        ((FLOAT32_STEPS,), (FLOAT32_STEPS,)),
        (
            (narrow_positions("bfloat16"), FLOAT32_STEPS),
            (FLOAT32_STEPS, narrow_positions("bfloat16")),
        ),
    ],
)
def test_arithmetics_are_sorted_and_float32_in_steps_dropped_beside_a_more_exact_one(
    arithmetics: tuple[Arithmetic, ...], expected: tuple[Arithmetic, ...]
) -> None:
    assert without_looser(arithmetics) == expected


ROWS = np.arange(2048)


def test_numbers_are_rounded_to_a_type_or_left_alone() -> None:
    numbers = np.array([257.0, 258.0, 1 / 3])

    assert (rounded(numbers, dtypes.BFLOAT16) == [256, 258, 0.333984375]).all()
    assert rounded(numbers, None) is numbers


def test_float32_emulation_equals_an_engine_with_its_frequencies() -> None:
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    omega = (np.float32(1) / np.float32(10000) ** exponents).astype(np.float64)
    exact = angle_model(2048, 64)
    emulation = Emulation(
        FLOAT32_ARITHMETIC, exact, omega, dtypes.FLOAT32, dtypes.FLOAT32, floor=2.0**-23
    )
    values, allowed = emulation.predict(ROWS)["x"]

    assert (np.abs(values - in_float32(2048, 64)) <= allowed).all()
    assert np.abs(laid_out(ROWS[:, None] * exact.omega) - values).max() > 100 * allowed.max()


def test_narrow_positions_repeat_beyond_the_integers_of_the_type() -> None:
    arithmetic = narrow_positions("bfloat16")
    exact = angle_model(2048, 8)
    emulation = Emulation(arithmetic, exact, exact.omega, dtypes.BFLOAT16)
    values, _ = emulation.predict(np.array([256, 257, 258]))["x"]

    assert (values[0] == values[1]).all()
    assert (values[1] != values[2]).any()


def test_repeated_multiplication_equals_ggml() -> None:
    exact = angle_model(2048, 64)
    ratio = float(np.float32(10000) ** np.float32(-2 / 64))
    emulation = Repeated(REPEATED, exact, exact.omega, floor=2.0**-23, ratio=ratio)
    values, allowed = emulation.predict(ROWS)["x"]

    assert (np.abs(values - by_multiplication(2048, 64)) <= allowed).all()


def test_bound_of_an_angle_is_limited() -> None:
    exact = angle_model(2048, 8)
    emulation = Emulation(FLOAT32_ARITHMETIC, exact, exact.omega, share=1.0)
    _, allowed = emulation.predict(ROWS)["x"]

    assert allowed.max() < 0.2


ROWS_300 = np.arange(300)


def names_of(dtype: DType, rows: int = 300) -> list[str]:
    exact, have = angle_model(rows, 16), {"x": in_float32(rows, 16)}
    emulations = narrow_emulations(exact, np.arange(rows), have, dtype, BFLOAT16)
    return [emulation.arithmetic.name for emulation in emulations]


def test_emulations_contain_their_engines() -> None:
    exact, allowed = exact_emulation(angle_model(300, 16)).predict(ROWS_300)["x"]
    loosest, room = loosest_float32(angle_model(300, 16)).predict(ROWS_300)["x"]

    assert (np.abs(exact - in_float64(300, 16)) <= allowed).all()
    assert allowed.max() < 1e-11
    assert (np.abs(loosest - in_float32(300, 16)) <= room).all()


def test_float32_emulations_are_products_repeated_multiplication_and_steps() -> None:
    have = {"x": in_float32(300, 16)}
    emulations = float32_emulations(angle_model(300, 16), ROWS_300, have, FLOAT32)

    assert [emulation.arithmetic.name for emulation in emulations] == [
        "float32",
        "float32 by repeated multiplication",
        "float32 in steps",
    ]


@pytest.mark.parametrize(
    ("name", "dtype", "rows", "is_emulated"),
    [
        ("bfloat16 positions", FLOAT32, 300, True),
        ("bfloat16 positions", FLOAT32, 200, False),
        ("bfloat16 throughout", BFLOAT16, 300, True),
        ("bfloat16 throughout", FLOAT32, 300, False),
    ],
)
def test_narrow_types_are_emulated_only_where_they_have_an_effect(
    name: str, dtype: DType, rows: int, *, is_emulated: bool
) -> None:
    assert (name in names_of(dtype, rows)) == is_emulated


def test_float64_array_has_no_narrow_emulation() -> None:
    assert not names_of(FLOAT64)
    have = {"x": in_float64(300, 16)}
    (float32,) = float32_emulations(angle_model(300, 16), ROWS_300, have, FLOAT64)
    _, allowed = float32.predict(ROWS_300)["x"]

    assert allowed.max() == pytest.approx(0, abs=1e-14)


def test_interpolated_coordinates_have_the_rounding_error_of_their_ends() -> None:
    counted = angle_model(300, 16)
    between = replace(counted, coordinates=np.linspace(-1, 1, 300)[:, None])
    have = {"x": in_float32(300, 16)}
    losses = [
        list(float32_emulations(each, ROWS_300, have, FLOAT32))[-1].place_loss
        for each in (counted, between)
    ]

    assert losses == [0, 2.0**-24]


@pytest.mark.parametrize(
    ("dtype", "start"),
    [(FLOAT32, 4096), (BFLOAT16, 16384), (FLOAT16, 16384)],
)
def test_float32_is_not_emulated_where_its_bounds_contain_other_tables(
    dtype: DType, start: int
) -> None:
    counted, have = angle_model(300, 16), {"x": in_float32(300, 16)}
    far = replace(counted, coordinates=counted.coordinates + start)
    near_names, far_names = (
        {each.arithmetic.name for each in float32_emulations(asked, ROWS_300, have, dtype)}
        for asked in (counted, far)
    )

    assert {"float32", "float32 in steps"} <= near_names
    assert "float32 in steps" not in far_names
    # Frequencies that are measured leave no room: that claim stays.
    assert ("float32" in far_names) == (dtype is FLOAT32)


FAR_ROWS = np.linspace(0, 4095, 48).astype(np.int64)


def test_fitted_frequencies_equal_those_of_an_engine_to_the_bit() -> None:
    table = in_float32(4096, 64)
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    used = np.float32(1) / np.float32(10000) ** exponents
    fitted = fitted_frequencies(angle_model(4096, 64), FAR_ROWS, {"x": table[FAR_ROWS]})

    turns_enough = used * 4095 > 16
    assert (fitted[turns_enough] == used[turns_enough]).all()


def test_fitted_frequencies_ignore_a_wrong_row() -> None:
    table = by_exponentials(4096, 64)
    right = fitted_frequencies(angle_model(4096, 64), FAR_ROWS, {"x": table[FAR_ROWS]})
    table[FAR_ROWS[20]] = 0.5
    fitted = fitted_frequencies(angle_model(4096, 64), FAR_ROWS, {"x": table[FAR_ROWS]})

    fast = right > 0.01
    assert (fitted[fast] == right[fast]).all()


def test_fitted_frequencies_stay_within_the_float32_error() -> None:
    table = in_float32(4096, 64, base=10100.0)
    exact = angle_model(4096, 64)
    fitted = fitted_frequencies(exact, FAR_ROWS, {"x": table[FAR_ROWS]})

    assert np.abs(fitted / exact.omega - 1).max() < 40 * 2.0**-24


def test_misfit_is_summed_by_frequency() -> None:
    exact = angle_model(4096, 8)
    angles = exact.coordinates[FAR_ROWS] * exact.omega
    table = np.empty((48, 8))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    table[:, 5] += 0.25
    misfit = misfit_by_frequency(exact, angles, {"x": table})

    assert np.allclose(misfit, [0, 0, 12, 0])
