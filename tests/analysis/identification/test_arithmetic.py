"""Emulations equal engines, frequencies are fitted to the bit, and claims bound their errors."""

from dataclasses import replace

import numpy as np
import pytest

from service.analysis.identification.arithmetic import (
    EXACT,
    FLOAT32_ARITHMETIC,
    FLOAT32_LOSS,
    FLOAT32_STEPS,
    FLOAT64_ARITHMETIC,
    REPEATED,
    Arithmetic,
    Emulation,
    ExactClaim,
    RepeatedMultiplication,
    RoundingClaim,
    angle_claims,
    exact_emulation,
    fitted_frequencies,
    float32_emulations,
    half_spacing,
    loosest_float32,
    misfit_by_frequency,
    narrow_arithmetic,
    narrow_emulations,
    without_looser,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.tables import StoredTable
from tests.analysis.engines import (
    Numbers,
    angle_model,
    by_exponentials,
    by_multiplication,
    in_float32,
    in_float64,
    laid_out,
)

ROWS = np.arange(2048)
ROWS_300 = np.arange(300)


def predicted(emulation: Emulation, rows: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """Return the predicted rows, and the error allowed for each number."""
    indices = np.arange(len(emulation.model.coordinates)) if rows is None else rows.astype(int)
    width = emulation.model.channels["x"].width
    return emulation.predict(indices, {"x": np.ones((len(indices), width))})["x"]


def test_ranks_rise_from_exact_to_narrow_arithmetics() -> None:
    wide = [EXACT, FLOAT64_ARITHMETIC, FLOAT32_ARITHMETIC, REPEATED, FLOAT32_STEPS]
    parts = ["positions", "frequencies", "angles", "throughout"]
    ranks = [each.rank for each in [*wide, *(narrow_arithmetic(part, BFLOAT16) for part in parts)]]

    assert ranks == sorted(set(ranks))


BFLOAT16_POSITIONS = narrow_arithmetic("positions", BFLOAT16)


@pytest.mark.parametrize(
    ("arithmetics", "expected"),
    [
        (
            (FLOAT32_ARITHMETIC, EXACT, FLOAT64_ARITHMETIC),
            (EXACT, FLOAT64_ARITHMETIC, FLOAT32_ARITHMETIC),
        ),
        ((FLOAT32_STEPS, FLOAT32_ARITHMETIC), (FLOAT32_ARITHMETIC,)),
        ((BFLOAT16_POSITIONS, FLOAT32_STEPS), (FLOAT32_STEPS, BFLOAT16_POSITIONS)),
    ],
)
def test_arithmetics_are_sorted_and_float32_in_steps_is_dropped_if_a_more_exact_one_matches(
    arithmetics: tuple[Arithmetic, ...], expected: tuple[Arithmetic, ...]
) -> None:
    assert without_looser(arithmetics) == expected


def test_exact_claim_allows_only_equal_numbers() -> None:
    exact = {"x": np.array([[1.0, -np.inf], [0.0, 3.0]])}
    sent = {"x": np.array([[1.0, -np.inf], [5e-324, np.nan]])}

    mask = ExactClaim(EXACT).agreement(np.arange(2), sent, exact)["x"]
    assert (mask == [[True, True], [False, False]]).all()


def test_half_spacing_bounds_rounding() -> None:
    numbers = np.random.default_rng(1).normal(size=1000) * 10.0 ** np.arange(-20, 20).repeat(25)

    error = np.abs(numbers - numbers.astype(np.float32))
    assert (error <= half_spacing(numbers, FLOAT32)).all()
    assert half_spacing(np.ones(1), BFLOAT16)[0] < 2.0**-7


def test_float32_emulation_equals_an_engine_with_its_frequencies() -> None:
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    omega = (np.float32(1) / np.float32(10000) ** exponents).astype(np.float64)
    exact = angle_model(2048, 64)
    emulation = Emulation(FLOAT32_ARITHMETIC, exact, FLOAT32, omega, sine_error=2.0**-23)
    values, allowed = predicted(emulation)

    assert (np.abs(values - in_float32(2048, 64)) <= allowed).all()
    assert np.abs(laid_out(ROWS[:, None] * exact.omega) - values).max() > 100 * allowed.max()


def test_repeated_multiplication_equals_ggml() -> None:
    exact = angle_model(2048, 64)
    ratio = float(np.float32(10000) ** np.float32(-2 / 64))
    emulation = RepeatedMultiplication(REPEATED, exact, FLOAT32, exact.omega, ratio=ratio)
    values, allowed = predicted(emulation)

    assert (np.abs(values - by_multiplication(2048, 64)) <= allowed).all()


def test_narrow_positions_repeat_beyond_the_integers_of_the_type() -> None:
    exact = angle_model(2048, 8)
    emulation = Emulation(BFLOAT16_POSITIONS, exact, FLOAT32, exact.omega, BFLOAT16)
    values, _ = predicted(emulation, np.array([256.0, 257.0, 258.0]))

    assert (values[0] == values[1]).all()
    assert (values[1] != values[2]).any()


def test_tolerance_of_an_angle_is_limited() -> None:
    exact = angle_model(2048, 8)
    emulation = Emulation(FLOAT32_ARITHMETIC, exact, FLOAT32, exact.omega, angle_error=1.0)

    assert predicted(emulation)[1].max() < 0.2


def test_engine_tables_are_within_the_tolerances() -> None:
    exact, allowed = predicted(exact_emulation(angle_model(300, 16), FLOAT64))
    loosest, float32_allowed = predicted(loosest_float32(angle_model(300, 16), FLOAT32))

    assert (np.abs(exact - in_float64(300, 16)) <= allowed).all()
    assert allowed.max() < 1e-11
    assert (np.abs(loosest - in_float32(300, 16)) <= float32_allowed).all()


def test_emulated_padding_rows_are_zero() -> None:
    rows, exact = np.arange(48), in_float64(48, 8)
    exact[5] = 0
    sent = exact.copy()
    sent[5, 0] = 1e-9
    emulation = exact_emulation(angle_model(48, 8), FLOAT64)

    assert emulation.agreeing_share(rows, {"x": exact}, {"x": exact}) == 1
    assert not emulation.agreement(rows, {"x": sent}, {"x": exact})["x"][5, 0]


def test_float32_table_agrees_with_float32_and_no_more_exact_claim() -> None:
    rows = ROWS[::43]
    sent = {"x": in_float32(2048, 64).astype(np.float32).astype(np.float64)[rows]}
    claims = angle_claims(angle_model(2048, 64), rows, sent, FLOAT32)
    names = [
        claim.arithmetic.name for claim in claims if claim.agreeing_share(rows, sent, sent) == 1
    ]

    assert names[0] == "float32"


def test_float32_is_emulated_by_a_product_by_repeated_multiplication_and_in_steps() -> None:
    sent = {"x": in_float32(300, 16)}
    emulations = float32_emulations(angle_model(300, 16), ROWS_300, sent, FLOAT32)

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
        ("bfloat16 angles", FLOAT64, 300, False),
    ],
)
def test_narrow_types_are_emulated_only_where_they_have_an_effect(
    name: str, dtype: DType, rows: int, *, is_emulated: bool
) -> None:
    exact, sent = angle_model(rows, 16), {"x": in_float32(rows, 16)}
    emulations = narrow_emulations(exact, np.arange(rows), sent, dtype, BFLOAT16)

    assert (name in {emulation.arithmetic.name for emulation in emulations}) == is_emulated


def test_float32_emulation_of_a_float64_array_allows_float64_errors_alone() -> None:
    sent = {"x": in_float64(300, 16)}
    (emulation,) = float32_emulations(angle_model(300, 16), ROWS_300, sent, FLOAT64)

    assert predicted(emulation)[1].max() == pytest.approx(0, abs=1e-14)


def test_interpolated_coordinates_have_the_rounding_error_of_their_ends() -> None:
    counted = angle_model(300, 16)
    between = replace(counted, coordinates=np.linspace(-1, 1, 300)[:, None])
    errors = [loosest_float32(model, FLOAT32).coordinate_error for model in (counted, between)]

    assert errors == [0, 2.0**-24]


@pytest.mark.parametrize(("dtype", "start"), [(FLOAT32, 4096), (BFLOAT16, 16384), (FLOAT16, 16384)])
def test_float32_is_not_emulated_where_its_tolerance_contains_other_tables(
    dtype: DType, start: int
) -> None:
    near, sent = angle_model(300, 16), {"x": in_float32(300, 16)}
    far = replace(near, coordinates=near.coordinates + start)
    near_names, far_names = (
        {each.arithmetic.name for each in float32_emulations(model, ROWS_300, sent, dtype)}
        for model in (near, far)
    )

    assert {"float32", "float32 in steps"} <= near_names
    assert "float32 in steps" not in far_names
    # Frequencies that are measured need no tolerance.
    assert ("float32" in far_names) == (dtype is FLOAT32)


FAR_ROWS = np.linspace(0, 4095, 48).astype(np.int64)


def fitted(table: Numbers) -> Numbers:
    return fitted_frequencies(angle_model(4096, 64), FAR_ROWS, {"x": table[FAR_ROWS]})


def test_fitted_fast_frequencies_are_bit_equal_to_the_engine() -> None:
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    used = np.float32(1) / np.float32(10000) ** exponents

    is_fast = used * 4095 > 16
    assert (fitted(in_float32(4096, 64))[is_fast] == used[is_fast]).all()


def test_fitted_frequencies_are_the_same_with_one_changed_row() -> None:
    table = by_exponentials(4096, 64)
    right = fitted(table)
    table[FAR_ROWS[20]] = 0.5

    is_fast = right > 0.01
    assert (fitted(table)[is_fast] == right[is_fast]).all()


def test_fitted_frequencies_stay_within_the_float32_error() -> None:
    table = in_float32(4096, 64, base=10100.0)

    assert np.abs(fitted(table) / angle_model(4096, 64).omega - 1).max() < 40 * 2.0**-24


def test_misfit_is_summed_by_frequency() -> None:
    exact = angle_model(4096, 8)
    angles = exact.coordinates[FAR_ROWS] * exact.omega
    table = laid_out(angles)
    table[:, 5] += 0.25

    assert np.allclose(misfit_by_frequency(exact, angles, {"x": table}), [0, 0, 12, 0])


def test_rounding_claim_allows_a_relative_and_an_absolute_error() -> None:
    table = np.array([[1.0, 1e-6]])
    wide, exact = {"x": StoredTable(table, FLOAT64)}, {"x": table}
    sent = {"x": np.array([[1.0, 1e-6 + 1e-9]])}
    relative = RoundingClaim(FLOAT32_ARITHMETIC, wide, FLOAT64, FLOAT32_LOSS, {"x": 0.0})
    absolute = RoundingClaim(FLOAT32_ARITHMETIC, wide, FLOAT64, 0.0, {"x": 1e-8})

    assert relative.agreement(np.arange(1), sent, exact)["x"].tolist() == [[True, False]]
    assert absolute.agreement(np.arange(1), sent, exact)["x"].all()
