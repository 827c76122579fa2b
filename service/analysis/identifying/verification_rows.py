"""A table beside the array that it may be, row by row: the same rows of both, as numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from service.analysis.identifying.emulation import rounded
from service.analysis.question import Proposal, Question
from service.analysis.sample import Sample
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    widened,
)
from service.tables.table import Table

_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
INTEGERS = (INT32, INT64)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of an array in the order of the table that it may be.

    Attributes:
        sample: the array.
        values: its numbers, (rows, channels).
        is_transposed: whether the array has its axes in reverse order.
        shape: the shape of the table without axes of length 1, complex numbers as two.
    """

    sample: Sample
    values: Float64s
    is_transposed: bool
    shape: tuple[int, ...]

    @classmethod
    def of(cls, sample: Sample, count: int | None, *, is_transposed: bool) -> "Rows":
        """Arrange an array as a number of rows, or by its last axis where none is given."""
        values = sample.reals()
        if is_transposed:
            values = np.ascontiguousarray(values.T)
        by_row = (
            values.reshape(-1, values.shape[-1]) if count is None else values.reshape(count, -1)
        )
        return cls(sample, by_row, is_transposed, values.shape)

    def index(self, row: int, channel: int) -> tuple[int, ...]:
        """Say where an element is in the array as it was sent."""
        flat = row * self.values.shape[1] + channel
        place = [int(part) for part in np.unravel_index(flat, self.shape)]
        if self.is_transposed:
            place.reverse()
        if self.sample.is_complex:
            place.pop()
        lengths = iter(place)
        return tuple(0 if length == 1 else next(lengths) for length in self.sample.shape)


@dataclass(frozen=True, eq=False)
class TableRows:
    """The same rows of the table, computed when they are asked for.

    Attributes:
        table: the table.
        width: numbers in a row, two for each that is complex.
        dtype: what they are rounded to: the type of the array's elements, or None.
    """

    table: Table
    width: int
    dtype: DType | None

    def read(self, rows: np.ndarray) -> Float64s:
        """Compute rows, whose numbers rise."""
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        runs = [self._run(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, breaks)]
        return np.concatenate(runs)

    def _run(self, first: int, stop: int) -> Float64s:
        parts = _PARTS.get(self.table.dtype)
        width = self.width // 2 if parts else self.width
        elements = self.table.read(first * width, stop * width)
        if self.table.dtype in INTEGERS:
            return elements.astype(np.float64).reshape(-1, self.width)
        if parts:
            elements = np.ascontiguousarray(elements).view(parts.storage)
        numbers = widened(elements, parts or self.table.dtype).reshape(-1, self.width)
        return rounded(numbers, self.dtype)


def matched(document: Document, question: Question, proposal: Proposal) -> dict[str, Table] | None:
    """Pair the arrays of a question with those of a document, if their shapes are the same."""
    arrays = dict(document.arrays)
    if not question.is_pair and len(arrays) == 1:
        arrays = dict(zip(question.arrays, arrays.values(), strict=True))
    if arrays.keys() != question.arrays.keys():
        return None
    for name, sample in question.arrays.items():
        if (arrays[name].dtype in _PARTS) != sample.is_complex:
            return None
        if _shape(arrays[name]) != _sent(sample, is_transposed=proposal.is_transposed):
            return None
    return arrays


def _shape(table: Table) -> tuple[int, ...]:
    parts = (2,) if table.dtype in _PARTS else ()
    return tuple(length for length in (*table.shape, *parts) if length != 1) or (1,)


def _sent(sample: Sample, *, is_transposed: bool) -> tuple[int, ...]:
    shape = sample.values.shape
    return shape[::-1] if is_transposed else shape


def channels_agree(proposal: Proposal, sizes: Mapping[str, int]) -> bool:
    """Tell whether the angles of a proposal are those of arrays of these sizes."""
    turning = proposal.turning
    return (
        turning is not None
        and turning.channels.keys() == sizes.keys()
        and all(
            len(turning.coordinates) * turning.channels[name].width == count
            for name, count in sizes.items()
        )
    )
