"""``safetensors``, compared with a plain reading and the library's refusals."""

import json
from math import prod
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from service.errors import InvalidBody
from service.formats.safetensors_file import MAX_TENSORS, SAFETENSORS
from service.numerics.tables import StoredTable
from tests.fuzz.harness import Harness, Source, held_to
from tests.fuzz.written import check_written

_STORAGES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "C64": "<c8",
    "BOOL": "|b1",
    "I8": "|i1",
    "U8": "|u1",
    "I16": "<i2",
    "U16": "<u2",
    "I32": "<i4",
    "U32": "<u4",
    "I64": "<i8",
    "U64": "<u8",
}
_NUMBERS = frozenset({"F64", "F32", "F16", "BF16", "C64"})
_READER_BYTES, _TIMES = 2**20, 64


def check(body: bytes) -> bool:
    try:
        with held_to(_READER_BYTES + _TIMES * len(body)):
            sent = SAFETENSORS.read(body, ())
    except InvalidBody:
        assert not _must_be_read(body)
        return False
    header_bytes = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + header_bytes])
    header.pop("__metadata__", None)
    assert set(sent.arrays) == set(header)
    for name, described in header.items():
        first, last = described["data_offsets"]
        data = body[8 + header_bytes + first : 8 + header_bytes + last]
        _check_as_described(sent.arrays[name], described, data)
    check_written(sent.arrays)
    return True


def _check_as_described(table: StoredTable, described: dict[str, Any], data: bytes) -> None:
    code = described["dtype"]
    assert table.shape == tuple(described["shape"])
    if code in _NUMBERS:
        assert table.dtype.storage == _STORAGES[code]
        assert table.elements.tobytes() == data
        return
    assert table.dtype.name == "int64"
    stored = np.frombuffer(data, _STORAGES[code])
    assert table.read(0, stored.size).tolist() == [int(number) for number in stored.tolist()]


def _must_be_read(body: bytes) -> bool:
    """Return whether the library reads this, and all of it is supported here."""
    try:
        tensors = deserialize(body)  # type: ignore[no-untyped-call]
    except SafetensorError:
        return False
    if not 1 <= len(tensors) <= MAX_TENSORS or _has_repeats(body):
        return False
    return all(_is_possible(tensor) for _, tensor in tensors)


def _has_repeats(body: bytes) -> bool:
    """Return whether an object of the header has a name twice, of which the library takes one."""
    found: list[bool] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.append(len(dict(pairs)) < len(pairs))
        return dict(pairs)

    header_bytes = int.from_bytes(body[:8], "little")
    json.loads(body[8 : 8 + header_bytes], object_pairs_hook=members)
    return any(found)


def _is_possible(tensor: dict[str, Any]) -> bool:
    code, shape = tensor["dtype"], tensor["shape"]
    if code not in _STORAGES or not 1 <= len(shape) <= 8 or 0 in shape:
        return False
    if code not in _NUMBERS and prod(shape) > 2**23:
        return False
    if code == "BOOL":
        return not any(byte > 1 for byte in tensor["data"])
    return code != "U64" or not (np.frombuffer(tensor["data"], "<u8") >= 2**63).any()


_NAMES = ("x", "y", "", "__metadata__", "a/b~", "\u00e9", "\0", "x" * 100)
_LENGTHS = (1, 2, 3, 4, 0, -1, 2**32, 2**63, 2**64, 1.5, True, "2", None)
_CODES = (*_STORAGES, "F8_E5M2", "F8_E4M3", "F4", "f32", "", None)


def build(source: Source) -> bytes:
    """Build a header of nearly valid consecutive tensors, and their bytes."""
    header: dict[str, Any] = {}
    end = 0
    for _ in range(source.integer(0 if source.happens(8) else 1, 3)):
        first = end
        code = source.pick(_CODES if source.happens(8) else tuple(_STORAGES))
        shape = [_length(source) for _ in range(source.integer(0, 3))]
        end = (
            first + _size_bytes(code, shape) + (source.integer(-2, 2) if source.happens(16) else 0)
        )
        described = {"dtype": code, "shape": shape, "data_offsets": [first, end]}
        if source.happens(16):
            described.pop(source.pick(sorted(described)))
        header[source.pick(_NAMES if source.happens(4) else _NAMES[:2])] = described
    if source.happens(4):
        header["__metadata__"] = source.pick(
            ({"a": "b"}, {}, {"a": 1}, None, []) if source.happens(4) else ({}, {"a": "b"})
        )
    return _file(source, json.dumps(header, ensure_ascii=source.happens(2)).encode(), max(end, 0))


def _length(source: Source) -> Any:
    return source.pick(_LENGTHS) if source.happens(16) else source.pick(_LENGTHS[:4])


def _size_bytes(code: str | None, shape: list[Any]) -> int:
    lengths = [length if type(length) is int else 1 for length in shape]
    size = prod(lengths) * np.dtype(_STORAGES.get(code or "", "|u1")).itemsize
    return size if 0 <= size < 2**12 else 8


def _file(source: Source, text: bytes, count: int) -> bytes:
    length_bytes = len(text) + (source.integer(-9, 9) if source.happens(8) else 0)
    count += source.integer(-1, 1) if source.happens(8) else 0
    data = source.bytes(max(count, 0)).ljust(max(count, 0), b"\x01")
    return max(length_bytes, 0).to_bytes(8, "little") + text + data


def _with_header(text: str, data: bytes = b"") -> bytes:
    return len(text).to_bytes(8, "little") + text.encode("latin-1") + data


_ONE = '{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'

_SEEDS = (
    save({"x": np.arange(6, dtype="<f4").reshape(2, 3)}),
    save({"x": np.arange(3.0), "y": np.arange(4, dtype="<f2")}, {"kind": "test"}),
    save({"x": np.array([True, False]), "u": np.array([2**63], "<u8")}),
    *(save({"x": np.arange(2).astype(_STORAGES[code])}) for code in sorted(_STORAGES)),
    _with_header(_ONE + "}", b"12345678"),
    _with_header(_ONE.replace("F32", "BF16").replace("[2]", "[4]") + "}", b"12345678"),
    _with_header(_ONE + "," + _ONE[1:] + "}", b"12345678"),
    _with_header(_ONE + "}" + " " * 7, b"12345678"),
    _with_header('{"x":' + "[" * 2000, b""),
    b"\xff" * 8 + b"{}",
    b"\x02" + b"\0" * 7 + b"{}",
)

HARNESS = Harness(
    check,
    build,
    _SEEDS,
    (
        b'"dtype":',
        b'"shape":[',
        b'"data_offsets":[',
        b'"__metadata__":{',
        b'"F32"',
        b'"BF16"',
        b'"I64"',
    ),
)
