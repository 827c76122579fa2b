"""Two arrays, element by element: how far apart, where the most, and along two axes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.comparing.overlay import Overlay
from service.analysis.comparing.tolerance import Tolerance
from service.analysis.comparing.worst import Block, Spot, Worst
from service.tables.angle import Float64s

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
    found: Comparison, block: Block, error: Float64s, worst: tuple[Worst, Worst, Worst]
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


def _note_rows(found: Comparison, block: Block, error: Float64s, beyond: Bools) -> None:
    """Note the largest error of each row and column of a block."""
    for axis, errors in ((found.rows, found.row_errors), (found.columns, found.column_errors)):
        if axis is not None:
            others = tuple(other for other in range(error.ndim) if other != axis)
            part = slice(block.origin[axis], block.origin[axis] + error.shape[axis])
            np.maximum(errors[part], error.max(axis=others), out=errors[part])
            if axis == found.rows:
                found.good_rows[part] &= ~beyond.any(axis=others)
