"""Claims that an array is a table computed in some arithmetic, and the rows of both.

A claim predicts every number of an array from the table that is proposed, with the error that its
arithmetic allows. ``angle_claims`` emulate how engines compute angles, ``computed_claims`` bound
the roundings of tables that have none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.analysis.array import COMPONENT_DTYPES, AngleModel, IdentifyInput, Proposal, Sample
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
from service.numerics.dtypes import INT32, INT64, DType, rounding_bound, to_float64
from service.numerics.phase import Float64s
from service.numerics.tables import Document, Table

INTEGERS = (INT32, INT64)


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """An array as the rows of the table that it may be.

    Attributes:
        sample: the array.
        values: its numbers, (rows, channels).
        is_transposed: whether the array has its axes in reverse order.
        shape: that of the table without axes of length 1, complex numbers as two.
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
        rows = values.reshape(-1, values.shape[-1]) if count is None else values.reshape(count, -1)
        return cls(sample, rows, is_transposed, values.shape)

    def index(self, row: int, channel: int) -> tuple[int, ...]:
        """Return the index of an element in the array as it was sent."""
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
    """The rows of a table, computed when they are read.

    Attributes:
        table: the table.
        width: numbers in a row, two for each that is complex.
        dtype: the type to which they are rounded, or None.
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
        parts = COMPONENT_DTYPES.get(self.table.dtype)
        width = self.width // 2 if parts else self.width
        elements = self.table.read(first * width, stop * width)
        if self.table.dtype in INTEGERS:
            return elements.astype(np.float64).reshape(-1, self.width)
        if parts:
            elements = np.ascontiguousarray(elements).view(parts.storage)
        numbers = to_float64(elements, parts or self.table.dtype).reshape(-1, self.width)
        return rounded(numbers, self.dtype)


def matching_tables(
    document: Document, inputs: IdentifyInput, proposal: Proposal
) -> dict[str, Table] | None:
    """Pair the arrays that were sent with those of a document; None if shapes or kinds differ."""
    tables = dict(document.arrays)
    if not inputs.is_pair and len(tables) == 1:
        tables = dict(zip(inputs.arrays, tables.values(), strict=True))
    if tables.keys() != inputs.arrays.keys():
        return None
    for name, sample in inputs.arrays.items():
        table, shape = tables[name], sample.values.shape
        parts = (2,) if table.dtype in COMPONENT_DTYPES else ()
        expected = tuple(length for length in (*table.shape, *parts) if length != 1) or (1,)
        if bool(parts) != sample.is_complex:
            return None
        if expected != (shape[::-1] if proposal.is_transposed else shape):
            return None
    return tables


def has_angles_of(proposal: Proposal, sizes: Mapping[str, int]) -> bool:
    """Return whether a proposal has angles for arrays of these sizes."""
    angles = proposal.angles
    return (
        angles is not None
        and angles.channels.keys() == sizes.keys()
        and all(
            len(angles.coordinates) * angles.channels[name].width == count
            for name, count in sizes.items()
        )
    )


SUMMED_ROUNDINGS = 16
"""Roundings of the largest number, where each is a sum, or has a sine that is not known apart."""

_LEAST_SHARE = 0.5

Predicted = tuple[Float64s, Float64s]


class Claim(Protocol):
    """The numbers that an arithmetic predicts for an array."""

    @property
    def arithmetic(self) -> Arithmetic: ...

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:
        """Return the predicted rows of an array, and the error allowed for each number.

        Args:
            name: of the array.
            rows: the numbers of the rows, (S,).
            exact: these rows of the table, (S, C).
        """


@dataclass(frozen=True)
class ExactClaim:
    """The claim that every number is that of the table."""

    arithmetic: Arithmetic = EXACT

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:  # noqa: ARG002
        return exact, np.zeros_like(exact)


@dataclass(eq=False)
class EmulationClaim:
    """The claim that an emulation gives every number, rounded to the type of the array.

    Attributes:
        emulation: of an engine.
        dtype: the type of the array's elements.
    """

    emulation: Emulation
    dtype: DType
    _last: tuple[np.ndarray, Mapping[str, Predicted]] | None = None

    @property
    def arithmetic(self) -> Arithmetic:
        return self.emulation.arithmetic

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:
        """Emulate rows; those that are zero in the table, such as padding, stay zero."""
        # Cosines and sines of the same rows are predicted one after the other.
        if self._last is None or self._last[0] is not rows:
            self._last = (rows, self.emulation.predict(rows))
        values, allowed = self._last[1][name]
        blank = ~exact.any(axis=1, keepdims=True)
        room = allowed + half_spacing(np.abs(values) + allowed, self.dtype)
        return np.where(blank, 0.0, values), np.where(blank, 0.0, room)


@dataclass(frozen=True, eq=False)
class RoundingClaim:
    """The claim that numbers without angles are within a few roundings of the exact ones.

    Attributes:
        arithmetic: in which they were computed.
        wide: the table in float64, by the name of the array.
        loss: the relative error of a number.
        peak_loss: a further absolute error, by the name of the array.
        dtype: the type of the array's elements.
    """

    arithmetic: Arithmetic
    wide: Mapping[str, TableRows]
    loss: float
    peak_loss: Mapping[str, float]
    dtype: DType

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:  # noqa: ARG002
        values = self.wide[name].read(rows)
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        room = self.loss * sizes + self.peak_loss[name]
        room += half_spacing(sizes + room, self.dtype)
        return values, np.where(np.isfinite(values), room, 0.0)


def half_spacing(values: Float64s, dtype: DType) -> Float64s:
    """Bound the error of rounding values to a type: half an ulp, taken relative to the value."""
    return np.abs(values) * rounding_bound(dtype, 1.0) + rounding_bound(dtype, 0.0)


def angle_claims(
    model: AngleModel, rows: np.ndarray, have: Mapping[str, Float64s], dtype: DType
) -> Iterator[EmulationClaim]:
    """Yield claims on an array of angles, the most exact arithmetic first.

    Args:
        model: the exact angles.
        rows: the rows on which frequencies are measured, (S,).
        have: the numbers of these rows, (S, C) by name.
        dtype: the type of the array's elements.
    """
    yield EmulationClaim(exact_emulation(model), dtype)
    loosest = EmulationClaim(loosest_float32(model), dtype)
    # A few wrong numbers must stand out among right ones, not among other wrong ones.
    shares = [agrees(loosest, name, rows, sent, sent).mean() for name, sent in have.items()]
    if min(shares) >= _LEAST_SHARE:
        for emulation in float32_emulations(model, rows, have, dtype):
            yield EmulationClaim(emulation, dtype)
    for narrow in (dtype,) if dtype in NARROW else NARROW:
        for emulation in narrow_emulations(model, rows, have, dtype, narrow):
            yield EmulationClaim(emulation, dtype)


def computed_claims(
    wide: Mapping[str, TableRows], peaks: Mapping[str, float], dtype: DType, roundings: int
) -> Iterator[RoundingClaim]:
    """Yield claims on an array without angles, the most exact arithmetic first.

    Args:
        wide: the table in float64, by the name of the array.
        peaks: the largest number of each array, by name.
        dtype: the type of the array's elements.
        roundings: the error of each number in roundings of the largest; 0 where each is a power or
            a product of its own.
    """
    share = roundings / SUMMED_ROUNDINGS
    double = {name: EMULATION_LOSS * share * peak for name, peak in peaks.items()}
    yield RoundingClaim(FLOAT64_ARITHMETIC, wide, EMULATION_LOSS, double, dtype)
    single = {name: FLOAT32_LOSS * share * peak for name, peak in peaks.items()}
    loss = FLOAT32_FREQUENCY_LOSS if roundings < SUMMED_ROUNDINGS else 0.0
    yield RoundingClaim(FLOAT32_ARITHMETIC, wide, loss, single, dtype)


def agrees(
    claim: Claim, name: str, rows: np.ndarray, have: Float64s, exact: Float64s
) -> np.ndarray:
    """Return a mask (S, C) of the numbers that a claim allows."""
    predicted, allowed = claim.predict(name, rows, exact)
    with np.errstate(invalid="ignore"):
        near = np.abs(have - predicted) <= allowed
    good: np.ndarray = near | (have == predicted)
    return good
