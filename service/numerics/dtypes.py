"""The element types of tables, and the rounding of exact float64 to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.numerics.phase import Float64s, Int64s

Elements: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class DType:
    """An element type and the little-endian NumPy type that stores it.

    bfloat16, which NumPy does not have, is stored as its bits in uint16.

    Attributes:
        rounding_seconds: the processor seconds of rounding a number beyond those for float32.
    """

    name: str
    storage: str
    rounding_seconds: float = 0.0

    @property
    def itemsize_bytes(self) -> int:
        return np.dtype(self.storage).itemsize


FLOAT64 = DType("float64", "<f8")
FLOAT32 = DType("float32", "<f4")
FLOAT16 = DType("float16", "<f2", 3e-9)
BFLOAT16 = DType("bfloat16", "<u2", 4e-9)
COMPLEX64 = DType("complex64", "<c8")
COMPLEX128 = DType("complex128", "<c16")
INT32 = DType("int32", "<i4")
INT64 = DType("int64", "<i8")

REAL_DTYPES: Mapping[str, DType] = MappingProxyType(
    {dtype.name: dtype for dtype in (FLOAT32, FLOAT64, FLOAT16, BFLOAT16)}
)
INDEX_DTYPES: Mapping[str, DType] = MappingProxyType(
    {dtype.name: dtype for dtype in (INT32, INT64)}
)
COMPLEX_DTYPES = frozenset({COMPLEX64, COMPLEX128})

_MARGIN = 1.0 + 2.0**-40


def largest_finite(dtype: DType) -> float:
    """Return the largest finite value of a real type; for bfloat16 the largest power of two."""
    return 2.0**127 if dtype is BFLOAT16 else float(np.finfo(dtype.storage).max)


def may_overflow(size: float, dtype: DType) -> bool:
    """Return whether a number may round to infinity; its size has a relative error of 2^-40."""
    element = np.empty(1, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(np.array([size * _MARGIN]), element, dtype)
    return not all_finite(element, dtype)


def rounding_bound(dtype: DType, magnitude: float) -> float:
    """Bound the error of rounding a number up to a magnitude to a real type."""
    is_bfloat16 = dtype is BFLOAT16
    kept_bits = 7 if is_bfloat16 else int(np.finfo(dtype.storage).nmant)
    subnormal = 2.0**-133 if is_bfloat16 else float(np.finfo(dtype.storage).smallest_subnormal)
    return magnitude * 2.0 ** -(kept_bits + 1) + subnormal


def round_into(values: Float64s, elements: Elements, dtype: DType) -> None:
    """Round float64 values once, to nearest and ties to even, into elements of a real type.

    What is too large for the type becomes infinite; the caller mutes NumPy's warning of it.
    """
    if dtype is BFLOAT16:
        _round_to_bfloat16(values, elements)
    elif dtype is FLOAT16:
        _round_to_float16(values, elements)
    else:
        elements[...] = values


def round_integers_into(numbers: Int64s, elements: Elements, dtype: DType) -> None:
    """Round integers within ±2^62 once, to nearest and ties to even, into a real type's elements.

    What is too large for the type becomes infinite.
    """
    near = numbers.astype(np.float64)
    if dtype is not FLOAT64:
        # To odd, as for bfloat16: rounded once more, it is as if it had not been rounded before.
        rest = numbers - near.astype(np.int64)
        bits = near.view(np.int64)
        bits += np.where((rest == 0) | (bits % 2 == 1), 0, np.sign(rest) * np.sign(numbers))
    with np.errstate(over="ignore"):
        round_into(near, elements, dtype)


def round_numbers_into(numbers: Elements, elements: Elements, dtype: DType) -> None:
    """Round float64 or int64 numbers once into elements of a type, or copy integers into integers.

    What is too large for a real type becomes infinite; an integer type must hold every integer.
    """
    if not np.issubdtype(numbers.dtype, np.integer):
        with np.errstate(over="ignore"):
            round_into(numbers, elements, dtype)
    elif dtype in {INT32, INT64}:
        elements[...] = numbers
    else:
        round_integers_into(numbers, elements, dtype)


def round_results(values: Float64s, elements: Elements, dtype: DType) -> None:
    """Round as ``round_into`` does, every NaN to the same one; the values may be changed."""
    with np.errstate(over="ignore", invalid="ignore"):
        # The bits of a computed NaN depend on the processor.
        if np.isnan(values.min()):
            values[np.isnan(values)] = np.nan
        round_into(values, elements, dtype)


def all_finite(elements: Elements, dtype: DType) -> bool:
    """Return whether all elements, of a real type, are finite."""
    return bool(np.isfinite(decimal_view(elements, dtype)).all())


def to_float64(elements: Elements, dtype: DType) -> Float64s:
    """Return elements of a real type as float64, which is exact."""
    # Converting a signalling NaN sets the invalid flag; NumPy should not warn.
    with np.errstate(invalid="ignore"):
        return np.asarray(decimal_view(elements, dtype), dtype=np.float64)


def decimal_view(elements: Elements, dtype: DType) -> Elements:
    """View elements as a type that NumPy can print: bfloat16 as the float32 of its value."""
    if dtype is BFLOAT16:
        return (elements.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return elements


_LARGEST_FLOAT16 = 65504.0
_SMALLEST_NORMAL_FLOAT16 = 2.0**-14
_EXPONENT = np.uint64(0x7FF << 52)
# The binary digits that a float64 has and a float16 has not, and the distance of the exponents'
# biases in the first place that float16 keeps.
_CUT_BITS = 42
_CUT = np.uint64(_CUT_BITS)
_UP = np.uint64(_CUT_BITS << 52)
_BIAS = np.uint16((((1023 - 14 + _CUT_BITS) << 52) >> _CUT_BITS) % 2**16)
_SIGN = np.uint16(15)


def _round_to_float16(values: Float64s, elements: Elements) -> None:
    """Round float64 to float16.

    A power of two is added whose last bit counts what the last bit of the result counts: the sum is
    rounded once, at the right place. NumPy takes twenty times as long for a subnormal float16.
    """
    sums = np.abs(values)
    if not sums.max(initial=0.0) <= _LARGEST_FLOAT16:
        elements[...] = values
        return
    bits = elements.view(np.uint16)
    places = np.bitwise_and(values.view(np.uint64), _EXPONENT)
    # Two arrays: with a single number ``maximum`` takes three times as long.
    least = np.full(values.shape, _SMALLEST_NORMAL_FLOAT16)
    np.maximum(places.view(np.float64), least, out=places.view(np.float64))
    places += _UP
    sums += places.view(np.float64)
    rounded = sums.view(np.uint64)
    rounded -= places
    places >>= _CUT
    rounded += places
    np.copyto(bits, rounded, casting="unsafe")
    bits -= _BIAS
    bits |= np.signbit(values).astype(np.uint16) << _SIGN


_HALF_OF_LAST = np.uint32(0x8000)
_BELOW_LAST = np.uint32(0xFFFF)
_16 = np.uint32(16)


def _round_to_bfloat16(values: Float64s, bits: Elements) -> None:
    """Round float64 to bfloat16, as its bits.

    The nearest float32 plus half of the last bit that bfloat16 keeps is right unless that float32
    is halfway between two bfloat16: only of those the float64 is needed.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
    if np.isnan(near.max(initial=0.0)):
        bits[...] = _bfloat16_bits(values)
        return
    rounded = near.view(np.uint32)
    rounded += _HALF_OF_LAST
    halfway = np.flatnonzero((rounded & _BELOW_LAST) == 0)
    rounded >>= _16
    np.copyto(bits, rounded, casting="unsafe")
    if halfway.size:
        places = np.unravel_index(halfway, values.shape)
        bits[places] = _bfloat16_bits(values[places])


def _bfloat16_bits(values: Float64s) -> Elements:
    """Round float64 to bfloat16 through a float32 that is rounded to odd.

    Rounded to nearest twice, 28 values in 4 million are wrong. A float32 rounded to odd keeps in
    its last bit that something was cut off, so the second rounding decides as from the float64
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        back = near.astype(np.float64)
        bits = near.view(np.uint32)
        odd = (bits & np.uint32(1)).astype(np.bool_)
        away = np.abs(back) > np.abs(values)
        toward = np.abs(back) < np.abs(values)
    to_odd = bits - (away & ~odd).astype(np.uint32) + (toward & ~odd).astype(np.uint32)
    last_kept = (to_odd >> np.uint32(16)) & np.uint32(1)
    kept = (to_odd + np.uint32(0x7FFF) + last_kept) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.where(np.isnan(values), quiet_nan, kept).astype("<u2")
