"""Rotary tables in every packing, and rotations that depend on differences of positions only."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import rotary
from service.tables import table as table_module
from service.tables.angle import MAX_POSITION
from service.tables.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    REAL_DTYPES,
    DType,
    round_into,
    widened,
)
from service.tables.positions import Positions, Run
from service.tables.rotary import PACKS, Rotation
from service.tables.scaling import Geometric, Given
from service.tables.table import StoredTable, size
from tests.exact import UNIT, frequency

RULE = Geometric(10000.0, 8, 4)


def arrays(
    pack: str, positions: Positions, dtype: str = "float64"
) -> dict[str, NDArray[np.generic]]:
    document = rotary.rope(rule=RULE, positions=positions, pack=pack, dtype=REAL_DTYPES[dtype])
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


def test_every_packing_holds_the_same_numbers() -> None:
    positions = Positions.contiguous(3, 5)
    cos, sin = compact(positions)

    packed = {
        "pair": {"rope": np.stack([cos, sin], axis=-1)},
        "complex": {"rope": cos + 1j * sin},
        "flat": {"rope": np.stack([cos, sin], axis=-1).reshape(5, 8)},
        "concat": {"rope": np.concatenate([cos, sin], axis=1)},
        "sin_concat": {"rope": np.concatenate([sin, cos], axis=1)},
        "compact": {"cos": cos, "sin": sin},
        "half": {"cos": np.tile(cos, 2), "sin": np.tile(sin, 2)},
        "interleaved": {"cos": np.repeat(cos, 2, axis=1), "sin": np.repeat(sin, 2, axis=1)},
    }

    assert set(packed) == set(PACKS)
    for pack, expected in packed.items():
        got = arrays(pack, positions)
        assert list(expected) == list(got)
        for name, values in expected.items():
            assert values.shape == got[name].shape
            assert (values == got[name]).all()


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "<c8"), ("float64", "<c16")])
def test_complex_numbers_are_of_two_such_parts(dtype: str, expected: str) -> None:
    (table,) = arrays("complex", Positions.contiguous(0, 3), dtype).values()

    assert np.dtype(expected) == table.dtype


def test_given_frequencies_are_taken_as_they_are() -> None:
    float32_frequencies = tuple(
        float(value) for value in (10000.0 ** (-np.arange(0, 8, 2) / 8)).astype(np.float32)
    )
    document = rotary.rope(
        rule=Given(float32_frequencies),
        positions=Positions.contiguous(131071, 1),
        pack="concat",
        dtype=FLOAT64,
    )

    values = document.arrays["rope"].read(0, 8)

    for pair, inv_freq in enumerate(float32_frequencies):
        assert abs(values[pair] - mpmath.cos(131071 * mpmath.mpf(inv_freq))) <= 6 * UNIT
        assert abs(values[4 + pair] - mpmath.sin(131071 * mpmath.mpf(inv_freq))) <= 6 * UNIT


def vectors(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def rotated(
    x: NDArray[np.float64],
    start: int,
    *,
    layout: str = "interleaved",
    inverse: bool = False,
    rule: Geometric = RULE,
) -> NDArray[np.float64]:
    positions = Positions.contiguous(start, x.shape[-2])
    rotation = Rotation(rule=rule, positions=positions, layout=layout, inverse=inverse)
    return np.asarray(rotation.of(StoredTable(x, FLOAT64)).elements, dtype=np.float64)


@settings(max_examples=40)
@given(st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60))
def test_products_depend_on_the_difference_of_positions_only(m: int, n: int, shift: int) -> None:
    query, key = vectors(1, 1, 8), vectors(2, 1, 8)

    here = (rotated(query, m) * rotated(key, n)).sum()
    there = (rotated(query, m + shift) * rotated(key, n + shift)).sum()

    assert abs(here - there) < 64 * UNIT * np.abs(query).max() * np.abs(key).max() * 8


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_agrees_with_the_formula_in_numpy(layout: str) -> None:
    x = vectors(3, 2, 3, 100, 8)
    angle = np.arange(100)[:, np.newaxis] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    cos, sin = np.cos(angle), np.sin(angle)
    expected = np.empty_like(x)
    first, second = (
        (slice(0, 8, 2), slice(1, 8, 2)) if layout == "interleaved" else (slice(0, 4), slice(4, 8))
    )
    expected[..., first] = x[..., first] * cos - x[..., second] * sin
    expected[..., second] = x[..., second] * cos + x[..., first] * sin

    assert np.abs(rotated(x, 0, layout=layout) - expected).max() < 1e-13


def test_the_channels_of_a_pair_turn_as_the_paper_says() -> None:
    """Even: q_i cos θ − q_{i+1} sin θ; odd: q_i cos θ + q_{i−1} sin θ."""
    q = [1.0, 2.0, 3.0, 4.0]
    out = rotated(np.array([q]), 5, rule=Geometric(10000.0, 4, 2))[0]

    for pair in range(2):
        theta = 5 / mpmath.mpf(10000) ** (mpmath.mpf(2 * pair) / 4)
        even, odd = q[2 * pair], q[2 * pair + 1]
        bound = 7 * UNIT * (abs(even) + abs(odd)) + 2 * UNIT * 4
        assert abs(out[2 * pair] - (even * mpmath.cos(theta) - odd * mpmath.sin(theta))) <= bound
        assert (
            abs(out[2 * pair + 1] - (odd * mpmath.cos(theta) + even * mpmath.sin(theta))) <= bound
        )


def test_layouts_agree_after_the_permutation_of_channels() -> None:
    x = vectors(4, 10, 8)
    permutation = [0, 2, 4, 6, 1, 3, 5, 7]

    half = rotated(x[:, permutation], 17, layout="half")

    assert (half == rotated(x, 17)[:, permutation]).all()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_the_inverse_returns_the_input_to_rounding(layout: str) -> None:
    x = vectors(5, 40, 8)

    back = rotated(rotated(x, 1000, layout=layout), 1000, layout=layout, inverse=True)

    assert np.abs(back - x).max() <= 32 * UNIT * np.abs(x).max()


def test_channels_past_the_rotary_ones_pass_through_to_the_bit() -> None:
    x = vectors(6, 5, 12)
    x[2, 9] = np.nan

    out = rotated(x, 3)

    assert x[:, 8:].tobytes() == out[:, 8:].tobytes()
    assert (rotated(x[:, :8], 3) == out[:, :8]).all()


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16, BFLOAT16, FLOAT64])
def test_a_rotation_is_rounded_once_to_the_type_of_its_input(dtype: object) -> None:
    chosen = REAL_DTYPES[dtype.name]  # type: ignore[attr-defined]
    narrow = np.empty((6, 8), dtype=chosen.storage)
    from_wide = np.empty((6, 8), dtype=chosen.storage)
    round_into(vectors(7, 6, 8), narrow, chosen)
    rotation = Rotation(
        rule=RULE, positions=Positions.contiguous(9, 6), layout="half", inverse=False
    )

    out = rotation.of(StoredTable(narrow, chosen)).elements

    round_into(rotated(widened(narrow, chosen), 9, layout="half"), from_wide, chosen)
    assert from_wide.tobytes() == out.tobytes()


def test_overflow_to_float16_gives_infinity() -> None:
    x = np.full((2, 8), 65000.0, dtype="<f2")
    rotation = Rotation(
        rule=RULE, positions=Positions.contiguous(0, 2), layout="interleaved", inverse=True
    )

    out = rotation.of(StoredTable(x, FLOAT16)).elements

    assert np.isinf(out[1]).any()
    assert not np.isnan(out).any()


def test_nan_and_infinity_pass_through_a_rotation() -> None:
    x = np.array([[np.nan, 1.0, np.inf, 1.0, 1.0, 1.0, 1.0, 1.0]])

    out = rotated(x, 1)[0]

    assert np.isnan(out[:2]).all()
    assert np.isinf(out[2:4]).all()
    assert np.isfinite(out[4:]).all()


def test_many_rows_are_the_same_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = vectors(8, 3, 50, 8)
    whole = rotated(x, 0)
    monkeypatch.setattr("service.tables.table._STEP_ELEMENTS", 64)

    assert (whole == rotated(x, 0)).all()


@pytest.mark.parametrize(
    "dtype", [FLOAT32, FLOAT16, BFLOAT16, FLOAT64], ids=lambda dtype: dtype.name
)
def test_every_nan_of_a_rotation_is_the_same(dtype: DType) -> None:
    """Which NaN of two a sum keeps, and the sign of infinity minus infinity, differ by CPU."""
    values = np.array([[-np.nan, np.nan, np.inf, np.inf, -np.inf, np.inf, np.nan, 1.0]])
    x = np.empty(values.shape, dtype=dtype.storage)
    round_into(values, x, dtype)
    one_nan = np.empty(1, dtype=dtype.storage)
    round_into(np.array([np.nan]), one_nan, dtype)

    out = (
        Rotation(rule=RULE, positions=Positions.contiguous(1, 1), layout="half", inverse=False)
        .of(StoredTable(x, dtype))
        .elements
    )

    is_nan = np.isnan(widened(out, dtype))
    assert is_nan.sum() >= 4
    assert {element.tobytes() for element in out[is_nan]} == {one_nan[0].tobytes()}


@pytest.mark.parametrize("channel", [0, 5])
def test_a_rotation_tells_whether_its_result_is_finite(channel: int) -> None:
    """Channel 5 is past those that turn."""
    x = np.ones((3, 6))
    rotation = Rotation(Geometric(10000.0, 4, 2), Positions.contiguous(0, 3), "half", inverse=False)
    assert rotation.of(StoredTable(x, FLOAT64)).is_finite

    x[1, channel] = np.inf

    assert not rotation.of(StoredTable(x, FLOAT64)).is_finite


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_steps_of_a_rotation_do_not_show(monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    x = StoredTable(np.random.default_rng(3).standard_normal((5, 300, 24)), FLOAT64)
    rotation = Rotation(Geometric(10000.0, 16, 8), Positions.contiguous(-90, 300), layout, False)
    sent, expected = x.elements.copy(), rotation.of(x).elements.tobytes()
    monkeypatch.setattr(table_module, "_STEP_ELEMENTS", 9000)

    assert expected == rotation.of(x).elements.tobytes()
    assert (sent == x.elements).all()
