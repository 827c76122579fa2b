"""Which emulations an array is held to."""

from dataclasses import replace

import numpy as np
import pytest

from service.analysis.identifying.emulation_candidates import (
    exact_emulation,
    float32_emulations,
    loosest_float32,
    narrow_emulations,
)
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.engines import in_float32, in_float64, turning

ROWS = np.arange(300)


def names_of(dtype: DType, rows: int = 300) -> list[str]:
    exact, have = turning(rows, 16), {"x": in_float32(rows, 16)}
    emulations = narrow_emulations(exact, np.arange(rows), have, dtype, BFLOAT16)
    return [emulation.arithmetic.name for emulation in emulations]


def test_float64_is_emulated_with_exact_frequencies() -> None:
    values, allowed = exact_emulation(turning(300, 16)).predict(ROWS)["x"]

    assert (np.abs(values - in_float64(300, 16)) <= allowed).all()
    assert allowed.max() < 1e-11


def test_the_loosest_bound_holds_whatever_float32_frequencies_there_are() -> None:
    values, allowed = loosest_float32(turning(300, 16)).predict(ROWS)["x"]

    assert (np.abs(values - in_float32(300, 16)) <= allowed).all()


def test_float32_is_emulated_plainly_and_by_repeated_multiplication() -> None:
    have = {"x": in_float32(300, 16)}
    emulations = float32_emulations(turning(300, 16), ROWS, have, FLOAT32)

    assert [emulation.arithmetic.name for emulation in emulations] == [
        "float32",
        "float32 by repeated multiplication",
        "float32 in steps",
    ]


def test_positions_are_rounded_only_where_that_changes_some() -> None:
    assert "bfloat16 positions" in names_of(FLOAT32, rows=300)
    assert "bfloat16 positions" not in names_of(FLOAT32, rows=200)


def test_sines_are_rounded_only_in_an_array_of_that_type() -> None:
    assert "bfloat16 throughout" in names_of(BFLOAT16)
    assert "bfloat16 throughout" not in names_of(FLOAT32)


def test_an_array_of_float64_is_not_explained_by_narrow_sines() -> None:
    assert not names_of(FLOAT64)
    have = {"x": in_float64(300, 16)}
    (float32,) = float32_emulations(turning(300, 16), ROWS, have, FLOAT64)
    _, allowed = float32.predict(ROWS)["x"]

    assert allowed.max() == pytest.approx(0, abs=1e-14)


def test_coordinates_between_two_ends_have_the_rounding_of_the_ends() -> None:
    counted = turning(300, 16)
    between = replace(counted, coordinates=np.linspace(-1, 1, 300)[:, None])
    have = {"x": in_float32(300, 16)}
    losses = [
        list(float32_emulations(each, ROWS, have, FLOAT32))[-1].place_loss
        for each in (counted, between)
    ]

    assert losses == [0, 2.0**-24]


@pytest.mark.parametrize(("dtype", "start"), [(FLOAT32, 4096), (BFLOAT16, 16384), (FLOAT16, 16384)])
def test_float32_is_not_claimed_where_its_bounds_take_in_other_tables(
    dtype: DType, start: int
) -> None:
    counted, have = turning(300, 16), {"x": in_float32(300, 16)}
    far = replace(counted, coordinates=counted.coordinates + start)
    near_names, far_names = (
        {each.arithmetic.name for each in float32_emulations(asked, ROWS, have, dtype)}
        for asked in (counted, far)
    )

    assert {"float32", "float32 in steps"} <= near_names
    assert "float32 in steps" not in far_names
    # Frequencies that are measured leave no room: that claim stays.
    assert ("float32" in far_names) == (dtype is FLOAT32)
