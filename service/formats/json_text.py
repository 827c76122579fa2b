"""``json``: a flat object, metadata first, whose numbers parse back to the elements.

Every number is the shortest decimal that parses back to its element.
"""

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson

from service import grammar
from service.errors import InvalidBody, shortened
from service.formats.format import (
    REAL_AND_INTEGER,
    Block,
    Input,
    Part,
    ReadableFormat,
    WholeBody,
    check_shape,
    integers,
    prepared,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, decimal_view
from service.numerics.setups import read_in_steps
from service.numerics.tables import (
    Document,
    ParameterValue,
    StoredTable,
    Table,
    size,
    turn_elements,
)

ENCODER = f"orjson {orjson.__version__}"
"""The library that writes the numbers: another version may write some in another way."""

# The longest decimal of an element with the comma after it: -1.17549435e-38, for example.
_ELEMENT_BYTES = {
    FLOAT16.name: 16,
    BFLOAT16.name: 16,
    FLOAT32.name: 16,
    FLOAT64.name: 25,
    INT32.name: 12,
    INT64.name: 21,
}
# orjson holds the interpreter while it works, for about a millisecond a block.
_BLOCK_BYTES = 256 * 1024
_LISTED = 4096

NUMBER_SECONDS = 3e-8
"""The processor seconds of writing a number as text."""


def text_limit_bytes(table: Table) -> int:
    """Return an upper bound on the size of a table's numbers as text, in bytes."""
    return size(table) * _ELEMENT_BYTES[table.dtype.name]


def block_elements(table: Table) -> int:
    """Return how many elements to write at a time, so that other threads run in between."""
    most = _BLOCK_BYTES // _ELEMENT_BYTES[table.dtype.name]
    return min(most, turn_elements(table, NUMBER_SECONDS))


def nested_lists(table: Table, start: int, shape: tuple[int, ...]) -> Generator[Block, None, bytes]:
    """Return the flat elements from start on as nested lists of a shape, after empty blocks."""
    read = yield from read_in_steps(partial(table.read, start, start + prod(shape)))
    elements = decimal_view(read, table.dtype).reshape(shape)
    return orjson.dumps(np.ascontiguousarray(elements), option=orjson.OPT_SERIALIZE_NUMPY)


def parameter_text(value: ParameterValue) -> str:
    """Write a parameter as ``json.dumps`` does, a long list in parts.

    ``json.dumps`` holds the interpreter: for a third of a second with a million numbers.
    """
    if not isinstance(value, tuple):
        return json.dumps(value)
    parts = (value[first : first + _LISTED] for first in range(0, len(value), _LISTED))
    return f"[{', '.join(json.dumps(part)[1:-1] for part in parts)}]"


_LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class JsonBody(WholeBody):
    """The bytes of a document as one object: kind, type, parameters, shape, dtype, data.

    No member has two types: ``type`` tells a table, whose data are lists, from tables, whose data
    are lists by name. An array without axes is the list of its number.
    """

    document: Document

    @cached_property
    def limit_bytes(self) -> int:
        """The bytes if every element had its longest decimal."""
        elements = sum(
            text_limit_bytes(table) + 3 * _brackets(_listed(table))
            for table in self.document.arrays.values()
        )
        names = sum(len(orjson.dumps(name)) + 2 for name in self.document.arrays)
        return len(self._head()) + names + elements + 4

    def parts(self) -> Iterator[Part]:
        arrays = self.document.arrays
        yield from prepared(arrays.values())
        yield self._head()
        is_single = len(arrays) == 1
        for index, (name, table) in enumerate(arrays.items()):
            if not is_single:
                yield (b"," if index else b"{") + orjson.dumps(name) + b":"
            yield from _nested(table, _listed(table), 0)
        yield b"}" if is_single else b"}}"

    def _head(self) -> bytes:
        document, tables = self.document, self.document.arrays.items()
        has_names = len(tables) > 1
        head: dict[str, Any] = {
            "kind": document.kind,
            "type": "tables" if has_names else "table",
            "parameters": dict(document.parameters),
            "layout": document.layout,
            "pack": document.pack,
            "shape": document.shape,
            "dtype": document.dtype,
            "shapes": {name: table.shape for name, table in tables} if has_names else None,
            "dtypes": {name: table.dtype.name for name, table in tables} if has_names else None,
            "error_bound": document.error_bound,
            "axes": document.axes if document.states_axes else None,
            "warnings": [vars(each) for each in document.warnings] or None,
            **document.details,
        }
        given = {name: value for name, value in head.items() if value is not None}
        return orjson.dumps(given)[:-1] + b',"data":'


def _listed(table: Table) -> tuple[int, ...]:
    """Return the shape of the lists that hold a table."""
    return table.shape or (1,)


def _brackets(shape: tuple[int, ...]) -> int:
    """Count the lists in a nested list of this shape."""
    return sum(prod(shape[:axis]) for axis in range(len(shape)))


def _nested(table: Table, shape: tuple[int, ...], offset: int) -> Iterator[Part]:
    """Write the elements from offset on as nested lists of a shape, a block of items at a time."""
    items, *inner = shape
    item_size = prod(inner)
    yield b"["
    step_elements = block_elements(table)
    if not inner or item_size <= step_elements:
        step = max(1, step_elements // item_size)
        for first in range(0, items, step):
            last = min(first + step, items)
            before = b"," if first else b""
            yield partial(_items, table, offset + first * item_size, (last - first, *inner), before)
    else:
        for index in range(items):
            if index:
                yield b","
            yield from _nested(table, tuple(inner), offset + index * item_size)
    yield b"]"


def _items(table: Table, start: int, shape: tuple[int, ...], before: bytes) -> Iterator[Block]:
    """Write elements as the items of a list, after a comma unless they are its first."""
    # No name refers to the text: it would be in memory until the next block.
    yield before + (yield from nested_lists(table, start, shape))[1:-1]


def _float(text: str) -> float:
    return float(text)


def _int(text: str) -> int:
    return int(text)


# While the decoder of long bodies calls Python functions, other threads can run between numbers;
# with its own it holds the interpreter until the end.
_YIELDING: Mapping[str, Any] = MappingProxyType({"parse_float": _float, "parse_int": _int})
_LONG_BYTES = 64 * 1024

# Without numbers the decoder does not yield: 4 MB of empty lists would stop other threads for most
# of a second.
_MAX_LISTS = 2**17


def read_object(body: Block, hint: str = "") -> dict[str, Any]:
    """Read a JSON object strictly: no repeated name, no NaN or Infinity, UTF-8 only."""
    body = bytes(body)
    if body.startswith(BOM_UTF8):
        raise InvalidBody("the body begins with a byte order mark: send the JSON without it")
    if body.count(b"[") + body.count(b"{") > _MAX_LISTS:
        raise InvalidBody(
            f"the JSON has more than {_MAX_LISTS} lists and objects: "
            "send arrays of so many rows flat, with shape, or as npy or safetensors"
        )
    try:
        content = strict(
            body,
            parse_constant=partial(_refuse_constant, hint),
            **(_YIELDING if len(body) > _LONG_BYTES else {}),
        )
    except UnicodeEncodeError as error:
        raise InvalidBody("the body has an escape that is one half of a surrogate pair") from error
    except UnicodeDecodeError as error:
        raise InvalidBody("the body is not UTF-8: bytes need another Content-Type") from error
    except RecursionError as error:
        raise InvalidBody("the JSON is nested too deeply") from error
    except json.JSONDecodeError as error:
        rest = shortened(error.doc[error.pos : error.pos + 50], 40)
        place = f"line {error.lineno}, column {error.colno} cannot be read: {rest}"
        quotes = "; names and strings need double quotes, as json.dumps writes"
        place += quotes * rest.startswith("'")
        raise InvalidBody(f"the body is not JSON: {place if rest else 'it ends early'}") from None
    except ValueError:
        # The only other error of the decoder.
        rule = f"an integer has more than {sys.get_int_max_str_digits()} digits"
        raise InvalidBody(rule) from None
    if not isinstance(content, dict):
        raise InvalidBody(f"the body must be a JSON object{hint}")
    return content


def strict(text: bytes, **hooks: Any) -> Any:
    """Return the content of JSON; raises InvalidBody for a repeated name, or ValueError."""
    parse, has_repeats = partial(json.loads, text.decode("utf-8"), **hooks), False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeats
        content = dict(pairs)
        has_repeats |= len(content) < len(pairs)
        return content

    content = parse(object_pairs_hook=members)
    if has_repeats:
        where = shortened(next(_repeats(parse(object_pairs_hook=tuple))))
        raise InvalidBody(f"{where[1:]} is given twice", where)
    if b"\\ud" in text.lower():
        json.dumps(content, ensure_ascii=False).encode("utf-8")
    return content


def _repeats(content: Any, where: str = "") -> Iterator[str]:
    """Yield the pointer to each name that an object, here a tuple of pairs, has twice."""
    names: set[object] = set()
    is_object = isinstance(content, tuple)
    for name, value in content if is_object else enumerate(content):
        place = f"{where}/{shortened(name).replace('~', '~0').replace('/', '~1')}"
        if name in names:
            yield place
        if is_object:
            names.add(name)
        if isinstance(value, list | tuple):
            yield from _repeats(value, place)


def _refuse_constant(hint: str, name: str) -> Any:
    rule = f"only {_BINARY} have it" if hint else "its numbers are finite"
    raise InvalidBody(f"{name} is not JSON: {rule}", value=name)


_BINARY = "npy, safetensors and application/octet-stream"


def _read(body: Block, names: Sequence[str]) -> Input:
    """Read ``{"x": [[…]], …}``: numbers as float64, booleans, and the rest as parameters.

    The array may be a flat list if its ``shape`` is beside it.
    """
    content = read_object(body, ': send an array as {"x": […]}')
    arrays = {name: read_array(name, content.pop(name)) for name in names if name in content}
    if arrays and "shape" in content:
        arrays = _shaped(arrays, content.pop("shape"))
    return Input(arrays, content, is_text=True)


def _shaped(arrays: Mapping[str, StoredTable], value: Any) -> dict[str, StoredTable]:
    """Return a single array with the shape that a body gives it."""
    if len(arrays) > 1:
        names = " and ".join(arrays)
        raise InvalidBody(f"shape goes with one array: send {names} as nested lists", "/shape")
    ((name, table),) = arrays.items()
    try:
        shape = grammar.integers(value)
    except ValueError as error:
        raise InvalidBody(f"shape {error}", "/shape", shortened(value)) from error
    check_shape(name, shape, "/shape")
    if prod(shape) != size(table) or table.shape not in {shape, (size(table),)}:
        rule = f"{name} has the shape {list(table.shape)}, and cannot have {list(shape)}"
        raise InvalidBody(rule, "/shape", grammar.to_query(shape))
    return {name: StoredTable(table.elements.reshape(shape), table.dtype)}


def read_array(name: str, value: Any) -> StoredTable:
    """Return the numbers of nested lists as float64, or booleans; raises InvalidBody."""
    shape, leaves = [], [value]
    while leaves and isinstance(leaves[0], list):
        lengths = {len(item) if isinstance(item, list) else -1 for item in leaves}
        if len(lengths) > 1:
            raise InvalidBody(f"{name} must be lists of numbers of one length", f"/{name}")
        shape.append(lengths.pop())
        leaves = list(chain.from_iterable(leaves))
    types = set(map(type, leaves))
    for kind, hint in _NO_NUMBERS.items():
        if kind in types:
            raise InvalidBody(f"{name} must hold numbers only: {hint}", f"/{name}")
    check_shape(name, tuple(shape))
    if types == {bool}:
        return integers(name, np.array(leaves, dtype=np.bool_).reshape(shape))
    if not types <= {int, float}:
        raise InvalidBody(f"{name} must hold numbers only, or booleans only", f"/{name}")
    if not all(abs(leaf) <= _LARGEST for leaf in leaves):
        raise InvalidBody(f"{name} must hold numbers within the range of float64", f"/{name}")
    return StoredTable(np.array(leaves, dtype=np.float64).reshape(shape), FLOAT64)


_AS_BYTES = "its bytes as application/octet-stream, with shape and dtype in the query"
_NO_NUMBERS: Mapping[type, str] = MappingProxyType(
    {
        dict: f"in JavaScript, send Array.from(x) for a typed array x, or {_AS_BYTES}",
        str: f"send lists of numbers, not a string (nor base64), or {_AS_BYTES}",
        type(None): "JSON has no NaN and no infinity, and JavaScript writes null for them; "
        f"send the array as {_BINARY.replace(' and ', ' or ')}",
    }
)


JSON = ReadableFormat(
    extension="json",
    media_type="application/json",
    name="JSON",
    body=JsonBody,
    read=_read,
    is_text=True,
    number_seconds=NUMBER_SECONDS,
    byte_seconds=6e-8,
    # The first version had no type, and no layout or pack beside the parameters.
    version=f"2, {ENCODER}",
    has_several_arrays=True,
    has_details=True,
    dtypes=REAL_AND_INTEGER,
    # null is a number that is infinite by its formula, not one that exceeds its type.
    has_infinity=False,
    has_nan=False,
)
