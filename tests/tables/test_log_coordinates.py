"""Distances and their logarithms."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.tables import log_coordinates
from service.tables.angle import MAX_POSITION
from service.tables.dtypes import FLOAT16, FLOAT32, FLOAT64
from service.tables.log_coordinates import (
    DistanceTable,
    WindowCoordinates,
    log_distances,
    scaled_log_distances,
)
from tests.exact import UNIT

mpf = mpmath.mpf


@settings(max_examples=400)
@given(st.one_of(st.integers(-MAX_POSITION, MAX_POSITION), st.integers(-300, 300)))
def test_a_logarithm_of_a_distance_is_rounded_once(distance: int) -> None:
    (got,) = log_distances(np.array([distance], dtype=np.int64)).tolist()

    true = mpmath.sign(distance) * mpmath.log1p(abs(distance))
    assert abs(mpf(got) - true) <= abs(true) * 1.1 * UNIT


@settings(max_examples=600)
@given(st.integers(-(2**30), 2**30), st.one_of(st.integers(2, 60), st.integers(2, 2**30)))
def test_a_coordinate_in_a_window_is_rounded_once(distance: int, window: int) -> None:
    (got,) = scaled_log_distances(np.array([distance], dtype=np.int64), window).tolist()

    scaled = mpf(8 * abs(distance)) / (window - 1)
    true = mpmath.sign(distance) * mpmath.log(1 + scaled, 2) / 3
    assert abs(mpf(got) - true) <= abs(true) * 1.1 * UNIT


def test_what_the_formula_makes_whole_is_whole() -> None:
    """With W = 9, 8d/(W − 1) is d: log2 8/log2 8 at d = 7."""
    assert scaled_log_distances(np.array([7, -7, 0]), 9).tolist() == [1.0, -1.0, 0.0]


def test_opposite_distances_are_opposite_and_nothing_is_no_negative_zero() -> None:
    distances = np.arange(-20, 21)

    for values in (log_distances(distances), scaled_log_distances(distances, 7)):
        assert (values == -values[::-1]).all()
        assert not np.signbit(values[20])


def test_a_window_has_the_distance_down_and_then_across() -> None:
    table = WindowCoordinates((2, 3), (2, 3), None, FLOAT64)

    values = table.read(0, 30).reshape(table.shape)

    assert table.shape == (3, 5, 2)
    assert (values[:, :, 0] == scaled_log_distances(np.arange(-1, 2), 2)[:, np.newaxis]).all()
    assert (values[:, :, 1] == scaled_log_distances(np.arange(-2, 3), 3)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_one_coordinate_alone_is_that_of_both(axis: int) -> None:
    both = WindowCoordinates((3, 2), None, None, FLOAT64).read(0, 30).reshape(5, 3, 2)
    alone = WindowCoordinates((3, 2), None, axis, FLOAT64)

    assert alone.shape == (5, 3)
    assert (alone.read(0, 15).reshape(5, 3) == both[:, :, axis]).all()


def test_any_part_of_a_window_is_that_of_the_whole() -> None:
    table = WindowCoordinates((3, 4), (8, 8), None, FLOAT32)

    whole = table.read(0, 70)
    for start in range(0, 69, 7):
        for stop in range(start + 1, 71, 5):
            assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_distances_reach_from_the_first_key_to_the_last() -> None:
    plain, log = (DistanceTable(3, is_log, FLOAT64) for is_log in (False, True))

    assert plain.shape == (5, 1)
    assert plain.read(0, 5).tolist() == [-2, -1, 0, 1, 2]
    assert log.read(0, 5).tolist() == log_distances(np.arange(-2, 3)).tolist()


def test_a_window_is_spelled_by_what_matters() -> None:
    own = log_coordinates.windows(window=(4, 6), normalized_by=(4, 6), axis=None, dtype=FLOAT64)
    other = log_coordinates.windows(window=(4, 6), normalized_by=(8, 8), axis=1, dtype=FLOAT64)
    plain = log_coordinates.windows(window=(4, 6), normalized_by=None, axis=None, dtype=FLOAT64)

    assert dict(own.parameters) == {"window_size": (4, 6), "mode": "swin"}
    assert dict(plain.parameters) == {"window_size": (4, 6), "mode": "cr"}
    assert dict(other.parameters) == {
        "window_size": (4, 6),
        "mode": "swin",
        "pretrained_window_size": (8, 8),
        "axis": "x",
    }
    assert (own.axes, other.axes) == (("dy", "dx", "coordinate"), ("dy", "dx"))


def test_a_sequence_is_spelled_by_its_length() -> None:
    document = log_coordinates.distances(seq_len=4, is_log=True, dtype=FLOAT64)

    assert dict(document.parameters) == {"seq_len": 4, "log_distance": True}
    assert document.shape == (7, 1)


@pytest.mark.parametrize("distance", [2**58 + 2**34 + 1, 2**58 + 3 * 2**34 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_far_distances_are_rounded_once(distance: int, sign: int) -> None:
    """Beside the middle between two numbers of float32, by less than float64 can tell."""
    length = 2**60
    table = DistanceTable(length, is_log=False, dtype=FLOAT32)
    place = length - 1 + sign * distance

    assert table.read(place, place + 1).tolist() == [sign * (2**58 + 2**35)]


def test_distances_overflow_where_the_last_one_does() -> None:
    for length, expected in ((65_520, False), (65_521, True)):
        table = DistanceTable(length, is_log=False, dtype=FLOAT16)

        assert table.overflows == expected
        assert np.isinf(table.read(0, 1)[0]) == expected
    assert not DistanceTable(2**62, is_log=True, dtype=FLOAT16).overflows
    assert not DistanceTable(2**62, is_log=False, dtype=FLOAT32).overflows
