"""JSON bodies, compared with orjson and a plain reader of nested lists."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from service.errors import InvalidBody
from service.formats.json_text import JSON
from service.numerics.tables import StoredTable
from tests.fuzz.harness import Harness, Source, held_to
from tests.fuzz.written import check_written

_NAMES = ("x", "mask")
_READER_BYTES, _TIMES = 2**20, 256
_MAX_RANK = 8
_LARGEST = sys.float_info.max


def check(body: bytes) -> bool:
    try:
        with held_to(_READER_BYTES + _TIMES * len(body)):
            sent = JSON.read(body, _NAMES)
    except InvalidBody:
        assert not _must_be_read(body)
        return False
    content = _read_otherwise(body)
    if content is None:
        assert _has_more(sent.parameters)
        return True
    assert _names_said(body) == _members(content)
    arrays = {name: content.pop(name) for name in _NAMES if name in content}
    assert set(sent.arrays) == set(arrays)
    shape = content.pop("shape", None) if arrays else None
    for name, value in arrays.items():
        _check_as_nested(sent.arrays[name], value, shape)
    _check_equal(dict(sent.parameters), content)
    if arrays:
        check_written(sent.arrays)
    return True


def _read_otherwise(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _has_more(content: Any) -> bool:
    """Return whether a number is too large for binary64, which orjson refuses."""
    numbers = [value for value in _everything(content) if isinstance(value, int | float)]
    return any(abs(number) > _LARGEST for number in numbers)


def _check_as_nested(table: StoredTable, value: Any, given: Any) -> None:
    nested = _nested(value)
    assert nested is not None
    shape, leaves = nested
    if given is None:
        assert table.shape == shape
    else:
        assert shape in {table.shape, (len(leaves),)}
        assert ",".join(map(str, table.shape)) == _listed(given)
    if isinstance(leaves[0], bool):
        assert table.dtype.name == "int64"
        assert table.elements.reshape(-1).tolist() == [int(leaf) for leaf in leaves]
        return
    assert table.dtype.name == "float64"
    assert table.elements.tobytes() == np.array([float(leaf) for leaf in leaves]).tobytes()


def _listed(shape: Any) -> str:
    items = shape.split(",") if isinstance(shape, str) else shape
    return ",".join(str(int(item)) for item in items)


def _nested(value: Any, depth: int = 0) -> tuple[tuple[int, ...], list[Any]] | None:
    """Return shape and leaves of nested lists, or None if they have no shape."""
    if not isinstance(value, list):
        return (), [value]
    items = [_nested(item, depth + 1) for item in value] if depth < _MAX_RANK else []
    read = [item for item in items if item is not None]
    if not read or len(read) < len(value) or len({shape for shape, _ in read}) > 1:
        return None
    return (len(read), *read[0][0]), [leaf for _, leaves in read for leaf in leaves]


def _is_array(value: Any) -> bool:
    nested = _nested(value)
    if nested is None or not nested[0]:
        return False
    types = set(map(type, nested[1]))
    return types == {bool} or types <= {int, float}


def _check_equal(read: Any, expected: Any) -> None:
    left = [(read, expected)]
    while left:
        one, other = left.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            assert list(one) == list(other)
            left.extend(zip(one.values(), other.values(), strict=True))
        elif isinstance(one, list) and isinstance(other, list):
            left.extend(zip(one, other, strict=True))
        elif type(one) is int and type(other) is float:
            assert abs(one) >= 2**63
            assert float(one) == other
        else:
            assert type(one) is type(other)
            assert one == other


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{4000}")
_DEEP = 100


def _must_be_read(body: bytes) -> bool:
    """Return whether this is an object with unique names and arrays where expected."""
    content = _read_otherwise(body)
    if not isinstance(content, dict) or _LONG_NUMBER.search(body) or _lists(body) > _DEEP:
        return False
    if _names_said(body) > _members(content):
        return False
    arrays = [content[name] for name in _NAMES if name in content]
    return all(map(_is_array, arrays)) and not (arrays and "shape" in content)


def _lists(body: bytes) -> int:
    plain = _STRING.sub(b"", body)
    return plain.count(b"[") + plain.count(b"{")


def _names_said(body: bytes) -> int:
    return _STRING.sub(b"", body).count(b":")


def _members(content: Any) -> int:
    """Count the names of all objects, where repeated ones count once."""
    return sum(len(value) for value in _everything(content) if isinstance(value, dict))


def _everything(content: Any) -> Iterator[Any]:
    left = [content]
    while left:
        value = left.pop()
        yield value
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)


_NUMBERS = (
    "0",
    "1",
    "-0",
    "-0.0",
    "0.1",
    "1e308",
    "-1.7976931348623157e308",
    "1e309",
    "5e-324",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "1" * 400,
    "01",
    "1.",
    ".5",
    "+1",
    "NaN",
    "-Infinity",
    "true",
    "false",
    "null",
    '"1"',
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    "{}",
    "[]",
)
_OBJECT_NAMES = ('"x"', '"mask"', '"shape"', '"q"', '"a/b~"', '"\\u0078"', '""', "x")


def build(source: Source) -> bytes:
    """Build an object of nearly valid names and nested lists."""
    members = [
        source.pick(_OBJECT_NAMES) + ":" + _value(source) for _ in range(source.integer(1, 3))
    ]
    return ("{" + source.pick((",", ", ", ",\n")).join(members) + "}").encode()


def _value(source: Source) -> str:
    shape = [source.integer(1, 4) for _ in range(source.integer(0, 3))]
    return _list(source, shape, source.pick(("0.5", "true", "7", "")))


def _list(source: Source, shape: list[int], leaf: str) -> str:
    if not shape:
        return source.pick(_NUMBERS) if not leaf or source.happens(16) else leaf
    length = shape[0] + (source.integer(-1, 1) if source.happens(16) else 0)
    return "[" + ",".join(_list(source, shape[1:], leaf) for _ in range(length)) + "]"


_SEEDS = (
    b'{"x": [[1.5, -0.0], [1e-7, 3]], "d_model": 512}',
    b'{"x": [true, false], "mask": [[1]], "q": {"a": [null, "b", {"c": 1.0}]}}',
    b'{"x": [1, 2, 3, 4], "shape": [2, 2]}',
    b'{"x": [[1, 2]], "shape": "1,2", "q": 1}',
    b'{"x": [1, 2], "shape": [2, 2]}',
    b'{"x": [1e308]}',
    b'{"x": [1, 2], "x": [3]}',
    b'{"x": [[1], [2, 3]]}',
    b'{"x": [1, [2]]}',
    b'{"x": [[[[[[[[[1]]]]]]]]]}',
    b'{"q": 1e999, "x": [9007199254740993, 18446744073709551617]}',
    b'{"q": NaN}',
    b'{"q": "\\ud83d\\ude00", "\\u00e9": "\xc3\xa9"}',
    b'{"q": "\\ud83d"}',
    b'\xef\xbb\xbf{"q": 1}',
    b"[1]",
    b"[" * 3000,
    b'{"q":' * 990 + b"1" + b"}" * 990,
    b'{"q":' + b"[" * 700 + b"]" * 700 + b"}",
    b'{"q":' + b"9" * 5000 + b"}",
)

HARNESS = Harness(
    check,
    build,
    _SEEDS,
    (
        b'"x":',
        b'"mask":',
        b'"shape":',
        b"true",
        b"NaN",
        b"\\ud83d",
        b"\\ude00",
        b"1e308",
        b"[[",
        b"]]",
    ),
)
