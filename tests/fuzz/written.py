"""Arrays that were read are written in every format that can hold them, and read again."""

import csv
import io
from collections.abc import Mapping

import numpy as np
import orjson

from service.formats.csv_text import CSV
from service.formats.format import Format
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.raw import RAW
from service.formats.safetensors_file import SAFETENSORS
from service.numerics.dtypes import INT64, DType, Elements, decimal_view
from service.numerics.tables import Document, StoredTable, Table, size

_MOST_ELEMENTS = 4096


def check_written(arrays: Mapping[str, StoredTable]) -> None:
    """Write arrays, and compare them with what is read back."""
    if sum(map(size, arrays.values())) > _MOST_ELEMENTS:
        return
    document = Document("encoding", {}, arrays)
    if SAFETENSORS.refusal(document) is None:
        _check_same(SAFETENSORS.read(_written(SAFETENSORS, document), ()).arrays, arrays)
    table = next(iter(arrays.values()))
    alone = Document("encoding", {}, {"encoding": table})
    for form, check in ((NPY, _check_npy), (JSON, _check_json), (CSV, _check_csv)):
        if _is_held(form, alone):
            check(_written(form, alone), table)
    _check_parts(alone, _elements(table).tobytes())


def _is_held(form: Format, document: Document) -> bool:
    (table,) = document.arrays.values()
    is_finite = bool(np.isfinite(decimal_view(_elements(table), table.dtype)).all())
    return form.refusal(document) is None and (is_finite or not form.is_text)


def _written(form: Format, document: Document) -> bytes:
    return b"".join(form.body(document).blocks())


def _check_npy(body: bytes, table: StoredTable) -> None:
    (again,) = NPY.read(body, ()).arrays.values()
    _check_same({"": again}, {"": table})


def _check_json(body: bytes, table: StoredTable) -> None:
    read = orjson.loads(body)
    assert tuple(read["shape"]) == table.shape
    _check_numbers(np.array(read["data"], dtype=_printed(table.dtype)), table)


def _check_csv(body: bytes, table: StoredTable) -> None:
    rows = list(csv.reader(io.StringIO(body.decode("ascii"), newline="")))
    numbers = [[float(cell) for cell in row] for row in rows]
    if table.dtype is INT64:
        numbers = [[int(cell) for cell in row] for row in rows]
    _check_numbers(np.array(numbers, dtype=_printed(table.dtype)).reshape(table.shape), table)


def _printed(dtype: DType) -> str:
    return "<f4" if dtype.name == "bfloat16" else dtype.storage


def _check_numbers(read: Elements, table: StoredTable) -> None:
    assert read.shape == table.shape
    assert read.tobytes() == decimal_view(_elements(table), table.dtype).tobytes()


def _elements(table: Table) -> Elements:
    return table.read(0, size(table))


def _check_parts(document: Document, everything: bytes) -> None:
    """Read a part from the middle of a body."""
    body = RAW.body(document)
    third = len(everything) // 3
    for start, stop in ((0, third), (third, 2 * third + 1), (third, len(everything))):
        part = b"".join(bytes(block) for block in body.blocks(start, stop))
        assert part == everything[start:stop]


def _check_same(read: Mapping[str, Table], sent: Mapping[str, StoredTable]) -> None:
    assert set(read) == set(sent)
    for name, table in sent.items():
        again = read[name]
        assert (again.shape, again.dtype) == (table.shape, table.dtype)
        assert _elements(again).tobytes() == _elements(table).tobytes()
