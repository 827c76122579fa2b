"""How the axes of an array lie over those of a table whose shape is another."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations

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
