"""Tokens of a grid, and the position of each along an axis.

Coordinates along an axis are compared with the libraries' formulas in rational arithmetic.
"""

from decimal import Decimal
from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.grid.grids import (
    BoundedAxis,
    Coordinates,
    GridAxis,
    SummedAxes,
    Tokens,
    WithOtherRows,
    centred,
    counted,
    pixels,
    spread,
)
from service.encodings.rotary.rules import Default
from service.numerics.phase import MAX_POSITION, Picked
from service.numerics.positions import PositionArray, Positions, RowPositions, distinct_of

AXES = ("t", "h", "w")


def along(axis: RowPositions, rows: int) -> list[int]:
    return [int(position) for position in axis.at(0, rows)]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_positions_of_a_grid_are_its_indices(
    lengths: tuple[int, ...], start: int, count: int
) -> None:
    names = [f"axis {index}" for index in range(len(lengths))]
    tokens = Tokens.of_grid(lengths, names)
    expected = np.indices(lengths).reshape(len(lengths), -1)
    (rows,) = tokens.shape
    part = slice(min(start, rows), min(start + count, rows))

    assert (rows, tokens.canonical) == (expected.shape[1], {"grid": lengths})
    for name, whole in zip(names, expected, strict=True):
        assert (tokens.axes[name].at(part.start, part.stop) == whole[part]).all()


@given(st.integers(-50, 50), st.integers(-9, 9), st.integers(1, 9), st.integers(1, 4))
def test_farthest_is_the_largest_magnitude(first: int, step: int, length: int, inner: int) -> None:
    axis = GridAxis(first, step, length, inner)

    positions = axis.at(0, length * inner)

    assert axis.farthest == np.abs(positions).max()
    assert positions[:: max(inner, 1)].tolist() == [first + step * n for n in range(length)]


@pytest.mark.parametrize(
    ("before", "expected"), [(1, [0, 7, 8, 9, 10, 11]), (0, [7, 8, 9, 10, 11, 0])]
)
def test_other_rows_are_at_zero_before_or_after_the_tokens(
    before: int, expected: list[int]
) -> None:
    tokens = WithOtherRows(Positions.contiguous(7, 5), 5, before)

    assert tokens.farthest == 11
    for start in range(7):
        for stop in range(start, 7):
            assert tokens.at(start, stop).tolist() == expected[start:stop]


AXIS = GridAxis(-3, 2, 4, 3)
BOUNDED = BoundedAxis(AXIS, -1, 2)


@pytest.mark.parametrize(
    ("positions", "rows"),
    [
        (AXIS, 40),
        (GridAxis(5, 0, 4, 1), 9),
        (AXIS.in_blocks(2, 6, is_column=False), 48),
        (AXIS.in_blocks(2, 4, is_column=True), 48),
        (BOUNDED, 24),
        (SummedAxes(BOUNDED, BoundedAxis(GridAxis(-1, 2, 4, 3), -1, 2)), 24),
        (WithOtherRows(AXIS, 12, 2), 15),
        (WithOtherRows(AXIS.in_blocks(2, 4, is_column=True), 16, 0), 20),
        (WithOtherRows(PositionArray(np.array([4, 9, 4, 4, 9, 4])), 6, 1), 7),
        (Positions.of_integers(np.array([6, 7, 5, 5, 6, 7, 7, 6])), 8),
    ],
)
def test_distinct_positions_give_the_position_of_every_row(
    positions: RowPositions, rows: int
) -> None:
    distinct = distinct_of(positions)

    assert distinct is not None
    index = distinct.index.at(0, rows)
    assert index.min() >= 0
    assert index.max() < distinct.count
    every = distinct.positions.at(0, distinct.count)
    for start in range(0, rows, 5):
        part = distinct.index.at(start, rows)
        assert every[part].tolist() == positions.at(start, rows).tolist()


def test_positions_are_distinct_if_others_are_unknown_to_be_few() -> None:
    assert distinct_of(WithOtherRows(Positions.contiguous(7, 5), 5, 1)) is None


def test_a_grid_may_have_2_to_the_62_tokens() -> None:
    tokens = Tokens.of_grid((2**20, 2**21, 2**21), AXES)

    last = tokens.shape[0] - 1
    assert [tokens.axes[name].at(last, last + 1).tolist() for name in AXES] == [
        [2**20 - 1],
        [2**21 - 1],
        [2**21 - 1],
    ]


def test_lists_are_positions_by_axis() -> None:
    lists = {"t": Positions.contiguous(0, 3), "h": Positions.contiguous(5, 3)}

    tokens = Tokens.of_lists(lists)

    assert tokens.shape == (3,)
    assert along(tokens.axes["h"], 3) == [5, 6, 7]
    assert tokens.canonical == {"positions_t": "0:3", "positions_h": "5:8"}


def test_text_has_one_position_along_all_axes() -> None:
    tokens = Tokens.of_sequences(Positions.contiguous(4, 3), AXES)

    assert {tuple(along(tokens.axes[name], 3)) for name in AXES} == {(4, 5, 6)}
    assert (tokens.shape, tokens.canonical) == ((3,), {"start": 4, "seq_len": 3})


def test_picked_frequencies_are_those_of_the_rule() -> None:
    rule = Default(8, 10000.0)
    picked = Picked(rule, (0, 3))

    assert picked.count == 2
    assert list(picked.exact()) == [Decimal(1), list(rule.exact())[3]]
    assert hash(picked) == hash(Picked(Default(8, 10000.0), (0, 3)))


HALF = Fraction(1, 2)
lengths = st.integers(1, 40)
numbers = st.fractions(-100, 100, max_denominator=64)


def placed(coordinates: Coordinates) -> list[Fraction]:
    return [coordinates.first + coordinates.step * i for i in range(coordinates.length)]


def linspace(start: Fraction, stop: Fraction, count: int) -> list[Fraction]:
    """Evaluate what numpy.linspace and torch.linspace round: with one token, the start."""
    if count == 1:
        return [start]
    return [start + (stop - start) * i / (count - 1) for i in range(count)]


@given(lengths, numbers)
def test_counted_tokens_are_a_whole_number_and_the_offset_away(n: int, offset: Fraction) -> None:
    assert placed(counted(n, offset)) == [i + offset for i in range(n)]


@given(lengths, numbers, st.integers(1, 64))
def test_a_reference_grid_scales_coordinates_and_their_offset(
    n: int, offset: Fraction, reference: int
) -> None:
    """timm: (arange(n) + offset) / n · reference; EVA-02: arange(n) / n · reference."""
    assert placed(counted(n, offset, Fraction(reference))) == [
        (i + offset) / n * reference for i in range(n)
    ]


@given(lengths, numbers, numbers)
def test_spread_tokens_are_the_linspace_of_diffusers(
    n: int, start: Fraction, stop: Fraction
) -> None:
    assert placed(spread(n, start, stop)) == linspace(start, stop * (n - 1) / n, n)


@given(lengths, numbers)
def test_pixels_are_the_linspace_between_minus_one_and_one(n: int, offset: Fraction) -> None:
    expected = [x + offset for x in linspace(Fraction(-1), Fraction(1), n)]

    assert placed(pixels(n, offset)) == expected


@given(lengths, st.integers(1, 40), numbers)
def test_centred_tokens_are_the_patch_centres_of_dinov3(
    n: int, side: int, offset: Fraction
) -> None:
    assert placed(centred(n, offset, side)) == [
        2 * (i + HALF + offset) / side - 1 for i in range(n)
    ]


@given(numbers, numbers, lengths)
def test_the_unit_counts_every_coordinate_and_no_larger_one_does(
    first: Fraction, step: Fraction, n: int
) -> None:
    coordinates = Coordinates(first, step, n)
    unit = coordinates.unit

    counts = [coordinate / unit for coordinate in placed(coordinates)]

    assert all(count.denominator == 1 for count in counts)
    assert unit.numerator == 1
    assert gcd(int(first / unit), int(step / unit), unit.denominator) == 1


@pytest.mark.parametrize(
    ("first", "step", "length", "is_countable"),
    [
        (Fraction(MAX_POSITION), Fraction(0), 1, True),
        (Fraction(MAX_POSITION + 1), Fraction(0), 1, False),
        (Fraction(-MAX_POSITION), Fraction(1), 2, True),
        (Fraction(-MAX_POSITION - 1), Fraction(1), 2, False),
        (Fraction(0), Fraction(1), MAX_POSITION + 1, True),
        (Fraction(0), Fraction(1), MAX_POSITION + 2, False),
        (Fraction(0), Fraction(-1), MAX_POSITION + 2, False),
        (HALF, Fraction(1), MAX_POSITION, False),
        (Fraction(5e-324), Fraction(0), 1, True),
    ],
)
def test_coordinates_are_countable_within_max_position(
    first: Fraction, step: Fraction, length: int, is_countable: bool
) -> None:
    assert Coordinates(first, step, length).is_countable is is_countable


@pytest.mark.parametrize(
    "coordinates",
    [
        counted(1, Fraction(5e-324)),
        pixels(1, Fraction(5e-324)),
        centred(1, Fraction(5e-324), 1),
        spread(2, Fraction(-MAX_POSITION), Fraction(2 * MAX_POSITION)),
    ],
)
def test_a_step_beyond_max_position_is_not_countable(coordinates: Coordinates) -> None:
    """The step counts even for one token; two tokens can be in range with a step too long."""
    assert not coordinates.is_countable
