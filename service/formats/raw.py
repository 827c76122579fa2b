"""``bin``: the elements without a header, little-endian, in C order.

The query of a request says what the body does not: the shape and the type of the elements.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from service.errors import InvalidBody
from service.formats.format import (
    INTEGER_STORAGES,
    UNNAMED,
    ArrayHeader,
    BinaryBody,
    Block,
    Input,
    ReadableFormat,
    check_shape,
)
from service.grammar import to_query
from service.numerics.dtypes import COMPLEX64, COMPLEX128, REAL_DTYPES
from service.numerics.tables import Document

_NOT_INTEGERS = {**REAL_DTYPES, **{dtype.name: dtype for dtype in (COMPLEX64, COMPLEX128)}}
STORAGES = {
    **{name: dtype.storage for name, dtype in _NOT_INTEGERS.items()},
    **{np.dtype(storage).name: storage for storage in INTEGER_STORAGES},
}
"""The NumPy types of the elements that are read, by the names that a query has for them."""


def _write(document: Document) -> BinaryBody:
    return BinaryBody(tuple(document.arrays.values()))


def _read(body: Block, names: Sequence[str], header: ArrayHeader | None = None) -> Input:  # noqa: ARG001
    """Read one array, which must be as long as the header says."""
    if header is None:
        raise InvalidBody("the body has no header: its shape and type are unknown")
    shape, name = header.shape, header.dtype
    check_shape(UNNAMED, shape, "/shape")
    if prod(shape) * np.dtype(STORAGES[name]).itemsize != len(body):
        raise InvalidBody(_wrong_length(shape, name, body), "/shape", to_query(shape))
    elements = np.frombuffer(body, STORAGES[name]).reshape(shape)
    return Input.unnamed(elements, _NOT_INTEGERS.get(name))


def _wrong_length(shape: tuple[int, ...], name: str, body: Block) -> str:
    """Return how many bytes are expected, and what the body may be."""
    sizes = {other: prod(shape) * np.dtype(storage).itemsize for other, storage in STORAGES.items()}
    is_integer = name not in _NOT_INTEGERS
    fitting = [
        other
        for other, length_bytes in sizes.items()
        if length_bytes == len(body) and (other not in _NOT_INTEGERS) == is_integer
    ]
    rule = (
        f"shape={to_query(shape)} of {name} takes {sizes[name]} bytes, and the body has {len(body)}"
    )
    if bytes(body[:6]) == b"\x93NUMPY":
        return f"{rule}: is it an npy file? Send that as application/x-npy, without shape"
    return f"{rule}: are its elements {' or '.join(fitting)}?" if fitting else rule


def _with_header(header: ArrayHeader) -> ReadableFormat:
    return replace(RAW, read=partial(_read, header=header))


RAW = ReadableFormat(
    extension="bin",
    media_type="application/octet-stream",
    name="bin",
    body=_write,
    read=_read,
    with_header=_with_header,
)
