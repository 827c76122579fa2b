"""Recipes: what they do with positions, and the row of padding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import MAX_POSITION
from service.tables.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions, Run
from service.tables.real_positions import RealPositions
from service.tables.recipe import Recipe, SpreadRecipe, ZeroRow
from service.tables.recipes import recipe
from service.tables.table import Table, size

PADDED = recipe("fairseq", 6, {})
PLAIN = recipe("ddpm", 6, {})


def table_of(made: Recipe, positions: Positions, dtype: str = "float64") -> Table:
    return made.table(positions, REAL_DTYPES[dtype], (positions.count, made.width))


def bytes_of(table: Table) -> bytes:
    return table.read(0, size(table)).tobytes()


def listed(positions: list[int]) -> Positions:
    return Positions.of_runs(Run(position, 1, 1) for position in positions)


@given(
    st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=9),
    st.integers(-(2**61), 2**61),
)
def test_an_offset_moves_every_position(positions: list[int], offset: int) -> None:
    moved = recipe("fairseq", 6, {"offset": offset, "padding_idx": MAX_POSITION})

    expected = table_of(PLAIN, listed([position + offset for position in positions]))

    assert bytes_of(table_of(moved, listed(positions))) == bytes_of(expected)


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@given(st.lists(st.integers(-2, 4), min_size=1, max_size=12), st.integers(-2, 4), st.data())
def test_only_the_rows_of_padding_are_zero_whichever_are_read(
    dtype: str, positions: list[int], zero: int, data: st.DataObject
) -> None:
    padded = table_of(recipe("fairseq", 6, {"padding_idx": zero}), listed(positions), dtype)
    start = data.draw(st.integers(0, size(padded) - 1))
    stop = data.draw(st.integers(start + 1, size(padded)))

    expected = table_of(PLAIN, listed(positions), dtype).read(0, size(padded)).copy()
    expected.reshape(len(positions), 6)[np.array(positions) == zero] = 0

    assert padded.read(start, stop).tobytes() == expected[start:stop].tobytes()


def test_the_row_of_padding_is_found_however_far_it_is() -> None:
    far = recipe("fairseq", 6, {"padding_idx": 2**61 + 7})
    rows = table_of(far, Positions.contiguous(0, 2**61 + 8))

    last = rows.read(size(rows) - 12, size(rows)).reshape(2, 6)

    assert last[0].any()
    assert not last[1].any()


def test_a_padded_table_is_described_by_the_other_rows() -> None:
    made = PADDED.table(Positions.contiguous(0, 3), FLOAT32, (1, 3, 6))

    assert isinstance(made, ZeroRow)
    assert (made.shape, made.dtype, made.row_width) == ((1, 3, 6), FLOAT32, 6)
    assert made.work_per_element == made.table.work_per_element


def test_without_padding_there_is_nothing_around_the_table() -> None:
    assert isinstance(table_of(PLAIN, Positions.contiguous(0, 3)), PhasorTable)


def test_whole_and_fractional_positions_have_the_same_rows() -> None:
    mlx = recipe("mlx", 8, {"cos_first": True, "full_turns": True})
    real = RealPositions((0.5, 3.0, -7.0))
    rows = np.asarray(mlx.table(real, FLOAT64, (3, 8)).read(0, 24)).reshape(3, 8)

    assert rows[1:].tobytes() == bytes_of(table_of(mlx, listed([3, -7])))


@pytest.mark.parametrize(
    ("name", "given_parameters", "spelled"),
    [
        ("vaswani", {}, ["convention", "d_model", "base", "layout"]),
        (
            "tensor2tensor",
            {"min_timescale": 2.0},
            ["convention", "d_model", "min_timescale", "max_timescale", "layout"],
        ),
        ("m2m100", {}, ["convention", "d_model", "base", "layout", "offset", "padding_idx"]),
        (
            "mlx",
            {},
            [
                *("convention", "d_model", "min_freq", "max_freq", "full_turns", "layout"),
                *("cos_first", "scale"),
            ],
        ),
        (
            "perceiver",
            {"max_resolution": 9},
            ["convention", "d_model", "max_resolution", "concat_pos", "sine_only", "layout"],
        ),
    ],
)
def test_a_recipe_is_spelled_by_what_its_convention_has(
    name: str, given_parameters: dict[str, Any], spelled: list[str]
) -> None:
    d_model = 9 if name == "perceiver" else 8

    assert list(recipe(name, d_model, given_parameters).parameters()) == spelled


PERCEIVER = recipe("perceiver", 9, {"max_resolution": 224})


def test_rows_that_are_spread_depend_on_their_number_alone() -> None:
    assert isinstance(PERCEIVER, SpreadRecipe)
    rows = [table_of(PERCEIVER, Positions.contiguous(start, 5)) for start in (0, 7)]

    assert bytes_of(rows[0]) == bytes_of(rows[1])
    assert bytes_of(rows[0]) != bytes_of(table_of(PERCEIVER, Positions.contiguous(0, 6)))[:360]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_coordinates_are_the_nearest_numbers_from_minus_one_to_one(count: int) -> None:
    rows = table_of(PERCEIVER, Positions.contiguous(0, count)).read(0, 9 * count).reshape(-1, 9)

    assert rows[:, 0].tolist() == [
        (2 * index - (count - 1)) / (count - 1) if count > 1 else -1.0 for index in range(count)
    ]


def test_any_number_of_rows_is_spread() -> None:
    table = table_of(PERCEIVER, Positions.contiguous(0, 2**53))

    first, last = table.read(0, 9), table.read(size(table) - 9, size(table))

    assert [first[0], last[0]] == [-1.0, 1.0]
    assert (first[1:5] == -last[1:5]).all()
    assert (first[5:] == last[5:]).all()


def test_parts_of_spread_rows_are_the_whole() -> None:
    table = table_of(PERCEIVER, Positions.contiguous(0, 11), "bfloat16")
    whole = table.read(0, 99)

    for start, stop in [(0, 99), (3, 4), (8, 10), (17, 80), (98, 99)]:
        assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()
