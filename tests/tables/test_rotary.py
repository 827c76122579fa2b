"""Rotary tables and the frequencies of a rule, as documents."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import rotary
from service.tables.angle import MAX_POSITION
from service.tables.axes import AngleRounding
from service.tables.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, widened
from service.tables.positions import Positions, Run
from service.tables.rope_rules import Default, Proportional, Yarn
from service.tables.rotary_rule import Given, RotaryRule
from service.tables.table import size
from service.tables.turns import AlongSequence
from tests.exact import UNIT, frequency

ROUNDINGS: tuple[AngleRounding, AngleRounding] = ("exact", "float32")
RULE = Default(8, 10000.0)


def arrays(
    pack: str, positions: Positions, dtype: str = "float64"
) -> dict[str, NDArray[np.generic]]:
    document = rotary.rope(
        turns=AlongSequence(RULE, positions), pack=pack, dtype=REAL_DTYPES[dtype]
    )
    return {
        name: table.read(0, size(table)).reshape(table.shape)
        for name, table in document.arrays.items()
    }


def compact(positions: Positions) -> tuple[NDArray[Any], NDArray[Any]]:
    both = arrays("compact", positions)
    return both["cos"], both["sin"]


@given(st.lists(st.integers(-MAX_POSITION, MAX_POSITION), min_size=1, max_size=4))
def test_cosines_and_sines_are_within_six_units(positions: list[int]) -> None:
    cos, sin = compact(Positions.of_runs(Run(position, 1, 1) for position in positions))

    for row, position in enumerate(positions):
        for pair in range(4):
            angle = position * frequency(10000.0, 8, pair)
            assert abs(cos[row, pair] - mpmath.cos(angle)) <= 6 * UNIT
            assert abs(sin[row, pair] - mpmath.sin(angle)) <= 6 * UNIT


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "<c8"), ("float64", "<c16")])
def test_complex_numbers_are_of_two_such_parts(dtype: str, expected: str) -> None:
    (table,) = arrays("complex", Positions.contiguous(0, 3), dtype).values()

    assert np.dtype(expected) == table.dtype


def test_given_frequencies_are_taken_as_they_are() -> None:
    float32_frequencies = tuple(
        float(value) for value in (10000.0 ** (-np.arange(0, 8, 2) / 8)).astype(np.float32)
    )
    document = rotary.rope(
        turns=AlongSequence(Given(float32_frequencies), Positions.contiguous(131071, 1)),
        pack="concat",
        dtype=FLOAT64,
    )

    values = document.arrays["rope"].read(0, 8)

    for pair, inv_freq in enumerate(float32_frequencies):
        assert abs(values[pair] - mpmath.cos(131071 * mpmath.mpf(inv_freq))) <= 6 * UNIT
        assert abs(values[4 + pair] - mpmath.sin(131071 * mpmath.mpf(inv_freq))) <= 6 * UNIT


def test_an_attention_factor_multiplies_within_six_units_of_it() -> None:
    rule = Yarn(8, 10000.0, 8.0, 4096, 1.3465735902799727)
    turns = AlongSequence(rule, Positions.contiguous(4095, 2))
    table = rotary.rope(turns=turns, pack="concat", dtype=FLOAT64).arrays["rope"]
    values = table.read(0, 16).reshape(2, 8)

    for row, position in enumerate((4095, 4096)):
        for pair, exact in enumerate(rule.exact()):
            angle = position * mpmath.mpf(str(exact))
            bound = 6 * UNIT * rule.scale
            assert abs(values[row, pair] - rule.scale * mpmath.cos(angle)) <= bound
            assert abs(values[row, 4 + pair] - rule.scale * mpmath.sin(angle)) <= bound


def test_a_batch_is_a_leading_axis_and_says_so() -> None:
    turns = AlongSequence(RULE, Positions.contiguous(0, 3))

    plain = rotary.rope(turns=turns, pack="half", dtype=FLOAT32)
    batch = rotary.rope(turns=turns, pack="half", dtype=FLOAT32, batch=True)

    assert (plain.shape, batch.shape) == ((3, 8), (1, 3, 8))
    assert batch.parameters == {**plain.parameters, "batch": True}
    assert "batch" not in plain.parameters
    assert batch.has_parts
    for name, table in batch.arrays.items():
        assert table.read(0, 24).tobytes() == plain.arrays[name].read(0, 24).tobytes()


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@pytest.mark.parametrize("rule", [RULE, Given((1.0, 0.001), 1e-6), Given((0.3,), 1e4)])
def test_the_error_bound_holds_for_the_elements_as_they_are(dtype: str, rule: RotaryRule) -> None:
    """Rounding to the element type is within it, not only that of the angles."""
    chosen = REAL_DTYPES[dtype]
    for start in (0, 1, 4095, 131071):
        positions = Positions.contiguous(start, 2)
        document = rotary.rope(
            turns=AlongSequence(rule, positions, "float32"), pack="concat", dtype=chosen
        )
        assert document.error_bound is not None
        table = document.arrays["rope"]
        got = widened(table.read(0, size(table)), chosen).reshape(2, 2, rule.count)
        for row, position in enumerate((start, start + 1)):
            for pair, frequency_ in enumerate(rule.exact()):
                angle, scale = position * mpmath.mpf(str(frequency_)), mpmath.mpf(rule.scale)
                for ours, exact in zip(
                    got[row, :, pair], (mpmath.cos(angle), mpmath.sin(angle)), strict=True
                ):
                    assert abs(ours - scale * exact) <= document.error_bound


def test_only_rounded_angles_have_an_error_bound() -> None:
    exact, rounded = (
        AlongSequence(RULE, Positions.contiguous(0, 3), rounding) for rounding in ROUNDINGS
    )

    assert rotary.rope(turns=exact, pack="half", dtype=FLOAT32).error_bound is None
    assert rotary.rope(turns=rounded, pack="half", dtype=FLOAT32).error_bound is not None
    assert rotary.rope(turns=rounded, pack="angle", dtype=FLOAT64).error_bound is not None
    assert rotary.rope(turns=exact, pack="angle", dtype=FLOAT64).error_bound is None


def test_frequencies_are_the_numbers_nearest_to_the_formula() -> None:
    rule = Yarn(8, 10000.0, 8.0, 4096, 1.25)

    document = rotary.frequencies(rule)

    read = {name: table.read(0, size(table)).tolist() for name, table in document.arrays.items()}
    assert read["inv_freq"] == [float(exact) for exact in rule.exact()]
    for wavelength, exact in zip(read["wavelength"], rule.exact(), strict=True):
        assert wavelength == float(2 * mpmath.pi / mpmath.mpf(str(exact)))
    assert read["attention_factor"] == [1.25]
    assert list(read)[3:] == ["ramp", "range_raw", "range_used"]
    assert document.parameters == rule.parameters()
    assert (document.has_parts, document.shape) == (True, None)


def test_the_wavelength_of_what_does_not_turn_is_infinite() -> None:
    document = rotary.frequencies(Proportional(8, 1e6, 0.5))

    assert document.arrays["wavelength"].read(0, 4).tolist()[2:] == [np.inf, np.inf]
    assert document.arrays["inv_freq"].read(0, 4).tolist()[2:] == [0.0, 0.0]
