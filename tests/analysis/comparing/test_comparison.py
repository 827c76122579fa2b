"""Two arrays, element by element."""

import numpy as np
import pytest

from service.analysis.comparing.alignment import alignments
from service.analysis.comparing.comparison import (
    Comparison,
    absolute_errors,
    compare,
    misfit,
    scale_of,
)
from service.analysis.comparing.overlay import Overlay
from service.analysis.comparing.tolerance import Tolerance
from service.tables.dtypes import FLOAT32, FLOAT64, INT64, DType, Elements
from service.tables.table import StoredTable

ULP = 2.0**-23
RNG = np.random.default_rng(7)
EXACT = RNG.uniform(0.5, 1, (600, 512)).astype("<f4")


def compared(
    yours: Elements, theirs: Elements, dtype: DType = FLOAT32, floor: float = 1.0
) -> Comparison:
    over = Overlay(
        StoredTable(yours, dtype),
        StoredTable(theirs, dtype),
        alignments(yours.shape, theirs.shape)[0],
    )
    tolerance = Tolerance(None, None, None if dtype is INT64 else FLOAT32, floor)
    return compare(over, tolerance, 0, 1 if theirs.ndim > 1 else None)


def test_equal_arrays_have_no_error() -> None:
    found = compared(EXACT, EXACT)

    assert found.is_equal
    assert found.is_within
    assert (found.absolute, found.relative, found.ulp) == (None, None, None)
    assert not found.row_errors.any()
    assert found.good_rows.all()


def test_an_error_is_found_where_it_is_whatever_block_it_is_in() -> None:
    for row, column in ((0, 0), (255, 511), (256, 0), (599, 511), (400, 77)):
        yours = EXACT.copy()
        yours[row, column] += 0.125

        found = compared(yours, EXACT)

        assert found.absolute is not None
        assert found.absolute.place == (row, column)
        assert abs(found.absolute.error - 0.125) < 1e-6
        assert found.first_beyond == found.absolute
        assert np.flatnonzero(found.row_errors).tolist() == [row]
        assert np.flatnonzero(found.column_errors).tolist() == [column]
        assert np.flatnonzero(~found.good_rows).tolist() == [row]


def test_a_few_ulp_are_within_the_tolerance_and_more_are_not() -> None:
    for ulps, is_within in ((1, True), (4, True), (5, False)):
        found = compared(EXACT + np.float32(ulps * ULP), EXACT)

        assert found.is_within == is_within
        assert not found.is_equal
        assert found.ulp is not None
        assert abs(found.ulp.error - ulps) <= 0.5


def test_each_measure_has_its_own_place() -> None:
    theirs = np.array([[1.0, 1e-3, 0.0, 1000.0]])
    yours = theirs + np.array([[0.01, 0.005, 0.02, 0.1]])

    found = compared(yours, theirs, FLOAT64)

    assert found.absolute is not None
    assert found.relative is not None
    assert found.ulp is not None
    assert found.absolute.place == (0, 3)
    assert found.relative.place == (0, 1)
    assert found.relative.error == pytest.approx(5.0)
    assert found.ulp.place == (0, 2)


def test_nan_equals_nothing_and_infinities_of_a_sign_are_equal() -> None:
    yours = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0, np.nan])
    theirs = np.array([np.nan, np.inf, -np.inf, -np.inf, np.inf, 0.0])

    assert absolute_errors(yours, theirs).tolist() == [np.inf, 0, 0, np.inf, np.inf, np.inf]


def test_the_first_place_that_is_not_finite_is_named_and_no_largest_error() -> None:
    yours = EXACT.copy()
    yours[300, 5], yours[400, 6] = np.nan, np.inf
    yours[500, 7] += 0.25

    found = compared(yours, EXACT)

    assert found.first_not_finite is not None
    assert found.absolute is not None
    assert found.first_not_finite.place == (300, 5)
    assert found.absolute.place == (500, 7)
    assert np.flatnonzero(~found.good_rows).tolist() == [300, 400, 500]
    assert found.row_errors[300] == np.inf


def test_a_zero_of_the_other_sign_is_equal() -> None:
    found = compared(np.array([-0.0]), np.array([0.0]), FLOAT64)

    assert found.is_equal
    assert not found.has_equal_signs
    assert compared(EXACT, EXACT).has_equal_signs


def test_integers_are_equal_or_beyond_the_tolerance() -> None:
    theirs = np.arange(12).reshape(3, 4)
    yours = theirs.copy()
    yours[2, 1] += 1

    found = compared(yours, theirs, INT64)

    assert found.first_beyond is not None
    assert (found.first_beyond.place, found.ulp) == ((2, 1), None)


def test_huge_numbers_have_errors_that_are_numbers() -> None:
    found = compared(np.array([1e308, 1.0]), np.array([-1e308, 5e-324]), FLOAT64)

    assert found.first_not_finite is not None
    assert found.relative is not None
    assert np.isfinite(found.relative.error)


def test_the_better_of_two_orders_of_axes_has_fewer_numbers_astray() -> None:
    square = EXACT[:512]
    turned = StoredTable(np.ascontiguousarray(square.T), FLOAT32)
    own, other = (
        Overlay(turned, StoredTable(square, FLOAT32), way)
        for way in alignments((512, 512), (512, 512))
    )
    tolerance = Tolerance(None, None, FLOAT32, 1.0)

    assert misfit(other, tolerance) == (0, 0.0)
    assert misfit(own, tolerance) > (1000, 100.0)


def test_what_is_not_finite_is_astray_and_adds_no_error() -> None:
    yours = np.full((64, 64), np.finfo(np.float64).max)
    yours[:32] = np.nan
    overlay = Overlay(
        StoredTable(yours, FLOAT64),
        StoredTable(-np.abs(yours), FLOAT64),
        alignments((64, 64), (64, 64))[0],
    )

    count, total = misfit(overlay, Tolerance(None, None, FLOAT64))

    assert count == 64 * 64
    assert np.isfinite(total)


def test_the_scale_is_that_of_the_numbers_and_no_more_than_1() -> None:
    for factor, expected in ((1e-3, 1e-3), (1.0, 1.0), (50.0, 1.0)):
        table = StoredTable(EXACT * factor, FLOAT64)
        over = Overlay(table, table, alignments(EXACT.shape, EXACT.shape)[0])
        assert scale_of(over) == pytest.approx(expected, rel=0.01)
