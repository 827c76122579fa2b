"""Coordinates along an axis, held to the libraries' formulas in rational arithmetic."""

from fractions import Fraction
from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import MAX_POSITION
from service.tables.coordinates import Coordinates, centred, counted, pixels, spread

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


@given(lengths)
def test_a_spread_that_stops_at_the_number_of_tokens_counts_them(n: int) -> None:
    assert placed(spread(n, Fraction(0), Fraction(n))) == list(range(n))


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


def test_centres_of_their_own_side_lie_evenly_about_zero() -> None:
    assert placed(centred(3, Fraction(0), 3)) == [Fraction(-2, 3), 0, Fraction(2, 3)]


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
def test_coordinates_are_countable_within_the_positions_there_are(
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
def test_a_step_that_no_position_holds_is_not_countable(coordinates: Coordinates) -> None:
    """One token has no step to take, and two may lie within the positions with one too long."""
    assert not coordinates.is_countable
