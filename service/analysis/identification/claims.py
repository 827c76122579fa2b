"""A table beside the array that it may be, row by row: the same rows of both, as numbers.

Claims that an array was made in some arithmetic: what each says about rows, and how exactly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal, Sample
from service.analysis.identification.arithmetic import (
    EMULATION_LOSS,
    EXACT,
    FLOAT32_ARITHMETIC,
    FLOAT32_FREQUENCY_LOSS,
    FLOAT32_LOSS,
    FLOAT64_ARITHMETIC,
    NARROW,
    Arithmetic,
    Emulation,
    exact_emulation,
    float32_emulations,
    loosest_float32,
    narrow_emulations,
)
from service.analysis.precision import rounded
from service.numerics.document import Document
from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    rounding_bound,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import Table

_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
INTEGERS = (INT32, INT64)


@dataclass(frozen=True, eq=False)
class ArrayRows:
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
    def of(cls, sample: Sample, count: int | None, *, is_transposed: bool) -> "ArrayRows":
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
        numbers = to_float64(elements, parts or self.table.dtype).reshape(-1, self.width)
        return rounded(numbers, self.dtype)


def matched(
    document: Document, question: IdentifyInput, proposal: Proposal
) -> dict[str, Table] | None:
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
    turning = proposal.angles
    return (
        turning is not None
        and turning.channels.keys() == sizes.keys()
        and all(
            len(turning.coordinates) * turning.channels[name].width == count
            for name, count in sizes.items()
        )
    )


# Of the largest number, where each is a sum, or has a sine that is not told apart.
SUMMED_ROUNDINGS = 16

_LEAST_SHARE = 0.5

Predicted = tuple[Float64s, Float64s]


class Claim(Protocol):
    """What an arithmetic says an array holds."""

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic that is claimed."""

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:
        """Give what rows of the array of a name hold, and how far each number may be from it.

        Args:
            name: which array.
            rows: which of its rows, (S,).
            exact: what these rows of the table hold, (S, C).
        """


@dataclass(frozen=True)
class Exactly:
    """The claim that every number is that of the table."""

    arithmetic: Arithmetic = EXACT

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:  # noqa: ARG002
        """Give the table itself, and no room beside it."""
        return exact, np.zeros_like(exact)


@dataclass(eq=False)
class EmulationClaim:
    """The claim that an emulation gives every number, once it is rounded to the array's type.

    Attributes:
        emulation: what gives it.
        dtype: the type of the array's elements.
    """

    emulation: Emulation
    dtype: DType
    _last: tuple[np.ndarray, Mapping[str, Predicted]] | None = None

    @property
    def arithmetic(self) -> Arithmetic:
        """That of the emulation."""
        return self.emulation.arithmetic

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:
        """Emulate rows; those that are zeros in the table, as that of padding, stay zeros."""
        # Cosines and sines of the same rows are asked for one after the other.
        if self._last is None or self._last[0] is not rows:
            self._last = (rows, self.emulation.predict(rows))
        values, allowed = self._last[1][name]
        blank = ~exact.any(axis=1, keepdims=True)
        room = allowed + half_spacing(np.abs(values) + allowed, self.dtype)
        return np.where(blank, 0.0, values), np.where(blank, 0.0, room)


@dataclass(frozen=True, eq=False)
class Computed:
    """The claim that numbers without angles are within a few roundings of the exact ones.

    Attributes:
        arithmetic: what it was computed in.
        wide: the table in float64, by the name of the array.
        loss: how far numbers may be off, as a share of them.
        peak_loss: the same as a share of the largest, by the name of the array.
        dtype: the type of the array's elements.
    """

    arithmetic: Arithmetic
    wide: Mapping[str, TableRows]
    loss: float
    peak_loss: Mapping[str, float]
    dtype: DType

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:  # noqa: ARG002
        """Give the rows of the table in float64, and the room that roundings need."""
        values = self.wide[name].read(rows)
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        room = self.loss * sizes + self.peak_loss[name]
        room += half_spacing(sizes + room, self.dtype)
        return values, np.where(np.isfinite(values), room, 0.0)


def half_spacing(values: Float64s, dtype: DType) -> Float64s:
    """Bound by how much rounding to a type moves values: by half of a step, taken as a share."""
    return np.abs(values) * rounding_bound(dtype, 1.0) + rounding_bound(dtype, 0.0)


def turned_claims(
    turning: AngleModel, rows: np.ndarray, have: Mapping[str, Float64s], dtype: DType
) -> Iterator[EmulationClaim]:
    """List what an array of angles may have been computed in, the most exact first.

    Args:
        turning: the angles.
        rows: the rows to measure the frequencies in, (S,).
        have: what they hold, (S, C) by name.
        dtype: the type of the array's elements.
    """
    yield EmulationClaim(exact_emulation(turning), dtype)
    loosest = EmulationClaim(loosest_float32(turning), dtype)
    # A few wrong numbers among right ones are to be told from right ones, not from nothing.
    shares = [agrees(loosest, name, rows, held, held).mean() for name, held in have.items()]
    if min(shares) >= _LEAST_SHARE:
        for emulation in float32_emulations(turning, rows, have, dtype):
            yield EmulationClaim(emulation, dtype)
    for narrow in (dtype,) if dtype in NARROW else NARROW:
        for emulation in narrow_emulations(turning, rows, have, dtype, narrow):
            yield EmulationClaim(emulation, dtype)


def computed_claims(
    wide: Mapping[str, TableRows], peaks: Mapping[str, float], dtype: DType, roundings: int
) -> Iterator[Computed]:
    """List what an array without angles may have been computed in, the most exact first.

    Args:
        wide: the table in float64, by the name of the array.
        peaks: the largest number of each array, by name.
        dtype: the type of the array's elements.
        roundings: by how many roundings of the largest number each may be off: none where each
            is a power or a product of its own.
    """
    share = roundings / SUMMED_ROUNDINGS
    double = {name: EMULATION_LOSS * share * peak for name, peak in peaks.items()}
    yield Computed(FLOAT64_ARITHMETIC, wide, EMULATION_LOSS, double, dtype)
    single = {name: FLOAT32_LOSS * share * peak for name, peak in peaks.items()}
    loss = FLOAT32_FREQUENCY_LOSS if roundings < SUMMED_ROUNDINGS else 0.0
    yield Computed(FLOAT32_ARITHMETIC, wide, loss, single, dtype)


def agrees(
    claim: Claim, name: str, rows: np.ndarray, have: Float64s, exact: Float64s
) -> np.ndarray:
    """Tell for each number of rows whether it is what a claim allows it to be, (S, C)."""
    predicted, allowed = claim.predict(name, rows, exact)
    with np.errstate(invalid="ignore"):
        near = np.abs(have - predicted) <= allowed
    good: np.ndarray = near | (have == predicted)
    return good
