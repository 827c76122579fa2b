"""What the places along an axis of a table are numbered by.

What is to be seen of a table: its values, with words and numbers along both axes.

``png``: a picture of a matrix, in colours or as curves, to look at and not to read back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service import grammar
from service.formats.format import Block, fewer_axes, several_arrays
from service.numerics.document import Curves, Document, ParameterValue
from service.numerics.dtypes import COMPLEX64, COMPLEX128, to_float64
from service.numerics.phase import Float64s
from service.numerics.tables import STEP_ELEMENTS, Table, size

Numbers = NDArray[Any]


def numbers(axis: str, count: int, document: Document, most: int | None = None) -> Numbers:
    """Number the places along an axis as the document or its parameters do, otherwise from 0 on.

    An axis ``query`` is numbered by ``query_positions`` or ``query_start``, ``position`` by
    ``positions`` or ``start``, ``dimension`` by ``dimensions``.

    Args:
        axis: its name.
        count: how many places it has.
        document: of which table.
        most: how many of them to number, where it is not all.
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
    """Read a list of integers as it is spelled, or of other numbers; None if it has not as many."""
    if not isinstance(value, str):
        found = np.atleast_1d(np.asarray(value))
        return found[:shown] if len(found) == count else None
    positions = grammar.positions(value)
    return positions.at(0, shown) if positions.count == count else None


_DEFAULT_AXES = ("row", "column")
_MAX_LENGTH = 40


@dataclass(frozen=True, eq=False)
class Axis:
    """One of the two axes of a table.

    Attributes:
        name: what it counts.
        numbers: that of each place along it, int64 or float64.
    """

    name: str
    numbers: Numbers

    @property
    def ends(self) -> tuple[float, float]:
        """The first number and the last."""
        return self.numbers[0].item(), self.numbers[-1].item()


@dataclass(frozen=True, eq=False)
class Picture:
    """A matrix to be drawn.

    Attributes:
        title: what it is.
        down, across: the axes.
        values: means over parts of both axes, shape (parts of down, parts of across). NaN and
            infinity have no colour.
        label: what the values are.
        parts: elements in a part, down and across; the last ones may have less.
        curves: whether rows or columns are drawn as curves; colours in a grid otherwise.
    """

    title: str
    down: Axis
    across: Axis
    values: Float64s
    label: str
    parts: tuple[int, int] = (1, 1)
    curves: Curves | None = None


def picture(document: Document, values: Float64s, parts: tuple[int, int] = (1, 1)) -> Picture:
    """Describe the picture of a document of one matrix.

    Args:
        document: what is to be seen.
        values: as of a Picture.
        parts: as of a Picture.
    """
    ((name, table),) = document.arrays.items()
    names = document.axes if len(document.axes) == 2 else _DEFAULT_AXES
    down, across = (
        Axis(plain(axis), numbers(axis, length, document))
        for axis, length in zip(names, table.shape, strict=True)
    )
    label = f"{plain(_cut(name))} ({table.dtype.name})"
    return Picture(_title(document), down, across, values, label, parts, document.curves)


def spelled(number: float) -> str:
    """Spell a number of an axis: integers to their last digit, others to six."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def plain(text: str) -> str:
    """Keep to characters that every font has; names of arrays may come from anywhere."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)


def _title(document: Document) -> str:
    """Say what kind of table it is, and its parameters in their canonical order."""
    parameters = [
        f"{name}={_cut(grammar.to_query(value))}" for name, value in document.parameters.items()
    ]
    return plain(": ".join(filter(None, (document.kind, ", ".join(parameters)))))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


MAX_ELEMENTS = 2**22
"""Elements of a table that is shown in colours."""

MAX_CURVE_ELEMENTS = 2**18
"""Points of all curves of a picture."""

# Two for each dot there is room for.
_MAX_ROWS, _MAX_COLUMNS = 912, 1520
# Past this, differences are infinite.
_LARGEST = 1e300

_DRAWING = "drawing 3"
"""Moves with what is drawn where."""

_LIMIT_BYTES = 3 * 1000 * 600 + 65_536


@dataclass(frozen=True)
class PngFormat:
    """One array of two axes, as a labelled heat map or, where the document says so, as curves."""

    extension: str = "png"
    media_type: str = "image/png"
    is_text: bool = False
    is_drawn: bool = True
    version: str = f"{_DRAWING}, matplotlib {version('matplotlib')}, pillow {version('pillow')}"

    def refusal(self, document: Document) -> str | None:
        """Refuse what has not two axes, is too much to look at, or complex."""
        several = several_arrays(document)
        if several is not None:
            return several
        (table,) = document.arrays.values()
        if table.dtype in {COMPLEX64, COMPLEX128}:
            return "complex numbers have no colours"
        if len(table.shape) != 2:
            said = f": {', '.join(document.axes)}" if document.axes else ""
            rule = f"it shows two axes, and this array has {len(table.shape)}{said}"
            return rule + fewer_axes(document)
        most = MAX_ELEMENTS if document.curves is None else MAX_CURVE_ELEMENTS
        if size(table) > most:
            return f"it shows up to {most} elements, and these are {size(table)}: ask for less"
        return None

    def body(self, document: Document) -> "PngBody":
        """Draw the picture."""
        return PngBody(document)


@dataclass(frozen=True, eq=False)
class PngBody:
    """The bytes of a picture."""

    document: Document

    @property
    def length_bytes(self) -> int | None:
        """Unknown until drawn."""
        return None

    @property
    def limit_bytes(self) -> int:
        """As if no dot were like any other."""
        return _LIMIT_BYTES

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Read the table part by part, with an empty block after each, and draw the picture."""
        if start != 0 or stop is not None:
            raise ValueError("a picture is only made whole")
        (table,) = self.document.arrays.values()
        parts = (1, 1) if self.document.curves else _parts(table)
        values: list[Float64s] = []
        for means in _means(table, *parts):
            values.append(means)
            yield b""
        yield _drawn(picture(self.document, np.concatenate(values), parts))


def _parts(table: Table) -> tuple[int, int]:
    """Give how many rows, and columns, share a dot."""
    rows, columns = table.shape
    return -(-rows // _MAX_ROWS), -(-columns // _MAX_COLUMNS)


def _means(table: Table, tall: int, wide: int) -> Iterator[Float64s]:
    """Give the means over parts of tall by wide elements, some rows of parts at a time."""
    rows, columns = table.shape
    step = tall * max(1, STEP_ELEMENTS // (tall * columns * table.work_per_element))
    for first in range(0, rows, step):
        last = min(first + step, rows)
        elements = table.read(first * columns, last * columns)
        values = to_float64(elements, table.dtype).reshape(-1, columns)
        bounded = np.where(np.isfinite(values), values.clip(-_LARGEST, _LARGEST), values)
        yield _mean(_mean(bounded, tall, 0), wide, 1)


def _mean(values: Float64s, part: int, axis: int) -> Float64s:
    """Give the means over parts of an axis; the last one may be shorter."""
    if part == 1:
        return values
    length = values.shape[axis]
    starts = np.arange(0, length, part)
    counts = np.minimum(part, length - starts)
    with np.errstate(invalid="ignore"):
        sums = np.add.reduceat(values, starts, axis=axis)
    return np.asarray(sums / (counts if axis == 1 else counts[:, np.newaxis]))


def _drawn(shown: Picture) -> bytes:
    """Draw, by a library that is only imported where a picture is drawn."""
    from service.formats.drawing import draw  # noqa: PLC0415

    return draw(shown)


PNG = PngFormat()
