"""What engines make of angles, done again."""

import numpy as np

from service.analysis.identifying.arithmetic import FLOAT32, REPEATED, narrow_positions
from service.analysis.identifying.emulation import Emulation, Repeated, rounded
from service.tables import dtypes
from tests.analysis.engines import by_multiplication, in_float32, laid_out, turning

ROWS = np.arange(2048)


def test_rounding_to_no_type_leaves_numbers_alone() -> None:
    numbers = np.array([1 / 3, 1e300])

    assert rounded(numbers, None) is numbers


def test_numbers_are_rounded_as_the_type_would_hold_them() -> None:
    numbers = np.array([257.0, 258.0, 1 / 3])

    assert (rounded(numbers, dtypes.BFLOAT16) == [256, 258, 0.333984375]).all()


def test_float32_products_are_those_of_an_engine_with_its_frequencies() -> None:
    exponents = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    omega = (np.float32(1) / np.float32(10000) ** exponents).astype(np.float64)
    exact = turning(2048, 64)
    emulation = Emulation(FLOAT32, exact, omega, dtypes.FLOAT32, dtypes.FLOAT32, floor=2.0**-23)
    values, allowed = emulation.predict(ROWS)["x"]

    assert (np.abs(values - in_float32(2048, 64)) <= allowed).all()
    assert np.abs(laid_out(ROWS[:, None] * exact.omega) - values).max() > 100 * allowed.max()


def test_rounded_positions_stand_still_where_the_type_cannot_count() -> None:
    arithmetic = narrow_positions("bfloat16")
    exact = turning(2048, 8)
    emulation = Emulation(arithmetic, exact, exact.omega, dtypes.BFLOAT16)
    values, _ = emulation.predict(np.array([256, 257, 258]))["x"]

    assert (values[0] == values[1]).all()
    assert (values[1] != values[2]).any()


def test_repeated_multiplication_is_that_of_an_engine() -> None:
    exact = turning(2048, 64)
    ratio = float(np.float32(10000) ** np.float32(-2 / 64))
    emulation = Repeated(REPEATED, exact, exact.omega, floor=2.0**-23, ratio=ratio)
    values, allowed = emulation.predict(ROWS)["x"]

    assert (np.abs(values - by_multiplication(2048, 64)) <= allowed).all()


def test_no_angle_may_be_anything() -> None:
    exact = turning(2048, 8)
    emulation = Emulation(FLOAT32, exact, exact.omega, share=1.0)
    _, allowed = emulation.predict(ROWS)["x"]

    assert allowed.max() < 0.2
