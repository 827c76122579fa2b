"""``safetensors``: tensors by name, with the parameters of their numbers in the metadata.

Format: safetensors 0.8. The header is written here, with its keys sorted: the library writes
metadata in another order from run to run.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from service.errors import InvalidBody, shortened
from service.formats.format import (
    INTEGER_STORAGES,
    BinaryBody,
    Input,
    ReadableFormat,
    check_shape,
    integers,
)
from service.formats.json_text import parameter_text
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT16, FLOAT32, FLOAT64, INT32, INT64
from service.numerics.tables import Document, ParameterValue, StoredTable, Table, size_bytes

_CODES = {
    **{dtype.name: f"F{8 * dtype.itemsize_bytes}" for dtype in (FLOAT64, FLOAT32, FLOAT16)},
    BFLOAT16.name: "BF16",
    **{dtype.name: f"I{8 * dtype.itemsize_bytes}" for dtype in (INT32, INT64)},
}
_READABLE = {
    **{_CODES[dtype.name]: dtype for dtype in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16)},
    "C64": COMPLEX64,
}
_INTEGERS = dict(
    zip(
        ("BOOL", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"),
        INTEGER_STORAGES,
        strict=True,
    )
)
_ALIGNMENT_BYTES = 8
MAX_TENSORS = 1024


def _write(document: Document) -> BinaryBody:
    """Write the header, then the tensors, those of the widest elements first."""
    tables = sorted(
        document.arrays.items(), key=lambda item: (-item[1].dtype.itemsize_bytes, item[0])
    )
    return BinaryBody((_header(document, tables), *(table for _, table in tables)))


def _read(body: bytes, names: Sequence[str]) -> Input:  # noqa: ARG001
    """Read every tensor under its name in the file."""
    try:
        tensors = deserialize(body)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise InvalidBody(f"not a safetensors file: {shortened(str(error))}") from error
    if not 1 <= len(tensors) <= MAX_TENSORS:
        raise InvalidBody(f"the file holds {len(tensors)} tensors: 1 to {MAX_TENSORS} are possible")
    arrays: dict[str, StoredTable] = {}
    integer_types: dict[str, str] = {}
    for name, tensor in sorted(tensors):
        arrays[name] = _read_tensor(name, tensor)
        if tensor["dtype"] in _INTEGERS:
            integer_types[name] = np.dtype(_INTEGERS[tensor["dtype"]]).name
    return Input(arrays, integer_types=integer_types)


def _read_tensor(name: str, tensor: Mapping[str, Any]) -> StoredTable:
    code, shape = tensor["dtype"], tuple(tensor["shape"])
    if code not in {*_READABLE, *_INTEGERS}:
        raise InvalidBody(
            f"tensor {shortened(name)} is {code}: send one of {', '.join(_READABLE)}, or integers"
        )
    check_shape(name, shape)
    if code in _INTEGERS:
        stored = np.frombuffer(tensor["data"], dtype=_INTEGERS[code])
        return integers(name, stored.reshape(shape))
    dtype = _READABLE[code]
    return StoredTable(np.frombuffer(tensor["data"], dtype=dtype.storage).reshape(shape), dtype)


def _header(document: Document, tables: list[tuple[str, Table]]) -> bytes:
    metadata = {"kind": document.kind, "revision": str(document.revision)}
    metadata |= {name: _text(value) for name, value in document.parameters.items()}
    if document.error_bound is not None:
        metadata["error_bound"] = repr(document.error_bound)
    if document.states_axes:
        metadata["axes"] = ", ".join(document.axes)
    header: dict[str, object] = {"__metadata__": metadata}
    offset = 0
    for name, table in tables:
        end = offset + size_bytes(table)
        header[name] = {
            "dtype": _CODES[table.dtype.name],
            "shape": list(table.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    text += b" " * (-len(text) % _ALIGNMENT_BYTES)
    return len(text).to_bytes(8, "little") + text


def _text(value: ParameterValue) -> str:
    return value if isinstance(value, str) else parameter_text(value)


SAFETENSORS = ReadableFormat(
    extension="safetensors",
    media_type="application/vnd.safetensors",
    name="safetensors",
    body=_write,
    read=_read,
    has_several_arrays=True,
    # Readers do not agree on a code for complex numbers.
    dtypes=frozenset(_CODES),
)
