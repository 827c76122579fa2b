"""An array that somebody asks about: its numbers as float64 or int64, without axes of length 1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.tables.angle import Float64s, Int64s
from service.tables.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    widened,
)
from service.tables.table import StoredTable

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
    return widened(table.elements, table.dtype)


def _squeezed(values: NDArray[np.generic]) -> Float64s | Int64s:
    shape = tuple(length for length in values.shape if length != 1) or (1,)
    return values.reshape(shape)


def spacing(values: Float64s, dtype: DType) -> Float64s:
    """Give the distance from each number to the next one away from 0 in a real type: its ulp."""
    size = np.abs(values)
    if dtype is BFLOAT16:
        kept_bits, least = 7, 2.0**-133
    else:
        info = np.finfo(dtype.storage)
        kept_bits, least = int(info.nmant), float(info.smallest_subnormal)
    _, exponent = np.frexp(size)
    steps: Float64s = np.where(size == 0, least, np.ldexp(1.0, exponent - 1 - kept_bits))
    return np.maximum(steps, least)
