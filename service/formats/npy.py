"""``npy``: NumPy's own file format, version 1.0, always little-endian and in C order.

Format: numpy.lib.format, NumPy 2.4. Written with a header of 128 bytes for up to three axes.
The header of a request is parsed here: NumPy evaluates it as Python literals, which may emit
warnings that a client controls.
"""

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from service.errors import InvalidBody, shortened
from service.formats.format import (
    EVERY_DTYPE,
    INTEGER_STORAGES,
    UNNAMED,
    BinaryBody,
    Block,
    Input,
    ReadableFormat,
    check_shape,
)
from service.numerics.dtypes import BFLOAT16, COMPLEX64, COMPLEX128, FLOAT16, FLOAT32, FLOAT64
from service.numerics.tables import Document, Table

_MAGIC = b"\x93NUMPY"
_ALIGNMENT_BYTES = 64
_MAX_HEADER_BYTES = 10_000
_READABLE = {dtype.storage: dtype for dtype in (FLOAT32, FLOAT64, FLOAT16, COMPLEX64, COMPLEX128)}

# By version, the bytes of the header's length.
_LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4}

_DICTIONARY = re.compile(r"[ \t]*\{(.*)\}[ \t\r\n]*", re.DOTALL)
_MEMBER = re.compile(
    r"""[ \t\r\n]*(['"])(?P<key>descr|fortran_order|shape)\1[ \t\r\n]*:[ \t\r\n]*"""
    r"""(?P<value>'[^'"\\\n]*'|"[^'"\\\n]*"|True|False|\([^()]*\)|\[[^]]*\])[ \t\r\n]*(?:,|\Z)"""
)
_REST = re.compile(r"[ \t\r\n]*")
# A length, with an L after it if Python 2 wrote it, and the rest up to the next one.
_LENGTH = r"-?(?:0|[1-9][0-9]*)L?[ \t\r\n]*"
_SHAPE = re.compile(rf"\([ \t\r\n]*(?:(?:{_LENGTH},[ \t\r\n]*)+(?:{_LENGTH})?)?\)", re.ASCII)
_DIGITS = re.compile(r"-?[0-9]+", re.ASCII)
_MAX_DIGITS = 20
_DESCR = re.compile(r"[<>=|]?(?:\?|[biufc][0-9]{0,2})|bool|(?:u?int|float)[0-9]{1,2}", re.ASCII)


def _write(document: Document) -> BinaryBody:
    (table,) = document.arrays.values()
    return BinaryBody((_header(table), table))


def _read(body: Block, names: Sequence[str]) -> Input:  # noqa: ARG001
    """Read one array of a type that tables have; nothing in it is ever unpickled."""
    text, offset = _header_text(body)
    members = _members(text)
    order, shape = members["fortran_order"], _shape(members["shape"])
    if order not in {"True", "False"} or shape is None:
        raise _unreadable(text)
    storage = _storage(members["descr"])
    check_shape(UNNAMED, shape)
    count = prod(shape)
    expected, received = count * storage.itemsize, len(body) - offset
    if expected != received:
        raise InvalidBody(
            f"the header says {expected} bytes of elements (shape {shape}, {storage.name}), "
            f"and {received} follow it"
        )
    flat = np.frombuffer(body, dtype=storage, count=count, offset=offset)
    elements = flat.reshape(shape, order="F" if order == "True" else "C")
    return Input.unnamed(elements, _READABLE.get(storage.str))


def _header(table: Table) -> bytes:
    described = (
        f"{{'descr': '{table.dtype.storage}', 'fortran_order': False, 'shape': {table.shape}, }}"
    )
    unpadded = len(_MAGIC) + 4 + len(described) + 1
    text = described + " " * (-unpadded % _ALIGNMENT_BYTES) + "\n"
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def _header_text(body: Block) -> tuple[str, int]:
    """Return the header, and the offset of the elements."""
    head = bytes(body[: len(_MAGIC) + 6 + _MAX_HEADER_BYTES])
    version = head[len(_MAGIC) : len(_MAGIC) + 2]
    if not head.startswith(_MAGIC) or len(version) < 2:
        raise InvalidBody("not a readable npy header: the body is no npy file")
    if version not in _LENGTH_BYTES:
        raise InvalidBody(
            f"npy format {version[0]}.{version[1]}: send version 1.0 or 2.0, "
            "byte for byte (curl needs --data-binary)"
        )
    first = len(_MAGIC) + 2 + _LENGTH_BYTES[version]
    offset = first + int.from_bytes(head[len(_MAGIC) + 2 : first], "little")
    if offset > min(len(body), first + _MAX_HEADER_BYTES):
        raise InvalidBody("not a readable npy header: it is longer than the body, or 10000 bytes")
    return head[first:offset].decode("latin-1"), offset


def _members(text: str) -> dict[str, str]:
    """Parse a header: every required key, once, and the text of its value."""
    dictionary = _DICTIONARY.fullmatch(text)
    if dictionary is None:
        raise _unreadable(text)
    members: dict[str, str] = {}
    inside, place = dictionary[1], 0
    while (member := _MEMBER.match(inside, place)) is not None:
        if member["key"] in members:
            raise _unreadable(text)
        members[member["key"]] = member["value"]
        place = member.end()
    if len(members) < 3 or not _REST.fullmatch(inside, place):
        raise _unreadable(text)
    return members


def _unreadable(text: str) -> InvalidBody:
    right = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    return InvalidBody(f"not a readable npy header: {shortened(text.strip())}; as in {right}")


def _shape(text: str) -> tuple[int, ...] | None:
    """Parse a tuple, or return None; a length is checked before it is converted."""
    if _SHAPE.fullmatch(text) is None:
        return None
    lengths = _DIGITS.findall(text)
    return tuple(int(each) if len(each) <= _MAX_DIGITS else 2**63 for each in lengths)


def _storage(text: str) -> np.dtype[Any]:
    """Return the type of the elements by its name; raises InvalidBody unless it is supported."""
    descr = text[1:-1] if text[0] in "'\"" else text
    if descr.lstrip("<>=|")[:1] == "O":
        raise InvalidBody("an array of Python objects is a pickle, and none is ever opened here")
    try:
        storage = np.dtype(descr) if _DESCR.fullmatch(descr) else None
    except TypeError:
        storage = None
    if storage is not None and storage.byteorder == ">":
        raise InvalidBody(f"elements are big-endian ({storage.str}): send little-endian ones")
    if storage is None or storage.str not in {*_READABLE, *INTEGER_STORAGES}:
        names = ", ".join(readable.name for readable in _READABLE.values())
        raise InvalidBody(
            f"elements are {shortened(descr if storage is None else storage.name)}: "
            f"send one of {names} or integers (bfloat16 as safetensors)"
        )
    return storage


NPY = ReadableFormat(
    extension="npy",
    media_type="application/x-npy",
    name="NumPy",
    body=_write,
    read=_read,
    dtypes=EVERY_DTYPE - {BFLOAT16.name},
)
