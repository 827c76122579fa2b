"""An array that somebody asks about: its numbers as float64 or int64, without axes of length 1.

Which table: the resource that serves it and the parameters that name it there.

What is asked, and what is proposed as an answer: a table, and why.

One array alone, as real numbers or as integers, of few enough axes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    to_float64,
)
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Channels
from service.numerics.tables import StoredTable

MAX_ELEMENTS = 2**22
"""How many numbers may be looked into: as many as take some seconds where nothing is found."""

LARGEST = 2.0**64
"""Squares and sums of numbers up to it are finite, and no table of positions has any beyond."""

_EXACT_LIMIT = 2.0**53
_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}


@dataclass(frozen=True, eq=False)
class Sample:
    """An array that somebody asks about.

    Attributes:
        values: float64, or int64 where integers were sent; complex numbers have an axis of two
            more, the real and the imaginary part; axes of length 1 are left out.
        dtype: the type that it was sent in.
        shape: the shape that it was sent in.
    """

    values: Float64s | Int64s
    dtype: DType
    shape: tuple[int, ...]

    @classmethod
    def of(cls, table: StoredTable) -> "Sample":
        """Read an array that was sent."""
        return cls(_squeezed(_numbers(table)), table.dtype, table.shape)

    @property
    def is_complex(self) -> bool:
        """Tell whether its numbers are complex."""
        return self.dtype in _PARTS

    @property
    def element_dtype(self) -> DType:
        """The type of its numbers, of their two parts where they are complex."""
        return _PARTS.get(self.dtype, self.dtype)

    @property
    def is_finite(self) -> bool:
        """Tell whether there is no NaN and no infinity in it."""
        return bool(np.isfinite(self.values).all())

    def integers(self) -> Int64s | None:
        """Give its numbers as integers, if all are."""
        if self.values.dtype == np.int64:
            return self.values.astype(np.int64)
        if not (np.abs(self.values) < _EXACT_LIMIT).all():
            return None
        whole = self.values.astype(np.int64)
        return whole if (whole == self.values).all() else None

    def reals(self) -> Float64s:
        """Give its numbers as float64."""
        return self.values.astype(np.float64)


def _numbers(table: StoredTable) -> Float64s | Int64s:
    if table.dtype is INT64:
        return np.asarray(table.elements, dtype=np.int64)
    if table.dtype in _PARTS:
        parts = np.ascontiguousarray(table.elements).view(_PARTS[table.dtype].storage)
        return parts.reshape(*table.shape, 2).astype(np.float64)
    return to_float64(table.elements, table.dtype)


def _squeezed(values: NDArray[np.generic]) -> Float64s | Int64s:
    shape = tuple(length for length in values.shape if length != 1) or (1,)
    return values.reshape(shape)


@dataclass(frozen=True)
class TableRequest:
    """Name a table the way that it is asked for.

    Attributes:
        resource: where it is, as in ``rope`` or ``relative/alibi/slopes``.
        parameters: what is asked for there, spelled as it would be in JSON; nothing that is left
            to a default.
    """

    resource: str
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def with_parameters(self, **parameters: ParameterValue) -> "TableRequest":
        """Name the table that other parameters beside these give."""
        return TableRequest(self.resource, {**self.parameters, **parameters})


Tables: TypeAlias = Callable[[TableRequest], Document]
"""Finds what a call names; raises InvalidParameters where there is no such table."""


@dataclass(frozen=True, eq=False)
class IdentifyInput:
    """An array of which nobody knows what it is, or the two arrays of a rotary table.

    Attributes:
        arrays: by name: ``cos`` and ``sin``, or one array, whose name says nothing.
        d_model: its channels, as far as that is known.
        positions: those of its rows, rising, as far as they are known.
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
        """Tell whether cosines and sines come as two arrays."""
        return self.arrays.keys() == {"cos", "sin"}


@dataclass(frozen=True, eq=False)
class AngleModel:
    """What angles a table is made of, for what engines make of them in narrower arithmetic.

    An element of row s in a channel of frequency k is the sine or the cosine of
    coordinates[s, axis[k]]·omega[k], times the scale.

    Attributes:
        coordinates: where each row is, on each axis, (S, A).
        axis: which of them each frequency turns with, (K,).
        omega: radians per unit, (K,), as exact as float64 can say.
        channels: for each array by name, which component of which frequency a channel holds.
        scale: what sines and cosines are multiplied by.
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
        request: the table, in the type of the array; it has the shape that was sent, except for
            axes of length 1, and the same array names where there are several.
        support: sentences: what in the data speaks for it.
        angles: its angles, where it is made of any.
        is_transposed: whether the array has the axes of the table in reverse order.
    """

    request: TableRequest
    support: tuple[str, ...]
    angles: AngleModel | None = None
    is_transposed: bool = False


ProposalFamily: TypeAlias = Callable[[IdentifyInput], Iterator[Proposal]]
"""Looks at an array and proposes the tables of one kind that it may be, the plainest first.

It never searches: what it proposes follows from what it measured. It raises nothing, and proposes
nothing for an array of another kind.
"""


# So many numbers tell most arrays of fractions apart, at no cost.
_FIRST = 64


def single_real_array(question: IdentifyInput, axes: tuple[int, ...]) -> Float64s | None:
    """Give the numbers of an array, or None.

    Args:
        question: it has no answer where there are two arrays, complex numbers or none at all.
        axes: how many there may be.
    """
    values = question.sample.values
    if question.is_pair or question.sample.is_complex or values.ndim not in axes or not values.size:
        return None
    return np.asarray(values, dtype=np.float64)


def single_finite_array(question: IdentifyInput, axes: tuple[int, ...]) -> Float64s | None:
    """Give the numbers of an array that are all finite, or None."""
    values = single_real_array(question, axes)
    return values if values is not None and np.isfinite(values).all() else None


def single_integer_array(question: IdentifyInput, axes: tuple[int, ...]) -> Int64s | None:
    """Give the numbers of an array that are all integers, or None."""
    values = single_real_array(question, axes)
    if values is None:
        return None
    first = values.reshape(-1)[:_FIRST]
    return question.sample.integers() if (first == np.round(first)).all() else None
