"""Numbers as text: the shortest decimal that parses back to the element."""

import json
from math import prod

import numpy as np
import orjson

from service.tables.document import Document, ParameterValue
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, decimal_view
from service.tables.table import StoredTable, Table, size

ENCODER = f"orjson {orjson.__version__}"
"""What spells the numbers: another version may spell some another way."""

# Longest spelling of an element with the comma after it: -1.17549435e-38 and its like.
_ELEMENT_BYTES = {
    FLOAT16.name: 16,
    BFLOAT16.name: 16,
    FLOAT32.name: 16,
    FLOAT64.name: 25,
    INT32.name: 12,
    INT64.name: 21,
}
# orjson holds the interpreter while it works: a block takes it about a millisecond.
_BLOCK_ELEMENTS = 16384
_LISTED = 4096


def no_spelling(document: Document, name: str) -> str | None:
    """Tell why numbers of a document cannot be spelled in a format of a name, or None."""
    stored = (table for table in document.arrays.values() if isinstance(table, StoredTable))
    if any(table.dtype.name not in _ELEMENT_BYTES for table in document.arrays.values()):
        return f"complex numbers have no {name}"
    if not all(table.is_finite for table in stored):
        return f"{name} has no NaN and no infinity"
    return None


def spelled_limit_bytes(table: Table) -> int:
    """Give the bytes of a table with every element at its longest."""
    return size(table) * _ELEMENT_BYTES[table.dtype.name]


def elements_of_block(table: Table) -> int:
    """Give how many elements to spell at a time, so that the interpreter is free in between."""
    return max(1, _BLOCK_ELEMENTS // table.work_per_element)


def spelled(table: Table, start: int, shape: tuple[int, ...]) -> bytes:
    """Spell the flat elements from start on as nested lists of a shape."""
    stop = start + prod(shape)
    elements = decimal_view(table.read(start, stop), table.dtype).reshape(shape)
    return orjson.dumps(np.ascontiguousarray(elements), option=orjson.OPT_SERIALIZE_NUMPY)


def dumped(value: ParameterValue) -> str:
    """Spell a parameter as ``json.dumps`` does, a long list by parts.

    That holds the interpreter, too: for a third of a second where there are a million numbers.
    """
    if not isinstance(value, tuple):
        return json.dumps(value)
    parts = (value[first : first + _LISTED] for first in range(0, len(value), _LISTED))
    return f"[{', '.join(json.dumps(part)[1:-1] for part in parts)}]"
