"""Input of the analysis, the submitted arrays, and its results: proposed tables and mismatches."""

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
from service.numerics.tables import Document, ParameterValue, StoredTable, Table

MAX_ELEMENTS = 2**22
"""The most elements that are analysed: some seconds of computing if nothing matches."""

LARGEST = 2.0**64
"""No positional table has larger elements. Squares and sums of elements up to it are finite."""

COMPONENT_DTYPES: Mapping[DType, DType] = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
"""The dtype of the real and imaginary parts of each complex dtype."""

_EXACT_LIMIT = 2.0**53


@dataclass(frozen=True, eq=False)
class Sample:
    """A submitted array, converted to float64 or int64.

    Attributes:
        values: the elements as float64, or int64 for integers, without axes of length 1; a complex
            array has a last axis of 2, the real and the imaginary part.
        dtype: the submitted dtype.
        shape: the submitted shape.
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
        """The dtype of the elements, or of the real and imaginary parts of complex elements."""
        return COMPONENT_DTYPES.get(self.dtype, self.dtype)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.values).all())

    def integers(self) -> Int64s | None:
        """Return the values as int64; None unless all are integers."""
        if self.values.dtype == np.int64:
            return np.asarray(self.values, dtype=np.int64)
        if not (np.abs(self.values) < _EXACT_LIMIT).all():
            return None
        whole = self.values.astype(np.int64)
        return whole if (whole == self.values).all() else None

    def reals(self) -> Float64s:
        return self.values.astype(np.float64, copy=False)


def real_numbers(elements: Elements, dtype: DType) -> Float64s | Int64s:
    """Return elements as float64, but int64 elements as int64.

    Complex elements get a last axis of 2: the real and the imaginary part.
    """
    if dtype is INT64:
        return np.asarray(elements, dtype=np.int64)
    if dtype in COMPONENT_DTYPES:
        parts = np.ascontiguousarray(elements).view(COMPONENT_DTYPES[dtype].storage)
        return parts.reshape(*elements.shape, 2).astype(np.float64)
    return to_float64(elements, dtype)


def float64_numbers(elements: Elements, dtype: DType) -> Float64s:
    """Return elements as float64; complex ones get a last axis of 2.

    Integers in tables are far below 2^53: no different integer is rounded to one of them.
    """
    return real_numbers(elements, dtype).astype(np.float64)


def read_rows(rows: np.ndarray, table: Table, width: int) -> Float64s:
    """Return rows of a table as float64, (S, width).

    Args:
        rows: the increasing indices of the rows, (S,).
        table: the table.
        width: the elements of a row; a complex element counts as two, real and imaginary part.
    """
    count = width // 2 if table.dtype in COMPONENT_DTYPES else width
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    parts = [table.read(int(run[0]) * count, (int(run[-1]) + 1) * count) for run in runs]
    return float64_numbers(np.concatenate(parts), table.dtype).reshape(len(rows), width)


@dataclass(frozen=True, eq=False)
class IdentifyInput:
    """An array to identify, or the two arrays of a rotary table.

    Attributes:
        arrays: the arrays by name: ``cos`` and ``sin``, or one array with any name.
        d_model: the number of channels of the whole encoding; None if unknown.
        positions: the increasing positions of the rows, (S,); None if unknown.
    """

    arrays: Mapping[str, Sample]
    d_model: int | None = None
    positions: Float64s | None = None

    @property
    def sample(self) -> Sample:
        """The single array, or the cosines of a pair."""
        return self.arrays.get("cos") or next(iter(self.arrays.values()))

    @property
    def is_pair(self) -> bool:
        """True for two arrays, cosines and sines."""
        return self.arrays.keys() == {"cos", "sin"}


@dataclass(frozen=True)
class TableRequest:
    """The request for a table of the service.

    Attributes:
        resource: the path without the first slash, such as ``relative/alibi/slopes``.
        parameters: the query parameters with JSON types; parameters with a default may be absent.
    """

    resource: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def with_parameters(self, **parameters: ParameterValue) -> "TableRequest":
        return TableRequest(self.resource, {**self.parameters, **parameters})

    def without(self, *names: str) -> "TableRequest":
        """Return the request without some parameters."""
        kept = {name: value for name, value in self.parameters.items() if name not in names}
        return TableRequest(self.resource, kept)


Tables: TypeAlias = Callable[[TableRequest], Document]
"""Return the document of a table request; raise InvalidParameters if the request is refused."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A candidate table for an array.

    Attributes:
        request: the request for the table, in the array's dtype. The table has the array's shape,
            except for axes of length 1, and both arrays of a pair.
        support: the evidence for the table in the array, as sentences.
        is_transposed: whether the array has the table's axes in reverse order.
    """

    request: TableRequest
    support: tuple[str, ...]
    is_transposed: bool = False


ProposalFamily: TypeAlias = Callable[[IdentifyInput], Iterator[Proposal]]
"""Yield candidate tables of one kind for an array, those with the simplest parameters first.

A family measures the array and does not compute tables. It never raises, and yields nothing for an
array that is not of its kind.
"""

Position: TypeAlias = float | tuple[float, ...] | None
"""The position of a row, or its coordinates on several axes; None if rows have no position."""


@dataclass(frozen=True)
class FirstMismatch:
    """The first element of an array that differs from its predicted value by more than allowed.

    Attributes:
        array: the name of the array.
        index: the index of the element in the submitted array.
        value: the submitted element.
        expected: the predicted value.
        allowed: the largest absolute error that is allowed for the element.
        position: the position of the element's row; None if rows have no position.
        channel: the index of the element along the table's last axis; None if it is the last part
            of ``index``.
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


# Cheap pre-check: this many elements rule out most other arrays.
_FIRST = 64


def single_real_array(request: IdentifyInput, ranks: tuple[int, ...]) -> Float64s | None:
    """Return the values of a single, real, non-empty array with one of these ranks, else None.

    Axes of length 1 do not count for the rank.
    """
    sample, values = request.sample, request.sample.values
    if request.is_pair or sample.is_complex or values.ndim not in ranks or not values.size:
        return None
    return np.asarray(values, dtype=np.float64)


def single_finite_array(request: IdentifyInput, ranks: tuple[int, ...]) -> Float64s | None:
    """Return the values of ``single_real_array`` if all are finite, else None."""
    values = single_real_array(request, ranks)
    return values if values is not None and np.isfinite(values).all() else None


def single_integer_array(request: IdentifyInput, ranks: tuple[int, ...]) -> Int64s | None:
    """Return the values of ``single_real_array`` as int64 if all are integers, else None."""
    values = single_real_array(request, ranks)
    if values is None:
        return None
    flat = values.reshape(-1)
    some = np.concatenate([flat[:_FIRST], flat[:: max(1, flat.size // _FIRST)]])
    return request.sample.integers() if (some == np.round(some)).all() else None
