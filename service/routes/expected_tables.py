"""The table that an array should be, read as exactly as it can be, and a rotation of that table.

A URL names the table, or the rotation that was applied to an array.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from service.analysis.array import LARGEST, MAX_ELEMENTS, Sample, TableRequest
from service.analysis.diagnosis.explanation import ExpectedTable
from service.analysis.diagnosis.frequency_faults import variants
from service.analysis.diagnosis.mistakes import Diagnosis, Mistake
from service.analysis.diagnosis.rotation import diagnose_applied
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.rotary.angles import RotaryAngles, SequenceAngles
from service.encodings.rotary.packs import packed
from service.encodings.rotary.rope import Rope, RopeApply
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.grammar import integer, integers, real_positions
from service.numerics.dtypes import (
    FLOAT64,
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    DType,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.positions import RealPositions
from service.numerics.tables import Document, StoredTable, Table, size
from service.routes.table_urls import (
    document_at,
    pointing_at,
    split_url,
    tables,
)


def finite_sample(name: str, table: StoredTable) -> Sample:
    """Return an array whose numbers are finite and at most 2^64 in size.

    Raises:
        InvalidBody: it has other numbers, or more than are examined.
    """
    shown = shortened(name)
    if size(table) > MAX_ELEMENTS:
        rule = f"{shown} has {size(table)} numbers: at most {MAX_ELEMENTS} are possible"
        raise InvalidBody(rule, f"/{shown}")
    sample = Sample.of(table)
    if not sample.is_finite:
        raise InvalidBody(f"{shown} holds NaN or an infinity", f"/{shown}")
    if float(np.abs(sample.reals()).max()) > LARGEST:
        rule = f"{shown} holds numbers beyond 2^64: no table of positions does"
        raise InvalidBody(rule, f"/{shown}")
    return sample


# A longer table is read as a whole, up to this many times the length of the array, and never much
# more than a large upload.
_TIMES_LONGER = 8
_SHORT_ELEMENTS = 2**16
_MOST_ELEMENTS = 2**24

_ROUNDED = ("float32", "float16", "bfloat16", "complex64")


def table_request(url: str) -> TableRequest:
    """Return the resource and the parameters that a URL names."""
    split = split_url(url)
    query = parse_query(split.query.encode("utf-8", "surrogateescape"))
    return TableRequest(split.path.partition(".")[0].strip("/"), query)


def expected_table(url: str, sent_elements: int) -> tuple[TableRequest, ExpectedTable]:
    """Return the table that a URL names, before rounding where possible.

    Args:
        url: the value of ``to``.
        sent_elements: the number of elements that were sent.

    Raises:
        InvalidParameters: the URL names no table, or one that is far larger.
    """
    document = document_at("to", url)
    _check_size(document, sent_elements)
    request = table_request(url)
    return request, read_table(request, document)


def read_table(request: TableRequest, document: Document) -> ExpectedTable:
    """Read the table of a request, before rounding where possible."""
    read = {name: _sample(table) for name, table in _exact(request, document).arrays.items()}
    return ExpectedTable(read, _rounded_to(document), row_positions(request), _grid(request))


def alternative_tables(
    request: TableRequest,
) -> Iterator[tuple[Mistake, TableRequest, ExpectedTable]]:
    """Yield the tables that mistaken settings turn a table into, each with its mistake."""
    for mistake, other in variants(request):
        try:
            yield mistake, other, read_table(other, tables(other))
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


def _exact(request: TableRequest, document: Document) -> Document:
    """Return a rounded table as float64, where its family has that type."""
    if document.dtype not in _ROUNDED:
        return document
    try:
        return tables(request.with_parameters(dtype="float64"))
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


def row_positions(request: TableRequest) -> Float64s | None:
    """Return the positions of the rows; None where they are 0, 1, 2, …."""
    listed = request.parameters.get("positions")
    if listed is None:
        return _contiguous(request)
    positions = real_positions(listed)
    if isinstance(positions, RealPositions):
        return np.array(positions.values, dtype=np.float64)
    return positions.at(0, positions.count).astype(np.float64)


def _contiguous(request: TableRequest) -> Float64s | None:
    """Return start, start + 1, …: far out even the slowest angle has passed a full turn."""
    if not {"start", "seq_len"} <= set(request.parameters):
        return None
    start, rows = (integer(request.parameters[name]) for name in ("start", "seq_len"))
    return start + np.arange(rows, dtype=np.float64)


def _grid(request: TableRequest) -> tuple[int, int] | None:
    """Return height and width, where the rows are the places of a grid of two axes."""
    if {"height", "width"} <= set(request.parameters) and "depth" not in request.parameters:
        return integer(request.parameters["height"]), integer(request.parameters["width"])
    sides = integers(request.parameters["grid"]) if "grid" in request.parameters else ()
    return (sides[0], sides[1]) if len(sides) == 2 else None


_LAYOUTS = {"half": "half", "interleaved": "interleaved", "half_concat": "half"}
_FORM = ("pack", "part", "batch", "dtype")
_MOST_ROWS = 2**16


def diagnose_rotation(
    url: str, x: StoredTable, rotated: StoredTable
) -> tuple[TableRequest, Diagnosis]:
    """Diagnose an array that should have been rotated as a URL says.

    Args:
        url: ``/rope?…``, or ``/rope/apply?…``, which has the layout too.
        x: the array before the rotation, (…, positions, head_dim).
        rotated: the array after it.

    Raises:
        InvalidParameters: the URL names no rotation.
        InvalidBody: the arrays do not fit the rotation.
    """
    _check_rotated(x, rotated)
    with pointing_at("to", url):
        request = table_request(url)
    options: dict[str, Any] = {}
    if request.resource == "rope/apply":
        with pointing_at("to", url):
            parameters = read_parameters(RopeApply, request.parameters)
            angles = parameters.rotation(x.shape).angles
        document = packed(angles, "compact", FLOAT64)
        sign = -1.0 if parameters.inverse else 1.0
        options = {
            **_angle_factors(angles, sign),
            "layout": parameters.layout,
            "output_layout": parameters.output_layout,
            "rotary_offset": parameters.rotary_offset,
        }
    else:
        document, sign = _compact_table(url, request), 1.0
        options = {"layout": _layout(request), **_angle_factors(_table_angles(request), sign)}
    cos, sin = (_values(document, name) for name in ("cos", "sin"))
    if 2 * cos.shape[1] > x.shape[-1]:
        rule = f"{2 * cos.shape[1]} channels turn, and x has {x.shape[-1]}"
        raise InvalidBody(rule, "/x")
    if len(cos) < x.shape[-2]:
        rule = f"to names {len(cos)} rows, and x has {x.shape[-2]}: name as many at least"
        raise InvalidParameters(Fault("to", None, rule))
    before, after = (
        to_float64(table.elements, table.dtype).reshape(table.shape) for table in (x, rotated)
    )
    diagnosis = diagnose_applied(before, after, cos, sign * sin, rotated.dtype, **options)
    return request, diagnosis


def _check_rotated(x: StoredTable, rotated: StoredTable) -> None:
    for name, table in (("x", x), ("rotated", rotated)):
        if table.dtype not in REAL_DTYPES.values():
            raise InvalidBody(
                f"{name} must hold real numbers: it is {table.dtype.name}", f"/{name}"
            )
        if len(table.shape) < 2:
            raise InvalidBody(f"{name} must be positions by channels at least", f"/{name}")
        finite_sample(name, table)
    if x.shape != rotated.shape:
        rule = f"x has the shape {x.shape}, and rotated {rotated.shape}: they must be the same"
        raise InvalidBody(rule, "/rotated")


def _table_angles(request: TableRequest) -> RotaryAngles | None:
    """Return the angles of a table along one sequence, None for other tables."""
    if request.resource != "rope":
        return None
    return read_parameters(Rope, request.parameters).rotary_angles()


def _angle_factors(angles: RotaryAngles | None, sign: float) -> dict[str, Any]:
    """Return positions and frequencies, where the angles are their products."""
    if not isinstance(angles, SequenceAngles):
        return {}
    positions = angles.positions.at(0, angles.rows).astype(np.float64)
    frequencies = np.array([float(frequency) for frequency in angles.rule.exact()])
    return {"positions": positions, "omega": sign * frequencies}


def _compact_table(url: str, request: TableRequest) -> Document:
    if request.resource not in {"rope", "rope/axial"}:
        path = f"/{request.resource}"
        rule = f"to must name a rotation, /rope or /rope/apply, where x is sent: it is {path}"
        raise InvalidParameters(Fault("to", path, rule))
    document = document_at("to", url)
    if any(table.shape[0] > _MOST_ROWS for table in document.arrays.values()):
        rule = f"to names more than {_MOST_ROWS} rows: as many as x has are enough"
        raise InvalidParameters(Fault("to", None, rule))
    kept = {name: value for name, value in request.parameters.items() if name not in _FORM}
    return tables(TableRequest(request.resource, {**kept, "pack": "compact", "dtype": "float64"}))


def _layout(request: TableRequest) -> str | None:
    return _LAYOUTS.get(str(request.parameters.get("pack")))


def _values(document: Document, name: str) -> Float64s:
    table = document.arrays[name]
    read: Float64s = table.read(0, size(table)).reshape(table.shape)
    return read
