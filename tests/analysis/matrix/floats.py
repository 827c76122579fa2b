"""Element types by bit arithmetic, and the bytes of a safetensors file."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Reals: TypeAlias = NDArray[np.floating[Any]]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]

KINDS = ("float32", "bfloat16", "float16", "float64")
NARROW_KINDS = ("bfloat16", "float16")

_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_SMALLEST = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "complex64": "C64",
    "uint16": "BF16",
}


def bfloat16_bits(values: Reals) -> NDArray[np.uint16]:
    """Return the bit patterns of the nearest bfloat16, ties to even, by way of float32."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    # Rounding must not turn the payload of a NaN into an infinity.
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, nearest).astype(np.uint16)


def from_bfloat16(bits: NDArray[np.uint16]) -> Floats:
    """Return the numbers of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def rounded(values: Reals, kind: str) -> Floats:
    """Return values rounded to an element type, as float64 numbers."""
    if kind == "bfloat16":
        return from_bfloat16(bfloat16_bits(values))
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(kind), dtype=np.float64)


def stored(values: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return values as a file has them; bfloat16 as bit patterns in uint16."""
    if np.iscomplexobj(values):
        return values.astype(np.complex64)
    if kind == "bfloat16":
        return bfloat16_bits(values)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def step(values: Reals, kind: str) -> Floats:
    """Return the distance of neighbouring numbers of a type at each value."""
    _, exponents = np.frexp(np.abs(values.astype(np.float64)))
    lowest = _SMALLEST[kind]
    powers: Floats = np.exp2(np.maximum(exponents - _DIGITS[kind], lowest).astype(np.float64))
    return powers


def safetensors_bytes(arrays: Arrays) -> bytes:
    """Return a safetensors file; arrays of uint16 are bfloat16."""
    entries: dict[str, Any] = {}
    bodies: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        body = np.ascontiguousarray(array).tobytes()
        entries[name] = {
            "dtype": _NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(body)],
        }
        offset += len(body)
        bodies.append(body)
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + b"".join(bodies)
