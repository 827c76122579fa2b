"""``png``: a picture of a matrix, as a heat map or as curves, to look at and not to read back.

Here a picture is described: values, title, and the numbers along both axes. ``drawing`` draws
it, with a library that is only imported when a picture is requested.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service import grammar
from service.formats.format import REAL_AND_INTEGER, Block, Format, WholeBody, curves_of, prepared
from service.numerics.dtypes import to_float64
from service.numerics.phase import Float64s
from service.numerics.tables import (
    STEP_ELEMENTS,
    Curves,
    Document,
    ParameterValue,
    Table,
    axis_names,
    turn_elements,
)

Numbers = NDArray[Any]


def axis_numbers(axis: str, count: int, document: Document, most: int | None = None) -> Numbers:
    """Number the places along an axis by the document or its parameters, otherwise from 0 on.

    An axis ``query`` is numbered by ``query_positions`` or ``query_start``, ``position`` by
    ``positions`` or ``start``, ``dimension`` by ``dimensions``.

    Args:
        axis: its name.
        count: the number of its places.
        document: the table.
        most: how many places to number at most; all unless given.
    """
    shown = count if most is None else min(count, most)
    if axis in document.places:
        return document.places[axis].at(0, shown)
    parameters = document.parameters
    for name in (f"{axis}s", f"{axis}_positions"):
        if name in parameters:
            found = _listed(parameters[name], count, shown)
            if found is not None:
                return found
    start = parameters.get(f"{axis}_start", parameters.get("start", 0) if axis == "position" else 0)
    first = start if isinstance(start, int) else 0
    return first + np.arange(shown, dtype=np.int64)


def _listed(value: ParameterValue, count: int, shown: int) -> Numbers | None:
    """Parse a list of numbers, of positions where it is text; None unless it has count of them."""
    if not isinstance(value, str):
        found = np.atleast_1d(np.asarray(value))
        return found[:shown] if len(found) == count else None
    positions = grammar.positions(value)
    return positions.at(0, shown) if positions.count == count else None


_PANEL_AXIS = "component"
_COMPONENTS: Mapping[str, Iterable[object]] = {"pair": ("cos", "sin")}
_MAX_LENGTH = 40


@dataclass(frozen=True, eq=False)
class AxisLabels:
    """The name of one of the two axes of a table, and the number of each of its places."""

    name: str
    numbers: Numbers


@dataclass(frozen=True, eq=False)
class Picture:
    """A matrix to be drawn.

    Attributes:
        values: means over parts of both axes, shape (parts of down, parts of across, panels): a
            heat map has a panel for each component. NaN and infinity have no colour.
        label: the name and the element type of the values.
        parts: elements in a part, down and across; the last ones may have less.
        curves: whether rows or columns are drawn as curves; None for a heat map. A curve without
            a name is the only one.
        headings: the names of several panels of a heat map; else empty.
    """

    title: str
    down: AxisLabels
    across: AxisLabels
    values: Float64s
    label: str
    parts: tuple[int, int] = (1, 1)
    curves: Curves | None = None
    headings: tuple[str, ...] = ()


def picture(document: Document, values: Float64s, parts: tuple[int, int] = (1, 1)) -> Picture:
    """Return the picture of a document of one table, with values and parts as of a Picture."""
    ((name, table),) = document.arrays.items()
    *lengths, panels = _drawn(table)
    names = (*axis_names(document.axes, len(table.shape)), "")
    down, across = (
        AxisLabels(plain(axis), axis_numbers(axis, length, document))
        for axis, length in zip(names[:2], lengths, strict=True)
    )
    label = f"{plain(_cut(name))} ({table.dtype.name})"
    components = _COMPONENTS.get(document.pack or "", range(panels)) if panels > 1 else ()
    headings = tuple(f"{across.name}: {each}" for each in components)
    curves = curves_of(table, document)
    return Picture(_title(document), down, across, values, label, parts, curves, headings)


def _drawn(table: Table) -> tuple[int, int, int]:
    """Return the numbers of rows, columns and panels; a table of one axis is one column."""
    rows, columns, *components = *table.shape, 1
    return rows, columns, prod(components)


def number_text(number: float) -> str:
    """Format a number of an axis: integers in full, others to six significant digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def plain(text: str) -> str:
    """Replace characters that not every font has; names of arrays may be any text."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)


def _title(document: Document) -> str:
    """Return the kind of table and its parameters in their canonical order."""
    parameters = [
        f"{name}={_cut(grammar.to_query(value))}" for name, value in document.parameters.items()
    ]
    return plain(": ".join(filter(None, (document.kind, ", ".join(parameters)))))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


MAX_ELEMENTS = 2**22
"""Elements of a table in a heat map."""

MAX_CURVE_ELEMENTS = 2**18
"""Points of all curves of a picture."""

# Two for each pixel of the plot.
_MAX_ROWS, _MAX_COLUMNS = 912, 1520
# Beyond this, differences are infinite.
_LARGEST = 1e300

# The processor seconds of adding an element to the mean of its part.
_NUMBER_SECONDS = 1e-8

_DRAWING = "drawing 5"
"""Part of the entity tag; change it with the drawing."""


@dataclass(frozen=True, eq=False)
class PngBody(WholeBody):
    """The bytes of the picture of a document."""

    document: Document

    @property
    def limit_bytes(self) -> int:
        return 3 * 1000 * 600 + 65_536

    def parts(self) -> Iterator[Block]:
        """Read the table part by part, with an empty block after each, and draw the picture."""
        (table,) = self.document.arrays.values()
        rows, columns, _ = _drawn(table)
        parts = 1, 1
        if curves_of(table, self.document) is None:
            parts = -(-rows // _MAX_ROWS), -(-columns // _MAX_COLUMNS)
        values: list[Float64s] = []
        yield from prepared([table])
        for means in _means(table, *parts):
            values.append(means)
            yield b""
        # A process that draws nothing needs no Pillow.
        from service.formats.drawing import draw  # noqa: PLC0415

        yield draw(picture(self.document, np.concatenate(values), parts))


def _means(table: Table, tall: int, wide: int) -> Iterator[Float64s]:
    """Compute the means over parts of tall by wide elements, some rows of parts at a time."""
    rows, *across = _drawn(table)
    width = prod(across)
    most = min(STEP_ELEMENTS, turn_elements(table, _NUMBER_SECONDS))
    step = tall * max(1, most // (tall * width))
    for first in range(0, rows, step):
        last = min(first + step, rows)
        elements = table.read(first * width, last * width)
        values = to_float64(elements, table.dtype).reshape(-1, *across)
        bounded = np.where(np.isfinite(values), values.clip(-_LARGEST, _LARGEST), values)
        yield _mean(_mean(bounded, tall, 0), wide, 1)


def _mean(values: Float64s, part: int, axis: int) -> Float64s:
    """Compute the means over parts of an axis; the last one may be shorter."""
    if part == 1:
        return values
    starts = np.arange(0, values.shape[axis], part)
    counts = np.diff(starts, append=values.shape[axis])
    with np.errstate(invalid="ignore"):
        sums = np.add.reduceat(values, starts, axis=axis)
    return np.asarray(sums / np.expand_dims(counts, (2, 1 - axis)))


PNG = Format(
    extension="png",
    media_type="image/png",
    name="PNG",
    body=PngBody,
    is_drawn=True,
    number_seconds=_NUMBER_SECONDS,
    drawing_seconds=0.01,
    curve_seconds=0.003,
    version=_DRAWING,
    library="pillow",
    dtypes=REAL_AND_INTEGER,
    ranks=range(1, 3),
    panel_axis=_PANEL_AXIS,
    max_elements=MAX_ELEMENTS,
    max_curve_elements=MAX_CURVE_ELEMENTS,
)
