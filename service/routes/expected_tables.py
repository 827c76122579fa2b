"""The tables that ``/diagnose`` expects: the table of a URL, or its first rows, and mistaken ones.

A table is read before rounding where possible. Of the table of a sequence, only as many rows are
read as were sent.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from operator import lt

import numpy as np

from service.analysis.array import COMPONENT_DTYPES, Sample, TableRequest
from service.analysis.comparison import alignments
from service.analysis.diagnosis.explanation import MAX_SHIFT, ExpectedTable, Pattern
from service.analysis.diagnosis.frequency_faults import variants
from service.analysis.diagnosis.mistakes import Mistake
from service.errors import Fault, InvalidParameters
from service.grammar import integer, integers, real_positions, to_query
from service.numerics.dtypes import FLOAT64, INDEX_DTYPES, INT64, REAL_DTYPES, Elements
from service.numerics.phase import Float64s
from service.numerics.tables import Document, ParameterValue, StoredTable, Table, size
from service.routes.table_urls import table_request, tables

ROWS = ("seq_len", "start", "positions")
"""The parameters of the rows of a sequence."""

# The expected table may have this many times the elements of the array, plus _SHORT_ELEMENTS, and
# at most _MOST_ELEMENTS.
_TIMES_LONGER = 8
_SHORT_ELEMENTS = 2**16
_MOST_ELEMENTS = 2**24

_ROUNDED = ("float32", "float16", "bfloat16", "complex64")

# The fields of CheckedElements about rows; none if the table has as many as the array.
Rows = Mapping[str, int]
Expectation = tuple[TableRequest | None, ExpectedTable, Rows]


def expected_tables(
    url: str, document: Document, have: Mapping[str, Sample]
) -> Iterator[Expectation]:
    """Yield the table of a URL, or its beginnings that have as many rows as the arrays.

    Tables are read before rounding where possible.

    Raises:
        InvalidParameters: the table is far larger than the arrays.
    """
    sample = next(iter(have.values()))
    sent = len(have) * sample.values.size
    for count in _row_counts(sample, document) or [_rows(document)]:
        request, rows = beginning(table_request(url), document, count)
        part = tables(request) if rows else document
        elements = sum(map(size, part.arrays.values()))
        if elements > min(_MOST_ELEMENTS, _TIMES_LONGER * sent + _SHORT_ELEMENTS):
            raise bad_url(
                f"to names a table of {elements} elements, and {sent} are sent: "
                "name the part that they should be, as by query_len"
            )
        yield request, expected_table(request, part), rows


def _row_counts(sample: Sample, document: Document) -> list[int]:
    """Return how many rows of a table an array may be the beginning of; [] if it is none.

    The axes go together as /compare aligns them. If this exchanges them, or if nothing aligns them,
    the first axis may also be the rows, with too few channels.
    """
    most, own = _rows(document), sample.values.shape
    if not most:
        return []
    table = next(iter(document.arrays.values()))
    shape = table.shape + (2,) * (table.dtype in COMPONENT_DTYPES)
    first = next(iter(alignments(own, shape)), None)
    counts = []
    if first is not None and first.prefix is not None and document.axes[first.prefix] == "position":
        counts.append(first.region[first.prefix])
    is_aligned = first is not None and (first.is_whole or not first.is_reordered)
    lengths = [length for length in shape if length > 1]
    if not is_aligned and len(own) == len(lengths) and all(map(lt, own, lengths)):
        counts.append(own[0])
    return [rows for rows in counts if rows < most]


def _rows(document: Document) -> int:
    """Return the number of rows if they are the positions of one sequence, else 0."""
    given, table = document.parameters.keys(), next(iter(document.arrays.values()))
    is_sequence = "position" in document.axes and (
        "positions" in given or {"start", "seq_len"} <= given
    )
    return table.shape[document.axes.index("position")] if is_sequence else 0


def beginning(request: TableRequest, document: Document, rows: int) -> tuple[TableRequest, Rows]:
    """Return the request for the first rows of a table; unchanged if the table has no more."""
    given, most = document.parameters, _rows(document)
    if rows >= most:
        return request, {}
    if "positions" in given:
        positions = real_positions(given["positions"]).beginning(rows)
        request = with_rows(request, document, positions=str(positions))
    else:
        request = with_rows(request, document, seq_len=rows)
    return request, {"rows": rows, "of": most}


def with_rows(request: TableRequest, document: Document, **rows: ParameterValue) -> TableRequest:
    """Return the request for other rows, with the parameters of the document.

    Some depend on the number of rows unless they are given, such as the centre of xPos.
    """
    request = request.with_parameters(**rows)
    changed = tables(request).parameters
    kept = {name: each for name, each in document.parameters.items() if name not in ROWS}
    kept = {name: each for name, each in kept.items() if changed.get(name) != each}
    return request.with_parameters(**kept)


def alternative_tables(
    request: TableRequest,
) -> Iterator[tuple[Mistake, TableRequest, ExpectedTable]]:
    """Yield the tables for mistaken settings of a request: mistake, request, table."""
    for mistake, other in variants(request):
        try:
            yield mistake, other, expected_table(other, tables(other))
        except InvalidParameters:
            continue


def expected_table(request: TableRequest, document: Document) -> ExpectedTable:
    """Read the table of a request, before rounding where possible."""
    exact, given = document, {**request.parameters, "dtype": "float64"}
    if document.dtype in _ROUNDED:
        with suppress(InvalidParameters):
            exact = tables(TableRequest(request.resource, given))
    arrays = {}
    for name, table in exact.arrays.items():
        dtype, elements = table.dtype, elements_of(table)
        if dtype.name in INDEX_DTYPES:
            dtype, elements = INT64, elements.astype(np.int64)
        arrays[name] = Sample.of(StoredTable(elements, dtype))
    name = "float32" if document.dtype == "complex64" else str(document.dtype)
    dtype = REAL_DTYPES.get(name, FLOAT64)
    following = partial(_following, exact.parameters, request) if _rows(exact) else None
    rows = row_positions(TableRequest(request.resource, exact.parameters))
    pattern = _pattern(TableRequest(request.resource, given), exact, rows)
    return ExpectedTable(
        arrays,
        dtype,
        rows,
        _grid(request),
        pattern,
        is_row=_rows(exact) == 1,
        has_frequencies=arrays.keys() <= {"inv_freq", "frequency"},
        read_following=following,
    )


def _pattern(
    request: TableRequest, document: Document, positions: Float64s | None
) -> Pattern | None:
    """Return rows from which the waves of a table are read; None if the table itself shows them.

    Args:
        request: the request for the table.
        document: the document of this request.
        positions: the positions of its rows, if they are a sequence.
    """
    is_part = document.arrays.keys() < {"cos", "sin"}
    # Frequencies cannot be measured from one row, nor where angles advance by more than π.
    is_consecutive = positions is None or (
        len(positions) > 1 and bool((np.diff(positions) == 1).all())
    )
    if is_consecutive and not is_part:
        return None
    width = sum(map(size, document.arrays.values())) // (1 if positions is None else len(positions))
    most = max(_LEAST_ROWS, min(_MOST_ROWS, _PATTERN_ELEMENTS // max(1, width)))
    # A convention may refuse these rows: then no waves are known.
    with suppress(InvalidParameters):
        if not is_consecutive:
            # After the rows that conventions reserve for padding.
            positions = np.arange(float(most)) + _MOST_ROWS
            request = with_rows(
                request.without("positions"), document, start=_MOST_ROWS, seq_len=most
            )
        arrays = tables(request.without("part", "batch")).arrays
        rows = {name: _first_rows(table, most) for name, table in arrays.items()}
        count = next(iter(rows.values())).shape[0]
        return Pattern(rows, np.arange(float(count)) if positions is None else positions[:count])
    return None


# The rows and elements of a pattern: a few rows show all frequencies.
_LEAST_ROWS = 4
_MOST_ROWS = 64
_PATTERN_ELEMENTS = 2**16


def _following(given: Mapping[str, object], request: TableRequest) -> Mapping[str, Sample]:
    """Return the rows after the last of a sequence; none if there are none."""
    if "positions" in given:
        return {}
    start = integer(str(given["start"])) + integer(str(given["seq_len"]))
    with suppress(InvalidParameters):
        later = request.with_parameters(start=start, seq_len=MAX_SHIFT, dtype="float64")
        return expected_table(later, tables(later)).arrays
    return {}


def _first_rows(table: Table, most: int) -> Sample:
    count = min(table.shape[0], most)
    elements = table.read(0, size(table) // table.shape[0] * count)
    return Sample.of(StoredTable(elements.reshape(count, *table.shape[1:]), table.dtype))


def elements_of(table: Table) -> Elements:
    """Return all elements of a table, in its shape."""
    return table.read(0, size(table)).reshape(table.shape)


def row_positions(request: TableRequest) -> Float64s | None:
    """Return the row positions that the request states; None if it states none."""
    parameters = request.parameters
    if "positions" in parameters:
        positions = real_positions(parameters["positions"])
        return positions.at(0, positions.count).astype(np.float64)
    # From a far start, even the slowest angle has passed 2π: it does not determine the start.
    if {"start", "seq_len"} <= set(parameters):
        start, rows = (integer(parameters[name]) for name in ("start", "seq_len"))
        return start + np.arange(rows, dtype=np.float64)
    return None


def positions_text(request: TableRequest) -> str:
    """Return the positions of a table as text."""
    given = request.parameters
    if "positions" in given:
        return to_query(given["positions"])
    start = integer(str(given.get("start", 0)))
    return (
        f"{start}:{start + integer(str(given['seq_len']))}" if "seq_len" in given else "one by one"
    )


def _grid(request: TableRequest) -> tuple[int, int] | None:
    """Return (height, width) if the rows are the tokens of a 2-D grid, else None."""
    parameters = request.parameters
    if {"height", "width"} <= set(parameters) and "depth" not in parameters:
        return integer(parameters["height"]), integer(parameters["width"])
    lengths = integers(parameters["grid"]) if "grid" in parameters else ()
    return (lengths[0], lengths[1]) if len(lengths) == 2 else None


def bad_url(rule: str, url: str | None = None) -> InvalidParameters:
    """Return the error for the parameter ``to``."""
    return InvalidParameters(Fault("to", url, rule))
