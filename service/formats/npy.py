"""``npy``: NumPy's own file format, version 1.0, always little-endian and in C order.

Format: numpy.lib.format, NumPy 2.4. Written with a header of 128 bytes for up to three axes.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from service.errors import InvalidBody, shortened
from service.formats.binary import BinaryBody
from service.formats.format import several_arrays
from service.formats.received import INTEGER_STORAGES, Input, check_shape, integers
from service.tables.document import Document
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from service.tables.table import StoredTable, Table

_MAGIC = b"\x93NUMPY"
_ALIGNMENT_BYTES = 64
_MAX_HEADER_BYTES = 10_000
_READABLE = {dtype.storage: dtype for dtype in (FLOAT32, FLOAT64, FLOAT16)}

# What an array is called that comes without a name.
_ALONE = "the array"


@dataclass(frozen=True)
class NpyFormat:
    """One array with its shape and type."""

    extension: str = "npy"
    media_type: str = "application/x-npy"
    is_text: bool = False
    is_drawn: bool = False
    version: str = ""

    def refusal(self, document: Document) -> str | None:
        """Refuse several arrays, and bfloat16, which NumPy has no type for."""
        if any(table.dtype is BFLOAT16 for table in document.arrays.values()):
            return "NumPy has no bfloat16"
        return several_arrays(document)

    def body(self, document: Document) -> BinaryBody:
        """Write header and elements."""
        (table,) = document.arrays.values()
        return BinaryBody((_header(table), table))

    def read(self, body: bytes, names: Sequence[str]) -> Input:  # noqa: ARG002
        """Read one array of a real or an integer type; nothing in it is ever unpickled."""
        shape, fortran_order, storage, offset = _read_header(body)
        count = prod(shape)
        expected, received = count * storage.itemsize, len(body) - offset
        if expected != received:
            raise InvalidBody(
                f"the header says {expected} bytes of elements (shape {shape}, {storage.name}), "
                f"and {received} follow it"
            )
        flat = np.frombuffer(body, dtype=storage, count=count, offset=offset)
        elements = np.ascontiguousarray(flat.reshape(shape, order="F" if fortran_order else "C"))
        if storage.str in INTEGER_STORAGES:
            return Input({_ALONE: integers(_ALONE, elements)}, is_named=False)
        return Input({_ALONE: StoredTable(elements, _READABLE[storage.str])}, is_named=False)


def _header(table: Table) -> bytes:
    described = (
        f"{{'descr': '{table.dtype.storage}', 'fortran_order': False, 'shape': {table.shape}, }}"
    )
    unpadded = len(_MAGIC) + 4 + len(described) + 1
    text = described + " " * (-unpadded % _ALIGNMENT_BYTES) + "\n"
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def _read_header(body: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(body)
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise InvalidBody(
                f"npy format {version[0]}.{version[1]}: send version 1.0 or 2.0, "
                "byte for byte (curl needs --data-binary)"
            )
        shape, fortran_order, dtype = readers[version](stream, max_header_size=_MAX_HEADER_BYTES)
    except InvalidBody:
        raise
    # The header is a Python literal: its parser fails in as many ways as there are bad literals.
    except Exception as error:
        raise InvalidBody(f"not a readable npy header: {shortened(str(error))}") from error
    if dtype.hasobject:
        raise InvalidBody("an array of Python objects is a pickle, and none is ever opened here")
    if dtype.byteorder == ">":
        raise InvalidBody(f"elements are big-endian ({dtype.str}): send little-endian ones")
    if dtype.str not in {*_READABLE, *INTEGER_STORAGES}:
        names = ", ".join(readable.name for readable in _READABLE.values())
        raise InvalidBody(
            f"elements are {shortened(str(dtype))}: send one of {names} or integers "
            "(bfloat16 as safetensors)"
        )
    check_shape(_ALONE, shape)
    return shape, fortran_order, dtype, stream.tell()


NPY = NpyFormat()
