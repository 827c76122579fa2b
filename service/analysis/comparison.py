"""Compare an array with a table, element by element, in bounded memory.

Alignments say which axis of the array belongs to which of the table. An ``Overlay`` reads both
block by block as float64, and ``compare`` finds the largest errors, the first beyond a tolerance,
and the errors along two axes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import COMPONENT_DTYPES
from service.analysis.precision import spacing
from service.errors import Fault, InvalidBody, InvalidParameters
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX_DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
    round_into,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import STEP_ELEMENTS, StoredTable, Table, setup_work

Shape = tuple[int, ...]
Bools = NDArray[np.bool_]

# Axes of one length may be in any order; four of them in 24.
_MOST_ALIGNMENTS = 24


@dataclass(frozen=True)
class Alignment:
    """The assignment of the axes of an array to those of a table.

    Attributes:
        shape: of the array.
        table_shape: of the table.
        axes: for each axis of the table that of the array, or None where the array has none: it
            counts as one of length 1.
        prefix: the axis of the table along which one of the two is shorter, or None.
        longer: the axis of the array of which only the first element is compared, because the table
            has no such axis, or None.
    """

    shape: Shape
    table_shape: Shape
    axes: tuple[int | None, ...]
    prefix: int | None = None
    longer: int | None = None

    @property
    def region(self) -> Shape:
        """The length of each axis of the table that is compared."""
        mine = [1 if axis is None else self.shape[axis] for axis in self.axes]
        return tuple(map(min, mine, self.table_shape))

    @property
    def is_reordered(self) -> bool:
        """Return whether axes are in another order than those of the table."""
        order = [axis for axis in self.axes if axis is not None and self.shape[axis] > 1]
        return order != sorted(order)

    @property
    def is_squeezed(self) -> bool:
        """Return whether the two have different axes of length 1."""
        if len(self.shape) != len(self.table_shape):
            return 1 in {*self.shape, *self.table_shape}
        return self.shape != self.table_shape and self.is_whole and not self.is_reordered

    @property
    def is_whole(self) -> bool:
        """Return whether every element of both is compared."""
        return self.prefix is None and self.longer is None

    def index(self, place: Shape) -> Shape:
        """Return the index in the array of a place in the table."""
        index = [0] * len(self.shape)
        for axis, along in zip(self.axes, place, strict=True):
            if axis is not None:
                index[axis] = along
        return tuple(index)


def alignments(shape: Shape, table_shape: Shape) -> tuple[Alignment, ...]:
    """List the alignments of an array and a table; none where their shapes do not allow any.

    Axes of length 1 may be anywhere, the others in any order, and along one axis either may be
    shorter. Alignments of all elements exclude others, and the order of the table comes first.
    """
    found = tuple(islice(_alignments(shape, table_shape), _MOST_ALIGNMENTS))
    whole = tuple(each for each in found if each.is_whole)
    return whole or found


def _alignments(shape: Shape, table_shape: Shape) -> Iterator[Alignment]:
    mine = [axis for axis, length in enumerate(shape) if length > 1]
    others = [axis for axis, length in enumerate(table_shape) if length > 1]
    if len(mine) == len(others):
        yield from _of_equal_rank(shape, table_shape, mine, others)
    elif len(mine) == len(others) - 1:
        for prefix in others:
            rest = [axis for axis in others if axis != prefix]
            for each in _of_equal_rank(shape, table_shape, mine, rest):
                if each.prefix is None:
                    yield Alignment(shape, table_shape, each.axes, prefix)
    elif len(mine) == len(others) + 1:
        for longer in mine:
            rest = [axis for axis in mine if axis != longer]
            for each in _of_equal_rank(shape, table_shape, rest, others):
                if each.prefix is None:
                    yield Alignment(shape, table_shape, each.axes, longer=longer)


def _of_equal_rank(
    shape: Shape, table_shape: Shape, mine: list[int], others: list[int]
) -> Iterator[Alignment]:
    """Pair axes of the array with as many of the table: those of equal lengths first."""
    partial = []
    for order in permutations(mine):
        pairs = list(zip(order, others, strict=True))
        unequal = [other for axis, other in pairs if shape[axis] != table_shape[other]]
        if len(unequal) > 1:
            continue
        axes: list[int | None] = [None] * len(table_shape)
        for axis, other in pairs:
            axes[other] = axis
        if unequal:
            partial.append(Alignment(shape, table_shape, tuple(axes), unequal[0]))
        else:
            yield Alignment(shape, table_shape, tuple(axes))
        if len(partial) >= _MOST_ALIGNMENTS:
            break
    yield from partial


ULPS = 4
"""The usual tolerance: rounding is half an ulp, and engines' sines and powers are up to 2 off."""

_NARROW_FIRST = (BFLOAT16, FLOAT16, FLOAT32, FLOAT64)


def narrower(dtype: DType, other: DType) -> DType | None:
    """Return the type of fewer bits of two, of their components where they are complex.

    Integers are exact: with a real type it is that type, and None if both are integers.
    """
    kinds = {COMPONENT_DTYPES.get(dtype, dtype), COMPONENT_DTYPES.get(other, other)}
    return next((known for known in _NARROW_FIRST if known in kinds), None)


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of the difference between a number and the one in the table.

    Attributes:
        atol: an absolute tolerance, where one was given.
        rtol: a relative one, where one was given.
        dtype: the type whose ulps count otherwise; None for integers, which have none.
        floor: numbers below this size have the ulp of it: sines near 0 are differences of larger
            numbers.
    """

    atol: float | None
    rtol: float | None
    dtype: DType | None
    floor: float = 0.0

    @property
    def is_given(self) -> bool:
        """Return whether it differs from the default tolerance."""
        return self.atol is not None or self.rtol is not None

    def allowed(self, exact: Float64s) -> Float64s:
        """Return the largest error of each number."""
        if self.is_given:
            sizes = np.where(np.isfinite(exact), np.abs(exact), 0.0)
            with np.errstate(over="ignore"):
                return (self.atol or 0.0) + (self.rtol or 0.0) * sizes
        return ULPS * self.ulp(exact)

    def is_exceeded(self, error: Float64s, exact: Float64s) -> Bools:
        """Return a mask of the errors that exceed the tolerance; infinite errors always do."""
        exceeded: Bools = (error > self.allowed(exact)) | np.isinf(error)
        return exceeded

    def ulp(self, exact: Float64s) -> Float64s:
        """Return the ulp of each number in the type; 0 where there is no type."""
        if self.dtype is None:
            return np.zeros_like(exact)
        return spacing(np.maximum(np.abs(exact), self.floor), self.dtype)


@dataclass(frozen=True)
class Spot:
    """A place where numbers differ.

    Attributes:
        place: its index in the table, and for complex numbers the component after it.
        error: by one measure.
        yours: the number that was sent.
        theirs: the number in the table.
    """

    place: Shape
    error: float
    yours: float
    theirs: float


@dataclass(frozen=True, eq=False)
class ErrorBlock:
    """A part of an array and of the table, aligned.

    Attributes:
        origin: the index in the table of its first element.
        yours: the numbers that were sent, with as many axes as the table.
        theirs: those of the table.
    """

    origin: Shape
    yours: Float64s
    theirs: Float64s

    def spot(self, flat: int, error: Float64s) -> Spot:
        """Describe an element, by its number in the order of the block, with its error."""
        inside = np.unravel_index(flat, self.yours.shape)
        place = tuple(int(along) + first for along, first in zip(inside, self.origin, strict=True))
        numbers = (float(each[inside]) for each in (error, self.yours, self.theirs))
        return Spot(place, *numbers)


# The number and the length of the runs of elements by which orders of axes, and the size of
# numbers, are judged.
_RUNS, _RUN_ELEMENTS = 64, 64
# Its multiples modulo 1 spread evenly, whatever the number of columns.
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False)
class Overlay:
    """An array aligned with a table.

    Attributes:
        array: that was sent.
        table: with which it is compared; complex if and only if the array is.
        alignment: of their axes.
    """

    array: StoredTable
    table: Table
    alignment: Alignment

    @property
    def work(self) -> int:
        """The cost of computing the part of the table that is compared, in sines.

        Tables are computed by whole rows, unless a row is so long that it is cut.
        """
        axis, step = _block_cut(self.alignment)
        shape, region = self.alignment.table_shape, self.alignment.region
        blocks = prod(region[:axis]) * -(-region[axis] // step)
        elements = min(step, region[axis]) * prod(shape[axis + 1 :])
        if shape[-1] <= STEP_ELEMENTS:
            elements = max(elements, shape[-1])
        return blocks * elements * self.table.work_per_element + setup_work(self.table)

    def blocks(self) -> Iterator[ErrorBlock]:
        """Yield both in blocks of bounded size, in the table's order."""
        axis, step = _block_cut(self.alignment)
        region = self.alignment.region
        aligned = self._aligned_array()
        for outer in product(*map(range, region[:axis])):
            at = tuple(slice(i, i + 1) for i in outer)
            for first in range(0, region[axis], step):
                last = min(first + step, region[axis])
                yours = _numbers(aligned[(*at, slice(first, last))], self.array.dtype)
                theirs = self._read(outer, first, last)
                origin = (*outer, first)
                yield ErrorBlock(origin + (0,) * (yours.ndim - len(origin)), yours, theirs)

    def sample(self) -> Iterator[tuple[Float64s, Float64s]]:
        """Yield numbers that were sent and those of the table, from places spread over all."""
        region, shape = self.alignment.region, self.alignment.table_shape
        aligned = self._aligned_array()
        count = prod(region)
        for run in range(_RUNS):
            flat = int(count * (run * _GOLDEN % 1))
            *outer, near = (int(along) for along in np.unravel_index(flat, region))
            first = max(0, min(near, region[-1] - _RUN_ELEMENTS))
            last = min(first + _RUN_ELEMENTS, region[-1])
            yours = aligned[tuple(outer)][first:last]
            start = _flat_index((*outer, first), shape)
            theirs = self.table.read(start, start + last - first)
            yield _numbers(yours, self.array.dtype), _numbers(theirs, self.table.dtype)

    def _aligned_array(self) -> Elements:
        """View the part of the array that is compared with the axes of the table."""
        alignment = self.alignment
        used = [axis for axis in alignment.axes if axis is not None]
        rest = [axis for axis in range(len(alignment.shape)) if axis not in used]
        first = self.array.elements.transpose(*rest, *used)[(0,) * len(rest)]
        missing = tuple(i for i, axis in enumerate(alignment.axes) if axis is None)
        return np.expand_dims(first, missing)[tuple(map(slice, alignment.region))]

    def _read(self, outer: Shape, first: int, last: int) -> Float64s:
        inner = self.alignment.table_shape[len(outer) + 1 :]
        kept = self.alignment.region[len(outer) + 1 :]
        start = _flat_index((*outer, first, *(0 for _ in inner)), self.alignment.table_shape)
        read = self.table.read(start, start + (last - first) * prod(inner))
        block = read.reshape((*(1 for _ in outer), last - first, *inner))
        cut: tuple[slice, ...] = (slice(None),) * (len(outer) + 1) + tuple(map(slice, kept))
        return _numbers(block[cut], self.table.dtype)


def _block_cut(alignment: Alignment) -> tuple[int, int]:
    """Return the axis along which blocks are cut, and their length: later axes are read whole."""
    shape = alignment.table_shape
    axis = len(shape) - 1
    while axis > 0 and prod(shape[axis:]) <= STEP_ELEMENTS:
        axis -= 1
    return axis, max(1, STEP_ELEMENTS // prod(shape[axis + 1 :]))


def _flat_index(place: Shape, shape: Shape) -> int:
    """Number an element in C order; tables may be longer than NumPy's integers."""
    flat = 0
    for along, length in zip(place, shape, strict=True):
        flat = flat * length + along
    return flat


def _numbers(elements: Elements, dtype: DType) -> Float64s:
    """Return numbers as float64; complex ones have a last axis of two, for their components.

    Integers in tables are far below 2^53, so that no other becomes equal to one of them.
    """
    if dtype in COMPLEX_DTYPES:
        return np.stack([elements.real, elements.imag], axis=-1).astype(np.float64)
    return elements.astype(np.float64) if dtype in {INT32, INT64} else to_float64(elements, dtype)


_LARGEST = float(np.finfo(np.float64).max)
# Sums of all sampled errors are finite.
_LARGEST_ERROR = 2.0**960


@dataclass(eq=False)
class Comparison:
    """The differences of an array and the table with which it is aligned.

    Attributes:
        tolerance: for numbers.
        rows: the axis of the table that counts rows.
        columns: another of its axes, or None where it has no other.
        row_errors: the largest absolute error by place along the axis of rows.
        column_errors: that along the other axis.
        good_rows: whether all numbers of a row are within the tolerance.
        is_equal: whether all numbers are equal; NaN equals nothing.
        has_equal_signs: whether all equal numbers have equal signs, of which zeros have two.
        absolute, relative, ulp: where each error is the largest, among finite numbers; numbers that
            are 0 in the table have no relative error, and ulps are those of the tolerance.
        first_beyond: the first number, in the table's order, that is beyond the tolerance.
        first_not_finite: the first place where one of two unequal numbers is NaN or infinite.
    """

    tolerance: Tolerance
    rows: int
    columns: int | None
    row_errors: Float64s
    column_errors: Float64s
    good_rows: Bools
    is_equal: bool = True
    has_equal_signs: bool = True
    absolute: Spot | None = None
    relative: Spot | None = None
    ulp: Spot | None = None
    first_beyond: Spot | None = None
    first_not_finite: Spot | None = None

    @property
    def is_within(self) -> bool:
        """Return whether all numbers are within the tolerance."""
        return self.first_beyond is None

    def add(self, block: ErrorBlock) -> None:
        """Add the next block of both, in the table's order."""
        error = absolute_errors(block.yours, block.theirs)
        if not error.any():
            self.has_equal_signs &= bool(
                (np.signbit(block.yours) == np.signbit(block.theirs)).all()
            )
            return
        self.is_equal = False
        beyond = self.tolerance.is_exceeded(error, block.theirs)
        self._add_to_axes(block, error, beyond)
        if self.first_beyond is None and beyond.any():
            self.first_beyond = block.spot(int(beyond.argmax()), error)
        finite = np.isfinite(error)
        if not finite.all():
            if self.first_not_finite is None:
                self.first_not_finite = block.spot(int((~finite).argmax()), error)
            error = np.where(finite, error, 0.0)
        self.absolute = larger_spot(self.absolute, block, error)
        is_sized = np.isfinite(block.theirs) & (block.theirs != 0)
        sizes = np.where(is_sized, np.abs(block.theirs), np.inf)
        self.relative = larger_spot(self.relative, block, _ratio(error, sizes))
        if self.tolerance.dtype is not None:
            ulps = _ratio(error, self.tolerance.ulp(block.theirs))
            self.ulp = larger_spot(self.ulp, block, ulps)

    def _add_to_axes(self, block: ErrorBlock, error: Float64s, beyond: Bools) -> None:
        for axis, errors in ((self.rows, self.row_errors), (self.columns, self.column_errors)):
            if axis is not None:
                others = tuple(other for other in range(error.ndim) if other != axis)
                part = slice(block.origin[axis], block.origin[axis] + error.shape[axis])
                np.maximum(errors[part], error.max(axis=others), out=errors[part])
                if axis == self.rows:
                    self.good_rows[part] &= ~beyond.any(axis=others)


def compare(overlay: Overlay, tolerance: Tolerance, rows: int, columns: int | None) -> Comparison:
    """Compare an array with the table with which it is aligned.

    Args:
        overlay: both.
        tolerance: for numbers.
        rows: the axis of the table that counts rows.
        columns: another of its axes, if it has any.
    """
    region = overlay.alignment.region
    width = 0 if columns is None else region[columns]
    good_rows = np.ones(region[rows], dtype=np.bool_)
    comparison = Comparison(
        tolerance, rows, columns, np.zeros(region[rows]), np.zeros(width), good_rows
    )
    for block in overlay.blocks():
        comparison.add(block)
    return comparison


def larger_spot(spot: Spot | None, block: ErrorBlock, error: Float64s) -> Spot | None:
    """Return the place of the largest error of a block, or the earlier one unless that is larger.

    Errors are not NaN; there is no place for those of 0.
    """
    flat = int(error.argmax())
    largest = float(error.reshape(-1)[flat])
    return block.spot(flat, error) if largest > (spot.error if spot else 0.0) else spot


def absolute_errors(yours: Float64s, theirs: Float64s) -> Float64s:
    """Return the differences of numbers: 0 for equal infinities, infinity where one is NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        errors: Float64s = np.abs(yours - theirs)
        unknown = np.isnan(errors)
        if unknown.any():
            errors[unknown] = np.where(yours[unknown] == theirs[unknown], 0.0, np.inf)
    return errors


def scale_of(overlay: Overlay) -> float:
    """Return the largest size of some numbers of a table, at most 1."""
    sizes = [np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0) for _, theirs in overlay.sample()]
    return min(1.0, float(max(sizes)))


def misfit(overlay: Overlay, tolerance: Tolerance) -> tuple[int, float]:
    """Count the sampled numbers beyond a tolerance, and sum their finite errors."""
    count, total = 0, 0.0
    for yours, theirs in overlay.sample():
        errors = absolute_errors(yours, theirs)
        count += int(tolerance.is_exceeded(errors, theirs).sum())
        finite = errors[np.isfinite(errors)]
        total += float(np.minimum(finite, _LARGEST_ERROR).sum())
    return count, total


def _ratio(error: Float64s, unit: Float64s) -> Float64s:
    """Return errors in another unit, finite even where that is tiny."""
    with np.errstate(over="ignore"):
        return np.minimum(error / unit, _LARGEST)


MAX_WORK = 2**29
"""The most sines that are computed for a comparison: some seconds of a core."""

# The numbers of vectors on these axes differ in size, and small ones matter as much: none is a
# difference of others.
_AXES_OF_MANY_SIZES = {(), ("head",)}


def rounded_to(array: StoredTable, dtype: DType) -> StoredTable:
    """Return float64 numbers rounded to a real type, and any other array as it is."""
    if array.dtype is not FLOAT64 or dtype.name not in REAL_DTYPES:
        return array
    elements = np.empty(array.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(array.elements, elements, dtype)
    return StoredTable(elements, dtype)


def best_overlay(
    array: StoredTable,
    table: Table,
    axes: tuple[str, ...],
    tolerances: tuple[float | None, float | None],
) -> tuple[Overlay, Tolerance]:
    """Align an array with a table, in the order of axes that fits best.

    The first order is taken unless another fits twice as well: among numbers that fit in no
    order, a smaller difference is chance.

    Args:
        array: the array that was sent.
        table: the table.
        axes: the names of its axes, if it has any.
        tolerances: atol and rtol, where they are given.

    Raises:
        InvalidBody: no order of axes aligns them.
        InvalidParameters: the comparison takes too long.
    """
    if (array.dtype in COMPLEX_DTYPES) != (table.dtype in COMPLEX_DTYPES):
        raise InvalidBody(
            f"the array is {array.dtype.name} and the table {table.dtype.name}: "
            "pack=complex in to names complex numbers, pack=pair their parts"
        )
    overlays = [
        Overlay(array, table, each) for each in alignments(array.shape, table.shape or (1,))
    ]
    if not overlays:
        raise InvalidBody(
            f"the array has the shape {array.shape}, and the table {table.shape}: shapes may "
            "differ by axes of length 1, by the order of axes, or along one axis"
        )
    work = overlays[0].work
    if work > MAX_WORK:
        rule = f"comparing with it takes {work} sines, and at most {MAX_WORK} are possible"
        raise InvalidParameters(Fault("to", None, f"to is too large a table: {rule}"))
    dtype = None if table.dtype in {INT32, INT64} else narrower(array.dtype, table.dtype)
    has_many_sizes = dtype is None or axes in _AXES_OF_MANY_SIZES
    tolerance = Tolerance(*tolerances, dtype, 0.0 if has_many_sizes else scale_of(overlays[0]))
    if len(overlays) == 1:
        return overlays[0], tolerance
    misfits = [misfit(each, tolerance) for each in overlays]
    least = min(misfits)
    is_better = any(2 * mine < theirs for mine, theirs in zip(least, misfits[0], strict=True))
    return overlays[misfits.index(least) if is_better else 0], tolerance
