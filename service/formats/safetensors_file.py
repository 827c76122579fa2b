"""``safetensors``: tensors by name, with the parameters of their numbers in the metadata.

Format: safetensors 0.8. The header is written here, with its keys sorted: the library writes
metadata in another order from run to run. It is read here, too: the library copies the tensors.
"""

import json
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from service.errors import InvalidBody, shortened
from service.formats.format import (
    INTEGER_STORAGES,
    BinaryBody,
    Block,
    Input,
    ReadableFormat,
    check_shape,
    integers,
)
from service.formats.json_text import parameter_text, strict
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
_LENGTH_BYTES = 8
MAX_TENSORS = 1024
MAX_HEADER_BYTES = 2**20


def _write(document: Document) -> BinaryBody:
    """Write the header, then the tensors, those of the widest elements first."""
    tables = sorted(
        document.arrays.items(), key=lambda item: (-item[1].dtype.itemsize_bytes, item[0])
    )
    return BinaryBody((_header(document, tables), *(table for _, table in tables)))


def _read(body: Block, names: Sequence[str]) -> Input:  # noqa: ARG001
    """Read every tensor under its name in the file; the elements are not copied.

    The library would copy them, and holds the interpreter while it does.
    """
    header_bytes = int.from_bytes(body[:_LENGTH_BYTES], "little")
    first = _LENGTH_BYTES + header_bytes
    if first > len(body):
        raise _unreadable("the header is longer than the body")
    if header_bytes > MAX_HEADER_BYTES:
        raise _unreadable(f"the header has {header_bytes} bytes, more than {MAX_HEADER_BYTES}")
    tensors, metadata = _described(bytes(body[_LENGTH_BYTES:first]))
    arrays: dict[str, StoredTable] = {}
    integer_types: dict[str, str] = {}
    end = 0
    for name, (code, shape, start, stop) in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if code not in {*_READABLE, *_INTEGERS}:
            raise InvalidBody(
                f"tensor {shortened(name)} is {shortened(code)}: "
                f"send one of {', '.join(_READABLE)}, or integers"
            )
        check_shape(name, shape)
        storage = np.dtype(_INTEGERS[code] if code in _INTEGERS else _READABLE[code].storage)
        if start != end or stop - start != prod(shape) * storage.itemsize:
            raise _unreadable(f"the offsets of {shortened(name)} do not fit its shape or place")
        end = stop
        if first + end > len(body):
            raise _unreadable("its tensors are longer than the body")
        stored = np.frombuffer(body, storage, prod(shape), first + start).reshape(shape)
        if code in _INTEGERS:
            arrays[name], integer_types[name] = integers(name, stored), storage.name
        else:
            arrays[name] = StoredTable(stored, _READABLE[code])
    if first + end != len(body):
        raise _unreadable(f"{len(body) - first - end} bytes follow its tensors")
    coordinates = metadata.get("axes", "") if metadata.get("kind") == "positions" else ""
    return Input(dict(sorted(arrays.items())), integer_types=integer_types, coordinates=coordinates)


def _described(
    header: bytes,
) -> tuple[dict[str, tuple[str, tuple[int, ...], int, int]], Mapping[str, str]]:
    """Return code, shape, first byte and end of each tensor of a header, and its metadata."""
    try:
        content = strict(header)
        metadata = content.pop("__metadata__", None) or {}
        if not 1 <= len(content) <= MAX_TENSORS:
            rule = f"the file holds {len(content)} tensors: 1 to {MAX_TENSORS} are possible"
            raise InvalidBody(rule)
        texts = [*metadata.values(), *(tensor["dtype"] for tensor in content.values())]
        tensors = {
            name: (each["dtype"], tuple(each["shape"]), *each["data_offsets"])
            for name, each in content.items()
        }
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise _unreadable("its header is not that of tensors, as JSON") from error
    numbers = [number for _, shape, *offsets in tensors.values() for number in (*shape, *offsets)]
    are_pairs = all(len(each) == 4 for each in tensors.values())
    if not (
        are_pairs
        and all(type(text) is str for text in texts)
        and all(type(number) is int and number >= 0 for number in numbers)
    ):
        raise _unreadable("dtypes must be text, shapes and offsets integers of 0 or more")
    return tensors, metadata


def _unreadable(reason: str) -> InvalidBody:
    return InvalidBody(f"not a safetensors file: {reason}")


def _header(document: Document, tables: list[tuple[str, Table]]) -> bytes:
    metadata = {"kind": document.kind, "revision": str(document.revision)}
    metadata |= {name: _text(value) for name, value in document.parameters.items()}
    if document.error_bound is not None:
        metadata["error_bound"] = repr(document.error_bound)
    if document.states_axes:
        metadata["axes"] = ", ".join(document.axes)
    if document.warnings:
        metadata["warnings"] = "; ".join(
            f"{each.code}: {each.detail}" for each in document.warnings
        )
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
