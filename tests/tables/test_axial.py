"""Channels shared out to axes, class tokens, and what a table of them says of itself."""

from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables.angle import MAX_POSITION, Int64s
from service.tables.axes import AngleRounding
from service.tables.axial import (
    CONVENTIONS,
    AxialTurns,
    Placing,
    WithClassToken,
    dealt,
    placed,
)
from service.tables.bands import Ones
from service.tables.channels import Channels
from service.tables.dtypes import FLOAT32, FLOAT64
from service.tables.frequencies import Geometric
from service.tables.grid import GridAxis
from service.tables.positions import Positions
from service.tables.table import Table
from tests.exact import UNIT, frequency

HEIGHT, WIDTH = 5, 3
ROWS = HEIGHT * WIDTH
DOWN = GridAxis(0, 1, HEIGHT, WIDTH)
ACROSS = GridAxis(0, 1, WIDTH, 1)
RULE = Geometric(10000.0, 8, 4)


def turns(placing: Placing = "blocks", rounding: AngleRounding = "exact") -> AxialTurns:
    return AxialTurns(placed([RULE, RULE], [DOWN, ACROSS], placing), ROWS, {}, rounding)


def whole(table: Table) -> NDArray[Any]:
    return np.asarray(table.read(0, int(np.prod(table.shape)))).reshape(table.shape)


def angles(placing: Placing, rounding: AngleRounding = "exact") -> NDArray[Any]:
    return whole(turns(placing, rounding).angles(FLOAT64, (ROWS, 8)))


@pytest.mark.parametrize(
    ("name", "head_dim", "axes", "widths"),
    [
        ("qwen2_vl", 80, 2, (40, 40)),
        ("llama4", 88, 2, (44, 44)),
        ("timm", 96, 3, (32, 32, 32)),
        ("rotary_embedding_torch", 32, 1, (32,)),
        ("cogvideox", 64, 3, (16, 24, 24)),
        ("allegro", 96, 3, (32, 32, 32)),
        ("minimax_m3", 80, 3, (26, 26, 26)),
        ("minimax_m3", 64, 3, (20, 20, 20)),
    ],
)
def test_channels_are_shared_out_as_the_library_does(
    name: str, head_dim: int, axes: int, widths: tuple[int, ...]
) -> None:
    assert CONVENTIONS[name].widths(head_dim, axes) == widths


def test_blocks_have_the_frequencies_of_an_axis_together() -> None:
    first, second = placed([Ones(2), Ones(3)], [DOWN, ACROSS], "blocks")

    assert (first.places, second.places) == ((0, 1), (2, 3, 4))


def test_alternating_axes_take_turns() -> None:
    three = placed([Ones(2)] * 3, [DOWN, ACROSS, DOWN], "alternating")

    assert [axis.places for axis in three] == [(0, 3), (1, 4), (2, 5)]


@pytest.mark.parametrize(("head_dim", "axes"), [(16, 2), (6, 2), (14, 3), (4, 2)])
def test_dealt_frequencies_are_those_of_the_whole_head_in_turn(head_dim: int, axes: int) -> None:
    rules = dealt(10000.0, head_dim, axes)

    series = Geometric(10000.0, head_dim, head_dim // 2).exact()
    assert [rule.exact() for rule in rules] == [series[axis::axes] for axis in range(axes)]
    assert sum(rule.count for rule in rules) == head_dim // 2


@pytest.mark.parametrize("placing", ["blocks", "alternating"])
def test_rows_run_across_before_they_run_down(placing: Placing) -> None:
    """A grid that is not square tells one axis from the other."""
    found = angles(placing)

    for row in range(ROWS):
        down, across = divmod(row, WIDTH)
        for pair in range(4):
            places = {"blocks": (pair, 4 + pair), "alternating": (2 * pair, 2 * pair + 1)}
            for place, position in zip(places[placing], (down, across), strict=True):
                exact = position * frequency(10000.0, 8, pair)
                assert abs(found[row, place] - exact) <= 8 * UNIT * exact


@pytest.mark.parametrize("rounding", ["exact", "float32"])
def test_sines_and_cosines_are_those_of_the_angles(rounding: AngleRounding) -> None:
    channels = Channels(("cos", "sin"), False, 16)
    table = turns("blocks", rounding).table(channels, FLOAT64, (ROWS, 16))

    found, exact = whole(table), angles("blocks", rounding)

    assert np.abs(found[:, :8] - np.cos(exact)).max() <= 4 * UNIT
    assert np.abs(found[:, 8:] - np.sin(exact)).max() <= 4 * UNIT


@given(st.integers(0, ROWS * 16), st.integers(0, ROWS * 16), st.sampled_from(["exact", "float32"]))
def test_any_range_has_the_bytes_of_the_whole(
    first: int, second: int, rounding: AngleRounding
) -> None:
    start, stop = sorted((first, second))
    channels = Channels(("sin", "cos"), False, 32, repeats=2)
    both = [
        turns("alternating", rounding).table(channels, FLOAT32, (ROWS, 32)),
        turns("alternating", rounding).angles(FLOAT32, (ROWS, 8)),
    ]
    for table in both:
        stop_here = min(stop, int(np.prod(table.shape)))
        start_here = min(start, stop_here)
        part = table.read(start_here, stop_here)
        assert part.tobytes() == whole(table).reshape(-1)[start_here:stop_here].tobytes()


def with_class_token(is_first: bool) -> WithClassToken:
    return WithClassToken(Positions.contiguous(7, 5), 5, is_first)


@pytest.mark.parametrize(
    ("is_first", "expected"),
    [(True, [0, 7, 8, 9, 10, 11]), (False, [7, 8, 9, 10, 11, 0])],
)
def test_a_class_token_is_at_zero_before_or_after_the_others(
    is_first: bool, expected: list[int]
) -> None:
    tokens = with_class_token(is_first)

    every: Int64s = tokens.at(0, 6)

    assert every.tolist() == expected
    for start in range(7):
        for stop in range(start, 7):
            assert tokens.at(start, stop).tolist() == expected[start:stop]


def test_a_class_token_is_no_farther_than_the_others() -> None:
    assert with_class_token(True).farthest == with_class_token(False).farthest == 11


@given(
    st.sampled_from([31, 4095, 2**20, 2**26 + 1, MAX_POSITION]),
    st.floats(1.5, 1e9),
    st.integers(1, 4),
)
def test_float32_angles_keep_the_distance_they_state(
    farthest: int, base: float, count: int
) -> None:
    rule = Geometric(base, 2 * count, count)
    along = Positions.contiguous(farthest - 1, 2)
    axes = placed([rule, rule], [along, Positions.contiguous(0, 2)], "blocks")
    rounded = AxialTurns(axes, 2, {}, "float32")
    bound = rounded.distance()
    assert bound is not None
    found = whole(rounded.table(Channels(("cos",), False, 2 * count), FLOAT64, (2, 2 * count)))

    for row, pair in np.ndindex(2, count):
        exact = mpmath.cos((farthest - 1 + row) * frequency(base, 2 * count, pair))
        assert abs(found[row, pair] - exact) <= bound


def test_the_distance_of_float32_angles_is_that_of_their_farthest_axis() -> None:
    near, far = Positions.contiguous(0, 2), Positions.contiguous(99_998, 2)

    def distance(*along: Positions) -> float:
        axes = placed([RULE, RULE], along, "blocks")
        stated = AxialTurns(axes, 2, {}, "float32").distance()
        assert stated is not None
        return stated

    distances = [distance(near, near), distance(near, far)]
    assert distance(far, near) == distances[1]
    assert all(one < other for one, other in pairwise(distances))


def test_exact_angles_state_no_distance_and_spell_no_rounding() -> None:
    assert turns().distance() is None
    assert turns().parameters() == {}
    assert turns(rounding="float32").parameters() == {"angle": "float32"}


def test_a_row_has_the_frequencies_of_all_axes_and_no_scale() -> None:
    assert (turns().count, turns().rows, turns().peak) == (8, ROWS, 1.0)


def test_every_convention_says_whose_it_is() -> None:
    for convention in CONVENTIONS.values():
        assert any(character.isdigit() for character in convention.source)
        assert set(convention.axes) <= {1, 2, 3, 4}
