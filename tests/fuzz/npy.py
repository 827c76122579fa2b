"""``npy``, compared with NumPy's reader."""

import io
import warnings
from math import prod
from typing import Any

import numpy as np

from service.errors import InvalidBody
from service.formats.format import INTEGER_STORAGES
from service.formats.npy import NPY
from service.numerics.dtypes import Elements
from service.numerics.tables import StoredTable
from tests.fuzz.harness import Harness, Source, held_to
from tests.fuzz.written import check_written

_NUMBERS = ("<f2", "<f4", "<f8", "<c8", "<c16")
_READER_BYTES, _TIMES = 4 * 2**20, 20
_MAX_HEADER_BYTES = 10_000


def check(body: bytes) -> bool:
    try:
        with held_to(_READER_BYTES + _TIMES * len(body)):
            sent = NPY.read(body, ())
    except InvalidBody:
        assert not _must_be_read(body)
        return False
    ((_, table),) = sent.arrays.items()
    stream = io.BytesIO(body)
    expected = np.lib.format.read_array(stream, allow_pickle=False)
    assert stream.tell() == len(body)
    _check_as_numpy(table, expected)
    check_written({"x": table})
    return True


def _check_as_numpy(table: StoredTable, expected: Elements) -> None:
    assert table.shape == expected.shape
    if expected.dtype.kind in "fc":
        assert table.dtype.storage == expected.dtype.str
        assert table.elements.tobytes() == expected.tobytes()
        return
    assert table.dtype.name == "int64"
    elements = table.read(0, expected.size)
    assert elements.dtype.str == "<i8"
    assert elements.tolist() == expected.astype(object).reshape(-1).tolist()


def _must_be_read(body: bytes) -> bool:
    """Return whether NumPy writes exactly this, and its type and shape are supported."""
    header = _numpys_header(body)
    if header is None:
        return False
    shape, is_fortran, dtype, offset = header
    if not _is_possible(shape, dtype) or prod(shape) * dtype.itemsize != len(body) - offset:
        return False
    described = {"descr": dtype.str, "fortran_order": is_fortran, "shape": shape}
    text = body[10:offset] if body[6] == 1 else body[12:offset]
    if text.decode("latin-1").rstrip(" \n") != _spelled(described):
        return False
    if dtype.str == "|b1":
        return max(body[offset:]) <= 1
    return dtype.str != "<u8" or not (np.frombuffer(body, dtype, offset=offset) >= 2**63).any()


def _is_possible(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    if dtype.str not in {*_NUMBERS, *INTEGER_STORAGES} or not 1 <= len(shape) <= 8:
        return False
    # NumPy accepts True as a length.
    return all(type(length) is int and length > 0 for length in shape) and prod(shape) <= 2**23


def _spelled(described: dict[str, Any]) -> str:
    return "{" + "".join(f"'{name}': {value!r}, " for name, value in described.items()) + "}"


def _numpys_header(body: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int] | None:
    stream = io.BytesIO(body)
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read = readers[np.lib.format.read_magic(stream)]
            shape, is_fortran, dtype = read(stream, max_header_size=_MAX_HEADER_BYTES)
        except Exception:  # noqa: BLE001 - its parser fails in as many ways as there are literals
            return None
    return shape, is_fortran, dtype, stream.tell()


_STORED = (*_NUMBERS, *INTEGER_STORAGES)
_DESCRS = (
    *(f"'{storage}'" for storage in _STORED),
    "'>f4'",
    "'=f4'",
    "'f8'",
    "'?'",
    "'|O'",
    "'<f16'",
    "'<M8[s]'",
    "'|V3'",
    "'|S4'",
    "[('a', '<f4')]",
    "('<f4', (2,))",
    "'float32'",
    "'<f4,<f4'",
    "'\\d'",
    "b'<f4'",
    "4",
)
_LENGTHS = ("1", "2", "3", "4", "0", "-1", "True", "2L", "0x2", "1_0", "4294967296", "9" * 30, "2.")
_KEYS = ("descr", "fortran_order", "shape", "more")


def build(source: Source) -> bytes:
    """Build a header of nearly valid parts, and nearly as many bytes as it needs."""
    descr = source.pick(_DESCRS) if source.happens(4) else source.pick(_DESCRS[: len(_STORED)])
    lengths = [_length(source) for _ in range(source.integer(1, 3))]
    shape = f"({''.join(f'{length}, ' for length in lengths).rstrip()})"
    is_fortran = source.pick(("True", "False", "0", "None")[: 4 if source.happens(8) else 2])
    shape = source.pick(("[2]", "2", "()", "((2,),)")) if source.happens(16) else shape
    keys = [source.pick(_KEYS) if source.happens(16) else key for key in _KEYS[:3]]
    values = zip(keys, (descr, is_fortran, shape), strict=True)
    items = [f"'{key}': {value}" for key, value in values]
    if source.happens(16):
        items.insert(source.integer(0, 3), source.pick(items))
    end = source.pick((", }", "}", ",}", "} #", "")[: 5 if source.happens(8) else 1])
    text = "{" + ", ".join(items) + end
    count = prod(int(length) for length in lengths if length in _LENGTHS[:4])
    digits = descr[3:-1]
    item_bytes = int(digits) if digits.isdecimal() and len(digits) <= 2 else 1
    return _file(source, (text + " " * source.integer(0, 70) + "\n").encode(), count * item_bytes)


def _length(source: Source) -> str:
    return source.pick(_LENGTHS) if source.happens(8) else source.pick(_LENGTHS[:4])


def _file(source: Source, header: bytes, count: int) -> bytes:
    version = source.pick((2, 3)) if source.happens(8) else 1
    size = len(header) + (source.integer(-3, 3) if source.happens(16) else 0)
    length = max(size, 0).to_bytes(2 if version == 1 else 4, "little")
    count += source.integer(-1, 1) if source.happens(16) else 0
    data = source.bytes(max(count, 0)).ljust(count, b"\x01")
    return b"\x93NUMPY" + bytes((version, 0)) + length + header + data


def _saved(array: Elements, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    return stream.getvalue()


_SEEDS = (
    *(_saved(np.arange(6).reshape(2, 3).astype(storage)) for storage in _STORED),
    _saved(np.asfortranarray(np.arange(6.0).reshape(2, 3))),
    _saved(np.arange(4.0), (2, 0)),
    _saved(np.arange(4.0), (3, 0)),
    _saved(np.full((2, 2), 2**63, "<u8")),
    _saved(np.array([np.nan, np.inf, -0.0])),
    _saved(np.ones((1, 1, 1, 1, 1, 1, 1, 1, 1), "<f4")),
    _saved(np.ones(3, ">f4")),
    _saved(np.ones(2, [("a", "<f4"), ("b", "<i2", (2,))])),
    _saved(np.array([0.0]))[:10] + b"(" * 117 + b"\n",
    _saved(np.array([0.0]))[:8] + (9_000).to_bytes(2, "little") + b"-" * 9_000,
    _saved(np.array([0.0]))[:8] + (9_000).to_bytes(2, "little") + b"[" * 9_000,
)

HARNESS = Harness(
    check,
    build,
    _SEEDS,
    (
        b"\x93NUMPY\x01\x00",
        b"'descr': ",
        b"'fortran_order': ",
        b"'shape': ",
        b"'<f4'",
        b"True",
        b"}",
    ),
)
