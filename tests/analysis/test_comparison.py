"""Arrays are aligned with tables and compared element by element."""

from math import prod

import numpy as np
import pytest

from service.analysis.comparison import (
    MAX_SECONDS,
    ULPS,
    Comparison,
    ElementError,
    ErrorBlock,
    Overlay,
    Tolerance,
    absolute_errors,
    alignments,
    compare,
    misfit,
    narrower,
    scale_of,
)
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    Elements,
)
from service.numerics.tables import ELEMENT_SECONDS, STEP_ELEMENTS, StoredTable, Table
from service.routes.table_urls import read_url


@pytest.mark.parametrize(
    ("shape", "table_shape", "region", "index"),
    [
        ((4, 6), (4, 6), (4, 6), (3, 5)),
        ((1, 4, 1, 6), (4, 6), (4, 6), (0, 3, 0, 5)),
        ((6, 4), (4, 6), (4, 6), (5, 3)),
        ((4, 6), (1, 1, 4, 6), (1, 1, 4, 6), (3, 5)),
    ],
)
def test_array_with_all_elements_of_a_table_has_one_alignment(
    shape: tuple[int, ...], table_shape: tuple[int, ...], region: object, index: object
) -> None:
    (way,) = alignments(shape, table_shape)

    last = (*(length - 1 for length in table_shape),)
    assert (way.is_whole, way.region, way.index(last)) == (True, region, index)
    assert way.is_squeezed == (len(shape) != len(table_shape))
    assert way.is_reordered == (shape == (6, 4))


def test_square_has_two_alignments_the_same_order_first() -> None:
    first, second = alignments((4, 4), (4, 4))

    assert (first.is_reordered, second.is_reordered) == (False, True)


@pytest.mark.parametrize(
    ("shape", "table_shape", "prefix", "region"),
    [
        ((4, 6), (1, 6), None, (1, 6)),
        ((3, 6), (4, 6), 0, (3, 6)),
        ((5, 6), (4, 6), 0, (4, 6)),
        ((4, 2), (4, 6), 1, (4, 2)),
        ((6, 3), (4, 6), 0, (3, 6)),
        ((1, 6), (4, 6), 0, (1, 6)),
        ((6,), (4, 6), 0, (1, 6)),
        ((3,), (2**62,), 0, (3,)),
        ((2, 4, 6), (2, 4, 9), 2, (2, 4, 6)),
    ],
)
def test_array_and_table_may_differ_in_the_length_of_one_axis(
    shape: tuple[int, ...],
    table_shape: tuple[int, ...],
    prefix: int | None,
    region: tuple[int, ...],
) -> None:
    way = alignments(shape, table_shape)[0]

    assert (way.prefix, way.region, way.is_whole) == (prefix, region, False)
    assert way.longer == (0 if prefix is None else None)


@pytest.mark.parametrize(
    ("shape", "table_shape"),
    [((3, 5), (4, 6)), ((24,), (4, 6)), ((4, 6, 2), (4, 6, 2, 2, 2)), ((2, 3), (4, 5, 6))],
)
def test_incompatible_shapes_have_no_alignment(
    shape: tuple[int, ...], table_shape: tuple[int, ...]
) -> None:
    assert alignments(shape, table_shape) == ()


def test_number_of_alignments_is_bounded() -> None:
    assert 1 < len(alignments((2,) * 8, (2,) * 8)) <= 24


ULP = 2.0**-23
RNG = np.random.default_rng(7)
EXACT = RNG.uniform(0.5, 1, (600, 512)).astype("<f4")


def overlay(array: Elements, table: Table | Elements, dtype: DType = FLOAT64) -> Overlay:
    other = StoredTable(table, dtype) if isinstance(table, np.ndarray) else table
    way = alignments(array.shape, other.shape)[0]
    return Overlay(StoredTable(array, dtype), other, way)


def compared(values: Elements, expected: Elements, dtype: DType = FLOAT32) -> Comparison:
    tolerance = Tolerance(None, None, None if dtype is INT64 else FLOAT32, 1.0)
    return compare(overlay(values, expected, dtype), tolerance, 0, 1 if expected.ndim > 1 else None)


def indices(*errors: ElementError | None) -> list[tuple[int, ...] | None]:
    return [None if error is None else error.index for error in errors]


def test_equal_arrays_have_no_errors() -> None:
    found = compared(EXACT, EXACT)

    assert (found.is_equal, found.is_within, found.has_equal_signs) == (True, True, True)
    assert (found.absolute, found.relative, found.ulp) == (None, None, None)
    assert not found.row_errors.any()
    assert found.good_rows.all()


@pytest.mark.parametrize("index", [(0, 0), (255, 511), (256, 0), (599, 511), (400, 77)])
def test_error_is_located_in_any_block(index: tuple[int, int]) -> None:
    values = EXACT.copy()
    values[index] += 0.125

    found = compared(values, EXACT)

    assert found.absolute is not None
    assert found.absolute.index == index
    assert found.absolute.error == pytest.approx(0.125, abs=1e-6)
    assert found.first_beyond == found.absolute
    assert np.flatnonzero(found.row_errors).tolist() == [index[0]]
    assert np.flatnonzero(found.column_errors).tolist() == [index[1]]
    assert np.flatnonzero(~found.good_rows).tolist() == [index[0]]


@pytest.mark.parametrize(("ulps", "is_within"), [(1, True), (4, True), (5, False)])
def test_usual_tolerance_is_four_ulps(ulps: int, *, is_within: bool) -> None:
    found = compared(EXACT + np.float32(ulps * ULP), EXACT)

    assert (found.is_within, found.is_equal) == (is_within, False)
    assert found.ulp is not None
    assert abs(found.ulp.error - ulps) <= 0.5


def test_largest_absolute_relative_and_ulp_errors_are_located_separately() -> None:
    expected = np.array([[1.0, 1e-3, 0.0, 1000.0]])
    values = expected + np.array([[0.01, 0.005, 0.02, 0.1]])

    found = compared(values, expected, FLOAT64)

    assert indices(found.absolute, found.relative, found.ulp) == [(0, 3), (0, 1), (0, 2)]
    assert found.relative is not None
    assert found.relative.error == pytest.approx(5.0)


def test_nan_equals_nothing_and_infinities_of_one_sign_are_equal() -> None:
    values = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0, np.nan])
    expected = np.array([np.nan, np.inf, -np.inf, -np.inf, np.inf, 0.0])

    assert absolute_errors(values, expected).tolist() == [np.inf, 0, 0, np.inf, np.inf, np.inf]


def test_infinite_errors_are_located_but_not_the_largest() -> None:
    values = EXACT.copy()
    values[300, 5], values[400, 6] = np.nan, np.inf
    values[500, 7] += 0.25

    found = compared(values, EXACT)

    assert indices(found.first_not_finite, found.absolute) == [(300, 5), (500, 7)]
    assert np.flatnonzero(~found.good_rows).tolist() == [300, 400, 500]
    assert found.row_errors[300] == np.inf


def test_negative_zero_equals_zero_but_its_sign_differs() -> None:
    found = compared(np.array([-0.0]), np.array([0.0]), FLOAT64)

    assert (found.is_equal, found.has_equal_signs) == (True, False)


def test_unequal_integers_are_beyond_the_tolerance() -> None:
    found = compared(np.array([4, 6]), np.array([4, 5]), INT64)

    assert indices(found.first_beyond, found.ulp) == [(1,), None]


def test_relative_error_of_huge_numbers_is_finite() -> None:
    found = compared(np.array([1e308, 1.0]), np.array([-1e308, 5e-324]), FLOAT64)

    assert found.first_not_finite is not None
    assert found.relative is not None
    assert np.isfinite(found.relative.error)


def test_misfit_of_the_right_axis_order_is_zero() -> None:
    table = StoredTable(EXACT[:512], FLOAT32)
    transposed = StoredTable(np.ascontiguousarray(table.elements.T), FLOAT32)
    ways = alignments((512, 512), (512, 512))

    same_order, other_order = (
        misfit(Overlay(transposed, table, way), Tolerance(None, None, FLOAT32, 1.0)) for way in ways
    )

    assert other_order == (0, 0.0)
    assert same_order > (1000, 100.0)


def test_misfit_counts_infinite_errors_and_sums_finite_ones() -> None:
    values = np.full((64, 64), np.finfo(np.float64).max)
    values[:32] = np.nan

    count, total = misfit(overlay(values, -np.abs(values)), Tolerance(None, None, FLOAT64))

    assert count == 64 * 64
    assert np.isfinite(total)


@pytest.mark.parametrize(("factor", "expected"), [(1e-3, 1e-3), (1.0, 1.0), (50.0, 1.0)])
def test_scale_is_the_size_of_the_numbers_and_at_most_1(factor: float, expected: float) -> None:
    assert scale_of(overlay(EXACT * factor, EXACT * factor)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("shape", "order", "cut"),
    [
        ((3, 4), (0, 1), (3, 4)),
        ((600, 512), (0, 1), (600, 512)),
        ((600, 512), (1, 0), (512, 600)),
        ((3, 300, 301), (2, 0, 1), (301, 3, 300)),
        ((3, 300, 301), (0, 1, 2), (3, 300, 7)),
        ((2, STEP_ELEMENTS + 5), (0, 1), (2, STEP_ELEMENTS + 3)),
        ((3, 300, 301), (0, 1, 2), (3, 8, 301)),
        ((1, 300, 1, 512), (0, 1, 2, 3), (1, 40, 1, 512)),
    ],
)
def test_blocks_contain_every_element_once(
    shape: tuple[int, ...], order: tuple[int, ...], cut: tuple[int, ...]
) -> None:
    numbers = np.arange(float(prod(shape))).reshape(shape)
    array = np.ascontiguousarray(numbers.transpose(order)[tuple(map(slice, cut))])
    over = overlay(array, numbers)

    values, expected = np.full((2, *over.alignment.region), np.nan)
    for block in over.blocks():
        ends = zip(block.origin, block.values.shape, strict=True)
        part = tuple(slice(first, first + length) for first, length in ends)
        assert np.isnan(values[part]).all()
        values[part], expected[part] = block.values, block.expected

    assert np.array_equal(values, expected)
    assert values.size == array.size


def test_blocks_have_a_bounded_size() -> None:
    table = read_url("/encoding?seq_len=1000000000&d_model=512").document.arrays["encoding"]
    over = overlay(np.zeros((1000, 512)), table)

    sizes = {block.values.size for block in over.blocks()}

    assert sizes <= {STEP_ELEMENTS, 1000 * 512 % STEP_ELEMENTS}
    assert over.seconds < 2 * 1000 * 512 * ELEMENT_SECONDS + MAX_SECONDS / 500


def test_work_is_counted_in_whole_rows() -> None:
    table = read_url("/encoding?seq_len=10000000&d_model=4096").document.arrays["encoding"]

    assert overlay(np.zeros((1, 4096)), table).seconds < MAX_SECONDS / 100
    assert overlay(np.zeros((10_000_000, 1)), table).seconds > 10 * MAX_SECONDS


def test_work_of_a_very_long_row_is_its_compared_part() -> None:
    url = "/relative/alibi?num_heads=1&head=0&query_len=1&key_len=9000000000"

    bias = read_url(url).document.arrays["bias"]

    assert overlay(np.zeros((1, 10**6)), bias).seconds < 10**7 * ELEMENT_SECONDS


def test_complex_numbers_are_compared_by_component() -> None:
    table = read_url("/rope?head_dim=8&seq_len=4&pack=complex").document.arrays["rope"]
    elements = table.read(0, 16).reshape(4, 4)

    (block,) = overlay(elements, table, COMPLEX64).blocks()

    assert block.values.shape == (4, 4, 2)
    assert block.values[1, 0].tolist() == [elements[1, 0].real, elements[1, 0].imag]
    assert np.array_equal(block.values, block.expected)


@pytest.mark.parametrize("shape", [(5,), (64, 64), (4096, 512), (3, 1000, 2)])
def test_sample_has_the_same_elements_of_both_and_is_spread_over_all(
    shape: tuple[int, ...],
) -> None:
    numbers = np.arange(float(prod(shape))).reshape(shape)

    runs = list(overlay(numbers, numbers).sample())

    sampled = np.concatenate([expected for _, expected in runs])
    assert all(np.array_equal(values, expected) for values, expected in runs)
    assert sampled.max() >= 0.9 * (numbers.size - 1)
    assert len(np.unique(sampled)) >= min(numbers.size, 120) * 0.9


@pytest.mark.parametrize(
    ("dtype", "other", "expected"),
    [
        (FLOAT64, FLOAT32, FLOAT32),
        (FLOAT16, BFLOAT16, BFLOAT16),
        (COMPLEX64, COMPLEX128, FLOAT32),
        (COMPLEX128, COMPLEX128, FLOAT64),
        (INT64, FLOAT16, FLOAT16),
        (INT64, INT32, None),
    ],
)
def test_type_of_fewer_bits_is_narrower(dtype: DType, other: DType, expected: DType | None) -> None:
    assert narrower(dtype, other) is expected
    assert narrower(other, dtype) is expected


@pytest.mark.parametrize(
    ("tolerance", "allowed"),
    [
        (Tolerance(None, None, FLOAT32, 1.0), [ULPS * ULP, ULPS * ULP, ULPS * 2 * ULP]),
        (Tolerance(None, None, FLOAT32), [2.0**-147, ULP, ULPS * 2 * ULP]),
        (Tolerance(None, None, None), [0.0, 0.0, 0.0]),
        (Tolerance(0.0, None, FLOAT32), [0.0, 0.0, 0.0]),
        (Tolerance(0.5, None, FLOAT32), [0.5, 0.5, 0.5]),
        (Tolerance(None, 0.25, FLOAT32), [0.0, 0.0625, 0.75]),
        (Tolerance(0.5, 0.25, FLOAT32), [0.5, 0.5625, 1.25]),
    ],
)
def test_tolerance_is_given_or_some_ulps_no_smaller_than_at_the_floor(
    tolerance: Tolerance, allowed: list[float]
) -> None:
    assert tolerance.allowed(np.array([0.0, 0.25, -3.0])).tolist() == allowed


def test_infinite_error_always_exceeds_the_tolerance() -> None:
    exact = np.array([-np.inf, -np.inf, 1e308, 1.0])
    error = np.array([np.inf, 0.0, np.inf, 1.0])

    exceeded = Tolerance(1.0, 1e308, FLOAT32).is_exceeded(error, exact)

    assert exceeded.tolist() == [True, False, True, False]


def test_first_of_equal_largest_errors_is_kept() -> None:
    element = None
    for first, errors in ((0, [[0.0, 2.0]]), (1, [[1.0, 0.0]]), (2, [[2.0, 0.0]])):
        error = np.array(errors)
        element = ErrorBlock((first, 0), error + 1, np.ones((1, 2))).largest(error, element)

    assert element == ElementError((0, 1), 2.0, 3.0, 1.0)
    assert ErrorBlock((0,), np.ones(2), np.ones(2)).largest(np.zeros(2), None) is None
