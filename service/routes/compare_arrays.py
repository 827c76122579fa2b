"""One array of a comparison: laid over its table, read in its type, compared."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.analysis.comparing.alignment import alignments
from service.analysis.comparing.comparison import compare, misfit, scale_of
from service.analysis.comparing.overlay import Overlay
from service.analysis.comparing.tolerance import Tolerance, narrower
from service.errors import Fault, InvalidBody, InvalidParameters
from service.formats.numbering import numbers
from service.routes.compare_report import Reported
from service.tables.document import Document
from service.tables.dtypes import COMPLEX_DTYPES, FLOAT64, INT32, INT64, REAL_DTYPES, round_into
from service.tables.table import StoredTable, Table

Json = dict[str, Any]

MAX_WORK = 2**29
"""The most sines that are computed for a comparison: some seconds of a core."""

# Vectors of these have numbers of many sizes, all of which matter: none is a difference of others.
_OF_MANY_SIZES = {(), ("head",)}
_COLUMNS = ("channel", "pair", "dimension", "key")


@dataclass(frozen=True, eq=False)
class Compared:
    """An array that was compared.

    Attributes:
        report: what was found.
        described: shapes and types of both.
        is_equal_bytes: whether type, shape and every byte are the same.
    """

    report: Reported
    described: Json
    is_equal_bytes: bool


def compared(
    document: Document,
    name: str,
    array: StoredTable,
    tolerances: tuple[float | None, float | None],
    sent_as: str | None,
) -> Compared:
    """Compare an array with one of a document.

    Args:
        document: what is meant.
        name: which of its arrays.
        array: what was sent.
        tolerances: atol and rtol, as far as they are asked for.
        sent_as: the name of the type that it was sent in; None for text, which has none: its
            numbers are rounded to the type of the table.

    Raises:
        InvalidBody: the array cannot be compared with the table.
        InvalidParameters: it would take too long.
    """
    table = document.arrays[name]
    yours = {"shape": list(array.shape), "dtype": sent_as or "number"}
    theirs = {"shape": list(table.shape), "dtype": table.dtype.name}
    if sent_as is None:
        array = _rounded(array, table)
    overlay, tolerance = _laid(array, table, document, tolerances)
    alignment = overlay.alignment
    names = _axes(document, alignment.table_shape)
    rows = next((i for i, axis in enumerate(names) if axis != "head"), 0)
    region = alignment.region
    found = compare(overlay, tolerance, rows, _columns(names, rows))
    places = numbers(names[rows], alignment.table_shape[rows], document, region[rows])
    is_integer = table.dtype in {INT32, INT64}
    return Compared(
        Reported(found, alignment, names, places, is_integer),
        {"yours": yours, "theirs": theirs},
        found.is_equal
        and array.shape == table.shape
        and (sent_as or array.dtype.name) == table.dtype.name
        and found.has_equal_signs,
    )


def _rounded(array: StoredTable, table: Table) -> StoredTable:
    if array.dtype is not FLOAT64 or table.dtype.name not in REAL_DTYPES:
        return array
    elements = np.empty(array.shape, dtype=table.dtype.storage)
    with np.errstate(over="ignore"):
        round_into(array.elements, elements, table.dtype)
    return StoredTable(elements, table.dtype)


def _laid(
    array: StoredTable,
    table: Table,
    document: Document,
    tolerances: tuple[float | None, float | None],
) -> tuple[Overlay, Tolerance]:
    """Lay an array over a table in the way in which it fits best."""
    if (array.dtype in COMPLEX_DTYPES) != (table.dtype in COMPLEX_DTYPES):
        raise InvalidBody(
            f"the array is {array.dtype.name} and the table {table.dtype.name}: "
            "pack=complex in to names complex numbers, pack=pair their parts"
        )
    ways = alignments(array.shape, table.shape or (1,))
    if not ways:
        raise InvalidBody(
            f"the array has the shape {array.shape}, and the table {table.shape}: compared are "
            "shapes that differ by axes of length 1, by the order of axes, or along one axis only"
        )
    overlays = [Overlay(array, table, way) for way in ways]
    work = overlays[0].work
    if work > MAX_WORK:
        rule = f"comparing with it takes {work} sines, and at most {MAX_WORK} are possible"
        raise InvalidParameters(Fault("to", None, f"to is too large a table: {rule}"))
    dtype = None if table.dtype in {INT32, INT64} else narrower(array.dtype, table.dtype)
    is_of_many_sizes = dtype is None or document.axes in _OF_MANY_SIZES
    floor = 0.0 if is_of_many_sizes else scale_of(overlays[0])
    tolerance = Tolerance(*tolerances, dtype, floor)
    return _best(overlays, tolerance), tolerance


def _best(overlays: list[Overlay], tolerance: Tolerance) -> Overlay:
    """Choose the order of axes that fits best; the first, unless another fits twice as well.

    Where none fits, the first is meant: other numbers are no nearer in another order, but for
    chance, and that makes no such difference.
    """
    if len(overlays) == 1:
        return overlays[0]
    misfits = [misfit(each, tolerance) for each in overlays]
    least = min(misfits)
    is_better = any(2 * mine < theirs for mine, theirs in zip(least, misfits[0], strict=True))
    return overlays[misfits.index(least)] if is_better else overlays[0]


def _axes(document: Document, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Name the axes of a table; they are numbered where the document does not."""
    if len(document.axes) == len(shape):
        return document.axes
    return tuple(f"axis {number}" for number in range(len(shape)))


def _columns(names: Iterable[str], rows: int) -> int | None:
    """Choose the axis beside that of the rows whose places are told apart."""
    others = [(i, name) for i, name in enumerate(names) if i != rows]
    for i, name in others:
        if name.startswith(_COLUMNS):
            return i
    return others[-1][0] if others else None
