"""Mistakes of structure: missing or extra rows and channels, other orders, rounding to decimals.

Each function yields ways to align the array that was sent with the expected one, with the mistakes
that lead to them. ``explanation`` compares the numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import isqrt, prod

import numpy as np

from service.analysis.array import FirstMismatch, Sample
from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.diagnosis.waves import Waves
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SizeFault:
    """The part of two tables that can be compared, and the mistakes by which they differ in size.

    Attributes:
        mistakes: of size.
        rows: the number of rows to compare, from the first on.
        sent: columns of the table that was sent.
        expected: the columns of the expected table that belong to them.
        rotating: the number of channels that the frequencies are computed for, if not the expected.
    """

    mistakes: tuple[Mistake, ...]
    rows: int
    sent: Indices
    expected: Indices
    rotating: int | None = None


def size_faults(
    sent: Float64s, expected: Float64s, blocks: int, waves: Waves | None
) -> Iterator[SizeFault]:
    """Yield the parts of two tables (S, C) of any sizes that can be compared.

    Args:
        sent: the table that was sent.
        expected: the expected one.
        blocks: the number of arrays whose columns stand side by side.
        waves: the expected table as waves, if it consists of sines and cosines.
    """
    for row_mistakes, rows in _row_counts(sent, expected):
        for mistakes, columns, rotating in _column_sets(sent, expected, blocks, waves):
            yield SizeFault((*row_mistakes, *mistakes), rows, *columns, rotating)


def _row_counts(sent: Float64s, expected: Float64s) -> Iterator[tuple[tuple[Mistake, ...], int]]:
    rows, expected_rows = len(sent), len(expected)
    filled = rows - int(np.argmax((sent != 0).any(axis=1)[::-1]))
    shared = min(rows, expected_rows)
    if sent.any() and filled < shared and expected[filled:rows].any(axis=1).all():
        yield (_truncated("rows", filled, expected_rows, "zero"),), filled
    yield _length_mistakes("rows", rows, expected_rows), shared


def _column_sets(
    sent: Float64s, expected: Float64s, blocks: int, waves: Waves | None
) -> Iterator[tuple[tuple[Mistake, ...], tuple[Indices, Indices], int | None]]:
    width, expected_width = sent.shape[1] // blocks, expected.shape[1] // blocks
    shared = min(width, expected_width)
    mistakes = _length_mistakes("channels", width, expected_width)
    yield mistakes, (_prefix(shared, width, blocks), _prefix(shared, expected_width, blocks)), None
    if width == expected_width:
        filled = sent.any(axis=0) | ~expected[: len(sent)].any(axis=0)
        if not filled.all() and filled.any() and len(sent) > 1:
            kept = np.flatnonzero(filled)
            mistake = _truncated("channels", len(kept), expected.shape[1], "zero")
            yield (mistake,), (kept, kept), None
    elif waves is not None and width < expected_width:
        count = len(waves.omega) * width // expected_width
        columns = np.flatnonzero(waves.frequency < count)
        if len(columns) == sent.shape[1]:
            every = np.arange(len(columns))
            yield mistakes, (every, columns), None
            values = {"have": 2 * count, "want": 2 * len(waves.omega)}
            yield (Mistake("partial-width", values),), (every, columns), 2 * count


def _prefix(kept: int, width: int, blocks: int) -> Indices:
    return np.concatenate([np.arange(kept) + block * width for block in range(blocks)])


def _length_mistakes(axis: str, sent: int, expected: int) -> tuple[Mistake, ...]:
    if sent == expected:
        return ()
    if sent > expected:
        return (Mistake("longer", {"axis": axis, "have": sent, "want": expected}),)
    return (_truncated(axis, sent, expected, "missing"),)


def _truncated(axis: str, sent: int, expected: int, beyond: str) -> Mistake:
    return Mistake("truncated", {"axis": axis, "have": sent, "want": expected, "beyond": beyond})


@dataclass(frozen=True, eq=False)
class OrderFault:
    """An order of rows and columns.

    Attributes:
        mistakes: of order.
        rows: for each expected row, the row that holds it.
        columns: for each expected column, the column that holds it.
    """

    mistakes: tuple[Mistake, ...]
    rows: Indices
    columns: Indices


def order_faults(
    rows: int,
    columns: int,
    blocks: int,
    grid: tuple[int, int] | None = None,
    *,
    is_interleaved: bool = False,
) -> Iterator[OrderFault]:
    """Yield the orders that at most two mistakes lead to, the fewest mistakes first.

    Args:
        rows: the number of rows.
        columns: the number of columns of all arrays together.
        blocks: the number of arrays.
        grid: height and width, where rows are the cells of a grid.
        is_interleaved: whether neighbours are known to be pairs in the expected table.
    """
    faults: dict[bytes, OrderFault] = {}
    column_orders = _column_orders(columns, blocks, is_interleaved=is_interleaved)
    for column_mistakes, column_order in column_orders:
        for row_mistakes, row_order in _row_orders(rows, grid):
            fault = OrderFault((*row_mistakes, *column_mistakes), row_order, column_order)
            if len(fault.mistakes) <= 2:
                faults.setdefault(row_order.tobytes() + column_order.tobytes(), fault)
    yield from sorted(faults.values(), key=lambda fault: len(fault.mistakes))


def _row_orders(
    rows: int, grid: tuple[int, int] | None
) -> Iterator[tuple[tuple[Mistake, ...], Indices]]:
    every = np.arange(rows)
    yield (), every
    yield (Mistake("positions-reversed"),), every[::-1].copy()
    side = isqrt(rows)
    height, width = grid or ((side, side) if side * side == rows else (1, rows))
    # The rows that tables of different grids share are no grid.
    if min(height, width) > 1 and height * width == rows:
        swapped = Mistake("axes-swapped", {"first": "h", "second": "w"})
        yield (swapped,), every.reshape(width, height).T.reshape(-1)


def _column_orders(
    columns: int, blocks: int, *, is_interleaved: bool
) -> Iterator[tuple[tuple[Mistake, ...], Indices]]:
    single = list(_single_column_orders(columns, blocks, is_interleaved=is_interleaved))
    yield (), np.arange(columns)
    for mistake, order in single:
        yield (mistake,), order
    for (first, inner), (second, outer) in product(single, single):
        if first.name != second.name:
            yield (first, second), inner[outer]


def _single_column_orders(
    columns: int, blocks: int, *, is_interleaved: bool
) -> Iterator[tuple[Mistake, Indices]]:
    for parts in {1, blocks, 2}:
        if columns % (2 * parts) == 0 and (parts == 1 or columns // parts > 2):
            layouts = list(_layouts(columns, parts))
            # With four channels both are the same permutation.
            yield from reversed(layouts) if is_interleaved else layouts
    if columns % 2 == 0:
        swapped = Mistake("halves-swapped")
        yield swapped, np.roll(np.arange(columns), columns // 2)
        if blocks == 1:
            yield swapped, np.arange(columns).reshape(-1, 2)[:, ::-1].reshape(-1)


def _layouts(columns: int, parts: int) -> Iterator[tuple[Mistake, Indices]]:
    """Yield the permutations between ``interleaved`` and ``half`` in each of equal parts."""
    numbers = np.arange(columns).reshape(parts, -1)
    halves = numbers.reshape(parts, -1, 2).swapaxes(1, 2).reshape(-1)
    pairs = numbers.reshape(parts, 2, -1).swapaxes(1, 2).reshape(-1)
    for sent, expected, order in (("interleaved", "half", halves), ("half", "interleaved", pairs)):
        yield Mistake("layout-swapped", {"have": sent, "want": expected}), order


# Every float32 has seven decimals: the float32 of 1 is within 2^-24, which is 0.6·10^-7.
_MOST_DECIMALS = 7
_FLOAT32_ERROR = 2.0**-24

# Fewer numbers may have few decimals by chance, or because they are 0 and 1.
_FEWEST_NUMBERS = 3


def decimals_of(numbers: Float64s) -> int | None:
    """Return how many decimals all elements are rounded to.

    Return None if they are not rounded, are not finite, or have fewer than _FEWEST_NUMBERS distinct
    non-integers. Integers are ignored.
    """
    fractions = numbers[numbers % 1 != 0]
    if not np.isfinite(numbers).all() or np.unique(fractions).size < _FEWEST_NUMBERS:
        return None
    for decimals in range(1, _MOST_DECIMALS + 1):
        power = 10.0**decimals
        nearest = np.round(numbers * power) / power
        if (np.abs(numbers - nearest) <= _FLOAT32_ERROR * np.abs(numbers)).all():
            return decimals
    return None


def decimal_roundings(numbers: Float64s) -> Iterator[tuple[float, tuple[Mistake, ...]]]:
    """Yield the error by rounding to decimals, with its mistake, if there is one, then 0."""
    decimals = decimals_of(numbers)
    if decimals is not None:
        yield 0.5 * 10.0**-decimals, (Mistake("rounded-decimals", {"decimals": decimals}),)
    yield 0.0, ()


_MAX_PERMUTED_AXES = 4


@dataclass(frozen=True, eq=False)
class TableView:
    """Arrays of one shape, read as one table of rows and columns with their axes in some order.

    Attributes:
        arrays: by name.
        axes: their order, without axes of length 1.
        mistakes: those that lead to another order than 0, 1, ….
        is_row: True if the table is one row, with as many axes as its channels have.
    """

    arrays: Mapping[str, Sample]
    axes: Shape
    mistakes: tuple[Mistake, ...] = ()
    is_row: bool = False

    @classmethod
    def of(cls, arrays: Mapping[str, Sample], *, is_row: bool = False) -> "TableView":
        return cls(arrays, tuple(range(len(_shape(arrays)))), is_row=is_row)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, cosines first."""
        return tuple(sorted(self.arrays))

    @property
    def shape(self) -> Shape:
        """The shape of each array with its axes in this order."""
        shape = _shape(self.arrays)
        return tuple(shape[axis] for axis in self.axes)

    @cached_property
    def table(self) -> Float64s:
        """The columns of the first array, then those of the second."""
        tables = [self._rows(self.arrays[name].reals()) for name in self.names]
        return np.hstack(tables) if len(tables) > 1 else tables[0]

    def mismatch(
        self, element: tuple[int, int], value: float, expected: float, allowed: float
    ) -> FirstMismatch:
        """Locate the element in a row and a column of the table in the arrays as sent."""
        row, column = element
        first = self.arrays[self.names[0]]
        numbers = self._rows(np.arange(first.values.size).reshape(first.values.shape))
        block, column = divmod(column, numbers.shape[1])
        sample = self.arrays[self.names[block]]
        flat = int(numbers[row, column]) // (2 if sample.is_complex else 1)
        index = tuple(map(int, np.unravel_index(flat, sample.shape)))
        return FirstMismatch(self.names[block], index, value, expected, allowed)

    def _rows(self, values: np.ndarray) -> np.ndarray:
        transposed = values.transpose(self.axes)
        shape = transposed.shape
        if self.is_row or len(shape) == 1:
            return transposed.reshape(1, -1)
        # A last axis of two holds a cosine and a sine.
        kept = 2 if len(shape) > 2 and shape[-1] == 2 else 1
        return transposed.reshape(prod(shape[:-kept]), -1)


def table_views(sent: Mapping[str, Sample], expected: TableView) -> Iterator[TableView]:
    """Yield the arrays that were sent with their axes in each order that fits the expected shape.

    Nothing is yielded for unrelated shapes.
    """
    view = TableView.of(sent, is_row=expected.is_row)
    rank = len(view.axes)
    if rank != len(expected.axes) or view.names != expected.names:
        return
    shape = expected.shape
    if _is_related(view.shape, shape):
        yield view
    for axes in permutations(range(rank)) if rank <= _MAX_PERMUTED_AXES else ():
        if axes == view.axes:
            continue
        other = TableView(sent, axes, (_axes_mistake(axes),), expected.is_row)
        if other.shape == shape or (rank == 2 and _is_related(other.shape, shape)):
            yield other


def _axes_mistake(axes: Shape) -> Mistake:
    if axes[-1] == len(axes) - 1:
        moved = [index for index, axis in enumerate(axes) if index != axis]
        return Mistake("axes-swapped", {"first": str(moved[0]), "second": str(moved[-1])})
    return Mistake("transposed", {"order": ", ".join(map(str, axes))})


def _shape(arrays: Mapping[str, Sample]) -> Shape:
    return next(iter(arrays.values())).values.shape


def _is_related(sent: Shape, expected: Shape) -> bool:
    """Return whether two shapes are equal except for the number of rows or of channels."""
    if sent == expected:
        return True
    if len(sent) > 2:
        return sent[1:] == expected[1:] or sent[:-1] == expected[:-1]
    other = [axis for axis in range(len(sent)) if sent[axis] != expected[axis]]
    return len(other) == 1 or all(sent[axis] < expected[axis] for axis in other)
