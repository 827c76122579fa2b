"""The first position at which two rotations differ: equal to a search through all positions."""

from decimal import Decimal, localcontext
from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.models.diff import Rotation, compare_rotations, score_agreement

_LENGTH = 5_000

Vectors = NDArray[Any]


def rotation(
    *frequencies: float, layout: str = "half", scale: float = 1.0, width: int = 0
) -> Rotation:
    exact = tuple(map(Decimal, frequencies))
    return Rotation(width or 2 * len(exact), exact, layout, scale)


def searched(one: Rotation, other: Rotation, epsilon: float) -> int | None:
    """Return the first position by turning each unit vector, as a matrix, at every position."""
    positions = np.arange(_LENGTH, dtype=np.longdouble)
    apart = np.zeros(_LENGTH, dtype=np.longdouble)
    for channel in range(one.width):
        columns = (column(each, channel, positions) for each in (one, other))
        difference = np.subtract(*columns)
        apart = np.maximum(apart, np.sqrt((difference**2).sum(axis=1)))
    beyond = np.flatnonzero(apart > epsilon)
    return int(beyond[0]) if len(beyond) else None


def column(own: Rotation, channel: int, positions: Vectors) -> Vectors:
    vectors = np.zeros((len(positions), own.width), dtype=np.longdouble)
    vectors[:, channel] = 1
    count = len(own.frequencies)
    for k, frequency in enumerate(own.frequencies):
        pair = (2 * k, 2 * k + 1) if own.layout == "interleaved" else (k, k + count)
        if channel in pair:
            angle = positions * np.longdouble(str(frequency))
            other, sign = (pair[1], 1) if channel == pair[0] else (pair[0], -1)
            vectors[:, channel] = own.scale * np.cos(angle)
            vectors[:, other] = own.scale * sign * np.sin(angle)
    return vectors


PAIRS = [
    (rotation(1.0, 0.01), rotation(1.0, 0.0101)),
    (rotation(1.0, 0.01), rotation(1.0, -0.01)),
    (rotation(1.0, 0.0003), rotation(1.0, 0.0002)),
    (rotation(6.2, 0.5), rotation(0.1, 0.5)),
    (rotation(3.1, 0.5), rotation(0.0, 0.5)),
    (rotation(1.0, 0.01, scale=1.05), rotation(1.0, 0.011, scale=1.0)),
    (rotation(1.0, 0.01, scale=0.3), rotation(1.0, 0.5, scale=0.31)),
    (rotation(2.5, scale=0.51), rotation(0.1, scale=0.51)),
    (rotation(1.0, 0.01), rotation(1.0, 0.01, layout="interleaved")),
    (rotation(0.001, 0.0001), rotation(0.001, 0.0001, layout="interleaved")),
    (rotation(3.1, 3.0), rotation(3.1, 3.0, layout="interleaved")),
    (rotation(2.9, 0.2, scale=0.6), rotation(2.9, 0.2, layout="interleaved", scale=0.6)),
    (rotation(1.0, 0.01), rotation(1.0, width=4)),
    (rotation(0.002, width=4), rotation(0.002, 0.001)),
    (rotation(3.1415), rotation(3.1414, layout="interleaved")),
    (rotation(3.1415, 0.4), rotation(3.1415, 0.4, layout="interleaved")),
    (rotation(1e-3, 5e-4, scale=0.6), rotation(1e-3, 5e-4, layout="interleaved", scale=0.6)),
]


@pytest.mark.parametrize(("pair", "epsilon"), [*product(PAIRS, [2.0**-8, 0.1, 0.5, 1.0])])
def test_first_position_is_that_of_a_search(
    pair: tuple[Rotation, Rotation], epsilon: float
) -> None:
    one, other = pair

    found = compare_rotations(one, other, epsilon, _LENGTH)

    assert found is not None
    expected = searched(one, other, epsilon)
    if expected is None:
        assert found.first_position is None or found.first_position >= _LENGTH
    else:
        assert found.first_position == expected
        assert found.by is not None
        assert epsilon < found.by <= (found.at_most or 0) + 1e-15
    assert compare_rotations(other, one, epsilon, _LENGTH) == found


def test_same_frequencies_by_different_formulas_are_the_same() -> None:
    third = Decimal(1) / 3
    one = Rotation(2, (third,), "half")
    other = Rotation(2, (third + Decimal("1e-70"),), "half")

    assert compare_rotations(one, other, 2.0**-8, 8) is None


def test_far_first_position_is_exact() -> None:
    apart, epsilon = Decimal("1e-18"), 2.0**-8

    found = compare_rotations(rotation(1.0), Rotation(2, (1 + apart,), "half"), epsilon, 8)

    assert found is not None
    assert found.first_position is not None
    with localcontext(prec=60):
        for before in (0, 1):
            half = (found.first_position - before) * apart / 2
            sine = sum((-1) ** n * half ** (2 * n + 1) / factorial(2 * n + 1) for n in range(9))
            assert (2 * sine > Decimal(epsilon)) == (not before)


def test_rotations_that_are_closer_than_epsilon_have_no_first_position() -> None:
    found = compare_rotations(rotation(1.0, scale=1.0), rotation(1.0, scale=1.001), 2.0**-8, 1024)

    assert found is not None
    assert found.first_position is None
    assert found.at_most == pytest.approx(0.001)


def test_first_position_past_a_long_search_is_not_told() -> None:
    one = rotation(0.6001, 0.3, scale=0.5)
    other = rotation(0.6001, 0.3, layout="interleaved", scale=0.5)

    found = compare_rotations(one, other, 1.0 - 1e-9, 8)

    assert found is not None
    assert (found.first_position, found.has_positions) == (None, False)


def test_channels_are_those_that_differ() -> None:
    found = compare_rotations(rotation(1.0, 0.5, 0.25, 0.125), rotation(1.0, 0.5, 0.2, 0.1), 0.1, 8)

    assert found is not None
    assert found.channels == "2,3,6,7"


def test_heads_of_another_width_have_no_position_to_compare() -> None:
    found = compare_rotations(rotation(1.0), rotation(1.0, 0.5), 0.1, 8)

    assert found is not None
    assert (found.first_position, found.has_positions) == (None, False)
    assert found.reason is not None


def test_agreement_of_scores_is_one_for_equal_frequencies() -> None:
    one = [Decimal(1), Decimal("0.1")]

    assert score_agreement(one, one, 5) == [(1, 1.0), (2, 1.0), (4, 1.0)]
    stopped = score_agreement(one, one[:1], 1)
    assert stopped == [(1, round((1 + np.cos(0.1)) / 2, 4))]
