"""Rotations of queries and keys, which depend on differences of positions only."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import table as table_module
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
from service.tables.grid import Tokens
from service.tables.mrope import AXES, MultimodalTurns
from service.tables.positions import Positions
from service.tables.rope_rules import Default, Yarn
from service.tables.rotation import Rotation
from service.tables.table import StoredTable
from service.tables.turns import AlongSequence, Turns
from service.tables.xpos import XPos
from tests.exact import UNIT

RULE = Default(8, 10000.0)


def vectors(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def rotated(
    x: NDArray[np.float64],
    start: int,
    *,
    layout: str = "interleaved",
    inverse: bool = False,
    rule: Default = RULE,
) -> NDArray[np.float64]:
    positions = Positions.contiguous(start, x.shape[-2])
    rotation = Rotation(AlongSequence(rule, positions), layout, inverse)
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
    out = rotated(np.array([q]), 5, rule=Default(4, 10000.0))[0]

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
    rotation = Rotation(AlongSequence(RULE, Positions.contiguous(9, 6)), "half", inverse=False)

    out = rotation.of(StoredTable(narrow, chosen)).elements

    round_into(rotated(widened(narrow, chosen), 9, layout="half"), from_wide, chosen)
    assert from_wide.tobytes() == out.tobytes()


def test_overflow_to_float16_gives_infinity() -> None:
    x = np.full((2, 8), 65000.0, dtype="<f2")
    rotation = Rotation(
        AlongSequence(RULE, Positions.contiguous(0, 2)), "interleaved", inverse=True
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
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", 64)

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
        Rotation(AlongSequence(RULE, Positions.contiguous(1, 1)), "half", inverse=False)
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
    rotation = Rotation(
        AlongSequence(Default(4, 10000.0), Positions.contiguous(0, 3)), "half", inverse=False
    )
    assert rotation.of(StoredTable(x, FLOAT64)).is_finite

    x[1, channel] = np.inf

    assert not rotation.of(StoredTable(x, FLOAT64)).is_finite


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_steps_of_a_rotation_do_not_show(monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    x = StoredTable(np.random.default_rng(3).standard_normal((5, 300, 24)), FLOAT64)
    rotation = Rotation(
        AlongSequence(Default(16, 10000.0), Positions.contiguous(-90, 300)), layout, False
    )
    sent, expected = x.elements.copy(), rotation.of(x).elements.tobytes()
    monkeypatch.setattr(table_module, "STEP_ELEMENTS", 9000)

    assert expected == rotation.of(x).elements.tobytes()
    assert (sent == x.elements).all()


HALF_OF_PAIRS = [0, 2, 4, 6, 1, 3, 5, 7]


def turned(
    x: NDArray[np.float64],
    turns: Turns,
    layout: str,
    output_layout: str | None = None,
    *,
    inverse: bool = False,
    offset: int = 0,
) -> NDArray[np.float64]:
    rotation = Rotation(turns, layout, inverse, output_layout, offset)
    return np.asarray(rotation.of(StoredTable(x, FLOAT64)).elements, dtype=np.float64)


def sequence(start: int, rows: int) -> AlongSequence:
    return AlongSequence(RULE, Positions.contiguous(start, rows))


def test_reading_pairs_and_writing_halves_is_turning_and_then_sorting() -> None:
    """What DeepSeek-V3 does, and the other way round."""
    x, turns = vectors(9, 3, 10, 8), sequence(17, 10)

    to_half = turned(x, turns, "interleaved", "half")
    to_pairs = turned(x[..., HALF_OF_PAIRS], turns, "half", "interleaved")

    expected = turned(x, turns, "interleaved")
    assert (to_half == expected[..., HALF_OF_PAIRS]).all()
    assert (to_half == turned(x[..., HALF_OF_PAIRS], turns, "half")).all()
    assert (to_pairs == expected).all()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_an_output_layout_that_is_the_layout_changes_nothing(layout: str) -> None:
    x, turns = vectors(10, 4, 8), sequence(3, 4)
    named = Rotation(turns, layout, False, layout)

    assert (turned(x, turns, layout, layout) == turned(x, turns, layout)).all()
    assert named.parameters() == Rotation(turns, layout, False).parameters()


def test_a_mixed_rotation_is_undone_from_where_it_wrote_to_where_it_read() -> None:
    x, turns = vectors(11, 40, 12), sequence(1000, 40)

    there = turned(x, turns, "interleaved", "half", offset=3)
    back = turned(there, turns, "half", "interleaved", inverse=True, offset=3)

    assert np.abs(back - x).max() <= 32 * UNIT * np.abs(x).max()


@pytest.mark.parametrize("output_layout", [None, "half"])
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_channels_before_the_offset_pass_through_to_the_bit(
    offset: int, output_layout: str | None
) -> None:
    x, turns = vectors(12, 2, 5, 12), sequence(3, 5)
    x[0, 2, -1 if offset < 4 else 0] = np.nan

    out = turned(x, turns, "interleaved", output_layout, offset=offset)

    first, last = offset, offset + 8
    assert x[..., :first].tobytes() == out[..., :first].tobytes()
    assert x[..., last:].tobytes() == out[..., last:].tobytes()
    alone = turned(np.ascontiguousarray(x[..., first:last]), turns, "interleaved", output_layout)
    assert (out[..., first:last] == alone).all()


def test_a_rotation_spells_only_what_is_not_as_usual() -> None:
    turns = sequence(0, 4)
    plain = {**turns.parameters(), "layout": "interleaved", "inverse": False}

    assert Rotation(turns, "interleaved", False).parameters() == plain
    mixed = Rotation(turns, "interleaved", True, "half", 64).parameters()
    assert mixed == {**plain, "output_layout": "half", "rotary_offset": 64, "inverse": True}


def test_the_attention_factor_multiplies_what_is_turned() -> None:
    x = vectors(13, 6, 8)
    positions = Positions.contiguous(9, 6)
    plain, scaled = (
        Yarn(8, 10000.0, 8.0, 4096, attention_factor) for attention_factor in (1.0, 1.25)
    )

    out = turned(x, AlongSequence(scaled, positions), "half")

    expected = 1.25 * turned(x, AlongSequence(plain, positions), "half")
    assert np.abs(out - expected).max() <= 32 * UNIT * np.abs(x).max()


def test_xpos_leaves_the_decay_of_the_difference_in_products() -> None:
    """Queries grow as keys shrink: the product of both at one position is that without xPos."""
    query, key, positions = vectors(14, 9, 8), vectors(15, 9, 8), Positions.contiguous(0, 9)
    of_query, of_key = (
        AlongSequence(RULE, positions, "exact", XPos(8, 4.0, 4, inverse))
        for inverse in (False, True)
    )

    product = (turned(query, of_query, "half") * turned(key, of_key, "half")).sum(axis=-1)

    assert np.abs(product - (query * key).sum(axis=-1)).max() < 1e-13
    assert np.abs(turned(query, of_query, "half")[8]).sum() < np.abs(query[8]).sum()


def test_tokens_of_a_grid_are_turned_along_their_axes() -> None:
    """A token of text is turned as in a sequence."""
    x = vectors(16, 2, 5, 8)
    text = Tokens.of_sequence(Positions.contiguous(7, 5), AXES)

    out = turned(x, MultimodalTurns(RULE, (1, 2, 1), True, text), "half")

    assert (out == turned(x, sequence(7, 5), "half")).all()


def test_float32_angles_turn_by_the_rounded_angle() -> None:
    x = np.tile([1.0, 0.0], 4)[np.newaxis]
    rounded = AlongSequence(RULE, Positions.contiguous(131071, 1), "float32")

    out = turned(x, rounded, "interleaved")[0]

    for pair, frequency in enumerate(RULE.exact()):
        angle = mpmath.mpf(float(np.float32(131071) * np.float32(float(frequency))))
        assert abs(out[2 * pair] - mpmath.cos(angle)) <= 6 * UNIT
        assert abs(out[2 * pair + 1] - mpmath.sin(angle)) <= 6 * UNIT
