"""Fixed-point phases, sines and cosines: bounds, and the same bytes everywhere."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.numerics.evaluation import sin_cos, sin_cos_of_each
from service.numerics.phase import (
    MAX_POSITION,
    MIN_FREQUENCY,
    PRECISION_DIGITS,
    TWO_PI,
    exact_context,
    fixed_point,
    horner,
    is_valid_frequency,
)
from tests.exact import UNIT

FREQUENCIES = st.one_of(
    st.floats(1e-12, 10.0),
    st.floats(MIN_FREQUENCY, 1e-12),
    st.floats(10.0, 1e18),
    st.just(0.0),
)
POSITIONS = st.one_of(
    st.integers(-MAX_POSITION, MAX_POSITION),
    st.integers(-130, 130),
    st.sampled_from([MAX_POSITION, -MAX_POSITION]),
)


def test_two_pi_is_right_to_all_its_digits() -> None:
    with mpmath.workdps(110):
        assert mpmath.nstr(2 * mpmath.pi, 105)[:100] == str(TWO_PI)[:100]


@given(st.lists(FREQUENCIES, min_size=1, max_size=5), st.lists(POSITIONS, min_size=1, max_size=5))
def test_sine_and_cosine_are_within_their_bounds_everywhere(
    frequencies: list[float], positions: list[int]
) -> None:
    fixed = fixed_point([Decimal(frequency) for frequency in frequencies])

    sine, cosine = sin_cos(fixed, np.array(positions, dtype=np.int64))

    for row, position in enumerate(positions):
        for column, frequency in enumerate(frequencies):
            angle = mpmath.mpf(frequency) * position
            exact_sine = mpmath.sin(angle)
            assert abs(sine[row, column] - exact_sine) <= 0.9 * UNIT
            assert abs(cosine[row, column] - mpmath.cos(angle)) <= 0.9 * UNIT
            if abs(angle) < mpmath.pi / 4:
                assert abs(sine[row, column] - exact_sine) <= 3.5 * UNIT * abs(exact_sine)


@given(st.lists(st.tuples(FREQUENCIES, POSITIONS), min_size=1, max_size=8))
def test_sin_cos_of_each_is_the_diagonal_of_sin_cos(pairs: list[tuple[float, int]]) -> None:
    fixed = fixed_point([Decimal(frequency) for frequency, _ in pairs])
    positions = np.array([position for _, position in pairs], dtype=np.int64)

    sine, cosine = sin_cos_of_each(fixed, positions)

    all_sines, all_cosines = sin_cos(fixed, positions)
    assert sine.tobytes() == np.diagonal(all_sines).tobytes()
    assert cosine.tobytes() == np.diagonal(all_cosines).tobytes()


def test_many_distinct_positions_give_the_bytes_of_few() -> None:
    count = 10_000
    fixed = fixed_point([Decimal(k) / 7 for k in range(count)])
    positions = np.arange(count, dtype=np.int64)[::-1].copy()

    sine, cosine = sin_cos_of_each(fixed, positions)

    for part in (slice(0, 3), slice(4094, 4099), slice(9998, count)):
        few = sin_cos_of_each(fixed.part(part), positions[part])
        assert (sine[part] == few[0]).all()
        assert (cosine[part] == few[1]).all()


def test_sine_and_cosine_are_within_their_bounds_next_to_every_eighth_of_a_turn() -> None:
    frequencies = [
        mpmath.pi / 4 * eighth + nudge for eighth in range(9) for nudge in (-1e-17, 0, 1e-9)
    ]
    decimals = [Decimal(mpmath.nstr(frequency, 70)) for frequency in frequencies]
    positive = [pair for pair in zip(frequencies, decimals, strict=True) if pair[1] > 0]

    sine, cosine = sin_cos(fixed_point([d for _, d in positive]), np.array([1], dtype=np.int64))

    for column, (_, decimal) in enumerate(positive):
        angle = mpmath.mpf(str(decimal))
        assert abs(sine[0, column] - mpmath.sin(angle)) <= 0.9 * UNIT
        assert abs(cosine[0, column] - mpmath.cos(angle)) <= 0.9 * UNIT


def test_the_sine_of_no_angle_is_positive_zero() -> None:
    sine, cosine = sin_cos(fixed_point([Decimal(0), Decimal(1)]), np.array([0, -5], dtype=np.int64))

    assert not np.signbit(sine[0]).any()
    assert not np.signbit(sine[1, 0])
    assert cosine[0].tolist() == [1.0, 1.0]


def test_opposite_positions_have_opposite_sines_to_the_bit() -> None:
    fixed = fixed_point([Decimal(1), Decimal("0.01"), Decimal("1e-9")])
    positions = np.array([1, 63, 64, 1000, 2**40 + 7], dtype=np.int64)

    sine, cosine = sin_cos(fixed, positions)
    opposite_sine, opposite_cosine = sin_cos(fixed, -positions)

    assert (opposite_sine == -sine).all()
    assert (opposite_cosine == cosine).all()


def test_precision_is_the_same_in_a_new_thread() -> None:
    def far_sine() -> float:
        ratio = exact_context().divide(Decimal(1), Decimal(3))
        return float(sin_cos(fixed_point([ratio]), np.array([2**61], dtype=np.int64))[0][0, 0])

    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(far_sine).result()

    assert exact_context().prec == PRECISION_DIGITS
    assert in_thread == far_sine()
    assert abs(in_thread - mpmath.sin(mpmath.mpf(2**61) / 3)) <= 0.9 * UNIT


@pytest.mark.parametrize(
    ("frequency", "valid"),
    [(0.0, True), (1.0, True), (1e-300, True), (1e-301, False), (1e19, False), (-1.0, False)],
)
def test_frequencies_are_valid_where_phases_are_exact(frequency: float, valid: bool) -> None:
    assert is_valid_frequency(frequency) is valid


def test_numerics_import_numpy_alone() -> None:
    code = (
        "import sys, pkgutil, importlib, service.numerics as package; "
        "modules = [module.name for module in pkgutil.iter_modules(package.__path__)]; "
        "assert len(modules) > 4; "
        "[importlib.import_module(f'service.numerics.{name}') for name in modules]; "
        "names = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(names & {'fastapi', 'starlette', 'pydantic', 'orjson', 'httpx', 'uvicorn'}))"
    )
    root = Path(__file__).parents[2]

    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root
    )

    assert done.stdout.strip() == "[]"


def test_tiny_frequencies_have_extra_bits() -> None:
    """Below and above 10^-20 turns, from which on a decimal's exponent excludes extra bits."""
    turns = [Decimal(s).scaleb(e) for e in (-300, -21, -20, -19, 0) for s in (1, 5, "6.8", 9)]

    converted = fixed_point([exact_context().multiply(turn, TWO_PI) for turn in turns])

    for turn, unit in zip(turns, converted.unit.tolist(), strict=True):
        bits = max(0, 61 - 128 - math.frexp(float(turn))[1])
        assert unit == 2.0**-bits


def test_the_coefficient_of_the_highest_power_comes_first() -> None:
    x = np.array([[0.0, 1.0], [-2.0, 0.5]])

    assert (horner([3.0, -1.0, 2.0], x) == 3 * x * x - x + 2).all()
    assert (horner([3.0, -1.0], x) == 3 * x - 1).all()
