"""The input of the analysis, an array, and its results: the tables it may be."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INDEX_DTYPES,
    INT64,
    DType,
    Elements,
    to_float64,
)
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Channels
from service.numerics.tables import Document, ParameterValue, StoredTable, Table

MAX_ELEMENTS = 2**22
"""The largest array that is analysed: it takes some seconds where nothing matches."""

LARGEST = 2.0**64
"""Squares and sums of numbers up to it are finite, and no positional table has larger ones."""

COMPONENT_DTYPES: Mapping[DType, DType] = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
"""The type of the real and the imaginary part of each complex type."""

_EXACT_LIMIT = 2.0**53


@dataclass(frozen=True, eq=False)
class Sample:
    """An array of a request, read for the analysis.

    Attributes:
        values: float64, or int64 for integers, without axes of length 1; complex numbers have a
            last axis of two, the real and the imaginary part.
        dtype: the type in the request.
        shape: the shape in the request.
    """

    values: Float64s | Int64s
    dtype: DType
    shape: tuple[int, ...]

    @classmethod
    def of(cls, table: StoredTable) -> "Sample":
        values = real_numbers(table.elements, table.dtype)
        shape = tuple(length for length in values.shape if length != 1) or (1,)
        return cls(values.reshape(shape), table.dtype, table.shape)

    @property
    def is_complex(self) -> bool:
        return self.dtype in COMPONENT_DTYPES

    @property
    def is_integer(self) -> bool:
        return self.dtype.name in INDEX_DTYPES

    @property
    def element_dtype(self) -> DType:
        """The type of the numbers, or of the two parts of complex ones."""
        return COMPONENT_DTYPES.get(self.dtype, self.dtype)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.values).all())

    def integers(self) -> Int64s | None:
        """Return the numbers as int64; None unless all are integers."""
        if self.values.dtype == np.int64:
            return np.asarray(self.values, dtype=np.int64)
        if not (np.abs(self.values) < _EXACT_LIMIT).all():
            return None
        whole = self.values.astype(np.int64)
        return whole if (whole == self.values).all() else None

    def reals(self) -> Float64s:
        return self.values.astype(np.float64)


def real_numbers(elements: Elements, dtype: DType) -> Float64s | Int64s:
    """Return int64 elements as they are and others as float64; complex ones get an axis of two."""
    if dtype is INT64:
        return np.asarray(elements, dtype=np.int64)
    if dtype in COMPONENT_DTYPES:
        parts = np.ascontiguousarray(elements).view(COMPONENT_DTYPES[dtype].storage)
        return parts.reshape(*elements.shape, 2).astype(np.float64)
    return to_float64(elements, dtype)


def float64_numbers(elements: Elements, dtype: DType) -> Float64s:
    """Return elements as float64; complex ones get an axis of two.

    Integers of tables are far below 2^53, so that no others become equal to them.
    """
    return real_numbers(elements, dtype).astype(np.float64)


def read_rows(rows: np.ndarray, table: Table, width: int) -> Float64s:
    """Compute rows of a table by their rising indices: (S, width), complex numbers as two."""
    count = width // 2 if table.dtype in COMPONENT_DTYPES else width
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    parts = [table.read(int(run[0]) * count, (int(run[-1]) + 1) * count) for run in runs]
    return float64_numbers(np.concatenate(parts), table.dtype).reshape(len(rows), width)


@dataclass(frozen=True, eq=False)
class IdentifyInput:
    """An array to identify, or the two arrays of a rotary table.

    Attributes:
        arrays: by name: ``cos`` and ``sin``, or one array of any name.
        d_model: the number of channels of the whole encoding, where it is known.
        positions: of the rows, rising, where they are known.
    """

    arrays: Mapping[str, Sample]
    d_model: int | None = None
    positions: Float64s | None = None

    @property
    def sample(self) -> Sample:
        """The one array, or the cosines."""
        return self.arrays.get("cos") or next(iter(self.arrays.values()))

    @property
    def is_pair(self) -> bool:
        """Whether cosines and sines are two arrays."""
        return self.arrays.keys() == {"cos", "sin"}


@dataclass(frozen=True)
class TableRequest:
    """The request for a table of the service.

    Attributes:
        resource: its path without the first slash, such as ``relative/alibi/slopes``.
        parameters: as in JSON, without those that have their default.
    """

    resource: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def with_parameters(self, **parameters: ParameterValue) -> "TableRequest":
        return TableRequest(self.resource, {**self.parameters, **parameters})


Tables: TypeAlias = Callable[[TableRequest], Document]
"""Makes the document of a request; raises InvalidParameters where there is no such table."""


@dataclass(frozen=True, eq=False)
class AngleModel:
    """The exact angles of a table, from which engines' rounding errors are emulated.

    An element of row s in a channel of frequency k is the sine or the cosine of
    coordinates[s, axis[k]]·omega[k], times the scale.

    Attributes:
        coordinates: of each row on each axis, (S, A).
        axis: the axis of each frequency, (K,).
        omega: radians per unit, (K,), to float64 precision.
        channels: the component and the frequency of each channel, by the name of the array.
        scale: of sines and cosines.
    """

    coordinates: Float64s
    axis: tuple[int, ...]
    omega: Float64s
    channels: Mapping[str, Channels]
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Proposal:
    """A table that an array may be.

    Attributes:
        request: the table, in the type of the array; it has the shape of the array, except for
            axes of length 1, and the same array names where there are several.
        support: the evidence in the array, as sentences.
        angles: the angles of the table, if it consists of sines and cosines.
        is_transposed: whether the array has the axes of the table in reverse order.
    """

    request: TableRequest
    support: tuple[str, ...]
    angles: AngleModel | None = None
    is_transposed: bool = False


ProposalFamily: TypeAlias = Callable[[IdentifyInput], Iterator[Proposal]]
"""Proposes the tables of one kind that an array may be, those of the simplest parameters first.

It measures and does not search. It raises nothing, and proposes nothing for an array of another
kind.
"""

Position: TypeAlias = float | tuple[float, ...] | None


@dataclass(frozen=True)
class FirstMismatch:
    """The first element that differs from the prediction of an explanation.

    Attributes:
        array: the name of its array.
        index: in that array, in the shape of the request.
        value: the element.
        expected: the prediction.
        allowed: the largest error that the explanation allows.
        position: of its row, where rows have one.
        channel: along the last axis of the table, where that is not the last of the index.
    """

    array: str
    index: tuple[int, ...]
    value: float
    expected: float
    allowed: float
    position: Position = None
    channel: int | None = None

    @property
    def error(self) -> float:
        return abs(self.value - self.expected)


# So many numbers distinguish most arrays of fractions from integers, at no cost.
_FIRST = 64


def single_real_array(request: IdentifyInput, ranks: tuple[int, ...]) -> Float64s | None:
    """Return the numbers of a single real array of one of these ranks, or None."""
    sample, values = request.sample, request.sample.values
    if request.is_pair or sample.is_complex or values.ndim not in ranks or not values.size:
        return None
    return np.asarray(values, dtype=np.float64)


def single_finite_array(request: IdentifyInput, ranks: tuple[int, ...]) -> Float64s | None:
    """Return the numbers of a single real array if all are finite, or None."""
    values = single_real_array(request, ranks)
    return values if values is not None and np.isfinite(values).all() else None


def single_integer_array(request: IdentifyInput, ranks: tuple[int, ...]) -> Int64s | None:
    """Return the numbers of a single array if all are integers, or None."""
    values = single_real_array(request, ranks)
    if values is None:
        return None
    first = values.reshape(-1)[:_FIRST]
    return request.sample.integers() if (first == np.round(first)).all() else None
