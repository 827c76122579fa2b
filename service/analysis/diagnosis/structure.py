"""Mistakes of extent: rows or channels that are missing, zero, or too many.

Mistakes of order: rows and channels that hold the right numbers in other places.

Numbers that were cut to a few decimals, as they are when they are printed and read again.

The arrays of one side, put side by side as one table of rows and columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import Sample
from service.analysis.diagnosis.mistakes import Leaving, Mistake
from service.analysis.diagnosis.waves import Waves
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices


@dataclass(frozen=True, eq=False)
class Extent:
    """Say which part of two tables can be compared.

    Attributes:
        mistakes: why there are others.
        rows: how many, the first ones of both.
        have: columns of what somebody has, that lie like
        want: these columns of what is wanted.
        turning: the channels that turn, where frequencies may be those of so many.
    """

    mistakes: tuple[Mistake, ...]
    rows: int
    have: Indices
    want: Indices
    turning: int | None = None


def extents(have: Float64s, want: Float64s, blocks: int, waves: Waves | None) -> Iterator[Extent]:
    """Give the parts that can be compared of two tables of rows and columns.

    Args:
        have: what somebody has, (S, C).
        want: what it should be, of as many rows and columns, or more or fewer.
        blocks: arrays that the columns are of, one after the other.
        waves: what is wanted, where that is waves.
    """
    for lengths, rows in _rows(have, want):
        for across, (ours, theirs), turning in _columns(have, want, blocks, waves):
            yield Extent((*lengths, *across), rows, ours, theirs, turning)


def _rows(have: Float64s, want: Float64s) -> Iterator[tuple[tuple[Mistake, ...], int]]:
    rows, wanted = len(have), len(want)
    filled = rows - int(np.argmax((have != 0).any(axis=1)[::-1]))
    if have.any() and filled < min(rows, wanted) and want[filled:rows].any(axis=1).all():
        yield (_cut("rows", filled, wanted, "zero"),), filled
    yield _length("rows", rows, wanted), min(rows, wanted)


def _columns(
    have: Float64s, want: Float64s, blocks: int, waves: Waves | None
) -> Iterator[tuple[tuple[Mistake, ...], tuple[Indices, Indices], int | None]]:
    width, wanted = have.shape[1] // blocks, want.shape[1] // blocks
    shared = min(width, wanted)
    named = _length("channels", width, wanted)
    yield named, (_prefix(shared, width, blocks), _prefix(shared, wanted, blocks)), None
    if width == wanted:
        filled = have.any(axis=0) | ~want[: len(have)].any(axis=0)
        if not filled.all() and filled.any() and len(have) > 1:
            kept = np.flatnonzero(filled)
            yield (_cut("channels", len(kept), want.shape[1], "zero"),), (kept, kept), None
    elif waves is not None and width < wanted:
        count = len(waves.omega) * width // wanted
        columns = np.flatnonzero(waves.frequency < count)
        if len(columns) == have.shape[1]:
            straight = np.arange(len(columns))
            yield named, (straight, columns), None
            values = {"have": 2 * count, "want": 2 * len(waves.omega)}
            yield (Mistake("partial-width", values),), (straight, columns), 2 * count


def _prefix(kept: int, width: int, blocks: int) -> Indices:
    return np.concatenate([np.arange(kept) + block * width for block in range(blocks)])


def _length(axis: str, have: int, want: int) -> tuple[Mistake, ...]:
    if have == want:
        return ()
    if have > want:
        return (Mistake("longer", {"axis": axis, "have": have, "want": want}),)
    return (_cut(axis, have, want, "missing"),)


def _cut(axis: str, have: int, want: int, beyond: str) -> Mistake:
    values = {"axis": axis, "have": have, "want": want, "beyond": beyond}
    return Mistake("truncated", values)


@dataclass(frozen=True, eq=False)
class OrderFault:
    """Say where in what somebody has the numbers are that are wanted.

    Attributes:
        mistakes: what put them there.
        rows: for each row that is wanted, the one that holds it.
        columns: for each column that is wanted, the one that holds it.
    """

    mistakes: tuple[Mistake, ...]
    rows: Indices
    columns: Indices


def orders(
    rows: int,
    columns: int,
    blocks: int,
    grid: tuple[int, int] | None = None,
    *,
    is_interleaved: bool = False,
) -> Iterator[OrderFault]:
    """Give the orders that mistakes of order lead to, the fewest mistakes first.

    Args:
        rows: how many there are.
        columns: how many there are, in all arrays together.
        blocks: arrays that the columns are of.
        grid: height and width, where rows are the places of a grid.
        is_interleaved: whether neighbours are pairs in what is wanted, as far as is known.
    """
    seen: set[bytes] = set()
    made: list[OrderFault] = []
    for across in _column_orders(columns, blocks, is_interleaved=is_interleaved):
        for along in _row_orders(rows, grid):
            order = OrderFault((*along.mistakes, *across.mistakes), along.rows, across.columns)
            key = order.rows.tobytes() + order.columns.tobytes()
            if len(order.mistakes) <= 2 and key not in seen:
                seen.add(key)
                made.append(order)
    yield from sorted(made, key=lambda order: len(order.mistakes))


def _row_orders(rows: int, grid: tuple[int, int] | None) -> Iterator[OrderFault]:
    straight = np.arange(rows)
    none = np.arange(0)
    yield OrderFault((), straight, none)
    yield OrderFault((Mistake("positions-reversed"),), straight[::-1].copy(), none)
    side = isqrt(rows)
    height, width = grid or ((side, side) if side * side == rows else (1, rows))
    if min(height, width) > 1:
        across = straight.reshape(width, height).T.reshape(-1)
        yield OrderFault((Mistake("axes-swapped", {"first": "h", "second": "w"}),), across, none)


def _column_orders(columns: int, blocks: int, *, is_interleaved: bool) -> Iterator[OrderFault]:
    none = np.arange(0)
    single = list(_single_orders(columns, blocks, is_interleaved=is_interleaved))
    straight = np.arange(columns)
    yield OrderFault((), none, straight)
    for mistake, order in single:
        yield OrderFault((mistake,), none, order)
    for (first, inner), (second, outer) in product(single, single):
        if first.name != second.name:
            yield OrderFault((first, second), none, inner[outer])


def _single_orders(
    columns: int, blocks: int, *, is_interleaved: bool
) -> Iterator[tuple[Mistake, Indices]]:
    for parts in {1, blocks, 2}:
        if columns % (2 * parts) == 0 and (parts == 1 or columns // parts > 2):
            layouts = list(_layouts(columns, parts))
            # Of four channels both are the same exchange.
            yield from reversed(layouts) if is_interleaved else layouts
    if columns % 2 == 0:
        swapped = Mistake("halves-swapped")
        yield swapped, np.roll(np.arange(columns), columns // 2)
        if blocks == 1:
            yield swapped, np.arange(columns).reshape(-1, 2)[:, ::-1].reshape(-1)


def _layouts(columns: int, parts: int) -> Iterator[tuple[Mistake, Indices]]:
    """Exchange pairs of neighbours for pairs a half apart, in each of some equal parts."""
    numbers = np.arange(columns).reshape(parts, -1)
    halves = numbers.reshape(parts, -1, 2).swapaxes(1, 2).reshape(-1)
    pairs = numbers.reshape(parts, 2, -1).swapaxes(1, 2).reshape(-1)
    for have, want, order in (("interleaved", "half", halves), ("half", "interleaved", pairs)):
        yield Mistake("layout-swapped", {"have": have, "want": want}), order


# float32 has some seven decimals: with more of them numbers are as good as they were.
_MOST_DECIMALS = 7

# How near the float32 of a decimal is to that decimal: 2^-24 of it. Beside the last of seven
# decimals, 10^-7, that of 1 is 0.6: as numbers of float32 all have seven decimals.
_NEAR = 2.0**-24

# Fewer numbers than this may be of a few decimals by chance, or because they are 0 and 1.
_FEWEST = 3


def decimals_of(numbers: Float64s) -> int | None:
    """Count the decimals that all numbers have been rounded to; None where they have more.

    Numbers that are whole say nothing.
    """
    if not np.isfinite(numbers).all() or np.unique(numbers[numbers % 1 != 0]).size < _FEWEST:
        return None
    for decimals in range(1, _MOST_DECIMALS + 1):
        power = 10.0**decimals
        nearest = np.round(numbers * power) / power
        if (np.abs(numbers - nearest) <= _NEAR * np.abs(numbers)).all():
            return decimals
    return None


def cuts(numbers: Float64s) -> Iterator[tuple[float, tuple[Mistake, ...]]]:
    """Give how far numbers may be from what they were, and why: cut to decimals, or not at all."""
    decimals = decimals_of(numbers)
    if decimals is not None:
        yield 0.5 * 10.0**-decimals, (rounded(decimals),)
    yield 0.0, ()


def rounded(decimals: int) -> Mistake:
    """Say that numbers were rounded to so many decimals."""
    return Mistake("rounded-decimals", {"decimals": decimals})


Shape = tuple[int, ...]
_MAX_EXCHANGED_AXES = 4


@dataclass(frozen=True, eq=False)
class Side:
    """Arrays read with their axes in some order.

    Attributes:
        arrays: by name; all of one shape.
        axes: the order; the axes of length 1 are none.
        mistakes: what put them in another order.
    """

    arrays: Mapping[str, Sample]
    axes: Shape
    mistakes: tuple[Mistake, ...] = ()

    @classmethod
    def of(cls, arrays: Mapping[str, Sample]) -> "Side":
        """Read arrays as they are."""
        return cls(arrays, tuple(range(len(_shape(arrays)))))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, cosines first."""
        return tuple(sorted(self.arrays))

    @property
    def shape(self) -> Shape:
        """The shape of each array with its axes in this order."""
        shape = _shape(self.arrays)
        return tuple(shape[axis] for axis in self.axes)

    def table(self) -> Float64s:
        """Give rows of columns: the columns of the first array, then of the second."""
        return np.hstack([self._rows(self.arrays[name].reals()) for name in self.names])

    def leaving(self, place: tuple[int, int], have: float, want: float, allowed: float) -> Leaving:
        """Say where in an array, as it was sent, a row and a column of the table are."""
        row, column = place
        first = self.arrays[self.names[0]]
        numbers = self._rows(np.arange(first.values.size).reshape(first.values.shape))
        block, column = divmod(column, numbers.shape[1])
        sample = self.arrays[self.names[block]]
        flat = int(numbers[row, column]) // (2 if sample.is_complex else 1)
        index = tuple(map(int, np.unravel_index(flat, sample.shape)))
        return Leaving(self.names[block], index, have, want, allowed)

    def _rows(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        turned = values.transpose(self.axes)
        shape = turned.shape
        if len(shape) == 1:
            return turned.reshape(1, -1)
        # An axis of two at the end holds a cosine and a sine.
        kept = 2 if len(shape) > 2 and shape[-1] == 2 else 1
        return turned.reshape(prod(shape[:-kept]), -1)


def sides(have: Mapping[str, Sample], want: Side) -> Iterator[Side]:
    """Read what somebody has with its axes in every order that what is wanted may have.

    There is none where the shapes have nothing to do with each other.
    """
    straight = Side.of(have)
    rank = len(straight.axes)
    if rank != len(want.axes) or straight.names != want.names:
        return
    if _is_related(straight.shape, want.shape):
        yield straight
    for axes in permutations(range(rank)) if rank <= _MAX_EXCHANGED_AXES else ():
        if axes == straight.axes:
            continue
        side = Side(have, axes, (_exchanged(axes),))
        if side.shape == want.shape or (rank == 2 and _is_related(side.shape, want.shape)):
            yield side


def _exchanged(axes: Shape) -> Mistake:
    if axes[-1] == len(axes) - 1:
        moved = [place for place, axis in enumerate(axes) if place != axis]
        return Mistake("axes-swapped", {"first": str(moved[0]), "second": str(moved[-1])})
    return Mistake("transposed", {"order": ", ".join(map(str, axes))})


def _shape(arrays: Mapping[str, Sample]) -> Shape:
    return next(iter(arrays.values())).values.shape


def _is_related(have: Shape, want: Shape) -> bool:
    """Tell whether one shape is the other, or it but for the lengths of rows or of channels."""
    if have == want:
        return True
    if len(have) > 2:
        return have[1:] == want[1:] or have[:-1] == want[:-1]
    other = [axis for axis in range(len(have)) if have[axis] != want[axis]]
    return len(other) == 1 or all(have[axis] < want[axis] for axis in other)
