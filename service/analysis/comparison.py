"""How the axes of an array lie over those of a table whose shape is another.

How far two numbers may be apart: some ulp of the narrower of two types, or what is asked for.

Where an error is the largest, found block by block.

An array that lies over a table: both read part by part, as numbers of one kind.

Two arrays, element by element: how far apart, where the most, and along two axes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from service.analysis.precision import spacing
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    COMPLEX_DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    Elements,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import STEP_ELEMENTS, StoredTable, Table, setup_work

Shape = tuple[int, ...]

# Axes of one length may stand in any order; three of them may in six.
_MOST = 24


@dataclass(frozen=True)
class Alignment:
    """An array laid over a table: which of its axes goes along which of the table's.

    Attributes:
        shape: that of the array.
        table_shape: that of the table.
        axes: for each axis of the table that of the array, or None where the array has none: it
            counts as one of length 1.
        prefix: the axis of the table along which one of the two has less, or None.
        longer: the axis of the array of which only the first is compared, because the table has no
            axis for it, or None.
    """

    shape: Shape
    table_shape: Shape
    axes: tuple[int | None, ...]
    prefix: int | None = None
    longer: int | None = None

    @property
    def region(self) -> Shape:
        """How much of each axis of the table is compared."""
        mine = [1 if axis is None else self.shape[axis] for axis in self.axes]
        return tuple(map(min, mine, self.table_shape))

    @property
    def is_reordered(self) -> bool:
        """Tell whether axes stand in another order than those of the table."""
        order = [axis for axis in self.axes if axis is not None and self.shape[axis] > 1]
        return order != sorted(order)

    @property
    def is_squeezed(self) -> bool:
        """Tell whether axes of length 1 stand elsewhere, or there are more of them in one."""
        if len(self.shape) != len(self.table_shape):
            return 1 in {*self.shape, *self.table_shape}
        return self.shape != self.table_shape and self.is_whole and not self.is_reordered

    @property
    def is_whole(self) -> bool:
        """Tell whether every element of both is compared."""
        return self.prefix is None and self.longer is None

    def index(self, place: Shape) -> Shape:
        """Give the index in the array of a place in the table."""
        found = [0] * len(self.shape)
        for axis, along in zip(self.axes, place, strict=True):
            if axis is not None:
                found[axis] = along
        return tuple(found)


def alignments(shape: Shape, table_shape: Shape) -> tuple[Alignment, ...]:
    """List the ways to lay an array over a table; none where there is none.

    Axes of length 1 may be anywhere, the others in any order, and along one axis either may have
    less than the other. Those with the least of it come alone, the table's own order first.
    """
    found = tuple(islice(_aligned(shape, table_shape), _MOST))
    whole = tuple(each for each in found if each.is_whole)
    return whole or found


def _aligned(shape: Shape, table_shape: Shape) -> Iterator[Alignment]:
    mine = [axis for axis, length in enumerate(shape) if length > 1]
    others = [axis for axis, length in enumerate(table_shape) if length > 1]
    if len(mine) == len(others):
        yield from _of_as_many(shape, table_shape, mine, others)
    elif len(mine) == len(others) - 1:
        for prefix in others:
            rest = [axis for axis in others if axis != prefix]
            for each in _of_as_many(shape, table_shape, mine, rest):
                if each.prefix is None:
                    yield Alignment(shape, table_shape, each.axes, prefix)
    elif len(mine) == len(others) + 1:
        for longer in mine:
            rest = [axis for axis in mine if axis != longer]
            for each in _of_as_many(shape, table_shape, rest, others):
                if each.prefix is None:
                    yield Alignment(shape, table_shape, each.axes, longer=longer)


def _of_as_many(
    shape: Shape, table_shape: Shape, mine: list[int], others: list[int]
) -> Iterator[Alignment]:
    """Pair axes of the array with as many of the table: those all equal first."""
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
        if len(partial) >= _MOST:
            break
    yield from partial


ULPS = 4
"""How many ulp are allowed unless something else is asked for.

Half of one is lost where a number is rounded, and engines' own sines and powers are up to 2 off.
"""

_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
_NARROW_FIRST = (BFLOAT16, FLOAT16, FLOAT32, FLOAT64)


def narrower(dtype: DType, other: DType) -> DType | None:
    """Give the type of fewer bits of two, of their parts where they are complex.

    Integers are exact: beside a real type they are as wide as any; None if both are integers.
    """
    kinds = {_PARTS.get(dtype, dtype), _PARTS.get(other, other)}
    return next((known for known in _NARROW_FIRST if known in kinds), None)


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from the one in the table.

    Attributes:
        atol: what any may be off, if that is asked for.
        rtol: what it may be off as a share of the one in the table, if that is asked for.
        dtype: the type that ulp are of; None for integers, which have none.
        floor: below this size of a number ulp are not taken finer than at it: sines near 0 are
            differences of larger numbers.
    """

    atol: float | None
    rtol: float | None
    dtype: DType | None
    floor: float = 0.0

    @property
    def is_asked_for(self) -> bool:
        """Tell whether it is other than the usual one."""
        return self.atol is not None or self.rtol is not None

    def allowed(self, exact: Float64s) -> Float64s:
        """Give how far each number may be off."""
        if self.is_asked_for:
            sizes = np.where(np.isfinite(exact), np.abs(exact), 0.0)
            with np.errstate(over="ignore"):
                return (self.atol or 0.0) + (self.rtol or 0.0) * sizes
        return ULPS * self.ulp(exact)

    def is_exceeded(self, error: Float64s, exact: Float64s) -> NDArray[np.bool_]:
        """Tell of each error whether it is more than allowed; one that is infinite always is."""
        exceeded: NDArray[np.bool_] = (error > self.allowed(exact)) | np.isinf(error)
        return exceeded

    def ulp(self, exact: Float64s) -> Float64s:
        """Give the distance from each number to the next in the type; 0 where there is none."""
        if self.dtype is None:
            return np.zeros_like(exact)
        return spacing(np.maximum(np.abs(exact), self.floor), self.dtype)


ElementIndex = tuple[int, ...]


@dataclass(frozen=True)
class Spot:
    """A place where numbers differ.

    Attributes:
        place: its index in the table, and for complex numbers the part after it.
        error: how much they differ, by one measure.
        yours: the number that was sent.
        theirs: the number in the table.
    """

    place: ElementIndex
    error: float
    yours: float
    theirs: float


@dataclass(frozen=True, eq=False)
class ErrorBlock:
    """A part of two arrays that lie over each other.

    Attributes:
        origin: the index in the table of its first element.
        yours: the numbers that were sent, with as many axes as the table.
        theirs: those of the table.
    """

    origin: ElementIndex
    yours: Float64s
    theirs: Float64s

    def spot(self, flat: int, error: Float64s) -> Spot:
        """Describe an element, numbered in the order of the block, by one measure of errors."""
        inside = np.unravel_index(flat, self.yours.shape)
        place = tuple(int(along) + first for along, first in zip(inside, self.origin, strict=True))
        return Spot(
            place,
            float(error[inside]),
            float(self.yours[inside]),
            float(self.theirs[inside]),
        )


class Worst:
    """The largest error so far, the first of those that are equal.

    Attributes:
        spot: where it is; None where there is none above 0.
    """

    def __init__(self) -> None:
        self.spot: Spot | None = None

    def take(self, block: ErrorBlock, error: Float64s) -> None:
        """Look at the errors of a block, none of which is NaN."""
        flat = int(error.argmax())
        spot = block.spot(flat, error)
        if spot.error > (self.spot.error if self.spot else 0.0):
            self.spot = spot


# As many elements as the choice between orders of axes, and the size of numbers, are judged by.
_LOOKS, _LOOK_ELEMENTS = 64, 64
# Multiples of it modulo 1 spread evenly, and in step with no number of columns.
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False)
class Overlay:
    """An array that lies over a table.

    Attributes:
        array: what was sent.
        table: what it is held against; complex where the array is, and only there.
        alignment: how it lies.
    """

    array: StoredTable
    table: Table
    alignment: Alignment

    @property
    def work(self) -> int:
        """Count what computing the part of the table takes that is compared, in sines.

        A table is computed by rows at least, unless they are so long that they are cut.
        """
        axis, step = _cut(self.alignment)
        shape, region = self.alignment.table_shape, self.alignment.region
        blocks = prod(region[:axis]) * -(-region[axis] // step)
        elements = min(step, region[axis]) * prod(shape[axis + 1 :])
        if shape[-1] <= STEP_ELEMENTS:
            elements = max(elements, shape[-1])
        return blocks * elements * self.table.work_per_element + setup_work(self.table)

    def blocks(self) -> Iterator[ErrorBlock]:
        """Give what lies over each other in parts of bounded size, in the table's order."""
        axis, step = _cut(self.alignment)
        region = self.alignment.region
        over = self._over()
        for outer in product(*map(range, region[:axis])):
            at = tuple(slice(i, i + 1) for i in outer)
            for first in range(0, region[axis], step):
                last = min(first + step, region[axis])
                yours = _numbers(over[(*at, slice(first, last))], self.array.dtype)
                theirs = self._read(outer, first, last)
                origin = (*outer, first)
                yield ErrorBlock(origin + (0,) * (yours.ndim - len(origin)), yours, theirs)

    def sample(self) -> Iterator[tuple[Float64s, Float64s]]:
        """Give numbers from places that are spread over all: what was sent, and the table's."""
        region, shape = self.alignment.region, self.alignment.table_shape
        over = self._over()
        count = prod(region)
        for look in range(_LOOKS):
            flat = int(count * (look * _GOLDEN % 1))
            *outer, near = (int(along) for along in np.unravel_index(flat, region))
            first = max(0, min(near, region[-1] - _LOOK_ELEMENTS))
            last = min(first + _LOOK_ELEMENTS, region[-1])
            mine = over[tuple(outer)][first:last]
            start = _flat((*outer, first), shape)
            theirs = self.table.read(start, start + last - first)
            yield _numbers(mine, self.array.dtype), _numbers(theirs, self.table.dtype)

    def _over(self) -> Elements:
        """View the array with the axes of the table."""
        alignment = self.alignment
        used = [axis for axis in alignment.axes if axis is not None]
        rest = [axis for axis in range(len(alignment.shape)) if axis not in used]
        turned = self.array.elements.transpose(*rest, *used)[(0,) * len(rest)]
        missing = tuple(i for i, axis in enumerate(alignment.axes) if axis is None)
        return np.expand_dims(turned, missing)[tuple(map(slice, alignment.region))]

    def _read(self, outer: Shape, first: int, last: int) -> Float64s:
        inner = self.alignment.table_shape[len(outer) + 1 :]
        kept = self.alignment.region[len(outer) + 1 :]
        start = _flat((*outer, first, *(0 for _ in inner)), self.alignment.table_shape)
        read = self.table.read(start, start + (last - first) * prod(inner))
        block = read.reshape((*(1 for _ in outer), last - first, *inner))
        cut: tuple[slice, ...] = (slice(None),) * (len(outer) + 1) + tuple(map(slice, kept))
        return _numbers(block[cut], self.table.dtype)


def _cut(alignment: Alignment) -> tuple[int, int]:
    """Say along which axis blocks are cut, and how long: those after it are read whole."""
    shape = alignment.table_shape
    axis = len(shape) - 1
    while axis > 0 and prod(shape[axis:]) <= STEP_ELEMENTS:
        axis -= 1
    return axis, max(1, STEP_ELEMENTS // prod(shape[axis + 1 :]))


def _flat(place: Shape, shape: Shape) -> int:
    """Number an element; tables may be longer than NumPy's own integers say."""
    flat = 0
    for along, length in zip(place, shape, strict=True):
        flat = flat * length + along
    return flat


def _numbers(elements: Elements, dtype: DType) -> Float64s:
    """Give numbers as float64; complex ones have an axis of two more, for their parts.

    Integers in tables are far below 2^53, so that no other becomes equal to one of them.
    """
    if dtype in COMPLEX_DTYPES:
        return np.stack([elements.real, elements.imag], axis=-1).astype(np.float64)
    return elements.astype(np.float64) if dtype in {INT32, INT64} else to_float64(elements, dtype)


Bools = NDArray[np.bool_]

_LARGEST = float(np.finfo(np.float64).max)
# Sums of as many as are looked at are finite.
_LARGEST_ERROR = 2.0**960


@dataclass(eq=False)
class Comparison:
    """What was found where an array lies over a table.

    Attributes:
        tolerance: how far numbers may be apart.
        rows: the axis of the table that counts rows.
        columns: another of its axes, or None where it has no other.
        row_errors: the largest absolute error by place along the axis of rows.
        column_errors: that along the other axis.
        good_rows: whether all numbers of a row are within the tolerance.
        is_equal: whether all numbers are equal; NaN equals nothing.
        has_equal_signs: whether those that are equal have one sign, of which zeros have two.
        absolute, relative, ulp: where each error is the largest, among finite numbers; those that
            are 0 in the table have no relative error, and ulp are those of the tolerance.
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
        """Tell whether all numbers are within the tolerance."""
        return self.first_beyond is None


def compare(overlay: Overlay, tolerance: Tolerance, rows: int, columns: int | None) -> Comparison:
    """Compare an array with the table that it lies over, in memory that is bounded beside theirs.

    Args:
        overlay: both.
        tolerance: how far numbers may be apart.
        rows: the axis of the table that counts rows.
        columns: another of its axes, if it has any.
    """
    region = overlay.alignment.region
    width = 0 if columns is None else region[columns]
    found = Comparison(
        tolerance,
        rows,
        columns,
        np.zeros(region[rows]),
        np.zeros(width),
        np.ones(region[rows], dtype=np.bool_),
    )
    worst = Worst(), Worst(), Worst()
    for block in overlay.blocks():
        error = absolute_errors(block.yours, block.theirs)
        if error.any():
            _take(found, block, error, worst)
        elif (np.signbit(block.yours) != np.signbit(block.theirs)).any():
            found.has_equal_signs = False
    found.absolute, found.relative, found.ulp = (each.spot for each in worst)
    return found


def absolute_errors(yours: Float64s, theirs: Float64s) -> Float64s:
    """Give how far apart numbers are: 0 for equal infinities, infinity where one is NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        errors: Float64s = np.abs(yours - theirs)
        unknown = np.isnan(errors)
        if unknown.any():
            errors[unknown] = np.where(yours[unknown] == theirs[unknown], 0.0, np.inf)
    return errors


def scale_of(overlay: Overlay) -> float:
    """Give the size that numbers of a table come near to: the largest of some of them, or 1."""
    sizes = [np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0) for _, theirs in overlay.sample()]
    return min(1.0, float(max(sizes)))


def misfit(overlay: Overlay, tolerance: Tolerance) -> tuple[int, float]:
    """Count those of some numbers that are beyond a tolerance, and add up errors, if finite."""
    count, total = 0, 0.0
    for yours, theirs in overlay.sample():
        errors = absolute_errors(yours, theirs)
        count += int(tolerance.is_exceeded(errors, theirs).sum())
        finite = errors[np.isfinite(errors)]
        total += float(np.minimum(finite, _LARGEST_ERROR).sum())
    return count, total


def _take(
    found: Comparison, block: ErrorBlock, error: Float64s, worst: tuple[Worst, Worst, Worst]
) -> None:
    """Add the errors of a block that has any to what was found."""
    found.is_equal = False
    beyond = found.tolerance.is_exceeded(error, block.theirs)
    _note_rows(found, block, error, beyond)
    if found.first_beyond is None and beyond.any():
        found.first_beyond = block.spot(int(beyond.argmax()), error)
    finite = np.isfinite(error)
    if not finite.all():
        if found.first_not_finite is None:
            found.first_not_finite = block.spot(int((~finite).argmax()), error)
        error = np.where(finite, error, 0.0)
    absolute, relative, ulp = worst
    absolute.take(block, error)
    sizes = np.where(np.isfinite(block.theirs) & (block.theirs != 0), np.abs(block.theirs), np.inf)
    relative.take(block, _ratio(error, sizes))
    if found.tolerance.dtype is not None:
        ulp.take(block, _ratio(error, found.tolerance.ulp(block.theirs)))


def _ratio(error: Float64s, unit: Float64s) -> Float64s:
    """Give errors in another unit, as numbers even where that is next to nothing."""
    with np.errstate(over="ignore"):
        return np.minimum(error / unit, _LARGEST)


def _note_rows(found: Comparison, block: ErrorBlock, error: Float64s, beyond: Bools) -> None:
    """Note the largest error of each row and column of a block."""
    for axis, errors in ((found.rows, found.row_errors), (found.columns, found.column_errors)):
        if axis is not None:
            others = tuple(other for other in range(error.ndim) if other != axis)
            part = slice(block.origin[axis], block.origin[axis] + error.shape[axis])
            np.maximum(errors[part], error.max(axis=others), out=errors[part])
            if axis == found.rows:
                found.good_rows[part] &= ~beyond.any(axis=others)
