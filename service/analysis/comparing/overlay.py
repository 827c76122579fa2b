"""An array that lies over a table: both read part by part, as numbers of one kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from service.analysis.comparing.alignment import Alignment, Shape
from service.analysis.comparing.worst import Block
from service.tables.angle import Float64s
from service.tables.dtypes import COMPLEX_DTYPES, INT32, INT64, DType, Elements, widened
from service.tables.table import STEP_ELEMENTS, StoredTable, Table, setup_work

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

    def blocks(self) -> Iterator[Block]:
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
                yield Block(origin + (0,) * (yours.ndim - len(origin)), yours, theirs)

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
    return elements.astype(np.float64) if dtype in {INT32, INT64} else widened(elements, dtype)
