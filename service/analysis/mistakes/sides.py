"""The arrays of one side, put side by side as one table of rows and columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from service.analysis.mistakes.catalogue import Leaving, Mistake
from service.analysis.sample import Sample
from service.tables.angle import Float64s

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
