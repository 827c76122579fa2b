"""What ``to`` of ``/diagnose`` names: the table that somebody should have."""

from collections.abc import Iterator

import numpy as np

from service.analysis.call import Call
from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.diagnosis import Wanted
from service.analysis.mistakes.variants import variants
from service.analysis.sample import Sample
from service.delivery.parameters import parse_query
from service.errors import Fault, InvalidParameters
from service.grammar import integer, integers, real_positions
from service.routes.asked import document_at, split_url, tables
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import FLOAT64, INDEX_DTYPES, INT64, REAL_DTYPES, DType
from service.tables.real_positions import RealPositions
from service.tables.table import StoredTable, Table, size

# A table that is longer than what is there is read as a whole: so many times as long at most, and
# never much more than a large upload.
_TIMES_LONGER = 8
_SHORT_ELEMENTS = 2**16
_MOST_ELEMENTS = 2**24

_ROUNDED = ("float32", "float16", "bfloat16", "complex64")


def call_of(url: str) -> Call:
    """Read a URL as the call that it is."""
    split = split_url(url)
    query = parse_query(split.query.encode("utf-8", "surrogateescape"))
    return Call(split.path.partition(".")[0].strip("/"), query)


def wanted_of(url: str, sent_elements: int) -> tuple[Call, Wanted]:
    """Read the table that a URL names, as exactly as there is.

    Args:
        url: the value of ``to``.
        sent_elements: how many there are in what is held against it.

    Raises:
        InvalidParameters: it names no table, or one that is far larger.
    """
    document = document_at("to", url)
    _check_size(document, sent_elements)
    call = call_of(url)
    return call, wanted_by(call, document)


def wanted_by(call: Call, document: Document) -> Wanted:
    """Read the table that a call names, as exactly as there is."""
    read = {name: _sample(table) for name, table in _exact(call, document).arrays.items()}
    return Wanted(read, _rounded_to(document), positions_of(call), _grid(call))


def others_of(call: Call) -> Iterator[tuple[Mistake, Call, Wanted]]:
    """Read the tables that mistakes of settings make of one, as far as there are such."""
    for mistake, other in variants(call):
        try:
            yield mistake, other, wanted_by(other, tables(other))
        except InvalidParameters:
            continue


def _check_size(document: Document, sent_elements: int) -> None:
    elements = sum(map(size, document.arrays.values()))
    if elements > min(_MOST_ELEMENTS, _TIMES_LONGER * sent_elements + _SHORT_ELEMENTS):
        rule = (
            f"to names a table of {elements} elements, and {sent_elements} are sent: "
            "name the part that they should be, by seq_len or positions"
        )
        raise InvalidParameters(Fault("to", None, rule))


def _exact(call: Call, document: Document) -> Document:
    """Give a table of real numbers as float64, where there is such a one."""
    if document.dtype not in _ROUNDED:
        return document
    try:
        return tables(call.having(dtype="float64"))
    except InvalidParameters:
        return document


def _rounded_to(document: Document) -> DType:
    name = "float32" if document.dtype == "complex64" else str(document.dtype)
    return REAL_DTYPES.get(name, FLOAT64)


def _sample(table: Table) -> Sample:
    elements = table.read(0, size(table)).reshape(table.shape)
    if table.dtype.name in INDEX_DTYPES:
        return Sample.of(StoredTable(elements.astype(np.int64), INT64))
    return Sample.of(StoredTable(elements, table.dtype))


def positions_of(call: Call) -> Float64s | None:
    """Give the positions of rows, where they are listed or do not begin at 0."""
    listed = call.parameters.get("positions")
    if listed is None:
        return _following(call)
    positions = real_positions(listed)
    if isinstance(positions, RealPositions):
        return np.array(positions.values, dtype=np.float64)
    return positions.at(0, positions.count).astype(np.float64)


def _following(call: Call) -> Float64s | None:
    """Count from a start: far out even the slowest angle may have gone round, and hides it."""
    if not {"start", "seq_len"} <= set(call.parameters):
        return None
    start, rows = (integer(call.parameters[name]) for name in ("start", "seq_len"))
    return start + np.arange(rows, dtype=np.float64)


def _grid(call: Call) -> tuple[int, int] | None:
    """Give height and width, where rows are the places of a grid of two axes."""
    if {"height", "width"} <= set(call.parameters) and "depth" not in call.parameters:
        return integer(call.parameters["height"]), integer(call.parameters["width"])
    sides = integers(call.parameters["grid"]) if "grid" in call.parameters else ()
    return (sides[0], sides[1]) if len(sides) == 2 else None
