"""Rounding errors of element types, and the dtype parameter that requests a type."""

import numpy as np

from service.analysis.array import Sample
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    REAL_DTYPES,
    DType,
    round_into,
    rounding_bound,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue, StoredTable

# The roundings that ``error_share`` allows: of a parameter, of a product, of the result.
_ROUNDINGS = 4


def spacing(values: Float64s, dtype: DType) -> Float64s:
    """Return the ulp of each value: the distance to the next number of the dtype away from 0."""
    if dtype is BFLOAT16:
        kept_bits, least = 7, 2.0**-133
    else:
        info = np.finfo(dtype.storage)
        kept_bits, least = int(info.nmant), float(info.smallest_subnormal)
    _, exponent = np.frexp(values)
    steps: Float64s = np.where(values == 0, least, np.ldexp(1.0, exponent - 1 - kept_bits))
    return np.maximum(steps, least)


def round_array(values: Float64s, dtype: DType) -> StoredTable:
    """Round values to a real dtype; values too large for it become infinite."""
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore", invalid="ignore"):
        round_into(values, elements, dtype)
    return StoredTable(elements, dtype)


def rounded(values: Float64s, dtype: DType | None) -> Float64s:
    """Return values rounded to a real dtype, as float64; None leaves them unchanged."""
    return values if dtype is None else to_float64(round_array(values, dtype).elements, dtype)


def narrowest_dtype(values: Float64s, dtype: DType) -> DType:
    """Return the narrowest real dtype that holds all values exactly, at most as wide as ``dtype``.

    Arrays are often computed in a narrower dtype than the one in which they are submitted.
    """
    some = values.reshape(-1)[:1024]
    for narrow in (BFLOAT16, FLOAT16, FLOAT32):
        if narrow is dtype:
            break
        if all((rounded(part, narrow) == part).all() for part in (some, values)):
            return narrow
    return dtype


def rounding_share(sample: Sample) -> float:
    """Return the largest relative error of rounding a number to the dtype of a sample."""
    return rounding_bound(sample.element_dtype, 1.0)


def error_share(sample: Sample) -> float:
    """Return the largest relative error of an element after four roundings in a sample's dtype.

    For float64 and integers it is the error in float32, in which such arrays are often computed.
    """
    single = rounding_bound(FLOAT32, 1.0)
    is_real = sample.element_dtype.name in REAL_DTYPES
    return _ROUNDINGS * (max(rounding_share(sample), single) if is_real else single)


def dtype_parameters(sample: Sample) -> dict[str, ParameterValue]:
    """Return the dtype parameter for a sample; empty for integers and for float32, the default."""
    dtype = sample.element_dtype
    is_default = dtype is FLOAT32 or dtype.name not in REAL_DTYPES
    return {} if is_default else {"dtype": dtype.name}
