"""Compare an array with a table, element by element, in bounded memory.

``alignments`` pairs the axes of the array with the axes of the table. An ``Overlay`` reads both
block by block as float64. ``compare`` finds the largest errors, the first error beyond a tolerance,
and the largest error of each row and of each column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import COMPONENT_DTYPES, float64_numbers
from service.analysis.precision import round_array, spacing
from service.errors import Fault, InvalidBody, InvalidParameters
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX_DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INDEX_DTYPES,
    REAL_DTYPES,
    DType,
    Elements,
)
from service.numerics.phase import Float64s
from service.numerics.setups import setup_of
from service.numerics.tables import STEP_ELEMENTS, StoredTable, Table

Shape = tuple[int, ...]
Bools = NDArray[np.bool_]

# Axes of equal length may be paired in any order: four such axes have 24 orders.
_MOST_ALIGNMENTS = 24


@dataclass(frozen=True)
class Alignment:
    """A pairing of the axes of an array with the axes of a table.

    Attributes:
        shape: the shape of the array.
        table_shape: the shape of the table.
        axes: for each axis of the table, the paired axis of the array; None if the array has no
            such axis, as if it had length 1.
        prefix: the axis of the table along which the array or the table is shorter, or None.
        longer: the axis of the array that the table does not have, or None; only its index 0 is
            compared.
    """

    shape: Shape
    table_shape: Shape
    axes: tuple[int | None, ...]
    prefix: int | None = None
    longer: int | None = None

    @property
    def region(self) -> Shape:
        """For each axis of the table, the length of the part that is compared."""
        lengths = [1 if axis is None else self.shape[axis] for axis in self.axes]
        return tuple(map(min, lengths, self.table_shape))

    @property
    def is_reordered(self) -> bool:
        """True if the axes of the array are in another order than the table's."""
        order = [axis for axis in self.axes if axis is not None and self.shape[axis] > 1]
        return order != sorted(order)

    @property
    def is_squeezed(self) -> bool:
        """True if array and table differ in their axes of length 1."""
        if len(self.shape) != len(self.table_shape):
            return 1 in {*self.shape, *self.table_shape}
        return self.shape != self.table_shape and self.is_whole and not self.is_reordered

    @property
    def is_whole(self) -> bool:
        """True if every element of the array and of the table is compared."""
        return self.prefix is None and self.longer is None

    def pairs_names(self, own: Sequence[str], others: Sequence[str]) -> bool:
        """Return True if no axis is paired with one of another name while its own name is there."""
        return all(
            own[axis] == others[other] or not (own[axis] in others or others[other] in own)
            for other, axis in enumerate(self.axes)
            if axis is not None and self.shape[axis] > 1
        )

    def index(self, table_index: Shape) -> Shape:
        """Return the index in the array of the element with a given index in the table."""
        index = [0] * len(self.shape)
        for axis, along in zip(self.axes, table_index, strict=True):
            if axis is not None:
                index[axis] = along
        return tuple(index)


def alignments(shape: Shape, table_shape: Shape) -> tuple[Alignment, ...]:
    """Return the possible alignments of an array with a table; empty if their shapes allow none.

    Axes of length 1 may be anywhere, other axes may be in any order, and the array or the table may
    be shorter along one axis. If there are alignments of all elements, only these are returned. The
    axis order of the table comes first.
    """
    found = tuple(islice(_alignments(shape, table_shape), _MOST_ALIGNMENTS))
    return tuple(each for each in found if each.is_whole) or found


def _alignments(shape: Shape, table_shape: Shape) -> Iterator[Alignment]:
    own = [axis for axis, length in enumerate(shape) if length > 1]
    others = [axis for axis, length in enumerate(table_shape) if length > 1]
    if len(own) == len(others):
        yield from _of_equal_rank(shape, table_shape, own, others)
    elif len(own) == len(others) - 1:
        for prefix in others:
            rest = [axis for axis in others if axis != prefix]
            for each in _of_equal_rank(shape, table_shape, own, rest):
                if each.is_whole:
                    yield replace(each, prefix=prefix)
    elif len(own) == len(others) + 1:
        for longer in own:
            rest = [axis for axis in own if axis != longer]
            for each in _of_equal_rank(shape, table_shape, rest, others):
                if each.is_whole:
                    yield replace(each, longer=longer)


def _of_equal_rank(
    shape: Shape, table_shape: Shape, own: list[int], others: list[int]
) -> Iterator[Alignment]:
    """Yield alignments that pair as many axes of the array as of the table.

    Alignments with equal lengths come first, then those in which one pair of lengths differs.

    Args:
        shape: the shape of the array.
        table_shape: the shape of the table.
        own: the axes of the array to pair.
        others: the axes of the table to pair, as many.
    """
    partial: list[Alignment] = []
    for order in permutations(own):
        axis_of = dict(zip(others, order, strict=True))
        unequal = [other for other, axis in axis_of.items() if shape[axis] != table_shape[other]]
        axes = tuple(map(axis_of.get, range(len(table_shape))))
        if not unequal:
            yield Alignment(shape, table_shape, axes)
        elif len(unequal) == 1:
            partial.append(Alignment(shape, table_shape, axes, unequal[0]))
        if len(partial) >= _MOST_ALIGNMENTS:
            break
    yield from partial


ULPS = 4
"""The default tolerance in ulps: sines and powers of engines are within 2, rounding adds 1/2."""


def narrower(dtype: DType, other: DType) -> DType | None:
    """Return the real dtype of lower precision of two dtypes; None if both are integers.

    A complex dtype counts as the dtype of its real part. An integer dtype is ignored.
    """
    kinds = {COMPONENT_DTYPES.get(each, each) for each in (dtype, other)}
    return next((each for each in (BFLOAT16, FLOAT16, FLOAT32, FLOAT64) if each in kinds), None)


@dataclass(frozen=True)
class Tolerance:
    """The tolerance for the difference between an element of the array and of the table.

    If atol and rtol are None, the tolerance is ``ULPS`` ulps, or 0 for integers.

    Attributes:
        atol: the absolute tolerance, or None.
        rtol: the tolerance relative to the table's element, or None.
        dtype: the dtype of the ulps; None for integers.
        floor: the ulp of an element smaller than this is the ulp of this: a sine near 0 is computed
            from larger numbers.
    """

    atol: float | None
    rtol: float | None
    dtype: DType | None
    floor: float = 0.0

    @property
    def is_in_ulps(self) -> bool:
        return self.atol is None and self.rtol is None and self.dtype is not None

    def allowed(self, exact: Float64s) -> Float64s:
        """Return the largest error that is allowed for each element.

        ``exact`` has the table's elements, in any shape.
        """
        if self.is_in_ulps:
            return ULPS * self.ulp(exact)
        sizes = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        with np.errstate(over="ignore"):
            return (self.atol or 0.0) + (self.rtol or 0.0) * sizes

    def is_exceeded(self, error: Float64s, exact: Float64s) -> Bools:
        """Return a mask, True for errors above the tolerance; infinite errors always are."""
        exceeded: Bools = (error > self.allowed(exact)) | np.isinf(error)
        return exceeded

    def ulp(self, exact: Float64s) -> Float64s:
        """Return the ulp of each table element in the tolerance's dtype, which must not be None."""
        assert self.dtype is not None
        return spacing(np.maximum(np.abs(exact), self.floor), self.dtype)


@dataclass(frozen=True)
class ElementError:
    """An element of the array that differs from the table's.

    Attributes:
        index: the index in the table; for complex elements with a last index of 0 for the real and
            1 for the imaginary part.
        error: the error, absolute, relative or in ulps.
        value: the element of the array.
        expected: the element of the table.
    """

    index: Shape
    error: float
    value: float
    expected: float


@dataclass(frozen=True, eq=False)
class ErrorBlock:
    """A block of a table, and the aligned block of the array.

    Attributes:
        origin: the index in the table of the block's first element.
        values: the array's elements, with the axes of the table.
        expected: the table's elements, in the same shape.
    """

    origin: Shape
    values: Float64s
    expected: Float64s

    def element(self, flat: int, error: Float64s) -> ElementError:
        """Return the element with a flat index in the block, and its error from ``error``."""
        inside = np.unravel_index(flat, self.values.shape)
        index = tuple(int(along) + first for along, first in zip(inside, self.origin, strict=True))
        numbers = (float(each[inside]) for each in (error, self.values, self.expected))
        return ElementError(index, *numbers)

    def largest(self, error: Float64s, earlier: ElementError | None) -> ElementError | None:
        """Return the element with the largest error in this and in all earlier blocks.

        Args:
            error: the error of each element of the block, not NaN.
            earlier: the element with the largest error in earlier blocks; None if all are 0.
        """
        flat = int(error.argmax())
        is_larger = error.reshape(-1)[flat] > (earlier.error if earlier else 0.0)
        return self.element(flat, error) if is_larger else earlier


# The count and the length of the sampled runs of elements. From them axis orders are ranked, and
# the largest element is estimated.
_RUNS, _RUN_ELEMENTS = 64, 64
# The multiples of the golden ratio modulo 1 are evenly spread, for any number of columns.
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False)
class Overlay:
    """An array and the table it is aligned with; both are complex or both real."""

    array: StoredTable
    table: Table
    alignment: Alignment

    @property
    def seconds(self) -> float:
        """The processor seconds of computing the compared part of the table.

        Whole rows of the table are computed, unless a row is longer than a block.
        """
        axis, step = self._block_cut
        shape, region = self.alignment.table_shape, self.alignment.region
        blocks = prod(region[:axis]) * -(-region[axis] // step)
        elements = min(step, region[axis]) * prod(shape[axis + 1 :])
        if shape[-1] <= STEP_ELEMENTS:
            elements = max(elements, shape[-1])
        return blocks * elements * self.table.element_seconds + setup_of(self.table).seconds

    def blocks(self) -> Iterator[ErrorBlock]:
        """Yield blocks of bounded size of the array and the table, in the table's C order."""
        axis, step = self._block_cut
        region = self.alignment.region
        aligned = self._aligned_array()
        for outer in product(*map(range, region[:axis])):
            for first in range(0, region[axis], step):
                last = min(first + step, region[axis])
                cut = (*(slice(i, i + 1) for i in outer), slice(first, last))
                values = float64_numbers(aligned[cut], self.array.dtype)
                origin = (*outer, first, *(0 for _ in range(values.ndim - axis - 1)))
                yield ErrorBlock(origin, values, self._read(outer, first, last))

    def sample(self) -> Iterator[tuple[Float64s, Float64s]]:
        """Yield (array elements, table elements) of short runs, evenly spread over the table."""
        region, shape = self.alignment.region, self.alignment.table_shape
        aligned = self._aligned_array()
        count = prod(region)
        for run in range(_RUNS):
            flat = int(count * (run * _GOLDEN % 1))
            *outer, near = (int(along) for along in np.unravel_index(flat, region))
            first = max(0, min(near, region[-1] - _RUN_ELEMENTS))
            last = min(first + _RUN_ELEMENTS, region[-1])
            start = _flat_index((*outer, first), shape)
            expected = self.table.read(start, start + last - first)
            values = aligned[tuple(outer)][first:last]
            yield (
                float64_numbers(values, self.array.dtype),
                float64_numbers(expected, self.table.dtype),
            )

    @property
    def _block_cut(self) -> tuple[int, int]:
        """The axis along which blocks are cut, and their length; later axes are not cut."""
        shape = self.alignment.table_shape
        axis = len(shape) - 1
        while axis > 0 and prod(shape[axis:]) <= STEP_ELEMENTS:
            axis -= 1
        return axis, max(1, STEP_ELEMENTS // prod(shape[axis + 1 :]))

    def _aligned_array(self) -> Elements:
        """Return a view of the compared part of the array, with its axes in the order of the table.

        Axes that only the table has are inserted with length 1.
        """
        axes, shape = self.alignment.axes, self.alignment.shape
        used = [axis for axis in axes if axis is not None]
        rest = [axis for axis in range(len(shape)) if axis not in used]
        first = self.array.elements.transpose(*rest, *used)[(0,) * len(rest)]
        missing = tuple(i for i, axis in enumerate(axes) if axis is None)
        return np.expand_dims(first, missing)[tuple(map(slice, self.alignment.region))]

    def _read(self, outer: Shape, first: int, last: int) -> Float64s:
        shape, region = self.alignment.table_shape, self.alignment.region
        inner = shape[len(outer) + 1 :]
        start = _flat_index((*outer, first, *(0 for _ in inner)), shape)
        read = self.table.read(start, start + (last - first) * prod(inner))
        block = read.reshape((*(1 for _ in outer), last - first, *inner))
        cut: tuple[Any, ...] = (..., *map(slice, region[len(outer) + 1 :]))
        return float64_numbers(block[cut], self.table.dtype)


def _flat_index(index: Shape, shape: Shape) -> int:
    """Return the C-order index of an element as a Python integer; it may exceed int64."""
    flat = 0
    for along, length in zip(index, shape, strict=True):
        flat = flat * length + along
    return flat


_LARGEST = float(np.finfo(np.float64).max)
# Errors are capped here, so that the sum of all sampled errors is finite.
_LARGEST_ERROR = 2.0**960


@dataclass(eq=False)
class Comparison:
    """The differences between an array and the table it is aligned with.

    Attributes:
        tolerance: the tolerance for each element.
        rows: the axis of the table whose indices are rows.
        columns: the axis of the table whose indices are columns; None if there is none.
        row_errors: the largest absolute error of each row, (rows,).
        column_errors: the largest absolute error of each column, (columns,).
        good_rows: a mask of the rows with all elements within the tolerance, (rows,).
        is_equal: whether all elements are equal; NaN equals nothing.
        has_equal_signs: whether the signs of all elements are equal too, also of 0 and -0, in the
            blocks without differences.
        absolute, relative, ulp: the element with the largest error by each measure, among finite
            errors; None if there is none. The relative error is undefined for table elements of 0;
            ulps are those of the tolerance's dtype.
        first_beyond: the first element, in the table's order, that exceeds the tolerance.
        first_not_finite: the first unequal element that is NaN or infinite in the array or the
            table.
    """

    tolerance: Tolerance
    rows: int
    columns: int | None
    row_errors: Float64s
    column_errors: Float64s
    good_rows: Bools
    is_equal: bool = True
    has_equal_signs: bool = True
    absolute: ElementError | None = None
    relative: ElementError | None = None
    ulp: ElementError | None = None
    first_beyond: ElementError | None = None
    first_not_finite: ElementError | None = None

    @property
    def is_within(self) -> bool:
        """True if all elements are within the tolerance."""
        return self.first_beyond is None

    def add(self, block: ErrorBlock) -> None:
        """Add the differences of the next block; blocks come in the table's order."""
        error = absolute_errors(block.values, block.expected)
        if not error.any():
            self.has_equal_signs &= np.array_equal(
                np.signbit(block.values), np.signbit(block.expected)
            )
            return
        self.is_equal = False
        beyond = self.tolerance.is_exceeded(error, block.expected)
        self._add_to_axes(block, error, beyond)
        if self.first_beyond is None and beyond.any():
            self.first_beyond = block.element(int(beyond.argmax()), error)
        finite = np.isfinite(error)
        if not finite.all():
            if self.first_not_finite is None:
                self.first_not_finite = block.element(int((~finite).argmax()), error)
            error = np.where(finite, error, 0.0)
        self.absolute = block.largest(error, self.absolute)
        is_sized = np.isfinite(block.expected) & (block.expected != 0)
        sizes = np.where(is_sized, np.abs(block.expected), np.inf)
        self.relative = block.largest(_ratio(error, sizes), self.relative)
        if self.tolerance.dtype is not None:
            self.ulp = block.largest(_ratio(error, self.tolerance.ulp(block.expected)), self.ulp)

    def _add_to_axes(self, block: ErrorBlock, error: Float64s, beyond: Bools) -> None:
        for axis, errors in ((self.rows, self.row_errors), (self.columns, self.column_errors)):
            if axis is not None:
                others = tuple(other for other in range(error.ndim) if other != axis)
                part = slice(block.origin[axis], block.origin[axis] + error.shape[axis])
                np.maximum(errors[part], error.max(axis=others), out=errors[part])
                if axis == self.rows:
                    self.good_rows[part] &= ~beyond.any(axis=others)


def compare(overlay: Overlay, tolerance: Tolerance, rows: int, columns: int | None) -> Comparison:
    """Return the differences between an array and the table it is aligned with.

    Args:
        overlay: the array and the table.
        tolerance: the tolerance for each element.
        rows: the axis of the table whose indices are rows.
        columns: the axis of the table whose indices are columns, or None.
    """
    region = overlay.alignment.region
    column_errors = np.zeros(0 if columns is None else region[columns])
    good_rows = np.ones(region[rows], dtype=np.bool_)
    row_errors = np.zeros(region[rows])
    comparison = Comparison(tolerance, rows, columns, row_errors, column_errors, good_rows)
    for block in overlay.blocks():
        comparison.add(block)
    return comparison


def absolute_errors(values: Float64s, expected: Float64s) -> Float64s:
    """Return |values - expected| per element: 0 for equal infinities, infinity if one is NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        errors: Float64s = np.abs(values - expected)
    return np.where(np.isnan(errors), np.where(values == expected, 0.0, np.inf), errors)


def scale_of(overlay: Overlay) -> float:
    """Return the largest absolute value of the table's sampled elements, or 1 if it is larger."""
    sizes = [
        np.abs(expected[np.isfinite(expected)]).max(initial=0.0) for _, expected in overlay.sample()
    ]
    return min(1.0, float(max(sizes)))


def misfit(overlay: Overlay, tolerance: Tolerance) -> tuple[int, float]:
    """Return how many sampled elements exceed a tolerance, and the sum of all finite errors."""
    count, total = 0, 0.0
    for values, expected in overlay.sample():
        errors = absolute_errors(values, expected)
        count += int(tolerance.is_exceeded(errors, expected).sum())
        finite = errors[np.isfinite(errors)]
        total += float(np.minimum(finite, _LARGEST_ERROR).sum())
    return count, total


def _ratio(error: Float64s, unit: Float64s) -> Float64s:
    """Return error / unit, with overflows limited to the largest finite float64."""
    with np.errstate(over="ignore"):
        return np.minimum(error / unit, _LARGEST)


MAX_SECONDS = 4.0
"""The most processor seconds of computing the table of a comparison."""

# Vectors with these axes, such as slopes and frequencies, have elements of very different sizes.
# Each is computed with a small relative error, so that the tolerance has no floor.
_AXES_OF_MANY_SIZES = {(), ("head",)}


def rounded_to(array: StoredTable, dtype: DType) -> StoredTable:
    """Round the elements of a float64 array to a real dtype; return other arrays unchanged."""
    if array.dtype is not FLOAT64 or dtype.name not in REAL_DTYPES:
        return array
    return round_array(array.elements, dtype)


def best_overlay(
    array: StoredTable,
    table: Table,
    axes: tuple[str, ...],
    tolerances: tuple[float | None, float | None],
    own_axes: tuple[str, ...] = (),
) -> tuple[Overlay, Tolerance]:
    """Align an array with a table in the axis order that fits best, and return the tolerance.

    Axes are paired by their names if both have names. The first order is taken unless another has
    less than half its misfit: smaller differences are chance if the array fits in no order.

    Args:
        array: the array.
        table: the table.
        axes: the names of the table's axes.
        tolerances: atol and rtol; None where the request has none.
        own_axes: the names of the array's axes, if they have any.

    Raises:
        InvalidBody: no order of axes aligns the shapes, or only one of the two is complex.
        InvalidParameters: the table takes more than ``MAX_SECONDS`` to compute.
    """
    if (array.dtype in COMPLEX_DTYPES) != (table.dtype in COMPLEX_DTYPES):
        raise InvalidBody(
            f"the array is {array.dtype.name} and the table {table.dtype.name}: "
            "pack=complex in to names complex numbers, pack=pair their parts"
        )
    ways = alignments(array.shape, table.shape or (1,))
    rule = "shapes may differ by axes of length 1, by the order of axes, or along one axis"
    if (len(own_axes), len(axes)) == (len(array.shape), len(table.shape)):
        own, others = ([each.partition("(")[0] for each in names] for names in (own_axes, axes))
        ways = tuple(each for each in ways if each.pairs_names(own, others))[:1]
        rule += ", and axes of the same name are paired"
    if not ways:
        shapes = f"the array has the shape {array.shape}, and the table {table.shape}"
        raise InvalidBody(f"{shapes}: {rule}")
    overlays = [Overlay(array, table, each) for each in ways]
    seconds = overlays[0].seconds
    if seconds > MAX_SECONDS:
        rule = f"to names a table that is too large to compare: it takes {seconds:.0f} seconds"
        most = f"of a processor, and at most {MAX_SECONDS:.0f} are possible"
        raise InvalidParameters(Fault("to", None, f"{rule} {most}"))
    dtype = None if table.dtype.name in INDEX_DTYPES else narrower(array.dtype, table.dtype)
    has_many_sizes = dtype is None or axes in _AXES_OF_MANY_SIZES
    tolerance = Tolerance(*tolerances, dtype, 0.0 if has_many_sizes else scale_of(overlays[0]))
    if len(overlays) == 1:
        return overlays[0], tolerance
    misfits = [misfit(each, tolerance) for each in overlays]
    least = min(misfits)
    is_better = any(2 * best < first for best, first in zip(least, misfits[0], strict=True))
    return overlays[misfits.index(least) if is_better else 0], tolerance
