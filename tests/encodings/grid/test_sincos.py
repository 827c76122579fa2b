"""Tables of the tokens of a grid, and what each convention lays out in which order."""

from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from numpy.typing import NDArray

from service.encodings.grid import sincos as module
from service.encodings.grid.grid_conventions import (
    Grid,
    convention_for,
    normalized,
    normalized_unit,
    perceiver,
    timm_fourier,
)
from service.encodings.grid.grids import GridAxis
from service.encodings.grid.sincos import (
    Along,
    ChannelBlock,
    ChannelsFirstTable,
    GridTable,
    Lane,
    Layout,
    lanes,
)
from service.numerics import tables as table_module
from service.numerics.dtypes import BFLOAT16, FLOAT64, REAL_DTYPES
from service.numerics.phase import Geometric, PixelBands, ScaledFrequencies, TimesTwoPi
from service.numerics.tables import Table, size
from tests.exact import UNIT, frequency

RULE = Geometric(100.0, 6, 3)
DOWN = Along(GridAxis(-2, 3, 4, 5), Fraction(2, 7), RULE)
ACROSS = Along(GridAxis(1, 1, 5, 1), Fraction(1, 3), RULE)
BLOCKS = (
    ChannelBlock(("coordinate",), ("w", "h"), 1),
    ChannelBlock(("sin", "cos"), ("h",), 3),
    ChannelBlock((), (), 2),
    ChannelBlock(("cos",), ("h", "w"), 3),
)
WIDTH, ZEROS = 14, 2


def read(table: Table) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def of_both(dtype: str = "float64") -> GridTable:
    shape = (ZEROS + 20, WIDTH)
    axes = {"h": DOWN, "w": ACROSS}
    layout = Layout(axes, BLOCKS, zero_rows=ZEROS)
    return GridTable(layout, WIDTH, REAL_DTYPES[dtype], shape)


def exact_row(token: int) -> list[Any]:
    h, w = mpf(-2 + 3 * (token // 5)) * 2 / 7, mpf(1 + token % 5) / 3
    rates = [frequency(100.0, 6, k) for k in range(3)]
    turned = [f(h * rate) for rate in rates for f in (mpmath.sin, mpmath.cos)]
    rest = [mpmath.cos(place * rate) for rate in rates for place in (h, w)]
    return [w, h, *turned, mpf(0), mpf(0), *rest][:WIDTH]


def test_each_channel_holds_what_its_block_says() -> None:
    rows = read(of_both())

    for token in range(20):
        for channel, exact in enumerate(exact_row(token)):
            assert abs(rows[ZEROS + token, channel] - exact) <= 4 * UNIT, (token, channel)


@pytest.mark.parametrize("dtype", REAL_DTYPES)
def test_rows_and_channels_of_zeros_are_zeros(dtype: str) -> None:
    rows = read(of_both(dtype))

    assert not rows[:ZEROS].any()
    assert not rows[:, 8:10].any()
    assert rows[ZEROS:, 2:8].all()


@given(st.integers(0, 22 * WIDTH), st.integers(0, 22 * WIDTH))
def test_a_range_has_the_bytes_that_the_whole_has(one: int, other: int) -> None:
    start, stop = sorted((one, other))
    table = of_both("bfloat16")
    if start < stop:
        assert (table.read(start, stop) == table.read(0, size(table))[start:stop]).all()


def test_steps_do_not_change_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(of_both())

    monkeypatch.setattr(table_module, "STEP_ELEMENTS", 3 * WIDTH)

    assert (read(of_both()) == whole).all()


def test_some_channels_alone_are_those_of_the_whole() -> None:
    table = of_both()
    whole = read(table)

    for first in range(WIDTH):
        for last in range(first + 1, WIDTH + 1):
            assert (table.part(1, 9, range(first, last)) == whole[1:9, first:last]).all()


@pytest.mark.parametrize("length", [9, 2**31, 2**60 + 1])
def test_a_coordinate_is_the_float64_nearest_to_it(length: int) -> None:
    axis = Along(GridAxis(1 - length, 2, length, 1), Fraction(1, length - 1), RULE)
    table = GridTable(Layout({"w": axis}, BLOCKS[:1]), 1, FLOAT64, (length, 1))

    for first in (0, length // 3, length - 3):
        found = table.part(first, first + 3, range(1))[:, 0].tolist()
        exact = [Fraction(1 - length + 2 * (first + i), length - 1) for i in range(3)]
        assert found == [float(coordinate) for coordinate in exact]


def test_a_grid_may_have_any_number_of_tokens() -> None:
    rows, columns = 2**40, 2**21
    down = Along(GridAxis(0, 1, rows, columns), Fraction(1), RULE)
    across = Along(GridAxis(0, 1, columns, 1), Fraction(1), RULE)
    blocks = (ChannelBlock(("sin",), ("h",), 3), ChannelBlock(("cos",), ("w",), 3))
    layout = Layout({"h": down, "w": across}, blocks, zero_rows=1)
    table = GridTable(layout, 6, BFLOAT16, (rows * columns + 1, 6))
    exact = GridTable(layout, 6, FLOAT64, table.shape)

    token = 123_456_789 * columns + columns - 1
    row = exact.read((token + 1) * 6, (token + 2) * 6)
    for k in range(3):
        rate = frequency(100.0, 6, k)
        assert abs(row[k] - mpmath.sin(123_456_789 * rate)) <= 4 * UNIT
        assert abs(row[3 + k] - mpmath.cos((columns - 1) * rate)) <= 4 * UNIT
    assert table.read(token * 6, (token + 9) * 6).shape == (54,)


def test_distinct_positions_of_tokens_across_a_row_end() -> None:
    # The last tokens of one row and the first of the next.
    across = Along(GridAxis(0, 1, 2**40, 1), Fraction(1), RULE)

    positions, place = across.distinct(2**40 - 2, 2**40 + 2)

    assert positions[place].tolist() == [2**40 - 2, 2**40 - 1, 0, 1]


def test_blocks_say_what_they_hold() -> None:
    assert [str(block) for block in BLOCKS] == ["w|h", "sin|cos h", "0", "cos h|w"]
    assert [block.width for block in BLOCKS] == [2, 6, 2, 6]


def test_lanes_are_cut_with_the_row() -> None:
    found = list(lanes(BLOCKS, 11))

    assert found[2:4] == [Lane("h", "sin", range(2, 8, 2)), Lane("h", "cos", range(3, 8, 2))]
    assert [len(lane.channels) for lane in found[4:]] == [1, 0]


H_W = {"height": 2, "width": 3}
T_H_W = {"depth": 4, **H_W}


def laid_out(name: str, lengths: dict[str, int], d_model: int, **values: Any) -> Layout:
    convention = convention_for(name, len(lengths))
    assert convention is not None
    return convention.layout(Grid(lengths, d_model, {**convention.defaults, **values}))


def order(layout: Layout) -> list[str]:
    return [str(block) for block in layout.blocks]


COLUMNS_FIRST = ["sin width", "cos width", "sin height", "cos height"]
ROWS_FIRST = ["sin height", "cos height", "sin width", "cos width"]


@pytest.mark.parametrize(
    ("name", "blocks", "tokens"),
    [
        ("mae", COLUMNS_FIRST, ["height", "width"]),
        ("transformers", ROWS_FIRST, ["height", "width"]),
        ("moco-v3", COLUMNS_FIRST, ["width", "height"]),
        ("simple-vit", COLUMNS_FIRST, ["height", "width"]),
        ("diffusers", COLUMNS_FIRST, ["height", "width"]),
        ("detr", ["sin|cos height", "sin|cos width"], ["height", "width"]),
        ("timm", [ROWS_FIRST[i] for i in (0, 2, 1, 3)], ["height", "width"]),
    ],
)
def test_channels_and_tokens_have_their_order(
    name: str, blocks: list[str], tokens: list[str]
) -> None:
    layout = laid_out(name, H_W, 16)

    assert order(layout) == blocks
    assert list(layout.along) == tokens
    assert layout.along["height"].tokens.inner == (3 if tokens[0] == "height" else 1)


def test_reverse_coord_of_timm_reverses_channels_and_tokens() -> None:
    layout = laid_out("timm", H_W, 16, reverse_coord=True, interleave_sin_cos=True)

    assert order(layout) == COLUMNS_FIRST
    assert list(layout.along) == ["width", "height"]


def test_a_video_gives_a_quarter_of_its_channels_to_time() -> None:
    layout = laid_out("diffusers", T_H_W, 32)

    assert order(layout) == ["sin depth", "cos depth", *COLUMNS_FIRST]
    assert [block.width for block in layout.blocks] == [4, 4, 6, 6, 6, 6]
    assert layout.leading == 1


def test_channels_beyond_the_blocks_are_zeros_or_cut() -> None:
    assert [block.width for block in laid_out("tensor2tensor", T_H_W, 15).blocks] == [2] * 6 + [3]
    assert [block.width for block in laid_out("tensor2tensor", T_H_W, 12).blocks] == [2] * 6
    assert [block.width for block in laid_out("positional-encodings", T_H_W, 7).blocks] == [4] * 3


def test_a_stretched_grid_keeps_whole_positions_in_an_exact_unit() -> None:
    layout = laid_out("diffusers", H_W, 16, base_size=8, interpolation_scale=0.1)

    assert layout.along["width"].unit == Fraction(8, 3) / Fraction(0.1)
    assert layout.along["height"].unit == Fraction(8, 2) / Fraction(0.1)


def test_normalized_positions_are_exact_quotients() -> None:
    layout = laid_out("detr", H_W, 16, normalize=True)
    rule = Geometric(10000.0, 8, 4)

    width = layout.along["width"]
    assert width.unit == Fraction(1_000_000, 3_000_001)
    assert width.rule == TimesTwoPi(rule)
    assert (width.tokens.first, width.tokens.length) == (1, 3)
    assert normalized(rule, 1.5) == rule
    assert ScaledFrequencies(rule, normalized_unit(0, 1.5)).exact()[0] == 1_500_000


ROWS = 22


def turned(dtype: str = "float32") -> ChannelsFirstTable:
    return ChannelsFirstTable(of_both(dtype), ROWS)


def test_channels_first_is_the_transpose_bit_for_bit() -> None:
    for dtype in ("float64", "bfloat16"):
        assert (read(turned(dtype)) == read(of_both(dtype)).T).all()


@pytest.mark.parametrize("step_elements", [5, ROWS, 3 * ROWS, 2**17])
def test_ranges_and_steps_have_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, step_elements: int
) -> None:
    whole = read(turned()).reshape(-1)

    monkeypatch.setattr(module, "STEP_ELEMENTS", step_elements)

    for start, stop in [(0, 1), (3, 4), (21, 23), (40, 111), (0, WIDTH * ROWS), (307, 308)]:
        assert (turned().read(start, stop) == whole[start:stop]).all()


VALUES = {"num_bands": 3, "max_resolution": (8, 10), "concat_pos": True, "sine_only": False}


def grid(**values: object) -> Grid:
    return Grid({"height": 1, "width": 4}, 0, VALUES | values)


def test_perceiver_orders_by_axis_and_timm_by_band() -> None:
    both = ["sin height", "sin width", "cos height", "cos width"]

    assert [str(block) for block in perceiver(grid()).blocks] == ["height", "width", *both]
    found = [str(block) for block in timm_fourier(grid()).blocks]
    assert found == ["height", "width", "sin height|width", "cos height|width"]


def test_coordinates_and_cosines_may_be_left_out() -> None:
    bare = grid(concat_pos=False, sine_only=True)

    assert [str(block) for block in perceiver(bare).blocks] == ["sin height", "sin width"]
    found = [str(block) for block in timm_fourier(bare).blocks]
    assert found == ["sin height|width", "cos height|width"]


def test_coordinates_are_even_from_minus_one_to_one_and_minus_one_alone() -> None:
    along = perceiver(grid()).along

    evenly = [-1, Fraction(-1, 3), Fraction(1, 3), 1]
    for name, expected in {"height": [-1], "width": evenly}.items():
        axis = along[name]
        found = axis.tokens.at(0, 4)[: axis.tokens.length].tolist()
        assert [position * axis.unit for position in found] == expected


def test_bands_go_up_to_half_the_resolution_of_their_axis() -> None:
    along = perceiver(grid()).along

    assert along["height"].rule == PixelBands(8, 3, is_linear=True)
    assert along["width"].rule == PixelBands(10, 3, is_linear=True)
