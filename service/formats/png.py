"""``png``: a picture of a matrix, in colours or as curves, to look at and not to read back."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from service.formats.format import Block, fewer_axes, several_arrays
from service.formats.picture import Picture, picture
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import COMPLEX64, COMPLEX128, widened
from service.tables.table import STEP_ELEMENTS, Table, size

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
        values = widened(elements, table.dtype).reshape(-1, columns)
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
